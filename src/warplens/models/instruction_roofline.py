"""Instruction roofline (Ding & Williams, PMBS 2019) over all levels of memory.

Performance is warp instructions, intensity warp instructions per transaction of a level; the lowest of the issue
ceiling and the roofs of the levels counts. A trace tells the transactions of each level. Of an instruction mix alone
memory is one level, with λ of its classes. Like every roofline it assumes that all latencies are hidden.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..analysis import MixEntry
from .base import Array, Aspect, Case, Model, Outcome
from .papers import DING_WILLIAMS


@dataclass(frozen=True)
class InstructionRoofline(Model):
    """Throughput bound: issue, shared memory, or the transactions of L1, L2 or DRAM."""

    name = "instruction-roofline"
    title = "Instruction roofline"
    paper = DING_WILLIAMS
    equations = "I-1 … I-3"
    needs = "instruction_mix"
    aspects = frozenset({Aspect.ISSUE_LIMIT})

    def evaluate(self, case: Case) -> Outcome:
        mix = case.facts.mix
        shared = _busy(case, mix.of_kind("shared")) / mix.total
        terms = {"CPI_issue": 1.0 / case.issue_rate, "CPI_shared": shared}  # Eq. (I-2)
        if case.facts.traced is None:
            terms["CPI_memory"] = _busy(case, mix.of_kind("memory")) / mix.total
        else:
            transactions = _transactions(case)
            cycles = _cycles_per_transaction(case)
            terms |= {f"transactions_{level}": count for level, count in transactions.items()}
            terms |= {f"CPI_{level}": count * cycles[level] for level, count in transactions.items()}  # Eq. (I-3)
        slowest = np.maximum.reduce([value for name, value in terms.items() if name.startswith("CPI_")])
        return Outcome(instructions_per_warp=mix.total, ipc_sm=1.0 / slowest, terms=terms)  # Eq. (I-1)


def _busy(case: Case, entries: Iterable[tuple[str, MixEntry]]) -> Array:
    """Cycles for which one warp's instructions occupy a pipeline."""
    found = (entry.count * case.array(case.timing(name).interval_cycles) for name, entry in entries)
    return sum(found, np.zeros(case.size))


def _transactions(case: Case) -> dict[str, Array]:
    """Lines at the L1, and sectors at L2 and DRAM, per warp instruction: one over the level's intensity."""
    traced = case.facts.traced
    assert traced is not None
    found = {level: np.empty(case.size) for level in ("L1", "L2", "DRAM")}
    for rows, misses in traced.caches.groups():
        counts = {
            "L1": misses.column("lines").sum(),
            # The network carries loads and stores in opposite directions; the busier one binds.
            "L2": max(misses.llc_loads, misses.llc_accesses - misses.llc_loads),
            "DRAM": (misses.dram_read_bytes + misses.dram_write_bytes) / misses.transfer_bytes,
        }
        for level, count in counts.items():
            found[level][rows] = count / traced.warp.recorded_instructions
    return found


def _cycles_per_transaction(case: Case) -> dict[str, Array]:
    """Cycles that a transaction of one SM takes, with as many SMs active as the launch has."""
    gpu, needed_by = case.gpu, case.model_name
    noc = gpu.service_cycles_now("noc" if gpu.noc.bandwidth_bytes_per_s is not None else "dram", needed_by)
    return {
        "L1": 1.0 / case.array(gpu.with_defaults.l1.lines_per_cycle),
        "L2": case.array(noc) * case.active_sms,
        "DRAM": case.array(gpu.service_cycles_now("dram", needed_by)) * case.active_sms,
    }
