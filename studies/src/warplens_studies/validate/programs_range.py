"""How wide the upper side of the range must be: chosen on the suite, or on other programs than those it is tried on.

What micro-benchmarks do not show makes kernels slower, never faster: this part of the uncertainty is systematic, and
its size is the one constant of the range that errors can choose. The model has the suite's.
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
    launch_cycles = float(load_gpu("h200").launch_cycles)
    ends = [
        (row.cycles[OWN], row.cycles_low, found.measured[key].elapsed_cycles)
        for found in comparisons
        for key in counted(found)
        for row in (found.predicted[key],)
    ]
    for side in np.arange(0.0, SIDES[-1], 0.01).round(2).tolist():
        if np.mean([holds(*each, side, launch_cycles) for each in ends]) >= NOMINAL:
            return float(side)
    return SIDES[-1]


def cross_validated(rows: Sequence[Row]) -> Chosen | None:
    """For each program, the least size with which the ranges of all others hold `NOMINAL`, tried on its launches.

    None where there are no others.
    """
    launch_cycles = float(load_gpu("h200").launch_cycles)
    ranged = [(row, low) for row in rows if (low := row.predicted.low) is not None]
    ends = [(row.predicted.cycles[OWN], low, row.launch.cycles) for row, low in ranged]
    table = np.array([[holds(*each, side, launch_cycles) for side in SIDES] for each in ends])
    programs = np.array([row.launch.program for row, _ in ranged])
    if len(set(programs)) < 2:
        return None
    sides, held = [], []
    for program in sorted(set(programs)):
        enough = np.flatnonzero(table[programs != program].mean(axis=0) >= NOMINAL)
        side = int(enough[0]) if len(enough) else len(SIDES) - 1
        sides.append(SIDES[side])
        held += table[programs == program, side].tolist()
    return Chosen(float(np.median(sides)), float(np.mean(held)))
