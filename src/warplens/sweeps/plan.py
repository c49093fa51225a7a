"""Cuts a sweep into units of work: one kernel and configurations that share as much work as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..api import place
from ..errors import WarplensError
from ..machine import distinct
from ..workload import Workload, resident
from ..workload.facts import batch_shape
from ..workload.traced import runs_of
from .evaluate import Question, Rows

#: Approximate seconds of a unit: long compared with the overhead of dispatch, short to lose.
UNIT_SECONDS = 1.0
#: Most rows of a unit.
UNIT_ROWS = 200_000
#: Rough seconds, to estimate units: per row, per cache simulation, and per row of the slow models.
_ROW, _CACHES = 3e-6, 0.05
_LONGER = {"pipeline": 2e-3, "warplens": 1e-2, "crisp": 1e-2, "detailed": 1.0}
#: Values of a parameter to try, to see whether the cache simulation depends on it.
MOST_PROBES = 64


@dataclass(frozen=True, eq=False)
class Unit:
    """Configurations of one kernel that are evaluated together."""

    number: int
    workload: int
    rows: Rows
    seconds: float


def plan(workloads: Sequence[Workload], question: Question) -> list[Unit]:
    """The units of a sweep; the same question always gives the same units."""
    units: list[Unit] = []
    row = sum(_LONGER.get(target.name, _ROW) for target in question.targets)
    for index, workload in enumerate(workloads):
        traced = workload.trace is not None
        codes = _cache_codes(workload, question) if traced else np.zeros(question.space.size)
        order = np.argsort(codes, kind="stable") if traced else np.arange(question.space.size)
        seconds = np.full(len(order), row)
        if traced:
            sorted_codes = codes[order]
            seconds[np.flatnonzero(np.diff(sorted_codes, prepend=-1))] += _CACHES
        most = max(1, UNIT_ROWS // len(question.targets))
        number = np.maximum.accumulate((np.cumsum(seconds) - seconds[0]) // UNIT_SECONDS).astype(np.int64)
        starts = np.flatnonzero(np.diff(number, prepend=-1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            for first in range(start, end, most):
                last = min(first + most, end)
                cost = float(seconds[first:last].sum())
                units.append(Unit(len(units), index, np.sort(order[first:last]), cost))
    return units


def _cache_codes(workload: Workload, question: Question) -> Any:
    """Configurations with the same number share their cache simulations."""
    space = question.space
    columns = []
    size, ways = space.columns.get("llc.size"), space.columns.get("llc.ways")
    if size is not None and ways is not None:
        # Caches with the same number of sets are adjacent: one pass may serve them all.
        columns.append(np.asarray(size) / np.maximum(np.asarray(ways), 1.0))
    columns += [np.asarray(each) for key, each in space.columns.items() if _moves_caches(workload, question, key)]
    return distinct(columns, space.size)[1]


def _moves_caches(workload: Workload, question: Question, key: str) -> bool:
    """Whether some values of this parameter alone need different cache simulations."""
    column = question.space.columns[key]
    numeric = isinstance(column, np.ndarray)
    values = np.unique(column) if numeric else list(dict.fromkeys(column))
    values = values[:: len(values) // MOST_PROBES + 1]
    try:
        runs = set()
        for value in [values] if numeric else values:
            placed, gpu = place(workload, question.gpu, {**question.overrides, key: value})
            residency = resident(placed.launch, gpu)
            runs.update(runs_of(placed, gpu, residency, batch_shape(placed.launch, gpu), "the sweep")[0])
    except WarplensError:
        return True  # a value is invalid: assume that the others matter
    return len(runs) > 1
