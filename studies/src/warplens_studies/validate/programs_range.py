"""How wide the upper side of the range must be, chosen on other programs than those on which it is tried.

What micro-benchmarks do not show makes kernels slower, never faster: this part of the uncertainty is systematic, and
its size is the one constant of the range that errors on programs can choose.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from warplens.machine import load_gpu

from .programs import OWN, Row

#: Sizes of that part that are tried, and the share of launches that a range must hold.
SIDES = tuple(np.arange(0.0, 0.61, 0.05).round(2).tolist())
NOMINAL = 0.80


class Chosen(NamedTuple):
    """The size that most programs would choose for one another, and the launches that ranges so chosen hold."""

    side: float
    held: float


def holds(row: Row, side: float, launch_cycles: float) -> bool:
    """Whether the range of a launch, its upper side made of the lower one and `side`, has the measured cycles."""
    predicted, measured = row.predicted, row.launch.cycles
    assert predicted.low is not None
    ran = predicted.cycles[OWN] - launch_cycles
    down = ran / (predicted.low - launch_cycles) - 1.0
    return predicted.low <= measured <= launch_cycles + ran * (1.0 + math.hypot(down, side))


def cross_validated(rows: Sequence[Row]) -> Chosen | None:
    """For each program, the least size with which the ranges of all others hold `NOMINAL`, tried on its launches.

    None where there are no others.
    """
    launch_cycles = float(load_gpu("h200").launch_cycles)
    ranged = [row for row in rows if row.predicted.low is not None]
    table = np.array([[holds(row, side, launch_cycles) for side in SIDES] for row in ranged])
    programs = np.array([row.launch.program for row in ranged])
    if len(set(programs)) < 2:
        return None
    sides, held = [], []
    for program in sorted(set(programs)):
        enough = np.flatnonzero(table[programs != program].mean(axis=0) >= NOMINAL)
        side = int(enough[0]) if len(enough) else len(SIDES) - 1
        sides.append(SIDES[side])
        held += table[programs == program, side].tolist()
    return Chosen(float(np.median(sides)), float(np.mean(held)))
