"""A launch on a machine, cycle by cycle: SMs with schedulers and scoreboard, L1 with MSHRs, NoC, LLC and DRAM.

Unloaded latencies equal the machine's: an L1 hit takes the L1 pipeline, an L2 hit
`llc.latency_cycles`, and a DRAM access `dram.latency_cycles` more. Ports carry
32-byte flits. A read request is one flit; a write has one per 32 bytes touched,
plus one for its address unless it writes the full line; a read reply carries the
data; a write acknowledgement is one flit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...errors import InputError, SimulationError
from ...machine import Gpu
from ...traces import StaticTable
from ...workload import Workload, adapted, resident
from . import _records as records
from ._records import MachineState, TraceWindow
from .config import simulator_config, with_background
from .instructions import instruction_table
from .result import DetailedResult, profile_of, result_of
from .state import follow_window, new_state, oldest_block
from .window import slide, trace_windows

#: Most issues in a recorded profile.
MOST_ROWS = 20_000


def simulate_detailed(workload: Workload, gpu: Gpu, *, record: bool = False) -> DetailedResult:
    """Simulate a traced launch on one machine; `record` keeps the first issues of one SM."""
    if workload.trace is None:
        raise InputError(
            f"{workload.path or workload.name}: the detailed simulator needs a trace (.wlt or Accel-Sim)"
        )
    state = final_state(workload, gpu, MOST_ROWS if record else 0)
    result = result_of(workload, gpu, state)
    if not record:
        return result
    assert workload.trace is not None
    return replace(result, profile=profile_of(workload.trace.static, gpu, state))


def final_state(workload: Workload, gpu: Gpu, most_rows: int = 0) -> MachineState:
    """The machine after the launch, with all totals."""
    from ._kernels import run

    assert workload.trace is not None

    needed_by = "the detailed simulator"
    blocks = _count_blocks(workload)
    if not blocks:
        raise InputError(f"{workload.path or workload.name}: the trace holds no thread blocks")
    gpu = adapted(gpu, workload.launch)
    residency = resident(workload.launch, gpu)
    config = simulator_config(gpu, residency, needed_by)
    table, units = instruction_table(workload.trace.static, gpu, needed_by)
    config = with_background(config, table, workload.trace.header, blocks, gpu, needed_by)
    state = new_state(config, len(units), len(workload.trace.static), most_rows)
    groups = trace_windows(workload.trace, int(gpu.l1.line_bytes))
    window: TraceWindow | None = None
    while True:
        window, moved = slide(window, next(groups), oldest_block(state))
        state = follow_window(state, window, table.kind, moved)
        end = run(config, window, table, state, blocks)
        if end == records.FINISHED:
            break
        if end == records.STUCK:
            raise SimulationError(
                f"{workload.name}: warps wait for each other in cycle {state.chip['time'][0]:.0f} "
                f"({_what_is_missing(state, window, workload.trace.static)})"
            )
    return state


def _what_is_missing(state: MachineState, window: TraceWindow, static: StaticTable) -> str:
    """What warps wait for that does not come."""
    waiting = np.argwhere(state.warps["resident"] & (state.warps["awaits"] >= 0))
    if not len(waiting):
        return "a barrier that some never reach?"
    sm, slot = waiting[0].tolist()
    warp = state.warps[sm, slot]
    block = state.blocks[sm, warp["block"]]
    left = state.phases[sm, warp["block"], warp["awaits"]]["left"]
    wait = int(window.static[warp["position"] - 1])
    line = f" in line {static.line[wait]}" if static.line[wait] else ""
    number = slot % (state.warps.shape[1] // state.blocks.shape[1])
    return (
        f"warp {number} of thread block {block['number']} waits at an mbarrier{line} for {left} "
        f"{'arrival or copy' if left == 1 else 'arrivals and copies'} that the trace does not have in that phase; "
        f"{len(waiting)} such {'warp' if len(waiting) == 1 else 'warps'} in all"
    )


def _count_blocks(workload: Workload) -> int:
    assert workload.trace is not None
    return sum(1 + int(np.count_nonzero(np.diff(group.block))) for group in workload.trace.groups() if len(group))
