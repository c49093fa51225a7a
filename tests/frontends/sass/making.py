"""Recorded samples, and SASS kernels made up with what they do: the oracle of the replay.

A made-up kernel is a tree of loads, ifs and loops. `Warp.run` walks the tree
with masks, which is all there is to structured divergence, and writes down
every instruction and record; nothing of the replay is used.
"""

from __future__ import annotations

import gzip
import os
import random
import shutil
import struct
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from warplens.frontends.sass.counts import Counts
from warplens.frontends.sass.disassembly import SassInstruction, SassKernel
from warplens.frontends.sass.raw import RawLaunch, read_launch

DATA = Path(__file__).parent / "data" / "h200"
GLOBAL, EXIT = 3, 2


def compile_with_headers(folder: Path, source: str) -> str:
    """The path of a program made of a `main` and headers of the injected library, for the CPU."""
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("no C++ compiler on the PATH")
    (folder / "main.cpp").write_text(source)
    headers = files("warplens.frontends.sass").joinpath("injection")
    build = [compiler, "-std=c++17", "-Wall", "-Werror", "-I", str(headers), "main.cpp", "-o", "main"]
    subprocess.run(build, cwd=folder, check=True)
    return str(folder / "main")


def sample_sass() -> str:
    return gzip.decompress((DATA / "program.sass.gz").read_bytes()).decode()


def sample_pages() -> tuple[list[str], list[str]]:
    """Lines of the pages that `read_counts` reads."""
    source = gzip.decompress((DATA / "source.csv.gz").read_bytes()).decode()
    return source.splitlines(), (DATA / "raw.csv").read_text().splitlines()


@dataclass
class Made:
    """A made-up kernel: its instructions, and its tree with the places of them."""

    rows: list[tuple[str, str, tuple[str, ...], int | None]] = field(default_factory=list)
    depth: int = 0

    def add(self, opcode: str, guard: str = "", operands: tuple[str, ...] = (), target: int | None = None) -> int:
        self.rows.append((opcode, guard, operands, target))
        return len(self.rows) - 1

    def aim(self, place: int, target: int) -> None:
        opcode, guard, operands, _ = self.rows[place]
        self.rows[place] = (opcode, guard, operands, target)

    def kernel(self) -> SassKernel:
        return SassKernel(
            "made",
            tuple(
                SassInstruction(16 * i, opcode, guard, operands, () if target is None else (16 * target,))
                for i, (opcode, guard, operands, target) in enumerate(self.rows)
            ),
        )


def sequence(made: Made, chance: random.Random, depth: int) -> list[tuple]:
    """A tree that ends with a load, so that every choice in it is known from the records."""
    nodes: list[tuple] = []
    for _ in range(chance.randint(1, 3)):
        what = chance.choice(("work", "load", "if", "loop", "maybe")) if depth else chance.choice(("work", "load"))
        if what == "work":
            nodes.append(("work", [made.add("FFMA") for _ in range(chance.randint(1, 4))]))
        elif what == "load":
            nodes.append(("load", made.add("LDG.E", operands=("R2", "[R4.64]"))))
        elif what == "maybe":
            nodes.append(("maybe", made.add("LDG.E", guard="P1", operands=("R2", "[R4.64]"))))
            nodes.append(("load", made.add("LDG.E", operands=("R2", "[R4.64]"))))
        elif what == "if":
            barrier = f"B{depth}"
            enter = made.add("BSSY", operands=(barrier, "end"))
            branch = made.add("BRA", guard="P0", operands=("else",))
            then = sequence(made, chance, depth - 1)
            jump = made.add("BRA", operands=("end",))
            made.aim(branch, len(made.rows))
            other = sequence(made, chance, depth - 1)
            leave = made.add("BSYNC", operands=(barrier,))
            made.aim(jump, leave)
            made.aim(enter, leave + 1)
            nodes.append(("if", enter, branch, then, jump, other, leave))
        else:
            barrier = f"B{depth}"
            enter = made.add("BSSY", operands=(barrier, "end"))
            start = len(made.rows)
            body = sequence(made, chance, depth - 1)
            branch = made.add("BRA", guard="P0", operands=("start",), target=start)
            leave = made.add("BSYNC", operands=(barrier,))
            made.aim(enter, leave + 1)
            nodes.append(("loop", enter, body, branch, leave))
    nodes.append(("load", made.add("LDG.E", operands=("R2", "[R4.64]"))))
    return nodes


