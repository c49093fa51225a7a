"""Turns a machine and the residents of a launch into the simulator's configuration record."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...analysis._line_kernels import digit_weight
from ...errors import MachineError
from ...machine import Gpu
from ...traces import LaunchHeader
from . import _records as records
from ._records import InstructionTable, SimulatorConfig

FLIT_BYTES = 32
#: MSHRs of an L1 if the machine gives none. Models treat them as unlimited; a simulator needs a number.
DEFAULT_MSHRS = 128
#: Accesses of bulk copies that an SM holds: of 32 sectors each, more than fit in its shared memory.
BULK_ENTRIES = 256
#: Warps per scheduler in the active set of the two-level policy.
ACTIVE_WARPS = 8
_POLICIES = {
    "gto": records.GREEDY_THEN_OLDEST,
    "lrr": records.ROUND_ROBIN,
    "rr": records.ROUND_ROBIN,
    "oldest": records.OLDEST,
    "two-level": records.TWO_LEVEL,
}


def simulator_config(gpu: Gpu, residency: Any, needed_by: str) -> SimulatorConfig:
    """The machine of one simulation, as plain numbers."""
    l1, llc, noc, dram = (getattr(gpu.with_defaults, part) for part in ("l1", "llc", "noc", "dram"))
    line = int(gpu.require("l1.line_bytes", needed_by))
    transfer = int(gpu.transfer_bytes)
    banks = int(llc.banks)
    channels = _given(dram.channels, banks)
    l1_latency = float(l1.latency_cycles or 1.0)
    issue_count, issue_period = _issue(gpu, needed_by)
    sm_flit, bank_flit = _flits(gpu, banks, needed_by)
    l1_sets = _given(l1.size_bytes, 0) // (line * int(l1.ways))
    in_ports = (1.0 + transfer / FLIT_BYTES) * (bank_flit + sm_flit)
    llc_latency = float(gpu.require("llc.latency_cycles", needed_by))
    return SimulatorConfig(
        sms=int(gpu.sms),
        blocks_per_sm=max(int(residency.blocks_per_sm), 1),
        warps_per_block=int(np.ceil(residency.warps_per_block)),
        schedulers=int(gpu.schedulers),
        issue_count=issue_count,
        issue_period=issue_period,
        policy=_POLICIES[gpu.scheduler],
        active_warps=ACTIVE_WARPS,
        lsu_entries=int(l1.queue_entries) + 1,  # plus the one being served
        collectors=_given(gpu.operand_collectors, np.iinfo(np.int64).max),
        l1_stages=max(int(l1_latency), 1),
        l1_sets=l1_sets,
        l1_ways=int(l1.ways),
        l1_weight=int(digit_weight(l1_sets, bool(l1.hashed))),
        l1_mshrs=_given(noc.queue_entries if l1.streaming else l1.mshrs, DEFAULT_MSHRS),
        l1_merges=int(l1.mshr_merges),
        l1_streaming=bool(l1.streaming),
        l1_write_back=l1.writes_back,
        l1_allocate=l1.allocates_stores,
        sectors=line // transfer,
        injection_entries=int(noc.injection_entries),
        stores_per_sm=4 * int(noc.injection_entries),
        llc_banks=banks,
        llc_sets=max(_given(llc.size_bytes, line) // (line * int(llc.ways) * banks), 1),
        llc_ways=int(llc.ways),
        llc_mshrs=int(llc.mshrs),
        llc_write_back=llc.writes_back,
        llc_allocate=llc.allocates_stores,
        channels=channels,
        dram_entries=int(dram.queue_entries),
        l1_latency=l1_latency,
        # One of the cycles for operands is that of the load-store unit.
        shared_latency=float(gpu.timing("load_shared", needed_by).latency_cycles)
        + max(float(gpu.with_defaults.operand_cycles) - 1.0, 0.0),
        hop=max((llc_latency - l1_latency - in_ports) / 2.0, 0.0),
        dram_latency=float(gpu.dram_latency_cycles_now(needed_by)),
        sm_flit=sm_flit,
        bank_flit=bank_flit,
        transfer_flits=transfer / FLIT_BYTES,
        channel_service=float(gpu.service_cycles_now("dram", needed_by) * channels),
    )


def with_background(
    config: SimulatorConfig, table: InstructionTable, launch: LaunchHeader, blocks: int, gpu: Gpu, needed_by: str
) -> SimulatorConfig:
    """The same for a launch of some blocks, with what its instructions do in the background."""
    cluster = config.cluster_barrier
    if table.clustered.any():
        timing = gpu.timing("barrier_cluster", needed_by)
        # Its blocks are on different SMs: none sees the last arrival in its own cycle.
        cluster = max(float(timing.latency_cycles - timing.interval_cycles), 2.0)
    return config._replace(
        blocks=blocks,
        cluster_blocks=launch.cluster_blocks,
        cluster_barrier=cluster,
        bulk_entries=BULK_ENTRIES if table.bulk.any() else 0,
        phased=bool((table.phase == records.AWAIT).any()),
        grouped=bool((table.role == records.AWAITS).any()),
    )


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


def _flits(gpu: Gpu, banks: int, needed_by: str) -> tuple[float, float]:
    """(Cycles that a flit takes at the port of an SM, at the port of a bank)."""
    clock = float(gpu.clock_hz)
    noc = float(gpu.require("noc.bandwidth_bytes_per_s", needed_by))
    at_sm = float(gpu.sm_port_bytes_per_s(noc, gpu.noc.sm_bandwidth_bytes_per_s))
    return FLIT_BYTES * clock / at_sm, FLIT_BYTES * clock / (noc / banks)
