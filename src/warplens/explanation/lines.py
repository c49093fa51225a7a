"""Where the time goes in the source: the model's time and the counts of instructions, line by line."""

from __future__ import annotations

from typing import Any

import numpy as np

from .answer import Counts, Line
from .scene import Scene


def lines_by_time(scene: Scene) -> tuple[Line, ...]:
    """The executed lines, those with most of the launch's time first; none where the trace has no lines."""
    numbers = scene.static.line
    executed = scene.table.executions > 0
    found = [
        Line(
            scene.source_name,
            number,
            float(scene.times.instructions[rows].sum()),
            scene.text_of(number),
            counts_of(scene, rows),
            _inner(scene, rows),
        )
        for number in np.unique(numbers[executed & (numbers > 0)]).tolist()
        if len(rows := np.flatnonzero(executed & (numbers == number)))
    ]
    return tuple(sorted(found, key=lambda line: -line.share))


def _inner(scene: Scene, rows: Any) -> tuple[Line, ...]:
    """Lines of other files among some instructions, by the innermost place of each."""
    by_place: dict[tuple[str, int], list[int]] = {}
    for row in rows.tolist():
        if chain := scene.chains[row]:
            by_place.setdefault(chain[0], []).append(row)
    times = scene.times.instructions
    found = [
        Line(file, number, float(times[inside].sum()), counts=counts_of(scene, np.array(inside)))
        for (file, number), inside in by_place.items()
    ]
    return tuple(sorted(found, key=lambda line: -line.share))


def rest_of_time(scene: Scene) -> dict[str, float]:
    """What no line has: with the lines it sums to 1."""
    times = scene.times
    unknown = float(times.instructions[scene.static.line == 0].sum())
    parts = {"launch": times.launch, "idle": times.idle, "no line": unknown}
    return {name: part for name, part in parts.items() if part > 0.0}


def counts_of(scene: Scene, rows: Any) -> Counts:
    """What some static instructions did together."""
    table = scene.table
    executions, requests = table.executions[rows], table.requests[rows]
    asked = executions * (requests > 0)
    beyond = requests * (1.0 - np.nan_to_num(table.l1_hit_ratio[rows]))
    ways = scene.conflict_ways[rows]
    return Counts(
        executions=int(executions.sum()),
        active_lanes=float(executions @ table.active_lanes[rows] / max(executions.sum(), 1)),
        sectors_per_request=_ratio(requests.sum(), asked.sum()),
        least_sectors=_ratio(table.least_requests[rows] @ (requests > 0), asked.sum()),
        conflict_ways=_ratio(executions @ ways, executions @ (ways > 0)),
        l1_hit_ratio=_mean(table.l1_hit_ratio[rows], requests),
        l2_hit_ratio=_mean(table.llc_hit_ratio[rows], beyond),
        dram_bytes=float(table.dram_bytes[rows].sum()),
    )


def _ratio(part: float, whole: float) -> float | None:
    return float(part / whole) if whole > 0 else None


def _mean(values: Any, weights: Any) -> float | None:
    """Weighted mean of what is known, or None."""
    known = ~np.isnan(values) & (weights > 0)
    return float(np.average(values[known], weights=weights[known])) if known.any() else None
