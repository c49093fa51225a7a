"""Workloads and machines made in code, for tests that need just one number to differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import numpy as np

from reference import interval_models
from warplens.analysis import (
    DependenceGraph,
    FlowNode,
    Instruction,
    InstructionMix,
    IntervalProfile,
    MixEntry,
    WorkFlowGraph,
    default_causes,
)
from warplens.api import predict
from warplens.machine import Gpu, load_gpu, with_overrides
from warplens.models import Prediction
from warplens.workload import Launch, Workload

Interval = interval_models.Interval


def profile_of(intervals: Iterable[Interval], average_miss_latency: float | None = None) -> IntervalProfile:
    rows = [[i.instructions, i.stall, i.memory_instructions, i.reads, i.writes, i.miss_ratio] for i in intervals]
    causes = [default_causes(i.memory_instructions, i.miss_ratio) for i in intervals]
    return IntervalProfile(np.array(rows, dtype=np.float64), np.array(causes), average_miss_latency)


def with_profile(*intervals: Interval, latency: float | None = None, **launch: Any) -> Workload:
    """A workload that is a list of intervals; `launch` as in the file (`warps_per_sm=…`)."""
    return Workload("profile", Launch(**launch), profile=profile_of(intervals, latency))


def with_mix(entries: Mapping[str, Any], launch: Mapping[str, Any], **mix: Any) -> Workload:
    """A workload that is an instruction mix: counts, or `MixEntry` arguments as a tuple."""
    made = {
        name: MixEntry(*value) if isinstance(value, tuple) else MixEntry(value) for name, value in entries.items()
    }
    return Workload("mix", Launch(**launch), mix=InstructionMix(made, **mix))


def graph_of(*instructions: tuple[str, tuple[int, ...]] | str) -> DependenceGraph:
    """Instructions as (class, positions it waits for), or the class alone."""
    return DependenceGraph(
        tuple(Instruction(i) if isinstance(i, str) else Instruction(i[0], tuple(i[1])) for i in instructions)
    )


def with_graph(*instructions: tuple[str, tuple[int, ...]] | str, **launch: Any) -> Workload:
    return Workload("graph", Launch(**launch), graph=graph_of(*instructions))


def with_flow(*nodes: FlowNode, **launch: Any) -> Workload:
    return Workload("flow", Launch(**launch), flow=WorkFlowGraph(nodes))


def gpu(name: str = "mdm2020", **overrides: Any) -> Gpu:
    """A machine with overrides; `__` stands for the dot of a key (`l1__mshrs=64`)."""
    return with_overrides(_named(name), {key.replace("__", "."): value for key, value in overrides.items()})


@cache
def _named(name: str) -> Gpu:
    """A bundled machine, read once."""
    return load_gpu(name)


def run(model: str, workload: Workload, machine: Gpu | str, **options: Any) -> Prediction:
    return predict(workload, _named(machine) if isinstance(machine, str) else machine, model, options=options)


def oracle_machine(machine: Gpu, warps: float, active_sms: float | None = None) -> interval_models.Machine:
    """What the interval oracle needs to know of a machine."""

    def service(level: str) -> float:
        bandwidth = machine.get(f"{level}.bandwidth_bytes_per_s")
        block = machine.l1.sector_bytes or machine.l1.line_bytes
        return machine.clock_hz * block / bandwidth if bandwidth else 0.0

    return interval_models.Machine(
        warps=warps,
        sms=machine.sms if active_sms is None else active_sms,
        issue_rate=machine.schedulers * machine.issue_width,
        mshrs=machine.l1.mshrs,
        llc_latency=machine.llc.latency_cycles,
        dram_latency=machine.dram.latency_cycles,
        noc_service=service("noc"),
        dram_service=service("dram"),
    )


#: A machine where every parameter of every model is given, with a third pipeline for special functions.
COMPLETE = {
    "instructions.comp.latency": 8,
    "instructions.comp.interval": 1,
    "instructions.sfu.latency": 20,
    "instructions.sfu.interval": 4,
    "instructions.shared.latency": 30,
    "instructions.shared.interval": 2,
    "noc.queue": 512,
    "dram.departure_coalesced": 4,
    "dram.departure_uncoalesced": 10,
    "dram.uncoalesced_transactions": 32,
}


def complete_gpu(**overrides: Any) -> Gpu:
    changes = COMPLETE | {key.replace("__", "."): value for key, value in overrides.items()}
    return with_overrides(_named("mdm2020"), changes)


#: For scripts run as a process of their own: peak memory in MiB. Not ru_maxrss, which starts at the size of the
#: process that forked.
PEAK_MEBIBYTES = """
def peak_mebibytes():
    import re
    return int(re.search("VmHWM: +([0-9]+) kB", open("/proc/self/status").read().expandtabs())[1]) // 1024
"""
