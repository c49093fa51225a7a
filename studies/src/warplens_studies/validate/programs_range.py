"""How wide the upper side of the range must be: chosen on the suite, or on other programs than those it is tried on.

What micro-benchmarks do not show makes kernels slower, never faster: this part of the uncertainty is systematic, and
its size is the one constant of the range that errors can choose. The model has the least that holds enough of the
suite and of programs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from warplens.machine import load_gpu

from .h200 import H200Validation
from .h200_own import counted
from .programs import OWN, Row

#: Sizes of that part that are tried, and the share of launches that a range must hold.
SIDES = tuple(np.arange(0.0, 0.61, 0.05).round(2).tolist())
NOMINAL = 0.80
#: Fewest launches of programs that the model's own range holds.
OF_PROGRAMS = 0.75


class Chosen(NamedTuple):
    """The size that most programs would choose for one another, and the launches that ranges so chosen hold."""

    side: float
    held: float


def holds(cycles: float, low: float, measured: float, side: float, launch_cycles: float) -> bool:
    """Whether a range, its upper side made of the lower one and `side`, has the measured cycles."""
    ran = cycles - launch_cycles
    down = ran / (low - launch_cycles) - 1.0
    return low <= measured <= launch_cycles + ran * (1.0 + math.hypot(down, side))


def chosen_on_suite(comparisons: Iterable[H200Validation]) -> float:
    """The least size, in hundredths, with which ranges hold `NOMINAL` of the suite's launches, from SASS and PTX."""
    ends = [
        (row.cycles[OWN], row.cycles_low, found.measured[key].elapsed_cycles)
        for found in comparisons
        for key in counted(found)
        for row in (found.predicted[key],)
    ]
    return _least(ends, NOMINAL)


def chosen_on_programs(rows: Iterable[Row], share: float = OF_PROGRAMS) -> float:
    """The least size, in hundredths, with which ranges hold a share of all launches of programs."""
    return _least([ends for row in rows if (ends := _ends(row)) is not None], share)


def _least(ends: Sequence[tuple[float, float, float]], share: float) -> float:
    launch_cycles = float(load_gpu("h200").launch_cycles)
    for side in np.arange(0.0, SIDES[-1], 0.01).round(2).tolist():
        if np.mean([holds(*each, side, launch_cycles) for each in ends]) >= share:
            return float(side)
    return SIDES[-1]


def _ends(row: Row) -> tuple[float, float, float] | None:
    """(Predicted cycles, their lower end, measured cycles) of a launch; None without a range."""
    low = row.predicted.low
    return None if low is None else (row.predicted.cycles[OWN], low, row.launch.cycles)


def cross_validated(rows: Sequence[Row]) -> Chosen | None:
    """For each program, the least size with which the ranges of all others hold `NOMINAL`, tried on its launches.

    None where there are no others.
    """
    launch_cycles = float(load_gpu("h200").launch_cycles)
    ranged = [(row.launch.program, ends) for row in rows if (ends := _ends(row)) is not None]
    table = np.array([[holds(*ends, side, launch_cycles) for side in SIDES] for _, ends in ranged])
    programs = np.array([program for program, _ in ranged])
    if len(set(programs)) < 2:
        return None
    sides, held = [], []
    for program in sorted(set(programs)):
        enough = np.flatnonzero(table[programs != program].mean(axis=0) >= NOMINAL)
        side = int(enough[0]) if len(enough) else len(SIDES) - 1
        sides.append(SIDES[side])
        held += table[programs == program, side].tolist()
    return Chosen(float(np.median(sides)), float(np.mean(held)))
