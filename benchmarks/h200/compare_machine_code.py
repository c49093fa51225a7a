"""What machine code in place of PTX brings, kernel by kernel of the suite, against an H200.

    python benchmarks/h200/compare_machine_code.py > docs/validation/data/h200-machine-code.csv

Errors of elapsed cycles in percent: from PTX alone, from PTX with the machine code that NVRTC makes of it, and from
SASS traced on the GPU. `instructions` are executed instructions over measured ones.
"""

from __future__ import annotations

import csv
import sys

from warplens.api import predict
from warplens.models.warplens_model import Warplens
from warplens.workload import analyse
from warplens.workload.samples import form_of
from warplens_studies.validate.h200 import SIZES, measurements
from warplens_studies.validate.h200_profiles import kept_comparison, placed_launch, shipped_profiles


def main() -> None:
    names = "size kernel µs PTX machine-code SASS instructions-PTX instructions-machine-code"
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(names.split())
    for size in SIZES:
        traced = kept_comparison("sass", size)
        for kernel, profile in shipped_profiles("ptx", size)[0].items():
            placed, machine = placed_launch(profile, 0)
            found = measurements(size)[kernel, 0]
            errors = [
                float(predict(placed, machine, Warplens(machine_code=on)).cycles) / found.elapsed_cycles - 1.0
                for on in (False, True)
            ]
            facts = analyse(placed, machine, Warplens().requirements, "the comparison")
            form = form_of(facts)
            assert facts.traced and facts.traced.blocks and facts.total_instructions and form
            executed = float(facts.total_instructions) / found.warp_instructions
            more = len(form.group.static) / len(facts.traced.blocks.static)
            sass = traced.error("warplens", kernel)
            row = [*errors, float("nan") if sass is None else sass]
            counts = [f"{executed:.2f}", f"{executed * more:.2f}"]
            out.writerow([size, kernel, f"{found.duration_ns / 1e3:.1f}", *(f"{100 * e:+.0f}" for e in row), *counts])


if __name__ == "__main__":
    main()
