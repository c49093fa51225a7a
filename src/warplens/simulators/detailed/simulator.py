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
from ...workload import Workload, adapted, resident
from . import _records as records
from ._records import MachineState, TraceWindow
from .config import simulator_config
from .result import DetailedResult, profile_of, result_of
from .state import follow_window, new_state, oldest_block
from .window import instruction_table, slide, trace_windows

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
    state = new_state(config, len(units), len(workload.trace.static), most_rows)
    groups = trace_windows(workload.trace, int(gpu.l1.line_bytes))
    window: TraceWindow | None = None
    while True:
        window, moved = slide(window, next(groups), oldest_block(state))
        follow_window(state, table.kind, moved)
        end = run(config, window, table, state, blocks)
        if end == records.FINISHED:
            break
        if end == records.STUCK:
            raise SimulationError(
                f"{workload.name}: warps wait for each other in cycle {state.chip['time'][0]:.0f} "
                "(a barrier that some never reach?)"
            )
    return state


def _count_blocks(workload: Workload) -> int:
    assert workload.trace is not None
    return sum(1 + int(np.count_nonzero(np.diff(group.block))) for group in workload.trace.groups() if len(group))
