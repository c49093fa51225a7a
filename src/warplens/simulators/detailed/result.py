"""The result of the detailed simulator: cycles, CPI stack, misses, traffic and recorded issues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...analysis import MissProfile, instruction_kinds
from ...analysis._cache_records import BARRIER, NOTHING, table_of
from ...analysis.caches import unevenness, written_sectors
from ...categories import CATEGORIES
from ...machine import Gpu
from ...traces import StaticTable
from ...workload import Workload
from ..pipeline.result import Profile
from . import _records as records
from ._records import MachineState
from .config import FLIT_BYTES
from .instructions import instruction_table

#: CPI category of each kind of issue slot that is not waiting for a load.
_CATEGORY_CAUSES = {
    "BASE": records.NO_CAUSE,
    "DEP": records.DEPENDENCE,
    "L1": records.BUSY_L1,
    "MSHR": records.NO_MSHR,
    "NOC": records.BUSY_NETWORK,
    "SYNC": records.AT_BARRIER,
    "IDLE": records.NO_WARP,
}
#: Reasons why a warp cannot issue, by name.
_HELD = {
    "dependence": records.DEPENDENCE,
    "pipeline": records.BUSY_UNIT,
    "memory": records.MEMORY,
    "L1": records.BUSY_L1,
    "MSHR": records.NO_MSHR,
    "NOC": records.BUSY_NETWORK,
    "barrier": records.AT_BARRIER,
}


@dataclass(frozen=True)
class DetailedResult:
    """Result of a simulation. `stack` sums to `cpi`; `miss_latency` is the mean L1 miss latency by component."""

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
    load_share: float
    """Of the SMs' cycles: those with loads outstanding."""
    store_stall_share: float
    """Of the SMs' cycles: those without, in which stores alone hold warps."""
    bin_cycles: float
    dram_bytes_over_time: NDArray[np.float64] = field(repr=False)
    noc_bytes_over_time: NDArray[np.float64] = field(repr=False)
    #: Empty issue slots as fractions of all slots, by the static instruction that a stalled warp would issue next
    #: (last row: none) and by stack category. Waiting for loads is one category, "memory".
    stalled_slots: Mapping[str, NDArray[np.float64]] = field(repr=False, default_factory=dict)
    #: The first issues of one SM, if recorded.
    profile: Profile | None = field(repr=False, default=None)
    #: Hits and misses in the form of the cache simulation; `estimated_cycles` are the simulated cycles.
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


def result_of(workload: Workload, gpu: Gpu, state: MachineState) -> DetailedResult:
    """The result of a launch, from the state of the machine after it."""
    totals, transfer = state.totals[0], float(gpu.transfer_bytes)
    cycles = float(totals["cycles"])
    ipc = float(totals["issued"] / cycles)
    cpi = float(gpu.sms) / ipc
    latency = _miss_latency(gpu, totals)
    slots = max(float(state.slots.sum()), 1.0)
    return DetailedResult(
        kernel=workload.name,
        launch=workload.launch_index,
        gpu=gpu.name,
        overrides=dict(gpu.overrides) | dict(workload.launch_overrides),
        cycles=cycles,
        seconds=cycles / float(gpu.clock_hz),
        ipc=ipc,
        cpi=cpi,
        stack=_stack(state, latency, cpi),
        miss_latency=latency,
        l1_miss_ratio=float(totals["l1_misses"] / max(totals["l1_accesses"], 1)),
        llc_miss_ratio=float(totals["llc_misses"] / max(totals["llc_accesses"], 1)),
        dram_read_bytes=float(totals["dram_reads"]) * transfer,
        dram_write_bytes=float(totals["dram_writes"]) * transfer,
        requests=int(totals["requests"]),
        load_share=float(totals["load_cycles"] / (cycles * gpu.sms)),
        store_stall_share=float(totals["store_cycles"] / (cycles * gpu.sms)),
        bin_cycles=float(state.chip["bin_cycles"][0]),
        dram_bytes_over_time=state.traffic["dram"] * transfer,
        noc_bytes_over_time=state.traffic["noc"] * FLIT_BYTES,
        misses=_misses(workload, gpu, state),
        stalled_slots={name: state.stalls[:, cause] / slots for name, cause in _HELD.items()},
    )


def _miss_latency(gpu: Gpu, totals: Any) -> dict[str, float]:
    """Mean L1 miss latency of a load, by component."""
    misses = max(float(totals["miss_count"]), 1.0)
    return {
        "L1": float(gpu.l1.latency_cycles or 0.0),
        "MSHR": float(totals["miss_mshr"] / misses),
        "NOC": float(totals["miss_noc"] / misses),
        "LLC": float((totals["miss_path"] + totals["miss_llc"]) / misses),
        "QUEUE": float(totals["miss_dram_queue"] / misses),
        "DRAM": float(totals["miss_dram"] / misses),
    }


def _misses(workload: Workload, gpu: Gpu, state: MachineState) -> MissProfile:
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
        float(state.totals["cycles"][0]),
        dirty[1],
        unevenness(state.banks["requests"]),
        unevenness(state.banks["transfers"]),
        table_of(state.arrivals),
    )


def profile_of(static: StaticTable, gpu: Gpu, state: MachineState) -> Profile:
    """Recorded issues; warps are numbered in the order in which they reach the SM."""
    table, units = instruction_table(static, gpu, "the detailed simulator")
    pipelines = (*units, "memory", "shared memory", "barrier")
    other = {BARRIER: 2, records.SHARED: 1}
    computes = (NOTHING, records.PRODUCT)
    lane = np.array(
        [
            unit if kind in computes else len(units) + other.get(int(kind), 0)
            for unit, kind in zip(table.unit, table.kind, strict=True)
        ],
        dtype=np.int64,
    )
    rows = state.rows[: int(state.chip["rows"][0])]
    used, place = np.unique(lane[rows["static"]], return_inverse=True)
    held = np.where(np.isin(table.kind[rows["static"]], computes), table.interval[rows["static"]], 1.0)
    return Profile(
        pipelines=tuple(pipelines[index] for index in used.tolist()),
        warp=np.unique(rows["age"], return_inverse=True)[1].astype(np.int64).ravel(),
        instruction=rows["static"].copy(),
        instruction_class=tuple(static.opcode[index] for index in rows["static"].tolist()),
        pipeline=place.ravel().astype(np.int64),
        start=rows["start"].copy(),
        busy_until=rows["start"] + held,
        done=np.maximum(rows["done"], rows["start"] + held),
        waited_for=np.full(len(rows), -1, dtype=np.int64),
        group_size=1,
        complete=len(rows) < len(state.rows),
    )


def _stack(state: MachineState, latency: dict[str, float], cpi: float) -> dict[str, float]:
    """Issue slots by cause. Slots in which all warps wait for loads split like the mean L1 miss latency.

    Slots lost to busy pipelines count as dependences: no other instruction is ready to issue.
    """
    slots = {name: float(state.slots[cause]) for name, cause in _CATEGORY_CAUSES.items()}
    slots["DEP"] += float(state.slots[records.BUSY_UNIT])
    waiting, whole = float(state.slots[records.MEMORY]), sum(latency.values())
    if state.totals["miss_count"][0] == 0:
        slots["L1"] += waiting
    else:
        for name, part in latency.items():
            category = "L2" if name == "LLC" else name
            slots[category] = slots.get(category, 0.0) + waiting * part / whole
    total = sum(slots.values())
    return {name: cpi * slots.get(name, 0.0) / total for name in CATEGORIES}
