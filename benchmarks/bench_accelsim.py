"""Instruction lines per second of the Accel-Sim importer on one core, against a reader in plain Python."""

from __future__ import annotations

import lzma
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from run import Row

from warplens.frontends.accelsim import KernelReader, export_accelsim, import_accelsim, load_accelsim
from warplens.traces import read_trace

FOLDER = Path(__file__).resolve().parents[1]
DATA = FOLDER / "tests" / "frontends" / "accelsim" / "data"
BLOCKS_TIMES = 24


def larger(text: bytes) -> bytes:
    """The same trace with its blocks repeated along y."""
    start = text.index(b"#BEGIN_TB")
    header, body = text[:start], text[start:]
    x = int(header.split(b"grid dim = (")[1].split(b",")[0])
    header = header.replace(b"(%d,1,1)" % x, b"(%d,%d,1)" % (x, BLOCKS_TIMES), 1)
    bodies = [
        b"".join(
            line if not line.startswith(b"thread block") else line.replace(b",0,0", b",%d,0" % y)
            for line in body.splitlines(keepends=True)
        )
        for y in range(BLOCKS_TIMES)
    ]
    return header + b"".join(bodies)


def read(path: Path) -> int:
    """Number of instructions in a kernel trace; reads all of it."""
    with KernelReader(path) as reader:
        return sum(group.instructions for group in reader.groups())


def read_stored(path: Path) -> int:
    return sum(group.instructions for launch in read_trace(path) for group in launch.groups())


def rate(lines: int, times: int, work: Callable[..., object], *arguments: object) -> float:
    """Lines per second of CPU time: the best of some runs."""
    best = 0.0
    for _ in range(times):
        started = time.process_time()
        work(*arguments)
        best = max(best, lines / (time.process_time() - started))
    return best


def measure() -> list[Row]:
    return [
        *measure_trace("saxpy_lowocc", "evenly spaced addresses", 1e6),
        *measure_trace("chase_divergent", "lists of addresses", None),
    ]


def measure_trace(trace: str, what: str, target: float | None) -> list[Row]:
    sys.path.insert(0, str(FOLDER / "tests"))
    from reference import accelsim_text

    with tempfile.TemporaryDirectory() as name:
        text = lzma.decompress((DATA / f"{trace}.traceg.xz").read_bytes())
        plain, packed, stored = (Path(name) / each for each in ("a.traceg", "a.traceg.xz", "a.wlt"))
        plain.write_bytes(text)
        slow = rate(read(plain), 1, accelsim_text.parse, text)
        plain.write_bytes(larger(text))
        packed.write_bytes(lzma.compress(plain.read_bytes(), preset=1))
        lines = read(plain)
        held = load_accelsim(plain)

        def row(label: str, value: float, least: float | None = None) -> Row:
            return Row(f"{label}, {what}", value, "lines/s", "plain Python", value / slow, least)

        return [
            row("Accel-Sim text read", rate(lines, 5, read, plain), target),
            row("Accel-Sim .xz read", rate(lines, 2, read, packed)),
            row("Accel-Sim text to .wlt", rate(lines, 2, import_accelsim, plain, stored)),
            row(".wlt read", rate(lines, 5, read_stored, stored)),
            row("Accel-Sim text written", rate(lines, 2, partial(export_accelsim, held, name, compression=None))),
        ]
