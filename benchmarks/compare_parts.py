"""Advice from a part of a trace's thread blocks against that from all: the gains side by side.

    python benchmarks/compare_parts.py [--part 3] TRACE.wlt...

Long traces have their gains estimated from a part (`warplens.workload.part`). This takes the `--part`-th part of any.
"""

from __future__ import annotations

import argparse
import csv
import sys
from dataclasses import replace
from unittest import mock

from warplens.api import place
from warplens.explanation import explain, scene
from warplens.machine import Gpu
from warplens.traces import read_trace
from warplens.traces.chosen_blocks import chosen_blocks
from warplens.traces.grouping import only_blocks
from warplens.workload import Workload, analyse, workload_of_trace
from warplens.workload.results import Results


def gains(workload: Workload, gpu: Gpu, part: int) -> tuple[int, dict[str, float]]:
    """(Recorded blocks that were looked at, the largest gain of each rule)."""
    facts = analyse(workload, gpu, needed_by="a part of a trace")
    assert facts.traced is not None and workload.trace is not None
    recorded = facts.traced.recorded_blocks
    chosen = chosen_blocks(recorded, max(recorded // part, 1), int(facts.residency.blocks_per_sm * gpu.sms))
    some = replace(workload, trace=only_blocks(workload.trace, chosen), results=Results()) if part > 1 else workload
    with mock.patch.object(scene, "part_if_long", lambda *_: some):
        advice = explain(workload, gpu).advice
    return sum(map(len, chosen)), {each.rule: each.speedup for each in reversed(advice)}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    parser.add_argument("--part", type=int, default=3)
    parser.add_argument("--gpu", default="h200")
    given = parser.parse_args()
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["trace", "kernel", "blocks", "part_blocks", "rule", "gain", "gain_of_part"])
    for path in given.traces:
        for launch in read_trace(path):
            workload, gpu = place(workload_of_trace(launch), given.gpu, None)
            blocks, whole = gains(workload, gpu, 1)
            fewer, some = gains(workload, gpu, given.part)
            for rule in sorted({*whole, *some}):
                told = (f"{each[rule]:.3f}" if rule in each else "" for each in (whole, some))
                out.writerow([path, workload.name, blocks, fewer, rule, *told])
    return 0


if __name__ == "__main__":
    sys.exit(main())
