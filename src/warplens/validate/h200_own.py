"""Our own model on an H200: its range beside what was measured, and what each mechanism buys there."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..machine import with_overrides
from ..models import get_model
from .h200 import LEAST_NS, H200Validation, Setting
from .h200_profiles import placed_launch, shipped_profiles
from .metrics import cycle_error
from .tables import Cell, Table, percent

MODEL = "warplens"
#: What is left out -> (options of the model, values of the machine).
MECHANISMS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "nothing": ({}, {}),
    "the network: the largest of the busy times alone": ({"without": "network"}, {}),
    "the time from the end of a block to the start of the next": ({}, {"block_start_cycles": 0}),
    "instructions and translations that no cache holds at first": ({}, {"cold_start_cycles": 0}),
    "all of the launch": ({"launch_overhead": False}, {}),
    "words of one bank of the L1 that wait for each other": ({"without": "conflicts"}, {}),
    "limits that stores and atomics have of their own": ({"without": "stores"}, {}),
    "the least distance of requests": ({}, {"noc.request_cycles": 0, "noc.sm_request_cycles": 0}),
    "dirty lines that go to DRAM": ({"without": "write-backs"}, {}),
    "loads that wait for lines on their way": ({"without": "arrivals"}, {}),
    "uneven banks and channels": ({"without": "banks"}, {}),
    "the memory queue and who enters it": ({"without": "queue"}, {}),
    "blocks that take longer than others": ({"without": "imbalance"}, {}),
}


def counted(found: H200Validation) -> list[Setting]:
    """Launches that count: kernels that run longer than 20 µs, and all sweeps of residents."""
    return [key for key in found.predicted if key[1] or found.measured[key].duration_ns > LEAST_NS]


def range_table(comparisons: Sequence[H200Validation]) -> Table:
    """How often the range holds what was measured, and how wide it is."""
    rows = []
    for found in comparisons:
        for words, swept in (("kernels above 20 µs", False), ("with fewer residents", True)):
            chosen = [key for key in counted(found) if bool(key[1]) == swept]
            if not chosen:
                continue
            ends = [(found.predicted[key].cycles_low, found.predicted[key].cycles_high) for key in chosen]
            cycles = [found.measured[key].elapsed_cycles for key in chosen]
            held = sum(low <= real <= high for (low, high), real in zip(ends, cycles, strict=True))
            above = sum(real > high for (_, high), real in zip(ends, cycles, strict=True))
            half = [
                (high - low) / 2 / found.predicted[key].cycles[MODEL]
                for key, (low, high) in zip(chosen, ends, strict=True)
            ]
            rows.append(
                (
                    Cell(f"{found.source.upper()}, {found.size}: {words}"),
                    Cell(str(len(chosen))),
                    Cell(f"{100 * held / len(chosen):.0f}"),
                    Cell(str(above)),
                    Cell(str(len(chosen) - held - above)),
                    Cell(f"{100 * statistics.median(half):.0f}"),
                )
            )
    columns = ("launches", "number", "held, %", "slower than the range", "faster", "median half-width, %")
    return Table("the range of warplens", columns, tuple(rows))


def mechanism_table(found: H200Validation) -> Table:
    """What becomes of the errors when one mechanism is left out."""
    workloads, _ = shipped_profiles(found.source, found.size)
    rows = []
    for words, (options, changes) in MECHANISMS.items():
        model = get_model(MODEL, options)
        errors: dict[bool, list[float]] = {False: [], True: []}
        for kernel, blocks in counted(found):
            placed, machine = placed_launch(workloads[kernel], blocks)
            cycles = float(model.predict(placed, with_overrides(machine, changes)).cycles)
            errors[bool(blocks)].append(cycle_error(cycles, found.measured[kernel, blocks].elapsed_cycles))
        cells = [Cell(words)]
        for each in errors.values():
            cells += [percent(float(np.mean(np.abs(each))), signed=False) if each else Cell("–")]
            cells += [percent(float(np.mean(each))) if each else Cell("–")]
        rows.append(tuple(cells))
    columns = ("left out", "MAPE, %", "mean error, %", "with fewer residents: MAPE, %", "mean error, %")
    return Table("what each mechanism of warplens buys on an H200", columns, tuple(rows))
