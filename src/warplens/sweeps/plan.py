"""A sweep cut into units of work: one kernel and configurations that share as much of it as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..analysis import DEFAULT_ORDER
from ..machine import distinct
from ..machine.schema import parameters_by_key
from ..workload import Workload
from ..workload.batches import cache_keys
from ..workload.launch import LAUNCH_KEYS
from ..workload.traced import TracedWorkload
from .evaluate import Question, Rows

#: Seconds that a unit should take, about: long against handing it out, short against losing it.
UNIT_SECONDS = 1.0
#: Rows of the result that a unit may have.
UNIT_ROWS = 200_000
#: Rough seconds, to cut units of a size: of a row, of a cache simulation, and of what takes longer than other models.
_ROW, _CACHES = 3e-6, 0.05
_LONGER = {"pipeline": 2e-3, "warplens": 1e-2, "crisp": 1e-2, "detailed": 1.0}
#: Parameters that change how many blocks are resident, and so the caches.
_RESIDENCY = ("max_warps", "max_blocks", "registers", "shared_memory", "warp_size", *LAUNCH_KEYS)


@dataclass(frozen=True, eq=False)
class Unit:
    """Configurations of one kernel that are worked out together."""

    number: int
    workload: int
    rows: Rows
    seconds: float


def plan(workloads: Sequence[Workload], question: Question) -> list[Unit]:
    """The units of a sweep: always the same for the same question."""
    units: list[Unit] = []
    codes = _cache_codes(question)
    row = sum(_LONGER.get(target.name, _ROW) for target in question.targets)
    for index, workload in enumerate(workloads):
        traced = isinstance(workload, TracedWorkload)
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


def _cache_codes(question: Question) -> Any:
    """Configurations with the same number share their cache simulations."""
    columns = []
    size, ways = question.space.columns.get("llc.size"), question.space.columns.get("llc.ways")
    if size is not None and ways is not None:
        # Caches of as many sets stand together: one pass may do for all of them.
        columns.append(np.asarray(size) / np.maximum(np.asarray(ways), 1.0))
    for key, column in question.space.columns.items():
        path = key if key in LAUNCH_KEYS else parameters_by_key()[key].path
        if path in cache_keys(DEFAULT_ORDER) or key in _RESIDENCY or key.startswith("occupancy."):
            columns.append(np.asarray(column))
    return distinct(columns, question.space.size)[1]
