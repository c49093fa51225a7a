"""What the detailed simulator's kernels read and change: records with named fields, and the constants they hold.

State is arrays of records, one for each warp slot, SM, queue entry, cache line,
request, bank or channel. Kernels change them in place, and the driver moves
what points into the trace when its window slides on.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...analysis._cache_records import BARRIER

NEVER = 1e300
REGISTERS = 256
#: Stands for no register where an instruction names one.
NO_REGISTER = 255

#: Kinds of instructions beside those of the cache simulation: accesses to shared memory, products in the background.
SHARED, PRODUCT = BARRIER + 1, BARRIER + 2

# What an instruction does at an mbarrier: it arrives, waits, or copies what the barrier counts.
NO_PHASE, SIGNAL, AWAIT, COPY = range(4)
# What it does to groups of asynchronous work, as in `async_groups.GroupRole`.
NO_GROUP, STARTS, JOINS, MARKS, AWAITS = range(5)
COPIES, PRODUCTS = range(2)
#: Groups of a kind that are told apart; older ones are counted with later ones.
TURNS = 8
#: Products of a warp that may wait for the tensor cores; no limit is known, and this one is out of reach.
PRODUCTS_OF_WARP = 32

# Scheduling policies.
GREEDY_THEN_OLDEST, ROUND_ROBIN, OLDEST, TWO_LEVEL = range(4)

#: Where a request is when its event is due. No literals: kernels would be compiled for each of them.
AT_BANK, AT_REPLY, AT_SM, FILLED = (np.int32(stage) for stage in range(4))

# How a run ends.
FINISHED, NEEDS_BLOCKS, STUCK = range(3)

# Why an issue slot is empty (`NO_CAUSE`: it is not). The greater, the nearer the warp is to issuing; those that hold
# the load-store unit are equally near. A slot goes to the nearest warp.
NO_CAUSE, NO_WARP, AT_BARRIER, DEPENDENCE, MEMORY, BUSY_UNIT, BUSY_L1, NO_MSHR, BUSY_NETWORK = range(9)
CAUSES = 9

#: Bins of the traffic over time; their width doubles when a run outgrows them.
BINS = 512


class SimulatorConfig(NamedTuple):
    """One machine and how a launch lies on it. Times are cycles."""

    sms: int
    blocks_per_sm: int
    warps_per_block: int
    schedulers: int
    issue_count: int  # instructions that a scheduler issues together, and cycles until it issues again
    issue_period: int
    policy: int
    active_warps: int
    lsu_entries: int
    collectors: int
    l1_stages: int  # lines between the load-store unit and the tags
    l1_sets: int
    l1_ways: int
    l1_weight: int  # of the digits of a line's number in its set
    l1_mshrs: int
    l1_merges: int
    l1_streaming: bool
    l1_write_back: bool
    l1_allocate: bool
    sectors: int
    injection_entries: int
    stores_per_sm: int  # stores and atomics in flight, on average
    llc_banks: int
    llc_sets: int
    llc_ways: int
    llc_mshrs: int
    llc_write_back: bool
    llc_allocate: bool
    channels: int
    dram_entries: int
    l1_latency: float
    shared_latency: float
    hop: float
    dram_latency: float
    sm_flit: float  # how long a flit holds the port of an SM, and of a bank
    bank_flit: float
    transfer_flits: float
    channel_service: float
    blocks: int = 0  # of the launch
    cluster_blocks: int = 1
    cluster_barrier: float = 0.0  # from the last arrival at a cluster's barrier until warps go on; 0: there is none
    bulk_entries: int = 0  # accesses of bulk copies that wait; 0 without such copies
    phased: bool = False  # there are waits at mbarriers
    grouped: bool = False  # there are waits for groups


class InstructionTable(NamedTuple):
    """Static instructions: kind, pipeline, λ and Λ, registers."""

    kind: Any
    unit: Any
    interval: Any
    latency: Any
    destinations: Any
    destination_offsets: Any
    sources: Any
    source_offsets: Any
    phase: Any  # what it does at an mbarrier
    role: Any  # what it does to groups, their kind, and how many of the last a wait leaves under way
    group: Any
    staying: Any
    bulk: Any  # whether the copy engine does it
    clustered: Any  # whether a barrier is the cluster's
    accumulator: Any  # register of a product in the background
    reads: Any  # cycles that its operands take of the port of shared memory


class TraceWindow(NamedTuple):
    """Consecutive thread blocks of the trace; `first_block` is the number of the first one."""

    first_block: int
    block_start: Any
    start: Any
    static: Any
    event_start: Any
    line_start: Any
    line_id: Any
    line_words: Any
    shared_start: Any
    shared_degree: Any
    step_start: Any  # where the steps at mbarriers of each warp begin
    step_phase: Any  # the phase, of its block, that each is for
    phase_start: Any  # where the phases of each block begin
    phase_signals: Any  # arrivals and copies that complete each


def _record(**fields: Any) -> np.dtype[Any]:
    return np.dtype(list(fields.items()), align=True)


I64, I32, F64, FLAG = np.int64, np.int32, np.float64, np.bool_

WARP_SLOT = _record(
    resident=FLAG,
    finished=FLAG,
    at_barrier=FLAG,
    waits_for_memory=FLAG,
    position=I64,  # next instruction, and the end of the warp's stream
    end=I64,
    next_event=I64,
    next_shared=I64,
    next_step=I64,  # at an mbarrier
    awaits=I64,  # phase that it waits for, or -1
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
    atomics=I64,  # at the LLC
    injected=I64,
    inject_free=F64,
    eject_free=F64,
    entered=F64,  # when a line last entered the pipeline
    bulk_head=I64,
    bulk_count=I64,
    products=I64,  # that wait for the tensor cores
    port_free=F64,  # the port of shared memory
    product_read=FLAG,  # a product was served there last
    awaiting=I64,  # warps at mbarriers
    leaves=FLAG,  # the instruction at the tags has sent something
    blocked=I64,  # what holds the access at the tags
    issued=FLAG,  # in the cycle in which it was last seen
    waits_for=I64,  # since then: LOAD with loads outstanding, STORE if only stores hold warps, else NOTHING
)
SCHEDULER = _record(last=I64, issue_at=F64, cause=I64, held=I64)  # why its slot is empty, and which instruction waits
BLOCK = _record(
    used=FLAG,
    alive=I64,
    waiting=I64,
    number=I64,
    clustered=FLAG,  # the barrier at which its warps wait is the cluster's
    gathered=FLAG,  # all of them are there
    opens=F64,  # when that barrier opens
)
LSU_ENTRY = _record(warp=I64, static=I64, first=I64, last=I64, load=I64, phase=I64)
#: A product that waits for the tensor cores, and the turn of its group.
PRODUCT_ENTRY = _record(warp=I64, static=I64, turn=I64)
#: The tensor core beside a scheduler: products that wait for it, and when it is free.
TENSOR_CORE = _record(head=I64, count=I64, free=F64)
#: What has to happen until a phase is complete, or a group is done; and when the last of it did.
PENDING = _record(left=I64, ready=F64)
L1_STAGE = _record(line=I64, warp=I64, static=I64, load=I64, last=FLAG, at=F64)
LOAD_IN_FLIGHT = _record(
    warp=I64,
    static=I64,
    left=I64,
    ready=F64,
    leaves=FLAG,  # what became of it: something had to leave the SM, and missed the LLC
    missed=FLAG,
    coming=F64,  # part of a miss that was left where another load's brought the data, and of one of the LLC's
    llc_coming=F64,
    phase=I64,  # that counts a bulk copy, or -1
    turn=I64,  # of the group of a copy, or -1
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
EVENT = _record(time=F64, sequence=I64, request=I32, stage=I32)
TRAFFIC = _record(dram=F64, noc=F64)
CHIP = _record(
    time=F64,
    uses=I64,  # of cache lines: the clock of least recently used
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
TOTALS = _record(
    cycles=F64,
    issued=F64,
    l1_accesses=F64,
    l1_misses=F64,
    llc_accesses=F64,
    llc_misses=F64,
    dram_reads=F64,
    dram_writes=F64,
    requests=F64,
    returned=F64,
    load_cycles=F64,  # of all SMs: loads outstanding, and stores that hold warps without them
    store_cycles=F64,
    miss_count=F64,  # L1 misses of loads, and the parts of their latency
    miss_path=F64,
    miss_mshr=F64,
    miss_noc=F64,
    miss_llc=F64,
    miss_dram_queue=F64,
    miss_dram=F64,
)
ROW = _record(age=I64, static=I64, start=F64, done=F64)  # an issue of the first SM


class MachineState(NamedTuple):
    """Everything that changes while the simulator runs."""

    chip: Any
    sms: Any
    schedulers: Any
    units: Any
    blocks: Any
    warps: Any
    registers: Any
    lsu: Any
    bulk: Any
    tensor_cores: Any
    products: Any  # that wait for each
    phases: Any  # of each block
    groups: Any  # of each warp, by kind and turn
    marks: Any  # groups that each warp has marked, by kind
    pipe: Any
    loads: Any
    load_pool: Any
    l1: Any
    mshrs: Any
    mshr_loads: Any
    mshr_since: Any  # when each of them came
    requests: Any
    request_pool: Any
    injection: Any  # rings of times: the last entries of finite queues left then
    llc: Any
    banks: Any
    bank_mshrs: Any
    channels: Any
    channel_queue: Any
    events: Any
    totals: Any
    slots: Any  # issue slots by cause
    stalls: Any  # empty slots by the instruction that the held warp would issue (last row: none) and cause
    traffic: Any
    counters: Any  # as in the cache simulation, per static instruction
    arrivals: Any  # likewise; crowds are not counted
    rows: Any
    row_of: Any  # of the last issue of each instruction by each warp slot of the first SM
