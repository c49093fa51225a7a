"""What warps execute between one event and the next: to whom its instructions' time belongs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..traces import StaticTable
from .block_samples import Executed


@dataclass(frozen=True, eq=False)
class Pairs:
    """An amount for pairs of static instructions: one that is an event, and one that belongs to the gap before it."""

    event: NDArray[np.int64]
    instruction: NDArray[np.int64]
    amount: NDArray[np.float64]

    def spread(self, of_event: NDArray[np.float64], weight: Any = 1.0) -> NDArray[np.float64]:
        """What events have, given to the instructions of their gaps by their amounts."""
        amount = self.amount * weight
        size = len(of_event)
        total = np.bincount(self.event, amount, size)
        given = of_event[self.event] * amount / np.maximum(total, 1e-300)[self.event]
        return np.bincount(self.instruction, given, size).astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class Gaps:
    """Executions, stalls for a result and cycles of shared memory, in the gaps before events."""

    executions: Pairs
    stalls: Pairs
    shared: Pairs


def gaps_of(executed: Executed, static: StaticTable) -> Gaps:
    """The gaps of some blocks. The event itself counts to the gap before it."""
    group = executed.group
    of_instruction = group.static.astype(np.int64)
    at = np.flatnonzero(executed.kinds[of_instruction] != 0)
    event = of_instruction[at[np.searchsorted(at, np.arange(len(of_instruction)))]]
    place, stall, cause = _stalls(executed, static)
    size = len(static)
    # What an instruction makes its warp wait by itself, whoever needs its result.
    own = executed.timing.issue_cycles[of_instruction] - 1.0
    taken = np.flatnonzero(of_instruction[1:] != of_instruction[:-1] + 1)
    own[taken] += executed.timing.taken_cycles[of_instruction[taken]]
    return Gaps(
        _pairs(event, of_instruction, np.ones(len(event)), size),
        _pairs(
            np.concatenate((event[place], event)),
            np.concatenate((cause, of_instruction)),
            np.concatenate((stall, own)),
            size,
        ),
        _pairs(event, of_instruction, executed.shared_cycles, size),
    )


def _pairs(event: Any, instruction: Any, amount: Any, size: int) -> Pairs:
    keys, which = np.unique(event * size + instruction, return_inverse=True)
    return Pairs(keys // size, keys % size, np.bincount(which, amount, len(keys)).astype(np.float64, copy=False))


def _stalls(executed: Executed, static: StaticTable) -> tuple[Any, Any, Any]:
    """(Execution that waits, cycles, static instruction that it waits for), as if memory took no time."""
    from ._profile_kernels import warp_intervals

    found: list[tuple[Any, Any, Any]] = []
    group = executed.group
    for first, last in zip(group.start[:-1].tolist(), group.start[1:].tolist(), strict=True):
        end, cause = np.empty(last - first + 1, dtype=np.int64), np.empty(last - first + 1, dtype=np.int64)
        stall = np.empty(last - first + 1)
        count = warp_intervals(
            group.static[first:last].copy(),  # what a file maps is read-only
            executed.timing.latencies,
            static.destinations,
            static.destination_offsets,
            static.sources,
            static.source_offsets,
            1.0,
            0.0,
            end,
            stall,
            cause,
        )
        found.append((first + end[: count - 1], stall[: count - 1], cause[: count - 1]))
    return tuple(np.concatenate(column) for column in zip(*found, strict=True))  # type: ignore[return-value]
