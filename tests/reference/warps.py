"""One warp of a trace at a time: who waits for whom, when each instruction issues, where intervals end. Clusters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from warplens.traces import StaticInstruction

Point = tuple[float, ...]


def producers(warp: Sequence[int], rows: Sequence[StaticInstruction]) -> list[list[int]]:
    """Per instruction: positions that last wrote its source registers, in the order of the registers.

    Found by looking back, instruction by instruction.
    """
    found: list[list[int]] = []
    for position, row in enumerate(warp):
        here = []
        for register in rows[row].sources:
            if register >= 255:
                continue
            for other in range(position - 1, -1, -1):
                if register in rows[warp[other]].destinations:
                    here.append(other)
                    break
        found.append(here)
    return found


def issue_times(
    warp: Sequence[int], rows: Sequence[StaticInstruction], latency: Sequence[float], step: float = 1.0
) -> list[float]:
    """Eq. (G-4): issue(k + 1) = max(issue(k) + 1, done(sources) + 1), where done = issue + latency."""
    issued: list[float] = []
    done: list[float] = []
    for row, waits_for in zip(warp, producers(warp, rows), strict=True):
        earliest = issued[-1] + step if issued else 0.0
        issued.append(max([earliest, *(done[other] + step for other in waits_for)]))
        done.append(issued[-1] + latency[row])
    return issued


@dataclass
class Interval:
    """Instructions, the stall behind them, and the static instruction that was waited for longest (or None)."""

    instructions: int
    stall: float
    cause: int | None


def intervals(
    warp: Sequence[int],
    rows: Sequence[StaticInstruction],
    latency: Sequence[float],
    *,
    step: float = 1.0,
    min_gap: float = 1.0,
) -> list[Interval]:
    """An interval ends where the next instruction waits `min_gap` or more; shorter waits are part of it."""
    issued = issue_times(warp, rows, latency, step)
    waits_for = producers(warp, rows)
    found: list[Interval] = []
    instructions = 0
    waits: list[tuple[float, int]] = []

    def close() -> None:
        nonlocal instructions, waits
        longest = max(waits, key=lambda wait: wait[0], default=(0.0, None))
        found.append(Interval(instructions, sum(wait for wait, _ in waits), longest[1]))
        instructions, waits = 0, []

    for position in range(len(warp)):
        gap = issued[position] - (issued[position - 1] + step) if position else issued[0]
        if gap > 0:
            culprit = max(waits_for[position], key=lambda other: issued[other] + latency[warp[other]])
            waits.append((gap, warp[culprit]))
            if gap >= min_gap:
                close()
        instructions += 1
    close()
    return found


# -- clusters -----------------------------------------------------------------------------------


def centre(points: Sequence[Point], weights: Sequence[float]) -> Point:
    total = sum(weights)
    return tuple(
        sum(weight * point[axis] for point, weight in zip(points, weights, strict=True)) / total
        for axis in range(len(points[0]))
    )


def spread(points: Sequence[Point], weights: Sequence[float]) -> float:
    """Sum of squared distances from the centre."""
    if not points:
        return 0.0
    middle = centre(points, weights)
    return sum(weight * math.dist(point, middle) ** 2 for point, weight in zip(points, weights, strict=True))


def best_split(points: Sequence[Point], weights: Sequence[float]) -> tuple[float, frozenset[int]]:
    """(least sum of squared distances over all splits in two, one side of that split: the one with point 0)."""
    best = (math.inf, frozenset[int]())
    for others in itertools.product((True, False), repeat=len(points) - 1):
        side = [True, *others]
        cost = sum(
            spread(
                [point for point, here in zip(points, side, strict=True) if here == which],
                [weight for weight, here in zip(weights, side, strict=True) if here == which],
            )
            for which in (True, False)
        )
        chosen = frozenset(index for index, here in enumerate(side) if here)
        if cost < best[0]:
            best = (cost, chosen)
    return best
