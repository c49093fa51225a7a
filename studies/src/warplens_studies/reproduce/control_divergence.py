"""Kernels whose warps do different amounts or kinds of work, made for GPUMech's Fig. 7 because the data has none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from warplens.traces import LaunchHeader, MemoryTrace, StaticInstruction, WarpGroup, static_table

WARPS_PER_BLOCK = 8
#: Three times the capacity of 16 SMs with 32 warps each, as in the paper.
BLOCKS = 3 * 16 * 4
_WARPS = BLOCKS * WARPS_PER_BLOCK
_LINE_BYTES = 128
_LANES = 32


def _row(pc: int, opcode: str, kind: str, destination: int, *sources: int, access: int = 0) -> StaticInstruction:
    destinations = (destination,) if destination else ()
    space = "global" if access else "none"
    return StaticInstruction(16 * pc, opcode, kind, space, access, destinations, tuple(sources))


#: Instructions before the loop, of an iteration that loads and uses the value, and of one that only computes.
_BEFORE = (0, 1, 2)
_LOADING = (3, 4, 5, 9)
_COMPUTING = (6, 7, 8, 9)
_LOAD = 3
_ROWS = (
    _row(0, "IMAD", "int32", 1, 2),
    _row(1, "IADD3", "int32", 1, 1),
    _row(2, "MOV", "move", 4),
    _row(3, "LDG.E", "load_global", 3, 1, access=4),
    _row(4, "FFMA", "fp32", 4, 3, 4),
    _row(5, "IADD3", "int32", 1, 1),
    _row(6, "FMUL", "fp32", 5, 4),
    _row(7, "FFMA", "fp32", 6, 5),
    _row(8, "FFMA", "fp32", 4, 6),
    _row(9, "BRA", "control", 0),
)


@dataclass(frozen=True)
class Plan:
    """Per warp: iterations that load, and iterations that only compute; lines that a load touches."""

    loading: np.ndarray
    computing: np.ndarray
    lines: int = 1


def _few_long(share: float, factor: int) -> np.ndarray:
    """A few warps, evenly spread, run `factor` times longer."""
    every = round(1 / share)
    return np.where(np.arange(_WARPS) % every == every - 1, 4 * factor, 4)


def _random(low: int, high: int) -> np.ndarray:
    return np.random.default_rng(7).integers(low, high + 1, _WARPS)


def _none() -> np.ndarray:
    return np.zeros(_WARPS, dtype=np.int64)


def _either(share: float, iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """A share of the warps computes; the others load."""
    computes = np.random.default_rng(11).random(_WARPS) < share
    return np.where(computes, 0, iterations), np.where(computes, iterations, 0)


#: Kernels by what makes their warps differ.
PLANS: dict[str, Callable[[], Plan]] = {
    "1 of 8 warps 8 times longer": lambda: Plan(_few_long(1 / 8, 8), _none()),
    "1 of 32 warps 16 times longer": lambda: Plan(_few_long(1 / 32, 16), _none()),
    "1 of 8 warps 8 times longer, computing": lambda: Plan(np.full(_WARPS, 2), _few_long(1 / 8, 8)),
    "half of the warps leave at once": lambda: Plan(np.where(np.arange(_WARPS) % 2, 12, 0), _none()),
    "1 to 16 iterations": lambda: Plan(_random(1, 16), _none()),
    "1 to 16 iterations, 4 lines a load": lambda: Plan(_random(1, 16), _none(), 4),
    "1 to 32 computing iterations": lambda: Plan(np.full(_WARPS, 2), _random(1, 32)),
    "3 of 10 warps compute instead of loading": lambda: Plan(*_either(0.3, 12)),
    "7 of 10 warps compute instead of loading": lambda: Plan(*_either(0.7, 12)),
    "length grows with the warp's number": lambda: Plan(1 + np.arange(_WARPS) % WARPS_PER_BLOCK, _none()),
}


@cache
def trace_of(name: str) -> MemoryTrace:
    """The kernel as a trace. Warps take turns along an array, so nothing is touched twice."""
    plan = PLANS[name]()
    static: list[int] = []
    start, access_start, base = [0], [0], []
    for warp in range(_WARPS):
        loading, computing = int(plan.loading[warp]), int(plan.computing[warp])
        static += [*_BEFORE, *(_LOADING * loading), *(_COMPUTING * computing)]
        base += [_LINE_BYTES * plan.lines * (1 + turn * _WARPS + warp) for turn in range(loading)]
        start.append(len(static))
        access_start.append(len(base))
    group = WarpGroup(
        block=np.repeat(np.arange(BLOCKS, dtype=np.int64), WARPS_PER_BLOCK),
        warp=np.tile(np.arange(WARPS_PER_BLOCK, dtype=np.int32), BLOCKS),
        start=np.array(start, dtype=np.int64),
        static=np.array(static, dtype=np.uint32),
        mask=np.full(len(static), 0xFFFFFFFF, dtype=np.uint32),
        access_start=np.array(access_start, dtype=np.int64),
        base=np.array(base, dtype=np.uint64),
        stride=np.full(len(base), plan.lines * _LINE_BYTES // _LANES, dtype=np.int64),
        lane_start=np.zeros(_WARPS + 1, dtype=np.int64),
        lanes=np.zeros(0, dtype=np.uint64),
    )
    header = LaunchHeader(name, (BLOCKS, 1, 1), (_LANES * WARPS_PER_BLOCK, 1, 1), registers_per_thread=16)
    return MemoryTrace(header, static_table(_ROWS), (group,))
