"""The programs of the tests on a GPU and with the stand-in for CUDA: the same output, launches and instructions.

On a machine with a GPU and the CUDA toolkit (the GPU only runs the program; no setting is touched):

    python3 benchmarks/h200/compare_api.py measure OUT.json [PART…]

Then anywhere, with a C++ compiler and nvcc:

    python3 benchmarks/h200/compare_api.py compare OUT.json [-o benchmarks/h200/api.csv]

Rows of parts that were not measured stay as they are.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]
SOURCE = ROOT / "tests" / "frontends" / "runtime" / "programs" / "api.cu"
PARTS = (
    *("children", "memory", "pitched", "mapped", "symbols", "streams", "launches", "queries", "graphs", "printing"),
    *("textures", "grids", "threads", "errors"),
)


def measure(output: Path, parts: Sequence[str]) -> None:
    """What each part prints on the GPU, and what the tracer sees of its launches."""
    from warplens.frontends.sass import trace_program
    from warplens.traces import read_trace

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = folder / "api"
        subprocess.run(["nvcc", "-O3", "-arch=native", "-w", str(SOURCE), "-o", str(program)], check=True)
        for part in parts:
            ran = subprocess.run([str(program), part], capture_output=True, text=True, timeout=60, check=False)
            found[part] = {"code": ran.returncode, "text": ran.stdout}
            try:
                trace_program(
                    [str(program), part],
                    folder / f"{part}.wlt",
                    baseline=False,
                    counts=False,
                    accept_failure=True,
                    program_output=2,
                )
                found[part]["launches"] = [described(each) for each in read_trace(folder / f"{part}.wlt")]
            except Exception as error:  # a part that cannot be traced still has its text
                found[part]["untraced"] = f"{type(error).__name__}: {error}"
            output.write_text(json.dumps(found, indent=1), encoding="utf-8")
            print(part, found[part]["code"], len(found[part].get("launches", ())), found[part].get("untraced", ""))


def described(trace: Any) -> dict[str, Any]:
    header = trace.header
    return {
        "kernel": header.extra.get("readable_name") or header.kernel,
        "grid": list(header.grid),
        "block": list(header.block),
        "shared": header.shared_memory_per_block_bytes,
        "instructions": sum(group.instructions for group in trace.groups()),
    }


def compare(measured: Path, output: Path) -> None:
    """A row for each part: whether text, exit code and launches agree, and the ratio of instructions."""
    from frontends.runtime.listening import run
    from warplens.frontends.runtime.build import build_stand_in
    from warplens.frontends.runtime.compile import compile_program

    rows = {}
    if output.is_file():
        rows = {row["part"]: row for row in csv.DictReader(output.read_text(encoding="utf-8").splitlines())}
    stand_in = build_stand_in()
    with tempfile.TemporaryDirectory() as folder:
        program = compile_program([SOURCE], Path(folder), stand_in, 90)
        for part, gpu in json.loads(measured.read_text(encoding="utf-8")).items():
            text, code, notes = run([program, part], stand_in)
            shapes = sorted((each.readable, list(each.grid), list(each.block)) for each in notes.launches)
            there = sorted((each["kernel"], each["grid"], each["block"]) for each in gpu.get("launches", ()))
            counted = sum(each["instructions"] for each in gpu.get("launches", ()))
            executed = sum(each.instructions for each in notes.launches)
            rows[part] = {
                "part": part,
                "same text": text == gpu["text"],
                "same code": code == gpu["code"],
                "launches": len(shapes),
                "same launches": shapes == there if "launches" in gpu else "",
                "instructions PTX/SASS": round(executed / counted, 2) if counted else "",
            }
    with output.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(next(iter(rows.values()))), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows.values())
    print(output.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("measure", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("parts", nargs="*", default=PARTS)
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "api.csv")
    given = parser.parse_args()
    if given.what == "measure":
        measure(given.file, given.parts)
    else:
        compare(given.file, given.output)


if __name__ == "__main__":
    main()
