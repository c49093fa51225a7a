"""The time of a launch, divided among its instructions: by the network's waits, event by event.

A cause has a part of the time (the CPI stack). Each part is divided on its own:

- issue slots among the instructions before the event, by executions;
- dependences among those that others wait for, functional units among those that
  hold the busiest one, and shared memory among the accesses that hold its banks;
- latencies of caches and DRAM go to the load whose data a warp waits for;
- queues go to whoever fills them, loads, stores and atomics, whoever waits there;
- barriers get what warps wait at them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..analysis.block_samples import executed_by
from ..analysis.gaps import Gaps, Pairs, gaps_of
from ..traces import CLASS_NAMES
from ..workload import Facts
from ..workload.samples import sample_latencies, shared_timing
from . import _network_records as k
from .base import Array, Case
from .prediction import Prediction
from .warplens_model import Blames, Warplens

#: Ports that requests and answers pass on their way to the LLC and back.
_PORTS = (k.R_SM_OUT, k.R_NET_IN, k.R_NET_OUT, k.R_SM_IN)


@dataclass(frozen=True, eq=False)
class InstructionTimes:
    """Parts of a launch's time, which sum to 1 together: of each static instruction, of launching, of idle SMs."""

    instructions: Array
    launch: float
    idle: float


def time_by_instruction(model: Warplens, facts: Facts, prediction: Prediction) -> InstructionTimes:
    """Divide the time that the model predicted for a trace on one machine among its instructions."""
    traced, stack = facts.traced, prediction.stack
    assert traced is not None and stack is not None
    size = len(traced.trace.static)
    blames = model.blames(Case(facts, f"model {model.name!r}"))
    by_cause = _by_cause(blames, _gaps(model, facts), facts, size)
    base = by_cause[k.C_BASE]
    times = np.zeros(size)
    for cause, name in enumerate(k.CAUSE_NAMES[:-1]):
        parts = by_cause[cause] if by_cause[cause].sum() > 0.0 else base
        times += float(stack[name] / prediction.cpi) * parts / max(parts.sum(), 1e-300)
    launch = float(prediction.terms["launch"] / prediction.cycles)
    return InstructionTimes(times, launch, max(1.0 - launch - float(times.sum()), 0.0))


def _gaps(model: Warplens, facts: Facts) -> Gaps:
    """Instructions between events, in the order in which the model issues them."""
    traced, name = facts.traced, f"model {model.name!r}"
    assert traced is not None and traced.blocks is not None
    trace = traced.trace
    latency = sample_latencies(facts, facts.gpu, name)
    reorder = model.assembler and facts.workload.is_ptx
    shared = shared_timing(facts.gpu)
    executed = executed_by(traced.blocks, trace, lambda key: latency.get(key, 0.0), reorder=reorder, shared=shared)
    return gaps_of(executed, trace.static)


def _by_cause(blames: Blames, gaps: Gaps, facts: Facts, size: int) -> Array:
    """Cycles of warps by cause and static instruction."""
    demand, by_event = blames.demand, np.maximum(blames.by_event, 0.0)
    assert demand.sample is not None
    static = demand.sample.static

    def of_events(values: Any) -> Array:
        return np.bincount(static, values, size).astype(np.float64, copy=False)

    found = np.zeros((k.CAUSES, size))
    found[k.C_BASE] = gaps.executions.spread(of_events(by_event[:, k.C_BASE]))
    found[k.C_DEP] = _spread(gaps.stalls, gaps, of_events(by_event[:, k.C_DEP]))
    holds = _holds_busiest_unit(blames, gaps.executions, facts, size)
    found[k.C_DEP] += _spread(gaps.executions, gaps, of_events(by_event[:, k.B_UNIT]), holds)
    found[k.C_L1] = _spread(gaps.shared, gaps, of_events(by_event[:, k.B_SHARED]))
    for cause in (k.C_L1, k.C_L2, k.C_DRAM, k.C_SYNC):
        found[cause] += of_events(by_event[:, cause])
    for cause, use in _uses(blames).items():
        # What was not booked to an event: waits in queues.
        waits = max(float(blames.waits[cause] - found[cause].sum()), 0.0)
        users = of_events(use)
        found[cause] += waits * users / max(users.sum(), 1e-300)
    return found


def _spread(pairs: Pairs, gaps: Gaps, of_event: Array, weight: Any = 1.0) -> Array:
    """Given to instructions by their amounts; where there are none, by executions."""
    found = pairs.spread(of_event, weight)
    amounts = np.bincount(pairs.event, pairs.amount * weight, len(of_event))
    return found + gaps.executions.spread(np.where(amounts > 0.0, 0.0, of_event))


def _holds_busiest_unit(blames: Blames, executions: Pairs, facts: Facts, size: int) -> Array:
    """Cycles that an instruction holds the unit that is held longest before an event, for each pair of both."""
    demand = blames.demand
    assert demand.sample is not None and demand.config is not None and facts.traced is not None
    units = demand.config.units
    columns = list(dict.fromkeys(units[name][0] for name in demand.sample.classes if name in units))
    if not columns:
        return np.zeros(len(executions.event))
    held = np.stack([np.bincount(demand.sample.static, each, size) for each in demand.stream.units.T])
    busiest = np.argmax(held, axis=0)
    class_id = facts.traced.trace.static.class_id
    unit, cycles = np.full(size, -1), np.zeros(size)
    for name in demand.sample.classes:
        if name in units and name in CLASS_NAMES:
            mine = class_id == CLASS_NAMES.index(name)
            unit[mine], cycles[mine] = columns.index(units[name][0]), float(units[name][1])
    return cycles[executions.instruction] * (unit[executions.instruction] == busiest[executions.event])


def _uses(blames: Blames) -> dict[int, Array]:
    """How much each event fills what warps queue for, by cause."""
    events, machine = blames.demand.stream.events, blames.machine
    kind = np.clip(events["kind"] - k.LOAD, 0, 2)
    rates = machine["network"][kind]
    answers = machine["network"][0]
    ports = (
        np.maximum(events["flits_out"] * rates["sm_flit"], events["requests"] * rates["request"]),
        np.maximum(events["flits_out"] * rates["net_flit"], events["requests"] * rates["net_request"]),
        events["flits_in"] * answers["net_flit"],
        events["flits_in"] * answers["sm_flit"],
    )
    misses = events["misses"] * events["weight"]
    from_dram = np.where(events["level"] == k.DRAM, misses, 0.0)
    busiest = int(np.argmax(blames.busy[list(_PORTS)]))
    return {
        k.C_L1: events["port"],
        k.C_L2: misses,
        k.C_DRAM: from_dram,
        k.C_MSHR: misses * machine["llc_latency"] + from_dram * machine["dram_latency"],
        k.C_NOC: ports[busiest],
        k.C_QUEUE: events["dram_reads"] + events["dram_writes"],
    }
