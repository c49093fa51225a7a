"""Everything that changes while the reference simulator runs, as arrays of records.

One record per warp slot, SM, queue entry, cache line, request, bank or channel:
compiled code reads them in place, and the driver can move what refers to the
trace when it slides its window over it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...analysis._cache_records import ARRIVALS, COUNTERS
from . import _layout as k
from ._layout import REGISTERS


def _record(**fields: Any) -> np.dtype[Any]:
    return np.dtype(list(fields.items()), align=True)


I64, F64, FLAG = np.int64, np.float64, np.bool_

WARP = _record(
    resident=FLAG,
    finished=FLAG,
    at_barrier=FLAG,
    waits_for_memory=FLAG,
    position=I64,  # next instruction, and the end of the warp's stream
    end=I64,
    next_event=I64,
    next_shared=I64,
    age=I64,
    block=I64,
    in_flight=I64,  # memory instructions and stores that are not back
    try_at=F64,  # no use looking at it before
)
SM = _record(
    wake=F64,
    seen=F64,
    lsu_head=I64,
    lsu_count=I64,
    lsu_free=F64,
    pipe_head=I64,
    pipe_count=I64,
    mshrs_used=I64,
    injected=I64,
    inject_free=F64,
    eject_free=F64,
    leaves=FLAG,  # the instruction at the tags has sent something
    blocked=I64,  # why the L1 could not go on (a slot cause)
)
SCHEDULER = _record(last=I64, issue_at=F64, cause=I64, held=I64)  # why its slot is empty, and which instruction waits
BLOCK = _record(used=FLAG, alive=I64, waiting=I64, number=I64)
LSU = _record(warp=I64, static=I64, first=I64, last=I64, load=I64)
PIPE = _record(line=I64, warp=I64, static=I64, load=I64, last=FLAG, at=F64)
LOAD = _record(
    warp=I64,
    static=I64,
    left=I64,
    ready=F64,
    leaves=FLAG,  # what became of it: something had to leave the SM, and missed the LLC
    missed=FLAG,
    coming=F64,  # part of a miss that was left where another load's brought the data, and of one of the LLC's
    llc_coming=F64,
)
LINE = _record(tag=I64, valid=I64, written=I64, used=I64, reserved=FLAG, fill=F64, span=F64)
MSHR = _record(line=I64, sectors=I64, count=I64)
REQUEST = _record(
    sm=I64,
    line=I64,
    words=I64,
    what=I64,
    owner=I64,  # MSHR of a load, warp slot of a store or atomic
    load=I64,
    static=I64,
    dirty=FLAG,  # a line that leaves an L1, not the access that makes it
    issued=F64,
    noc_wait=F64,
    bank_wait=F64,
    dram_wait=F64,
    dram=F64,
)
BANK = _record(in_free=F64, out_free=F64, free=F64, misses=I64, requests=I64, transfers=I64)
CHANNEL = _record(free=F64, count=I64)
EVENT = _record(time=F64, sequence=I64, value=I64)
GLOBAL = _record(
    time=F64,
    clock=I64,
    sequence=I64,
    events=I64,
    loads_free=I64,
    requests_free=I64,
    stores_flying=I64,
    starved=FLAG,
    next_block=I64,
    dispatched=I64,
    finished_blocks=I64,
    first_sm=I64,
    bin_cycles=F64,
    rows=I64,
)
ROW = _record(age=I64, static=I64, start=F64, done=F64)  # an issue of the first SM


class State(NamedTuple):
    warps: Any
    registers: Any
    sms: Any
    schedulers: Any
    units: Any
    blocks: Any
    lsu: Any
    pipe: Any
    loads: Any
    load_pool: Any
    l1: Any
    mshrs: Any
    mshr_loads: Any
    mshr_since: Any  # when each of them came
    requests: Any
    request_pool: Any
    inject_ring: Any
    llc: Any
    banks: Any
    bank_ring: Any
    channels: Any
    channel_ring: Any
    heap: Any
    glob: Any
    totals: Any
    traffic: Any
    counters: Any  # as in the cache simulation, per static instruction
    arrivals: Any  # likewise; crowds are not counted
    stalls: Any  # empty slots by the instruction that the held warp would issue (last row: none) and cause
    rows: Any
    row_of: Any  # of the last issue of each instruction by each warp slot of the first SM


def new_state(integers: Any, floats: Any, units: int, instructions: int, most_rows: int = 0) -> State:
    """An empty machine for a program of some static instructions; the first issues of SM 0 are recorded."""

    sms, blocks = int(integers[k.I_SMS]), int(integers[k.I_BLOCKS_PER_SM])
    slots = blocks * int(integers[k.I_WARPS_PER_BLOCK])
    mshrs, sectors = int(integers[k.I_L1_MSHRS]), int(integers[k.I_SECTORS])
    l1_lines = max(sms * int(integers[k.I_L1_SETS] * integers[k.I_L1_WAYS]), 1)
    banks, channels = int(integers[k.I_LLC_BANKS]), int(integers[k.I_CHANNELS])
    llc_lines = banks * int(integers[k.I_LLC_SETS] * integers[k.I_LLC_WAYS])
    # An atomic that passes the limit of stores may have a dirty line before it; a fill that evicts one holds both.
    requests = sms * mshrs + sms * int(integers[k.I_STORES]) + 2
    # Loads and atomics in flight: each has a line in the queue, the pipeline, an MSHR or the network.
    flying = mshrs * int(integers[k.I_L1_MERGES]) + int(integers[k.I_STORES])
    loads = sms * (int(integers[k.I_LSU_QUEUE]) + int(integers[k.I_PIPE]) + flying)
    state = State(
        warps=np.zeros((sms, slots), WARP),
        registers=np.zeros((sms, slots, REGISTERS)),
        sms=np.zeros(sms, SM),
        schedulers=np.zeros((sms, int(integers[k.I_SCHEDULERS])), SCHEDULER),
        units=np.zeros((sms, max(units, 1))),
        blocks=np.zeros((sms, blocks), BLOCK),
        lsu=np.zeros((sms, int(integers[k.I_LSU_QUEUE])), LSU),
        pipe=np.zeros((sms, int(integers[k.I_PIPE])), PIPE),
        loads=np.zeros(loads, LOAD),
        load_pool=np.arange(loads),
        l1=np.zeros(l1_lines, LINE),
        mshrs=np.zeros((sms, mshrs), MSHR),
        mshr_loads=np.zeros((sms, mshrs, int(integers[k.I_L1_MERGES])), I64),
        mshr_since=np.zeros((sms, mshrs, int(integers[k.I_L1_MERGES]))),
        requests=np.zeros(requests, REQUEST),
        request_pool=np.arange(requests),
        inject_ring=np.zeros((sms, int(integers[k.I_NOC_QUEUE]))),
        llc=np.zeros(llc_lines, LINE),
        banks=np.zeros(banks, BANK),
        bank_ring=np.zeros((banks, int(integers[k.I_LLC_MSHRS]))),
        channels=np.zeros(channels, CHANNEL),
        channel_ring=np.zeros((channels, int(integers[k.I_DRAM_QUEUE]))),
        heap=np.zeros(requests + 1, EVENT),
        glob=np.zeros(1, GLOBAL),
        totals=np.zeros(k.TOTALS),
        traffic=np.zeros((2, k.BINS)),
        counters=np.zeros(instructions, COUNTERS),
        arrivals=np.zeros(instructions, ARRIVALS),
        stalls=np.zeros((instructions + 1, k.SLOTS)),
        rows=np.zeros(most_rows, ROW),
        row_of=np.full((slots, instructions) if most_rows else (1, 1), -1),
    )
    state.l1["tag"] = state.llc["tag"] = state.mshrs["line"] = -1
    state.schedulers["last"] = -1
    state.schedulers["cause"] = k.T_SLOT_IDLE
    state.schedulers["held"] = instructions
    state.sms["seen"] = -1.0
    state.glob["loads_free"] = loads
    state.glob["requests_free"] = requests
    state.glob["bin_cycles"] = 64.0
    assert sectors <= 32
    return state
