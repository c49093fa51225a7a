"""Runs public CUDA programs without a GPU and notes how they end.

    python benchmarks/run_programs.py LIST.toml [-o benchmarks/programs.csv] [--seconds 120] [--jobs N]
        [--cores N] [NAME...]

LIST.toml has a `[[program]]` for each: `name`, `suite`, `command` and `folder`, as
`benchmarks/h200/measure_programs.py` reads them; it runs in a new folder below that.
Programs, their sources and data lie outside this repository. A program that prints
what its authors print after a successful check is verified; one that checks nothing
only ends. Rows of programs that are named, or new, replace what the file had.

What programs that check nothing have computed can be compared with a GPU. There,
`--on-gpu` writes the text and files of each program to a JSON file; here, `--as GPU.json`
compares them: all words equal, numbers to 1 in 1000, lines about time left out, and
those that match the program's `apart`: speeds without a unit, properties of the device.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import zip_longest
from multiprocessing.context import SpawnContext
from pathlib import Path
from typing import Any

from warplens.frontends.runtime import LaunchInfo, Recording, Server
from warplens.frontends.runtime.build import LIBRARY, build_stand_in
from warplens.machine import load_gpu

COLUMNS = (
    *("program", "suite", "arguments", "end", "as_gpu"),
    *("launches", "kernels", "kernel_seconds", "seconds", "reason"),
)
#: What programs print after a check, in lower case.
GOOD = re.compile(r"\bpass(ed)?\b|error threshold of [0-9.]+ percent: 0\b|\bsuccess|number of misses: 0\b")
BAD = re.compile(r"\bfail|\bincorrect|percent: [1-9]|misses: [1-9]")
#: Lines that tell times or rates differ from run to run.
TIMED = re.compile(r"time|second|\b[mun]?s\b|/s\b|flop|bandwidth|throughput|speed|took|cycles|device|gpu", re.I)
#: Characters of text and files of a program that are kept and compared.
MOST_KEPT = 200_000


class Counted:
    """A listener that counts; times of events do not matter here."""

    def __init__(self) -> None:
        self.launches: list[LaunchInfo] = []
        self.failures: list[str] = []

    def launched(self, info: LaunchInfo, execution: object, before: object) -> None:
        self.launches.append(info)

    def failed(self, message: str) -> None:
        self.failures.append(message)

    def elapsed(self, process: int, first: int, second: int) -> float:
        return 1e-3

    def copied(self, process: int, direction: int, size_bytes: int, stream: int, pinned: bool) -> None: ...

    def recorded(self, process: int, event: int, stream: int) -> None: ...

    def awaited(self, process: int, stream: int, event: int) -> None: ...

    def synchronized(self, process: int, stream: int) -> None: ...


def executed(
    program: dict[str, Any], root: Path, most_seconds: float, environment: dict[str, str]
) -> tuple[int | None, str, dict[str, str]]:
    """(Exit code or none when time ran out, what it printed, what it wrote), in a folder of its own."""
    command = [str(each) for each in program["command"]]
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=root / str(program.get("folder", "."))))
    try:
        with tempfile.TemporaryFile() as printed:
            process = subprocess.Popen(
                [str(root / command[0]), *command[1:]],
                cwd=folder,
                env=environment,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                code: int | None = process.wait(most_seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                code = None
            printed.seek(0)
            text = printed.read().decode(errors="replace")
        files = {
            each.name: each.read_bytes()[:MOST_KEPT].decode(errors="replace")
            for each in sorted(folder.iterdir())
            if each.is_file()
        }
        return code, text, files
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_on_gpu(program: dict[str, Any], root: Path, most_seconds: float, _: dict[str, Any]) -> dict[str, Any]:
    code, text, files = executed(program, root, most_seconds, dict(os.environ))
    return {"end": ending(code, text, False), "text": text[:MOST_KEPT], "files": files}


def run(program: dict[str, Any], root: Path, most_seconds: float, on_gpu: dict[str, Any]) -> dict[str, Any]:
    """One row: how a program ended, whether as on a GPU, and what it launched."""
    notes, stand_in = Counted(), build_stand_in()
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "socket"
        server = Server(socket, load_gpu("h200"), Recording(launches=frozenset()), notes)
        began = time.perf_counter()
        code, text, files = executed(
            program,
            root,
            most_seconds,
            {
                **os.environ,
                "LD_PRELOAD": str(stand_in / LIBRARY),
                "LD_LIBRARY_PATH": str(stand_in),
                "WARPLENS_RUN_SOCKET": str(socket),
            },
        )
        seconds = time.perf_counter() - began
        if code is not None:
            server.close()
    end = ending(code, text, bool(notes.failures))
    there = on_gpu.get(program["name"], {})
    if end == "ended" and there.get("end") == "ended":
        apart = re.compile(program.get("apart", "(?!)"))
        other = difference(there["text"], text, apart)
        for name in there["files"]:
            other = other or difference(there["files"][name], files.get(name, ""), apart)
        as_gpu = "other" if other else "same"
    else:
        other, as_gpu = "", ""
    return {
        "program": program["name"],
        "suite": program["suite"],
        "arguments": " ".join(map(str, program["command"][1:])),
        "end": end,
        "as_gpu": as_gpu,
        "launches": len(notes.launches),
        "kernels": len({each.kernel for each in notes.launches}),
        "kernel_seconds": round(sum(each.seconds for each in notes.launches), 1),
        "seconds": round(seconds, 1),
        "reason": (notes.failures or [other])[0][:200],
    }


def difference(one: str, other: str, apart: re.Pattern[str]) -> str:
    """The first line that differs, or nothing."""

    def compared(line: str) -> bool:
        return not TIMED.search(line) and not apart.search(line)

    lines = (filter(compared, text[:MOST_KEPT].splitlines()) for text in (one, other))
    for there, here in zip_longest(*lines, fillvalue=""):
        words = zip_longest(there.split(), here.split(), fillvalue="")
        if not all(a == b or alike(a, b) for a, b in words):
            return f"{there.strip()!r} on the GPU, {here.strip()!r} here"
    return ""


def alike(one: str, other: str) -> bool:
    try:
        return math.isclose(float(one.strip(",;:()")), float(other.strip(",;:()")), rel_tol=1e-3, abs_tol=1e-6)
    except ValueError:
        return False


def ending(code: int | None, text: str, failed: bool) -> str:
    text = text.lower()
    if code is None:
        return "out of time"
    if BAD.search(text):
        return "wrong"
    if code or failed:
        return "failed"
    return "verified" if GOOD.search(text) else "ended"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("list", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "programs.csv")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--jobs", type=int, default=1, help="programs that run side by side")
    parser.add_argument("--cores", type=int, help="cores of its own for each of them; by default they share all")
    parser.add_argument("--on-gpu", action="store_true", help="run on this machine's GPU, and write JSON")
    parser.add_argument("--as", dest="there", type=Path, help="what --on-gpu wrote")
    given = parser.parse_intermixed_args()
    there = json.loads(given.there.read_text(encoding="utf-8")) if given.there else {}
    kept = given.output.read_text(encoding="utf-8") if given.output.is_file() else ""
    rows: dict[str, dict[str, Any]] = {}
    if kept and not given.on_gpu:
        rows = {row["program"]: dict(row) for row in csv.DictReader(kept.splitlines())}
    programs = [
        each
        for each in tomllib.loads(given.list.read_text(encoding="utf-8"))["program"]
        if each["name"] in given.names or (not given.names and each["name"] not in rows)
    ]
    one: Callable[..., dict[str, Any]] = run_on_gpu if given.on_gpu else run
    root = given.list.parent.resolve()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(given.jobs, context, *shares(context, given.jobs, given.cores)) as pool:
        jobs = {pool.submit(one, each, root, given.seconds, there): each["name"] for each in programs}
        for job in as_completed(jobs):
            name = jobs[job]
            rows[name] = job.result()
            print(name, rows[name]["end"], rows[name].get("seconds", ""), rows[name].get("reason", ""), flush=True)
            if given.on_gpu:
                given.output.write_text(json.dumps(rows), encoding="utf-8")
            else:
                write(given.output, rows)


def shares(context: SpawnContext, jobs: int, cores: int | None) -> tuple[Any, ...]:
    """What gives each process of a pool some cores of its own, which the programs that it starts inherit."""
    if cores is None:
        return ()
    every = sorted(os.sched_getaffinity(0))
    if jobs * cores > len(every):
        raise SystemExit(f"{jobs} programs on {cores} cores each need more than the {len(every)} cores here")
    queue = context.Queue()
    for job in range(jobs):
        queue.put(every[job * cores : (job + 1) * cores])
    return take_share, (queue,)


def take_share(queue: Any) -> None:
    os.sched_setaffinity(0, queue.get())


def write(output: Path, rows: dict[str, dict[str, Any]]) -> None:
    with output.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[key] for key in sorted(rows))


if __name__ == "__main__":
    main()