@dataclass
class Warp:
    """What a warp did."""

    chance: random.Random
    done: list[tuple[int, int]] = field(default_factory=list)
    """(place, lanes) of every instruction."""
    records: list[tuple[int, int, int]] = field(default_factory=list)
    """(kind, place, lanes)"""

    def some(self, mask: int) -> int:
        """Some lanes: all, none or any."""
        return self.chance.choice((0, mask, mask & self.chance.getrandbits(32)))

    def step(self, place: int, mask: int) -> None:
        if mask:
            self.done.append((place, mask))

    def run(self, nodes: list[tuple], mask: int) -> None:
        for node in nodes:
            if not mask:
                return
            if node[0] == "work":
                for place in node[1]:
                    self.step(place, mask)
            elif node[0] == "load":
                self.step(node[1], mask)
                self.records.append((GLOBAL, node[1], mask))
            elif node[0] == "maybe":
                lanes = self.some(mask)
                self.done.append((node[1], lanes))
                if lanes:
                    self.records.append((GLOBAL, node[1], lanes))
            elif node[0] == "if":
                _, enter, branch, then, jump, other, leave = node
                self.step(enter, mask)
                self.step(branch, mask)
                taken = self.some(mask)
                self.run(then, mask & ~taken)
                self.step(jump, mask & ~taken)
                self.step(leave, mask & ~taken)
                self.run(other, taken)
                self.step(leave, taken)
            else:
                _, enter, body, branch, leave = node
                self.step(enter, mask)
                inside = mask
                for turn in range(4):
                    self.run(body, inside)
                    self.step(branch, inside)
                    again = self.some(inside) if turn < 3 else 0
                    self.step(leave, inside & ~again)
                    inside = again


def structured(seed: int) -> tuple[SassKernel, list[tuple], int]:
    """A kernel, its tree, and the place of its exit."""
    made = Made()
    tree = sequence(made, random.Random(seed), 3)
    end = made.add("EXIT")
    return made.kernel(), tree, end


def run_warps(tree: list[tuple], end: int, warps: int, seed: int, mask: int = 0xFFFFFFFF) -> list[Warp]:
    done = []
    for number in range(warps):
        warp = Warp(random.Random(seed * 1000 + number))
        warp.run(tree, mask)
        warp.step(end, mask)
        warp.records.append((EXIT, end, mask))
        done.append(warp)
    return done


def count(kernel: SassKernel, warps: list[Warp]) -> Counts:
    """Executions as a profiler counts them: by warps whatever the predicate, by threads that are active."""
    by_warps = Counter(place for warp in warps for place, _ in warp.done)
    by_threads = Counter()
    for warp in warps:
        for place, mask in warp.done:
            by_threads[place] += mask.bit_count()
    n = len(kernel.instructions)
    return Counts(np.array([by_warps[i] for i in range(n)]), np.array([by_threads[i] for i in range(n)]))


def record(kind: int, place: int, mask: int, block: int, warp: int, addresses: list[int] | None = None) -> bytes:
    """One record as the patches write it."""
    if addresses is None:
        addresses = [0x1000 + 4 * lane for lane in range(mask.bit_count())] if kind != EXIT else []
    steps = {b - a for a, b in pairwise(addresses)}
    if not addresses:
        payload, units, words = 0, 1, []
    elif len(steps) <= 1:
        payload, units, words = 1, 2, [addresses[0], steps.pop() if steps else 0]
    else:
        payload, units, words = 2, 1 + (len(addresses) + 1) // 2, [*addresses, 0][: 2 * ((len(addresses) + 1) // 2)]
    header = struct.pack("<4I", 16 * place, mask, block, warp | kind << 8 | units << 16 | payload << 24)
    return header + b"".join(struct.pack("<q", word) for word in words)


def write_raw(
    folder: Path, kernel: SassKernel, data: bytes, *, blocks: int = 1, threads: int = 32, **changes: object
) -> RawLaunch:
    """A recorded launch on disk; `changes` replace lines of its description."""
    values: dict[str, object] = {
        "kernel": kernel.name, "readable": kernel.name, "module": "module-0.cubin", "kinds": "1 2 3 4 5 6 8 9 10",
        "grid": f"{blocks} 1 1", "block": f"{threads} 1 1", "cluster": "0 0 0", "index": 0, "occurrence": 0,
        "code_base": 0, "code_bytes": 16 * len(kernel.instructions), "block_limit": blocks,
        "run_blocks": blocks, "run_period": blocks, "first_run": 0,
        "dynamic_shared_bytes": 0, "total_shared_bytes": 0, "dropped": 0, "foreign": 0, "head_bytes": len(data),
        "capacity_bytes": 1 << 20, "raw_bytes": len(data), "raw_limited": 0, **changes,
    }  # fmt: skip
    (folder / "launch-0.raw").write_bytes(data)
    path = folder / "launch-0.launch"
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return read_launch(path)
