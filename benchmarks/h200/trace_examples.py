"""Traces the machine code of the CUDA and Triton examples on the GPU of this machine, as measured.

    python3 benchmarks/h200/trace_examples.py OUT [--most-seconds S]

One launch of each, a wave of thread blocks, several side by side. OUT/traces.tar has the traces.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[1] / "src")]
JOBS, MOST_SECONDS_EACH = 10, 90.0


def trace(script: str, name: str, kernel: str, path: str) -> None:
    from warplens.frontends.sass import trace_program

    program = [sys.executable, str(HERE / script), "once", name]
    trace_program(program, path, kernel_regex=kernel, launches=[0], waves=1, baseline=False, program_output=2)


def kernels() -> list[tuple[str, str, str]]:
    """(Script, example, kernel) of everything that is measured."""
    import measure_examples
    import measure_triton

    found = [("measure_examples.py", name, launch.kernel) for name, launch in measure_examples.launches()]
    cases = ((label, measure_triton.case_of(label).kernel) for label in measure_triton.LABELS)
    return found + [("measure_triton.py", label, kernel.__name__) for label, kernel in cases]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--most-seconds", type=float, default=150.0)
    options = parser.parse_args()
    end = time.monotonic() + options.most_seconds

    def one(work: str, script: str, name: str, kernel: str) -> tuple[str, Path, str]:
        path = Path(work) / f"{script[8:-3]}-{name.replace(' ', ',')}.wlt"
        command = [sys.executable, __file__, "one", script, name, kernel, str(path)]
        left = min(end - time.monotonic(), MOST_SECONDS_EACH)
        if left < 10.0:
            return name, path, "no time"
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=left, check=False)
        except subprocess.TimeoutExpired:
            return name, path, "out of time"
        return name, path, done.stderr.strip()[-300:] if done.returncode else ""

    # A tracer that is out of time leaves raw records behind, which OUT must not hold.
    with (
        tempfile.TemporaryDirectory() as work,
        ThreadPoolExecutor(JOBS) as pool,
        tarfile.open(options.out / "traces.tar", "w") as archive,
    ):
        for name, path, error in pool.map(lambda each: one(work, *each), kernels()):
            print(name, error or f"{path.stat().st_size} bytes", flush=True)
            if path.exists():
                archive.add(path, path.name)
                path.unlink()


if __name__ == "__main__":
    if sys.argv[1] == "one":
        trace(*sys.argv[2:])
    else:
        main()
