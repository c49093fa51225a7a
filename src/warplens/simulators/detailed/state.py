"""The initial state of a machine, and the parts of the state that move with the window over the trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...analysis._cache_records import ARRIVALS, COUNTERS
from . import _records as records
from ._records import CAUSES, I64, MachineState, SimulatorConfig, TraceWindow


def new_state(config: SimulatorConfig, units: int, instructions: int, most_rows: int = 0) -> MachineState:
    """An idle machine for a program with `instructions` static instructions; it records the first issues of SM 0."""
    sms, mshrs, banks, channels = config.sms, config.l1_mshrs, config.llc_banks, config.channels
    slots = config.blocks_per_sm * config.warps_per_block
    # An atomic that exceeds the store limit may follow a dirty line; a fill that evicts a dirty line holds both.
    requests = sms * (mshrs + config.stores_per_sm) + 2
    # Loads and atomics in flight: each has a line in the queue, the pipeline, an MSHR or the network.
    places = config.lsu_entries + config.bulk_entries + config.l1_stages
    loads = sms * (places + mshrs * config.l1_merges + config.stores_per_sm)
    products = -(-slots // config.schedulers) * records.PRODUCTS_OF_WARP
    state = MachineState(
        chip=np.zeros(1, records.CHIP),
        sms=np.zeros(sms, records.SM),
        schedulers=np.zeros((sms, config.schedulers), records.SCHEDULER),
        units=np.zeros((sms, max(units, 1))),
        blocks=np.zeros((sms, config.blocks_per_sm), records.BLOCK),
        warps=np.zeros((sms, slots), records.WARP_SLOT),
        registers=np.zeros((sms, slots, records.REGISTERS)),
        lsu=np.zeros((sms, config.lsu_entries), records.LSU_ENTRY),
        bulk=np.zeros((sms, max(config.bulk_entries, 1)), records.LSU_ENTRY),
        tensor_cores=np.zeros((sms, config.schedulers), records.TENSOR_CORE),
        products=np.zeros((sms, config.schedulers, products if config.grouped else 1), records.PRODUCT_ENTRY),
        phases=np.zeros((sms, config.blocks_per_sm, 1), records.PENDING),
        groups=np.zeros((sms, slots, 2, records.TURNS) if config.grouped else (1, 1, 1, 1), records.PENDING),
        marks=np.zeros((sms, slots, 2) if config.grouped else (1, 1, 1), I64),
        pipe=np.zeros((sms, config.l1_stages), records.L1_STAGE),
        loads=np.zeros(loads, records.LOAD_IN_FLIGHT),
        load_pool=np.arange(loads),
        l1=np.zeros(max(sms * config.l1_sets * config.l1_ways, 1), records.LINE),
        mshrs=np.zeros((sms, mshrs), records.MSHR),
        mshr_loads=np.zeros((sms, mshrs, config.l1_merges), I64),
        mshr_since=np.zeros((sms, mshrs, config.l1_merges)),
        requests=np.zeros(requests, records.REQUEST),
        request_pool=np.arange(requests),
        injection=np.zeros((sms, config.injection_entries)),
        llc=np.zeros(banks * config.llc_sets * config.llc_ways, records.LINE),
        banks=np.zeros(banks, records.BANK),
        bank_mshrs=np.zeros((banks, config.llc_mshrs)),
        channels=np.zeros(channels, records.CHANNEL),
        channel_queue=np.zeros((channels, config.dram_entries)),
        events=np.zeros(requests + 1, records.EVENT),
        totals=np.zeros(1, records.TOTALS),
        slots=np.zeros(CAUSES),
        stalls=np.zeros((instructions + 1, CAUSES)),
        traffic=np.zeros(records.BINS, records.TRAFFIC),
        counters=np.zeros(instructions, COUNTERS),
        arrivals=np.zeros(instructions, ARRIVALS),
        rows=np.zeros(most_rows, records.ROW),
        row_of=np.full((slots, instructions) if most_rows else (1, 1), -1),
    )
    state.l1["tag"] = state.llc["tag"] = state.mshrs["line"] = -1
    state.schedulers["last"] = -1
    state.schedulers["cause"] = records.NO_WARP
    state.schedulers["held"] = instructions
    state.sms["seen"] = state.sms["entered"] = -1.0
    state.warps["awaits"] = -1
    state.chip["loads_free"] = loads
    state.chip["requests_free"] = requests
    state.chip["bin_cycles"] = 64.0
    assert config.sectors <= 32
    return state


def oldest_block(state: MachineState) -> int:
    """Index of the first block that the simulator still needs."""
    live = state.blocks["number"][state.blocks["used"]]
    return int(min(live.min(initial=np.iinfo(np.int64).max), state.chip["next_block"][0]))


def follow_window(state: MachineState, window: TraceWindow, kind: Any, moved: dict[str, int]) -> MachineState:
    """Shift everything that points into the window; a state with room for the phases of its blocks."""
    state.warps["position"] -= moved["instruction"]
    state.warps["end"] -= moved["instruction"]
    state.warps["next_event"] -= moved["event"]
    state.warps["next_shared"] -= moved["shared"]
    state.warps["next_step"] -= moved["step"]
    state.pipe["line"] -= moved["line"]
    points = kind[state.lsu["static"]] != records.SHARED  # a shared access stores its conflict degree there
    for name in ("first", "last"):
        state.lsu[name] -= np.where(points, moved["line"], 0)
        state.bulk[name] -= moved["line"]
    before = state.phases.shape[-1]
    more = int(np.diff(window.phase_start).max(initial=0)) - before
    if more > 0:
        state = state._replace(phases=np.pad(state.phases, ((0, 0), (0, 0), (0, more))))
    return state
