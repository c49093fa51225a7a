"""Machines of the detailed simulator's tests: the reference's numbers as overrides of a bundled machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from unittest import mock

from reference.detailed import Machine
from reference.traces import memory_trace
from warplens.machine import Gpu, load_gpu, with_overrides
from warplens.simulators.detailed import _records as records
from warplens.simulators.detailed import config, simulator
from warplens.workload import workload_of_trace

BASE = load_gpu("accelsim-mdm")
#: One cycle is a nanosecond, so that bandwidths are whole numbers and times exact.
CLOCK = 1e9

#: Totals of the package by the names of the reference.
TOTALS = {name.upper(): name for name in records.TOTALS.names}
#: Issue slots of the package by the names of the reference.
SLOTS = {
    "BASE": records.NO_CAUSE,
    "DEP": records.DEPENDENCE,
    "UNIT": records.BUSY_UNIT,
    "MEMORY": records.MEMORY,
    "L1": records.BUSY_L1,
    "MSHR": records.NO_MSHR,
    "NOC": records.BUSY_NETWORK,
    "SYNC": records.AT_BARRIER,
    "IDLE": records.NO_WARP,
}


def gpu_of(machine: Machine) -> Gpu:
    transfer = machine.line_bytes // machine.sectors
    overrides = {
        "clock": CLOCK,
        "sms": machine.sms,
        "schedulers": machine.schedulers,
        "scheduler": machine.policy,
        "issue_width": machine.issue_width,
        "operand_cycles": machine.operand_cycles,
        "max_blocks": machine.blocks_per_sm,
        "l1.queue": machine.lsu_queue,
        "l1.size": max(machine.l1_sets, 1) * machine.l1_ways * machine.line_bytes,
        "l1.ways": machine.l1_ways,
        "l1.hashed": machine.l1_hashed,
        "l1.line": machine.line_bytes,
        "l1.sector": transfer,
        "l1.latency": machine.l1_latency,
        "l1.mshrs": machine.mshrs,
        "l1.mshr_merges": machine.merges,
        "l1.streaming": machine.streaming,
        "noc.queue": machine.mshrs,
        "noc.injection": machine.noc_queue,
        "noc.bandwidth": machine.banks * 32 * CLOCK / machine.bank_flit,
        "noc.sm_bandwidth": 32 * CLOCK / machine.sm_flit,
        "llc.size": machine.banks * machine.llc_sets * machine.llc_ways * machine.line_bytes,
        "llc.ways": machine.llc_ways,
        "llc.line": machine.line_bytes,
        "llc.banks": machine.banks,
        "llc.mshrs": machine.llc_mshrs,
        "llc.latency": machine.llc_latency,
        "l1.write_policy": "back" if machine.l1_write_back else "through",
        "l1.write_allocate": machine.l1_allocate,
        "llc.write_policy": "back" if machine.write_back else "through",
        "llc.write_allocate": machine.allocate,
        "dram.channels": machine.channels,
        "dram.queue": machine.dram_queue,
        # The machine gives the latency at its nominal clock.
        "dram.latency": machine.dram_latency * BASE.clock_hz / CLOCK,
        "dram.bandwidth": machine.channels * transfer * CLOCK / machine.service,
        "instructions.shared.latency": machine.shared_latency,
    }
    for name, (unit, interval, latency) in machine.timings.items():
        overrides |= {
            f"instructions.{name}.subsystem": unit,
            f"instructions.{name}.interval": interval,
            f"instructions.{name}.latency": latency,
        }
    gpu = replace(with_overrides(BASE, overrides), operand_collectors=machine.collectors)
    return gpu if machine.l1_sets else replace(gpu, l1=replace(gpu.l1, size_bytes=None))


def final_state(
    rows,
    blocks,
    machine: Machine,
    blocks_per_group: int = 1_000_000,
    cluster_blocks: int = 1,
    overrides: Mapping[str, float] | None = None,
):
    """The package's machine after a launch."""
    trace = memory_trace(rows, blocks, blocks_per_group=blocks_per_group)
    if cluster_blocks > 1:
        trace = replace(trace, header=replace(trace.header, extra={"cluster_blocks": cluster_blocks}))
    with mock.patch.object(config, "ACTIVE_WARPS", machine.active_warps):
        return simulator.final_state(workload_of_trace(trace), with_overrides(gpu_of(machine), overrides or {}))


def counters(state) -> dict[tuple[int, str], float]:
    """What became of memory instructions, by the names of the reference."""
    found = {name.upper(): state.counters[name] for name in state.counters.dtype.names}
    found |= {f"COMING_{name.upper()}": state.arrivals[name] for name in state.arrivals.dtype.names}
    return {(row, name): float(value) for name, column in found.items() for row, value in enumerate(column)}


def totals_of(state) -> dict[str, float]:
    """Totals and issue slots, by the names of the reference."""
    found = {name: float(state.totals[field][0]) for name, field in TOTALS.items()}
    return found | {name: float(state.slots[cause]) for name, cause in SLOTS.items()}


def totals(rows, blocks, machine: Machine, blocks_per_group: int = 1_000_000) -> dict[str, float]:
    return totals_of(final_state(rows, blocks, machine, blocks_per_group))
