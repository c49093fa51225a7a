"""Runs public CUDA programs without a GPU and notes how they end.

    python benchmarks/run_programs.py LIST.toml [-o benchmarks/programs.csv] [--seconds 120] [--jobs N] [NAME...]

LIST.toml has a `[[program]]` for each: `name`, `suite`, `command` and the `folder`
that it runs in, as `benchmarks/h200/measure_programs.py` reads them. Programs, their
sources and data lie outside this repository. A program that prints what its authors
print after a successful check is verified; one that checks nothing only ends. Rows of
programs that are named, or new, replace what the file had.
"""

from __future__ import annotations

import argparse
import csv
import multiprocessing
import os
import re
import signal
import subprocess
import tempfile
import time
import tomllib
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from warplens.frontends.runtime import LaunchInfo, Recording, Server
from warplens.frontends.runtime.build import LIBRARY, build_stand_in
from warplens.machine import load_gpu

COLUMNS = ("program", "suite", "arguments", "end", "launches", "kernels", "kernel_seconds", "seconds", "reason")
#: What programs print after a check, in lower case.
GOOD = re.compile(r"\bpass(ed)?\b|outputs beyond error threshold of [0-9.]+ percent: 0\b|\bsuccess")
BAD = re.compile(r"\bfail|\bincorrect|percent: [1-9]")


class Counted:
    """A listener that counts; times of events do not matter here."""

    def __init__(self) -> None:
        self.launches: list[LaunchInfo] = []
        self.failures: list[str] = []

    def launched(self, info: LaunchInfo, execution: object) -> None:
        self.launches.append(info)

    def failed(self, message: str) -> None:
        self.failures.append(message)

    def elapsed(self, process: int, first: int, second: int) -> float:
        return 1e-3

    def copied(self, process: int, direction: int, size_bytes: int, stream: int) -> None: ...

    def recorded(self, process: int, event: int, stream: int) -> None: ...

    def awaited(self, process: int, stream: int, event: int) -> None: ...

    def synchronized(self, process: int, stream: int) -> None: ...


def run(program: dict[str, object], root: Path, most_seconds: float) -> dict[str, object]:
    """One row: how a program ended, and what it launched."""
    command = [str(each) for each in program["command"]]  # type: ignore[attr-defined]
    notes, stand_in = Counted(), build_stand_in()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as printed:
        socket = Path(folder) / "socket"
        server = Server(socket, load_gpu("h200"), Recording(launches=frozenset()), notes)
        environment = {
            **os.environ,
            "LD_PRELOAD": str(stand_in / LIBRARY),
            "LD_LIBRARY_PATH": str(stand_in),
            "WARPLENS_RUN_SOCKET": str(socket),
        }
        began = time.perf_counter()
        process = subprocess.Popen(
            [str(root / command[0]), *command[1:]],
            cwd=root / str(program.get("folder", ".")),
            env=environment,
            stdout=printed,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code: int | None = process.wait(most_seconds)
            server.close()
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        seconds = time.perf_counter() - began
        printed.seek(0)
        text = printed.read().decode(errors="replace").lower()
    return {
        "program": program["name"],
        "suite": program["suite"],
        "arguments": " ".join(command[1:]),
        "end": ending(code, text, bool(notes.failures)),
        "launches": len(notes.launches),
        "kernels": len({each.kernel for each in notes.launches}),
        "kernel_seconds": round(sum(each.seconds for each in notes.launches), 1),
        "seconds": round(seconds, 1),
        "reason": (notes.failures or [""])[0][:200],
    }


def ending(code: int | None, text: str, failed: bool) -> str:
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
    given = parser.parse_intermixed_args()
    rows: dict[str, dict[str, object]] = {}
    if given.output.is_file():
        with given.output.open(encoding="utf-8", newline="") as file:
            rows = {row["program"]: dict(row) for row in csv.DictReader(file)}
    programs = [
        each
        for each in tomllib.loads(given.list.read_text(encoding="utf-8"))["program"]
        if each["name"] in given.names or (not given.names and each["name"] not in rows)
    ]
    with ProcessPoolExecutor(given.jobs, multiprocessing.get_context("spawn")) as pool:
        jobs = {pool.submit(run, each, given.list.parent.resolve(), given.seconds): each["name"] for each in programs}
        for job in as_completed(jobs):
            name = jobs[job]
            rows[name] = job.result()
            print(name, rows[name]["end"], rows[name]["seconds"], rows[name]["reason"], flush=True)
            with given.output.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows[key] for key in sorted(rows))


if __name__ == "__main__":
    main()
