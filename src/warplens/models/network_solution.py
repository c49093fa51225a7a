"""Solutions of the network for the machines of a batch, each in its own order of service or in that of another."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _network_records as k
from .base import Array
from .network import Demand

#: What a machine has in common with the one whose order of service it follows: policies and numbers of warps.
SHAPE = ("greedy", "in_order", "most_blocks", "blocks_per_sm", "warps_per_block")
#: Times of its memory, and factors on them: who is served first differs between a fast memory and a slow one.
TIMES = ("l1_latency", "llc_latency", "dram_latency", "dram_service", "dram_queue", "bank", "channel")
ORDERS = (0.5, 2.0)
NO_SCRIPT = np.zeros(0, k.STEP)
#: Cycles of each machine, waits of its warps by cause, and cycles that its resources are busy.
Solved = tuple[Array, Array, Array]
#: The network is solved again if its cycles exceed the cache simulation's estimate by this factor.
SLOWER = 1.1


def most_blocks(blocks: Array, held: Array, sms: Array) -> Array:
    """Blocks of the SM that has most, from the mean of the SMs and the number that one holds at a time.

    Blocks that fit at a time are dealt out evenly. Those that do not fill the last wave go where a place gets free
    first, which may be any. The median of the largest number counts.
    """
    full = np.floor(blocks / held + 1e-9) * held
    taken = np.clip((blocks - full) / held, 0.0, 1.0 - 1e-12)
    exactly, at_most = (1.0 - taken) ** held, np.zeros_like(taken)
    most = np.ceil(blocks - 1e-9)
    for more in range(1, int(np.max(held)) + 1):
        at_most = at_most + exactly
        exceeded = (full > 0.0) & (more <= held) & (at_most**sms < 0.5)
        most = np.where(exceeded, np.maximum(most, full + more), most)
        exactly = exactly * (held - more + 1) / more * taken / (1.0 - taken)
    return most.astype(np.int64)


def solve_all(demand: Demand, machines: Any, named: Any) -> Solved:
    """What every machine does; those with as many warps as the machine as `named` keep to its orders of service."""
    if named is not None and len(named) > 1:
        return _solve_each(demand, machines, named)
    follows = np.zeros(len(machines), dtype=bool)
    if named is not None:
        follows = np.all([np.ceil(machines[name] - 1e-9) == np.ceil(named[name] - 1e-9) for name in SHAPE], axis=0)
    found = new_solved(len(machines))
    for rows in (follows, ~follows):
        if rows.any():
            chosen = machines[rows]
            solved = _changed(demand, chosen, named) if rows is follows else solve_own(demand, chosen)
            for whole, part in zip(found, solved, strict=True):
                whole[rows] = part
    np.maximum(found[0], np.maximum(found[2].max(axis=1), 1.0), out=found[0])  # nothing is busy for longer
    return found


def _solve_each(demand: Demand, machines: Any, named: Any) -> Solved:
    """What every machine does where each has its own machine as named, because their launches differ."""
    found = new_solved(len(machines))
    names = np.array([each.tobytes() for each in named])
    for name in np.unique(names):
        rows = np.flatnonzero(names == name)
        for whole, part in zip(found, solve_all(demand, machines[rows], named[rows[:1]]), strict=True):
            whole[rows] = part
    return found


def solve_own(demand: Demand, machines: Any) -> Solved:
    """What each machine does when it serves warps as they come; `arrivals` of machines is set."""
    found = solve_network(demand.stream, machines)
    # The cache simulation counted loads of data in flight, at its own estimate of the run time. In a longer run
    # fewer loads find their data still in flight.
    slower = found[0] > SLOWER * demand.estimated_cycles
    if demand.estimated_cycles > 0.0 and np.any(slower):
        machines["arrivals"][slower] = demand.estimated_cycles / found[0][slower]
        for whole, again in zip(found, solve_network(demand.stream, machines[slower]), strict=True):
            whole[slower] = again
    _bound(demand.stream, machines, found[0])
    return found


def _bound(stream: k.Stream, machines: Any, cycles: Array) -> None:
    """Let no launch take longer than its blocks one after another.

    Warps that find no free place hold up those behind them, and an unlucky order can cost more than none together.
    """
    from ._network_kernels import least_of_blocks

    least = np.empty((len(machines), len(stream.block_start) - 1))
    least_of_blocks(stream, machines, np.empty(np.diff(stream.event_start).max(initial=1)), least)
    ends = np.cumsum(least[:, stream.order], axis=1)
    blocks = machines["most_blocks"]
    rounds, last = np.divmod(blocks - 1, ends.shape[1])
    apart = rounds * ends[:, -1] + ends[np.arange(len(ends)), last]
    doubtful = (np.minimum(machines["blocks_per_sm"], blocks) > 1) & (cycles > apart)
    if doubtful.any():
        one = machines[doubtful]
        one["blocks_per_sm"] = 1
        cycles[doubtful] = np.minimum(cycles[doubtful], solve_network(stream, one)[0])


def _changed(demand: Demand, machines: Any, named: Any) -> Solved:
    """What machines do that differ from the one as `named` in times: its cycles, changed as in a fixed order.

    A machine of its own order may be slower with shorter times, because warps happen to meet elsewhere. In a fixed
    order no time can fall and the sum rise. The better of two orders counts, those of a slow and of a fast memory.
    """
    named["sets"] = machines["sets"][0]  # which the demand depends on
    (cycles,) = solve_own(demand, named)[0]
    machines["arrivals"] = named["arrivals"]
    rows = np.concatenate((named, machines))
    best = new_solved(len(rows))
    best[0][:] = np.inf
    for scale in ORDERS:
        leader, script = named.copy(), k.new_script(demand.stream, named)
        for name in TIMES:
            leader[name] *= scale
        for name in k.NETWORK.names or ():
            leader["network"][name] *= scale
        solve_network(demand.stream, leader, script)
        found = solve_network(demand.stream, rows, script, follows=True)
        better = found[0] < best[0]
        for whole, part in zip(best, found, strict=True):
            whole[better] = part[better]
    best[0][1:] *= cycles / best[0][0]
    _bound(demand.stream, machines, best[0][1:])
    return best[0][1:], best[1][1:], best[2][1:]


def new_solved(count: int) -> Solved:
    return np.empty(count), np.zeros((count, k.CAUSES)), np.zeros((count, k.RESOURCES))


def solve_network(
    stream: k.Stream, machines: Any, script: Any = NO_SCRIPT, *, follows: bool = False, sm: k.Sm | None = None
) -> Solved:
    """What each machine does: as the script says, or on its own, and writes it down."""
    from ._network_kernels import solve

    found = new_solved(len(machines))
    sm = sm or k.new_sm(stream, machines, turns=follows)
    solve(stream, machines, follows, script, sm, k.new_memory(stream, machines, turns=follows), *found)
    return found
