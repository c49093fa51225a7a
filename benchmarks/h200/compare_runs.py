"""Launches of public programs that an H200 measured, predicted without a GPU: `warplens run` beside traces of SASS.

    python benchmarks/h200/compare_runs.py FOLDER [-o benchmarks/h200/runs.csv] [--seconds 60] PROGRAM...
    python benchmarks/h200/compare_runs.py FOLDER --recorded PROGRAM...

FOLDER holds the programs of `benchmarks/h200/measure_programs.py` (bin, data, work): the same binaries and arguments.
With `--recorded` it holds what `warplens run -o FOLDER/PROGRAM.wlt` wrote, and nothing is run. A row has the measured
cycles of a launch, and those that the model `warplens` predicts from a trace of its machine code and from the launch
as recorded while the whole program ran on the CPU, with the machine code that the program holds. Rows of other
programs are kept.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[2] / "studies" / "src" / "warplens_studies" / "validate" / "data" / "h200"
COLUMNS = ("program", "launch", "kernel", "measured", "sass", "program_run")


def one(folder: Path, name: str, *, recorded: bool) -> list[dict[str, Any]]:
    """Predict the measured launches of a program, which is run unless it is recorded."""
    from warplens import predict
    from warplens.frontends.runtime import Recording
    from warplens.machine import load_gpu
    from warplens.programs import run_program
    from warplens.traces import read_trace

    measured = json.loads((DATA / "programs.json").read_text(encoding="utf-8"))
    kept = json.loads((DATA / "programs_predictions.json").read_text(encoding="utf-8"))["launches"]
    wanted = {each["launch"]: each for each in measured["launches"] if each["program"] == name}
    command = [str(each) for each in measured["programs"][name]["command"]]
    gpu = load_gpu("h200")
    with tempfile.TemporaryDirectory() as kept_in:
        trace = folder / f"{name}.wlt" if recorded else Path(kept_in) / "run.wlt"
        if not recorded:
            run_program(
                [str(folder / command[0]), *command[1:]],
                [gpu],
                recording=Recording(launches=frozenset(wanted)),
                output=trace,
                working_folder=folder / "work",
                program_output=os.open(os.devnull, os.O_WRONLY),
                advice=False,
            )
        found = {each.header.launch_index: float(predict(each, gpu).cycles) for each in read_trace(trace)}
    return [
        {
            "program": name,
            "launch": launch,
            "kernel": each["kernel"].partition("(")[0],
            "measured": round(each["measured"]["elapsed_cycles"]),
            "sass": round(kept[f"{name}:{launch}"]["cycles"]["warplens"]),
            "program_run": round(found[launch]),
        }
        for launch, each in wanted.items()
        if launch in found
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("-o", "--output", type=Path, default=Path(__file__).parent / "runs.csv")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--recorded", action="store_true")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_intermixed_args()
    if given.one:
        print(json.dumps(one(given.folder, given.names[0], recorded=given.recorded)))
        return
    rows: list[dict[str, Any]] = []
    if given.output.is_file():
        with given.output.open(encoding="utf-8", newline="") as file:
            rows = [dict(row) for row in csv.DictReader(file) if row["program"] not in given.names]
    for name in given.names:
        command = [sys.executable, __file__, str(given.folder), name, "--one", *["--recorded"] * given.recorded]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, timeout=given.seconds, check=True)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
            print(name, type(error).__name__, str(getattr(error, "stderr", ""))[-300:], flush=True)
            continue
        rows += json.loads(ran.stdout.splitlines()[-1])
        print(name, "done", flush=True)
        with given.output.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(sorted(rows, key=lambda row: (row["program"], int(row["launch"]))))


if __name__ == "__main__":
    main()
