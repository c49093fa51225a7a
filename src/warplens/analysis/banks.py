"""Bank conflicts: how long each access of a trace holds the banks of shared memory and the L1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machine import INSTRUCTION_CLASSES, InstructionTiming
from ..traces import CLASS_IDS, CLASS_NAMES, StaticTable, WarpGroup
from .mbarriers import is_wait


def shared_accesses(static: StaticTable) -> NDArray[np.bool_]:
    """Which static instructions access shared memory."""
    by_class = np.array(
        [INSTRUCTION_CLASSES[name].kind == "shared" and name != "load_constant" for name in CLASS_NAMES]
    )
    return by_class[static.class_id] & (static.access_bytes > 0)


def serial_atomics(static: StaticTable) -> NDArray[np.bool_]:
    """Atomics on shared memory that take the lanes of a word one by one.

    A compare-and-swap of a loop (`ATOMS.CAST.SPIN`) takes them at once: one succeeds, the others come again. A wait
    at an mbarrier only reads it.
    """
    at_once = np.array(["CAST" in opcode or is_wait(opcode) for opcode in static.opcode], dtype=bool)
    return (static.class_id == CLASS_IDS["atomic_shared"]) & ~at_once


def conflict_degrees(
    group: WarpGroup, static: StaticTable, chosen: NDArray[np.bool_] | None = None, *, in_passes: bool = False
) -> tuple[Any, Any]:
    """(Index of each warp's first access, cycles for which each access holds the banks).

    `chosen` selects static instructions; None selects those that access shared memory. With `in_passes`, a wide
    access takes parts of a warp one by one, even if all lanes want the same words.
    """
    from ._bank_kernels import shared_degrees

    offsets = np.zeros(len(group) + 1, dtype=np.int64)
    degrees = np.zeros(len(group.base), dtype=np.int64)
    count = shared_degrees(
        group.start,
        group.static,
        group.mask,
        group.access_start,
        group.base,
        group.stride,
        group.lane_start,
        group.lanes,
        shared_accesses(static) if chosen is None else chosen,
        serial_atomics(static),
        static.access_bytes,
        in_passes,
        offsets,
        degrees,
    )
    return offsets, degrees[:count]


def mean_bank_cycles(group: WarpGroup, static: StaticTable) -> dict[str, float]:
    """Cycles for which an access holds the banks on average, by class of shared-memory instruction."""
    shared = shared_accesses(static)
    found = {}
    for number in np.unique(static.class_id[shared]):
        degrees = conflict_degrees(group, static, shared & (static.class_id == number))[1]
        if len(degrees):
            found[CLASS_NAMES[number]] = float(degrees.mean())
    return found


def with_conflicts(timing: InstructionTiming, degree: float) -> InstructionTiming:
    """λ' = (1 + D)·λ and Λ' = Λ + D·λ of shared memory with bank conflict degree D, 0 without conflicts. L §6.3"""
    return replace(
        timing,
        interval_cycles=(1 + degree) * timing.interval_cycles,
        latency_cycles=timing.latency_cycles + degree * timing.interval_cycles,
    )
