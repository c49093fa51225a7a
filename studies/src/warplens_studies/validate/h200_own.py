"""Our own model on an H200: its range beside the measurements, and the effect of each mechanism."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from warplens.api import predict
from warplens.machine import with_overrides
from warplens.models import get_model
from warplens.workload import analyse

from .h200 import FOLDER, LEAST_NS, H200Validation, Setting, lines
from .h200_profiles import placed_launch, shipped_profiles
from .metrics import cycle_error
from .tables import Cell, Table, percent

MODEL = "warplens"
#: What is left out -> (options of the model, values of the machine).
MECHANISMS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "nothing": ({}, {}),
    "the queueing network (largest busy time only)": ({"without": "network"}, {}),
    "the gap between two blocks (block_start)": ({}, {"block_start_cycles": 0}),
    "cold instruction caches and TLBs (cold_start)": ({}, {"cold_start_cycles": 0}),
    "launch overhead": ({"launch_overhead": False}, {}),
    "L1 bank conflicts": ({"without": "conflicts"}, {}),
    "turns of replies at the L1 port": ({}, {"l1.reply_cycles": 0}),
    "registers of one bank": ({}, {"register_conflict_cycles": 0}),
    "further lookups of loads that miss the L2": ({}, {"noc.miss_lookups": 0}),
    "lines of the L1 that misses take": ({}, {"l1.reserving": False}),
    "lines of a load that come later than the first": ({}, {"llc.spread_cycles": 0, "dram.spread_cycles": 0}),
    "separate limits for stores and atomics": ({"without": "stores"}, {}),
    "the minimum interval between requests": ({}, {"noc.request_cycles": 0, "noc.sm_request_cycles": 0}),
    "write-backs to DRAM": ({"without": "write-backs"}, {}),
    "waits for lines in flight": ({"without": "arrivals"}, {}),
    "uneven LLC banks and DRAM channels": ({"without": "banks"}, {}),
    "the memory queue of the L1": ({"without": "queue"}, {}),
    "imbalance between blocks": ({"without": "imbalance"}, {}),
}


def counted(found: H200Validation) -> list[Setting]:
    """Launches that count: kernels longer than 20 µs, and all occupancy sweeps."""
    return [key for key in found.predicted if key[1] or found.measured[key].duration_ns > LEAST_NS]


def range_table(comparisons: Sequence[H200Validation]) -> Table:
    """How often the range contains the measurement, and how wide it is."""
    rows = []
    for found in comparisons:
        every = counted(found)
        parts = {
            "kernels above 20 µs": [key for key in every if not key[1]],
            "with fewer residents": [key for key in every if key[1]],
        }
        if all(parts.values()):
            parts["both"] = every
        for words, chosen in parts.items():
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
    columns = ("launches", "number", "inside the range, %", "slower than the range", "faster", "median half-width, %")
    return Table("the range of warplens", columns, tuple(rows))


def request_table(found: H200Validation) -> Table:
    """Requests to L2, counted and simulated; busy units; and the L1 that shared memory leaves."""
    workloads, _ = shipped_profiles(found.source, found.size)
    rows = []
    for row in lines(FOLDER / "requests.csv")[1]:
        if row["kernel"] not in workloads:
            continue
        workload, machine = placed_launch(workloads[row["kernel"]], 0)
        facts = analyse(workload, machine).traced
        assert facts is not None
        misses = facts.misses
        scale = (workload.launch.blocks or 1.0) / max(facts.recorded_blocks, 1)
        ours = float((misses.packets_per_execution * misses.executed).sum()) * scale
        requests, lookups = float(row["requests"]), float(row["tag_lookups"])
        off = abs(ours / requests - 1.0)
        rows.append(
            (
                Cell(row["kernel"]),
                Cell(f"{requests / 1e3:.0f}"),
                Cell(f"{ours / 1e3:.0f}", (off > 0.15) + (off > 0.5)),
                Cell(f"{lookups / requests:.2f}"),
                *(Cell(f"{float(row[name]):.0f}") for name in ("tag_percent", "port_percent", "l1_percent")),
                Cell(f"{float(row['shared_memory_bytes']) / 1024:.0f}"),
            )
        )
    columns = (
        *("kernel", "thousand requests, H200", "thousand requests, ours", "L2 lookups per request"),
        *("L2 tags busy, %", "L2 ports busy, %", "L1 data busy, %"),
        "KiB of the L1 used as shared memory",
    )
    return Table("requests of SMs to L2", columns, tuple(rows))


def mechanism_table(found: H200Validation) -> Table:
    """Errors with one mechanism left out."""
    workloads, _ = shipped_profiles(found.source, found.size)
    rows = []
    for words, (options, changes) in MECHANISMS.items():
        model = get_model(MODEL, options)
        errors: dict[bool, list[float]] = {False: [], True: []}
        for kernel, blocks in counted(found):
            placed, machine = placed_launch(workloads[kernel], blocks)
            cycles = float(predict(placed, with_overrides(machine, changes), model).cycles)
            errors[bool(blocks)].append(cycle_error(cycles, found.measured[kernel, blocks].elapsed_cycles))
        cells = [Cell(words)]
        for each in errors.values():
            cells += [percent(float(np.mean(np.abs(each))), signed=False) if each else Cell("–")]
            cells += [percent(float(np.mean(each))) if each else Cell("–")]
        rows.append(tuple(cells))
    columns = ("left out", "MAPE, %", "mean error, %", "with fewer residents: MAPE, %", "mean error, %")
    return Table("what each mechanism of warplens buys on an H200", columns, tuple(rows))
