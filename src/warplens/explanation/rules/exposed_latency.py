"""Loops that wait for each load before they issue the next: latency that nothing hides."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...traces.rewrite import barrier_phases
from ..rule import Finding, InTriton, Rule
from ..scene import Scene

#: Part of the time that warps must wait for loads, and how full a resource may be beside it.
WAITS, FULL = 0.2, 0.8
#: Loads that a warp should have in flight; with a barrier in the loop, those of one iteration ahead.
IN_FLIGHT, BUFFERED = 4, 1
_MEMORY = ("L1", "L2", "DRAM")


def look(scene: Scene) -> Iterable[Finding]:
    waits = sum(scene.share(name) for name in _MEMORY)
    busiest = max(scene.busy(name) for name in ("issue", "units", "L1", "NoC_SM", "NoC", "DRAM"))
    loads = scene.kind("load_global", "load_local", "mem")
    repeated = loads & (scene.executions > scene.warps)
    if waits < WAITS or busiest > FULL or not repeated.any():
        return
    free = repeated & ~scene.chased
    if not free.any():
        return
    in_flight = scene.accesses_per_wait(free)
    barriers = meet_barriers(scene, free)
    ahead = BUFFERED if barriers else int(np.ceil(IN_FLIGHT / in_flight)) - 1
    if ahead < 1:
        return
    stuck = np.unique(scene.static.line[repeated & scene.chased & (scene.static.line > 0)])
    also = f"; the load of line {stuck[0]} chases pointers and cannot be issued earlier" if len(stuck) else ""
    weights = np.where(free, scene.executions * latency(scene), 0.0)
    yield Finding(
        text=(
            f"Exposed latency: warps wait for loads for {100 * waits:.0f} % of the time while no resource is more "
            f"than {100 * busiest:.0f} % busy; a loop issues {in_flight:.1f} loads before it uses the first{also}."
        ),
        removal=lambda seen: seen.with_option(ahead=ahead),
        weights=weights,
        remedy=(
            "Use two buffers in shared memory and fetch the next tile (cp.async, __pipeline_memcpy_async) while "
            "the present one is worked on."
            if barriers
            else ""
        ),
        cost="The second buffer doubles the tile's shared memory." if barriers else "",
    )


def meet_barriers(scene: Scene, chosen: NDArray[np.bool_]) -> bool:
    """Whether a loop of such loads has barriers too: most warps meet one before their last turn."""
    group = scene.sample
    phase = barrier_phases(group, scene.kind("barrier")[group.static])
    warp = np.repeat(np.arange(len(group)), np.diff(group.start))
    mine = np.flatnonzero(chosen[group.static])
    of = warp[mine] * len(scene.static) + group.static[mine]
    order = np.argsort(of, kind="stable")
    begins = np.flatnonzero(np.diff(of[order], prepend=-1))
    first, last = (ends.reduceat(phase[mine][order], begins) for ends in (np.minimum, np.maximum))
    return bool(2 * (last > first).sum() > len(begins))


def latency(scene: Scene) -> NDArray[np.float64]:
    """Cycles of a load, by where the caches found its data."""
    gpu = scene.gpu.with_defaults
    llc = float(gpu.llc.latency_cycles)
    beyond = float(gpu.dram.latency_cycles or 0.0)
    found: NDArray[np.float64] = scene.misses.levels @ np.array([float(gpu.l1.latency_cycles), llc, llc + beyond])
    return found


RULE = Rule(
    name="exposed-latency",
    title="loops that wait for one load before they issue the next",
    look=look,
    remedy=(
        "Unroll the loop by 4 (#pragma unroll 4) with the loads of all four iterations first, or load the next "
        "iteration's values into registers before using this one's. __restrict__ lets the compiler do it."
    ),
    cost="Each load in flight holds a register.",
    benefits=("B_memlp",),
    in_triton=InTriton(
        "Raise num_stages, so that loads of later iterations begin early (in this loop alone: tl.range(…, "
        "num_stages=4)), or let an iteration load a larger BLOCK.",
        "Stages take shared memory, a larger BLOCK takes registers.",
    ),
)
