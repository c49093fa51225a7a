"""A launch on a machine, cycle by cycle: SMs with schedulers and scoreboard, L1 with MSHRs, NoC, LLC and DRAM.

Unloaded latencies come out as the machine gives them: an L1 hit after the L1's
pipeline, an LLC hit after `llc.latency_cycles`, a DRAM access
`dram.latency_cycles` later. Ports carry 32-byte flits: a read request is one, a
write one per 32 bytes touched and one for its address unless it is full, a
reply the data, an acknowledgement one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...analysis import MissProfile, instruction_kinds
from ...analysis._cache_records import table_of
from ...analysis.caches import unevenness, written_sectors
from ...categories import CATEGORIES
from ...errors import InputError, MachineError, SimulationError
from ...machine import Gpu
from ...traces import StaticTable
from ...workload import resident
from ...workload.traced import TracedWorkload
from ..pipeline.result import Profile
from . import _layout as k
from .state import State, new_state
from .stream import Stream, make_program, slide, stream_groups

FLIT_BYTES = 32
#: What a machine that does not say is given.
DEFAULT_QUEUE, DEFAULT_MERGES, DEFAULT_NOC_QUEUE, DEFAULT_DRAM_QUEUE, DEFAULT_MSHRS = 8, 8, 64, 64, 128
_POLICIES = {
    "gto": k.GREEDY_THEN_OLDEST,
    "lrr": k.ROUND_ROBIN,
    "rr": k.ROUND_ROBIN,
    "oldest": k.OLDEST,
    "two-level": k.TWO_LEVEL,
}
#: Warps of a scheduler in the active set of the two-level policy.
ACTIVE_WARPS = 8
#: Issues that a recorded profile holds.
MOST_ROWS = 20_000


@dataclass(frozen=True)
class DetailedResult:
    """What the simulator saw. `stack` sums to `cpi`; `miss_latency` is the mean L1 miss, part by part."""

    kernel: str
    launch: int | None
    gpu: str
    overrides: dict[str, Any]
    cycles: float
    seconds: float
    ipc: float
    cpi: float
    stack: dict[str, float]
    miss_latency: dict[str, float]
    l1_miss_ratio: float
    llc_miss_ratio: float
    dram_read_bytes: float
    dram_write_bytes: float
    requests: int
    bin_cycles: float
    dram_bytes_over_time: NDArray[np.float64] = field(repr=False)
    noc_bytes_over_time: NDArray[np.float64] = field(repr=False)
    #: Parts of all issue slots that were empty, by the static instruction that a held warp would have issued next
    #: (last row: none) and category of the stack; waiting for loads is one category, "memory".
    stalled_slots: Mapping[str, NDArray[np.float64]] = field(repr=False, default_factory=dict)
    #: The first issues of one SM, where they were asked for.
    profile: Profile | None = field(repr=False, default=None)
    #: What became of the memory instructions, as the cache simulation gives it; `estimated_cycles` are the simulated.
    misses: MissProfile | None = field(repr=False, default=None)
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        large = ("stalled_slots", "profile", "misses")
        plain = {name: v for name, v in vars(self).items() if name not in large and not isinstance(v, np.ndarray)}
        plain["warnings"] = list(self.warnings)
        return plain | {
            "simulator": "detailed",
            "dram_bytes_over_time": self.dram_bytes_over_time.tolist(),
            "noc_bytes_over_time": self.noc_bytes_over_time.tolist(),
        }


def simulate_detailed(workload: Any, gpu: Gpu, *, record: bool = False) -> DetailedResult:
    """Simulate a traced launch on one machine; with `record` the first issues of one SM are kept."""
    if not isinstance(workload, TracedWorkload) or workload.trace is None:
        raise InputError(
            f"{workload.path or workload.name}: the detailed simulator needs a trace (.wlt or Accel-Sim)"
        )
    state = final_state(workload, gpu, MOST_ROWS if record else 0)
    result = _result(workload, gpu, state)
    if not record:
        return result
    assert workload.trace is not None
    return replace(result, profile=_profile(workload.trace.static, gpu, state))


def final_state(workload: TracedWorkload, gpu: Gpu, most_rows: int = 0) -> State:
    """The machine after the launch, with all totals."""
    from ._kernels import run

    assert workload.trace is not None

    needed_by = "the detailed simulator"
    blocks = _count_blocks(workload)
    if not blocks:
        raise InputError(f"{workload.path or workload.name}: the trace holds no thread blocks")
    residency = resident(workload.launch, gpu)
    integers, floats = _parameters(gpu, residency, needed_by)
    program, units = make_program(workload.trace.static, gpu, needed_by)
    state = new_state(integers, floats, len(units), len(workload.trace.static), most_rows)
    groups = stream_groups(workload.trace, int(gpu.l1.line_bytes))
    window: Stream | None = None
    while True:
        oldest = _oldest_block(state)
        window, moved = slide(window, next(groups), oldest)
        _move(state, program.kind, moved)
        end = run(integers, floats, window, program, state, blocks)
        if end == k.FINISHED:
            break
        if end == k.STUCK:
            raise SimulationError(
                f"{workload.name}: warps wait for each other in cycle {state.glob['time'][0]:.0f} "
                "(a barrier that some never reach?)"
            )
    return state


def _count_blocks(workload: TracedWorkload) -> int:
    assert workload.trace is not None
    return sum(1 + int(np.count_nonzero(np.diff(group.block))) for group in workload.trace.groups() if len(group))


def _oldest_block(state: State) -> int:
    live = state.blocks["number"][state.blocks["used"]]
    return int(min(live.min(initial=np.iinfo(np.int64).max), state.glob["next_block"][0]))


def _move(state: State, kind: Any, moved: dict[str, int]) -> None:
    """Everything that points into the window follows it."""
    state.warps["position"] -= moved["instruction"]
    state.warps["end"] -= moved["instruction"]
    state.warps["next_event"] -= moved["event"]
    state.warps["next_shared"] -= moved["shared"]
    state.pipe["line"] -= moved["line"]
    points = kind[state.lsu["static"]] != k.SHARED  # a shared access keeps its degree there
    for name in ("first", "last"):
        state.lsu[name] -= np.where(points, moved["line"], 0)


def _given(value: Any, default: int) -> int:
    return default if value is None else int(value)


def _issue(gpu: Gpu, needed_by: str) -> tuple[int, int]:
    """(Instructions that a scheduler issues together, cycles until it issues again)."""
    width = float(gpu.issue_width)
    count, period = max(round(width), 1), max(round(1.0 / width), 1)
    if abs(count / period - width) > 1e-6 * width:
        raise MachineError(
            f"machine {gpu.name!r}: issue_width: {width:g}: {needed_by} issues a whole number of instructions "
            "in a cycle, or one in a whole number of cycles"
        )
    return count, period


def _parameters(gpu: Gpu, residency: Any, needed_by: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    integers = np.zeros(k.INTEGERS, dtype=np.int64)
    floats = np.zeros(k.FLOATS)
    line = int(gpu.require("l1.line_bytes", needed_by))
    transfer = int(gpu.transfer_bytes)
    banks = _given(gpu.llc.banks, 1)
    channels = _given(gpu.dram.channels, banks)
    l1_latency = float(gpu.l1.latency_cycles or 1.0)
    mshrs = _given(gpu.noc.queue_entries if gpu.l1.streaming else gpu.l1.mshrs, DEFAULT_MSHRS)
    packets = _given(gpu.noc.injection_entries, DEFAULT_NOC_QUEUE)
    issue_count, issue_period = _issue(gpu, needed_by)
    for index, value in (
        (k.I_SMS, gpu.sms),
        (k.I_BLOCKS_PER_SM, max(int(residency.blocks_per_sm), 1)),
        (k.I_WARPS_PER_BLOCK, int(np.ceil(residency.warps_per_block))),
        (k.I_SCHEDULERS, gpu.schedulers),
        (k.I_ISSUE_COUNT, issue_count),
        (k.I_ISSUE_PERIOD, issue_period),
        (k.I_POLICY, _POLICIES[gpu.scheduler]),
        (k.I_ACTIVE_WARPS, ACTIVE_WARPS),
        (k.I_LSU_QUEUE, _given(gpu.l1.queue_entries, DEFAULT_QUEUE) + 1),  # and the one being served
        (k.I_COLLECTORS, _given(gpu.operand_collectors, np.iinfo(np.int64).max)),
        (k.I_PIPE, max(int(l1_latency), 1)),
        (k.I_L1_SETS, _given(gpu.l1.size_bytes, 0) // (line * _given(gpu.l1.ways, 1))),
        (k.I_L1_WAYS, _given(gpu.l1.ways, 1)),
        (k.I_L1_MSHRS, mshrs),
        (k.I_L1_MERGES, _given(gpu.l1.mshr_merges, DEFAULT_MERGES)),
        (k.I_STREAMING, bool(gpu.l1.streaming)),
        (k.I_SECTORS, line // transfer),
        (k.I_NOC_QUEUE, packets),
        (k.I_STORES, 4 * packets),
        (k.I_LLC_BANKS, banks),
        (k.I_LLC_SETS, max(_given(gpu.llc.size_bytes, line) // (line * _given(gpu.llc.ways, 1) * banks), 1)),
        (k.I_LLC_WAYS, _given(gpu.llc.ways, 1)),
        (k.I_LLC_MSHRS, _given(gpu.llc.mshrs, DEFAULT_MSHRS)),
        (k.I_L1_WRITE_BACK, gpu.l1.writes_back),
        (k.I_L1_ALLOCATE, gpu.l1.allocates_stores),
        (k.I_LLC_WRITE_BACK, gpu.llc.writes_back),
        (k.I_LLC_ALLOCATE, gpu.llc.allocates_stores),
        (k.I_CHANNELS, channels),
        (k.I_DRAM_QUEUE, _given(gpu.dram.queue_entries, DEFAULT_DRAM_QUEUE)),
    ):
        integers[index] = value
    clock = float(gpu.clock_hz)
    noc = float(gpu.require("noc.bandwidth_bytes_per_s", needed_by))
    port = gpu.noc.sm_bandwidth_bytes_per_s
    floats[k.F_BANK_FLIT] = FLIT_BYTES * clock / (noc / banks)
    floats[k.F_SM_FLIT] = FLIT_BYTES * clock / (noc / min(banks, int(gpu.sms)) if port is None else float(port))
    floats[k.F_TRANSFER_FLITS] = transfer / FLIT_BYTES
    flits = 1.0 + floats[k.F_TRANSFER_FLITS]
    in_ports = flits * (floats[k.F_BANK_FLIT] + floats[k.F_SM_FLIT])
    llc_latency = float(gpu.require("llc.latency_cycles", needed_by))
    floats[k.F_HOP] = max((llc_latency - l1_latency - in_ports) / 2.0, 0.0)
    floats[k.F_DRAM_LATENCY] = gpu.dram_latency_cycles_now(needed_by)
    floats[k.F_L1_LATENCY] = l1_latency
    floats[k.F_SHARED_LATENCY] = gpu.timing("load_shared", needed_by).latency_cycles
    floats[k.F_CHANNEL_SERVICE] = gpu.service_cycles_now("dram", needed_by) * channels
    return integers, floats


#: CPI category of each kind of issue slot that is not waiting for a load.
_SLOTS = {
    "BASE": k.T_SLOT_BASE,
    "DEP": k.T_SLOT_DEP,
    "L1": k.T_SLOT_L1,
    "MSHR": k.T_SLOT_MSHR,
    "NOC": k.T_SLOT_NOC,
    "SYNC": k.T_SLOT_SYNC,
    "IDLE": k.T_SLOT_IDLE,
}


#: Causes for which a warp is held, by name.
_HELD = {
    "dependence": k.T_SLOT_DEP,
    "pipeline": k.T_SLOT_UNIT,
    "memory": k.T_SLOT_MEMORY,
    "L1": k.T_SLOT_L1,
    "MSHR": k.T_SLOT_MSHR,
    "NOC": k.T_SLOT_NOC,
    "barrier": k.T_SLOT_SYNC,
}


def _result(workload: TracedWorkload, gpu: Gpu, state: State) -> DetailedResult:
    totals = state.totals
    cycles = float(totals[k.T_CYCLES])
    ipc = float(totals[k.T_ISSUED] / cycles)
    cpi = float(gpu.sms) / ipc
    misses = max(float(totals[k.T_MISS_COUNT]), 1.0)
    latency = {
        "L1": float(gpu.l1.latency_cycles or 0.0),
        "MSHR": float(totals[k.T_MISS_MSHR] / misses),
        "NOC": float(totals[k.T_MISS_NOC] / misses),
        "LLC": float((totals[k.T_MISS_PATH] + totals[k.T_MISS_LLC]) / misses),
        "QUEUE": float(totals[k.T_MISS_DRAM_QUEUE] / misses),
        "DRAM": float(totals[k.T_MISS_DRAM] / misses),
    }
    transfer = float(gpu.transfer_bytes)
    slots = max(float(sum(totals[k.T_SLOT_BASE : k.T_SLOT_IDLE + 1])), 1.0)
    return DetailedResult(
        kernel=workload.name,
        launch=workload.launch_index,
        gpu=gpu.name,
        overrides=dict(gpu.overrides) | dict(workload.launch_overrides),
        cycles=cycles,
        seconds=cycles / float(gpu.clock_hz),
        ipc=ipc,
        cpi=cpi,
        stack=_stack(totals, latency, cpi),
        miss_latency=latency,
        l1_miss_ratio=float(totals[k.T_L1_MISSES] / max(totals[k.T_L1_ACCESSES], 1)),
        llc_miss_ratio=float(totals[k.T_LLC_MISSES] / max(totals[k.T_LLC_ACCESSES], 1)),
        dram_read_bytes=float(totals[k.T_DRAM_READS]) * transfer,
        dram_write_bytes=float(totals[k.T_DRAM_WRITES]) * transfer,
        requests=int(totals[k.T_REQUESTS]),
        bin_cycles=float(state.glob["bin_cycles"][0]),
        dram_bytes_over_time=state.traffic[k.DRAM_TRAFFIC] * transfer,
        noc_bytes_over_time=state.traffic[k.NOC_TRAFFIC] * FLIT_BYTES,
        misses=_misses(workload, gpu, state),
        stalled_slots={name: state.stalls[:, index - k.T_SLOT_BASE] / slots for name, index in _HELD.items()},
    )


def _misses(workload: TracedWorkload, gpu: Gpu, state: State) -> MissProfile:
    assert workload.trace is not None
    sectors = int(gpu.l1.line_bytes) // int(gpu.transfer_bytes)
    dirty = [
        written_sectors(lines["written"] << 32, sectors) if writes_back else 0
        for lines, writes_back in ((state.llc, gpu.llc.writes_back), (state.l1, gpu.l1.writes_back))
    ]
    return MissProfile(
        table_of(state.counters),
        instruction_kinds(workload.trace.static),
        int(gpu.transfer_bytes),
        dirty[0],
        "simulated",
        float(state.totals[k.T_CYCLES]),
        dirty[1],
        unevenness(state.banks["requests"]),
        unevenness(state.banks["transfers"]),
        table_of(state.arrivals),
    )


def _profile(static: StaticTable, gpu: Gpu, state: State) -> Profile:
    """Recorded issues, warps numbered in the order in which they came to the SM."""
    program, units = make_program(static, gpu, "the detailed simulator")
    pipelines = (*units, "memory", "shared memory", "barrier")
    special = {k.BARRIER: 2, k.SHARED: 1}
    lane = np.array([u if what == k.NOTHING else len(units) + special.get(int(what), 0)
                     for u, what in zip(program.unit, program.kind, strict=True)], dtype=np.int64)  # fmt: skip
    rows = state.rows[: int(state.glob["rows"][0])]
    used, place = np.unique(lane[rows["static"]], return_inverse=True)
    held = np.where(program.kind[rows["static"]] == k.NOTHING, program.interval[rows["static"]], 1.0)
    return Profile(
        tuple(pipelines[index] for index in used.tolist()),
        np.unique(rows["age"], return_inverse=True)[1].astype(np.int64).ravel(),
        rows["static"].copy(),
        tuple(static.opcode[index] for index in rows["static"].tolist()),
        place.ravel().astype(np.int64),
        rows["start"].copy(),
        rows["start"] + held,
        np.maximum(rows["done"], rows["start"] + held),
        np.full(len(rows), -1, dtype=np.int64),
        1,
        complete=len(rows) < len(state.rows),
    )


def _stack(totals: Any, latency: dict[str, float], cpi: float) -> dict[str, float]:
    """Issue slots by cause. Slots in which all warps wait for loads are split as the mean L1 miss is.

    Slots lost to busy pipelines count as dependences: the machine has too little to issue elsewhere.
    """
    slots = {name: float(totals[index]) for name, index in _SLOTS.items()}
    slots["DEP"] += float(totals[k.T_SLOT_UNIT])
    waiting, whole = float(totals[k.T_SLOT_MEMORY]), sum(latency.values())
    if totals[k.T_MISS_COUNT] == 0:
        slots["L1"] += waiting
    else:
        for name, part in latency.items():
            category = "L2" if name == "LLC" else name
            slots[category] = slots.get(category, 0.0) + waiting * part / whole
    total = sum(slots.values())
    return {name: cpi * slots.get(name, 0.0) / total for name in CATEGORIES}
