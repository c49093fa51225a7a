"""Traces the machine code of the CUDA and Triton examples on the GPU of this machine, and predicts them there.

    python3 benchmarks/h200/trace_examples.py OUT [--most-seconds S] [--most-mib M] [--only EXAMPLE ...]

One launch of each, a wave of thread blocks, several side by side. OUT/sass.jsonl has a line for each launch, with
its prediction and how exact the trace is. OUT/traces.tar has the traces that fit into M MiB. Both grow as launches
finish.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "src")]
JOBS, MOST_SECONDS_EACH = 10, 300.0


def trace(script: str, name: str, kernel: str, path: str) -> None:
    """Trace one launch to a file, and print what is predicted from it."""
    import warplens
    from warplens.frontends.sass import trace_program
    from warplens.traces import read_trace

    began = time.monotonic()
    program = [sys.executable, str(HERE / script), "once", name]
    summary = trace_program(program, path, kernel_regex=kernel, launches=[0], waves=1, baseline=False,
                            program_output=2)  # fmt: skip
    row = {"seconds": time.monotonic() - began, "bytes": summary.bytes, "warnings": summary.warnings}
    row["exactness"] = dict(summary.launches[0].exactness)
    print(json.dumps(row), flush=True)
    made = warplens.predict(read_trace(path)[0], "h200")
    row |= {"cycles": float(made.cycles), "microseconds": 1e6 * float(made.seconds)}
    print(json.dumps(row), flush=True)


def kernels() -> list[tuple[str, str, str]]:
    """(Script, example, kernel) of everything that is measured."""
    import measure_examples
    import measure_triton

    found = [("measure_examples.py", name, launch.kernel) for name, launch in measure_examples.launches()]
    cases = ((label, measure_triton.case_of(label).kernel) for label in measure_triton.LABELS)
    return found + [("measure_triton.py", label, kernel.__name__) for label, kernel in cases]


def run_one(end: float, path: Path, script: str, name: str, kernel: str) -> dict[str, Any]:
    """What the process of one launch printed last, or why there is nothing."""
    row: dict[str, Any] = {"kind": script[8:-3], "example": name, "trace": path.name}
    left = min(end - time.monotonic(), MOST_SECONDS_EACH)
    if left < 10.0:
        return {**row, "error": "no time was left"}
    command = [sys.executable, __file__, "one", script, name, kernel, str(path)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=left, check=False)
    except subprocess.TimeoutExpired as error:
        printed, said = error.stdout or b"", {"error": "out of time"}
        text = printed.decode() if isinstance(printed, bytes) else printed
    else:
        text, said = done.stdout, {"error": done.stderr.strip()[-400:]} if done.returncode else {}
    lines = [line for line in text.splitlines() if line.startswith("{")]
    return {**row, **(json.loads(lines[-1]) if lines else {}), **said}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--most-seconds", type=float, default=150.0)
    parser.add_argument("--most-mib", type=float, default=11.0)
    parser.add_argument("--only", action="append", help="this example; repeat")
    options = parser.parse_args()
    end, left_bytes = time.monotonic() + options.most_seconds, int(options.most_mib * (1 << 20))
    # A tracer that is out of time leaves raw records behind, which OUT must not hold.
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(JOBS) as pool:
        jobs = [
            pool.submit(
                run_one, end, Path(work) / f"{script[8:-3]}-{name.replace(' ', ',')}.wlt", script, name, kernel
            )
            for script, name, kernel in kernels()
            if not options.only or name in options.only
        ]
        for job in as_completed(jobs):
            row = job.result()
            with (options.out / "sass.jsonl").open("a") as file:
                file.write(json.dumps(row) + "\n")
            path = Path(work) / row["trace"]
            size = path.stat().st_size if path.exists() else 0
            print(row["example"], row.get("cycles"), size, row.get("error", ""), flush=True)
            if 0 < size < left_bytes:
                left_bytes -= size
                with tarfile.open(options.out / "traces.tar", "a") as archive:
                    archive.add(path, path.name)
            path.unlink(missing_ok=True)


if __name__ == "__main__":
    if sys.argv[1] == "one":
        trace(*sys.argv[2:])
    else:
        main()
