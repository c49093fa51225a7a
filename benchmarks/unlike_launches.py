"""How far the errors of two launches of one kernel are apart, beside what `warplens check` allows for:

    python3 benchmarks/unlike_launches.py > benchmarks/unlike_launches.csv

The kernels of the suite ran on an H200 with fewer and fewer thread blocks on an SM (docs/validation/suite.md). All
pairs of such launches of a kernel are compared as a gate compares two versions. `spent_otherwise` is the part of the
time that goes to other stall categories, up to the next row's. `apart` and `within_80_percent` are the median and the
80 % quantile of the difference of the logarithms of the two errors, `allowed` the mean of half the range that the
gate gives to them, and `held` the share of the pairs that lie in it.
"""

from __future__ import annotations

import math
from itertools import combinations, groupby, pairwise

import numpy as np

from warplens.api import predict
from warplens.explanation.paired import Timing, paired_change, spent_otherwise
from warplens_studies.validate.h200 import measurements
from warplens_studies.validate.h200_profiles import levels_of, placed_launch, shipped_profiles

BINS = (0.0, 0.05, 0.1, 0.2, 0.4, 1.0)


def timings() -> list[tuple[str, float, Timing]]:
    """Kernel, measured cycles and prediction of every launch of the sweeps, in cycles."""
    measured, found = measurements("medium"), []
    for kernel, workload in shipped_profiles("sass", "medium")[0].items():
        for blocks in filter(None, levels_of(kernel, "medium")):
            made = predict(*placed_launch(workload, blocks))
            cycles = float(made.cycles)
            causes = {name: float(value / made.cpi) * cycles for name, value in made.stack.items()}
            ends = (float(made.terms[name]) for name in ("cycles_low", "cycles_high"))
            found.append((kernel, measured[kernel, blocks].elapsed_cycles, Timing(cycles, *ends, causes)))
    return found


def main() -> None:
    rows = []
    for _, launches in groupby(timings(), key=lambda each: each[0]):
        for (_, real, ours), (_, other_real, other) in combinations(launches, 2):
            change, low, high = paired_change(ours, other, same_launch=False)
            apart = math.log(other_real / real) - math.log1p(change)
            ends = (math.log1p(end) - math.log1p(change) for end in (low, high))
            rows.append((spent_otherwise(ours, other), apart, *ends))
    part, apart, low_end, high_end = np.array(rows).T
    held, allowed, apart = (low_end <= apart) & (apart <= high_end), (high_end - low_end) / 2.0, abs(apart)
    print("spent_otherwise,pairs,apart,within_80_percent,allowed,held")
    for low, high in (*pairwise(BINS), (0.0, 1.0)):
        here = (part >= low) & (part <= high)
        numbers = np.median(apart[here]), np.quantile(apart[here], 0.8), allowed[here].mean()
        name = "all" if (low, high) == (0.0, 1.0) else f"{low:g}"
        print(name, here.sum(), *(f"{each:.3f}" for each in numbers), f"{held[here].mean():.2f}", sep=",")


if __name__ == "__main__":
    main()
