"""MDM, the memory divergence model (Wang et al., CAL 2019 and MICRO 2020), and its ablations (Table V).

Bandwidths are aggregates over all channels, so the service latencies M-7 and
M-8 are not divided by the number of channels again. M-9 serves the NoC and the
DRAM; the saturation test M-10 is on the NoC for both. With a streaming L1 the
SM's NoC queue takes the place of the MSHRs (footnote 2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..machine import Gpu
from .base import Array, Case, option
from .gpumech import GpuMech
from .interval import WARP_CATEGORIES, IntervalModel
from .papers import MDM, MDM_CAL


@dataclass(frozen=True)
class MemoryDivergence(IntervalModel):
    """Batches of MSHRs behind saturated NoC and DRAM queues."""

    name = "mdm"
    title = "MDM"
    paper = MDM
    equations = "M-1 … M-10"
    mshr_term = "mdm"
    queue_term = "mdm"
    categories = (*WARP_CATEGORIES, "MSHR", "NOC", "QUEUE")

    streaming: bool | None = option(
        None,
        "streaming L1: the NoC queue limits misses in flight; auto follows the machine",
        (None, True, False),
    )

    def outstanding_limit(self, gpu: Gpu) -> str:
        streaming = gpu.l1.streaming if self.streaming is None else self.streaming
        return "noc.queue_entries" if streaming else "l1.mshrs"

    def memory_needs(self, gpu: Gpu) -> list[str]:
        limit = self.outstanding_limit(gpu)
        return [limit if path == "l1.mshrs" else path for path in super().memory_needs(gpu)]

    def terms(self, case: Case, sums: dict[str, Array], result: Array) -> dict[str, Any]:
        return mdm_terms(case, sums, result)


@dataclass(frozen=True)
class MemoryDivergence2019(MemoryDivergence):
    """The first MDM: every divergent interval is exposed to the full queues."""

    name = "mdm-cal2019"
    title = "MDM (CAL 2019)"
    paper = MDM_CAL
    equations = "C-1 … C-8"
    queue_term = "mdm-cal2019"


@dataclass(frozen=True)
class GpuMechPlus(GpuMech):
    """GPUMech with a NoC queue, and queueing delays inside the MSHR term (GPUMech+)."""

    name = "gpumech-plus"
    title = "GPUMech+"
    paper = MDM
    equations = "Table V; G-17 … G-23"
    mshr_term = "gpumech-with-queues"
    queue_term = "gpumech-with-noc"
    categories = MemoryDivergence.categories


@dataclass(frozen=True)
class MdmQueue(GpuMechPlus):
    """MDM's queues with GPUMech+'s MSHR term."""

    name = "mdm-queue"
    title = "MDM-Queue"
    equations = "Table V; M-7 … M-10, G-19, G-20"
    queue_term = "mdm"

    def terms(self, case: Case, sums: dict[str, Array], result: Array) -> dict[str, Any]:
        return mdm_terms(case, sums, result)


@dataclass(frozen=True)
class MdmMshr(GpuMechPlus):
    """MDM's MSHR batches with GPUMech+'s queues."""

    name = "mdm-mshr"
    title = "MDM-MSHR"
    equations = "Table V; M-6, G-21 … G-23"
    mshr_term = "mdm"

    def terms(self, case: Case, sums: dict[str, Array], result: Array) -> dict[str, Any]:
        return mdm_terms(case, sums, result)


def mdm_terms(case: Case, sums: dict[str, Array], result: Array) -> dict[str, Any]:
    """Sums of S over the intervals; M, S_Mem and batches of the interval with most concurrent misses."""
    from . import _interval_kernels as kernels

    gpu = case.gpu
    terms: dict[str, Any] = {
        "S_MSHR": sums["S_MSHR"],
        "S_NoC": sums["S_NoC"],
        "S_DRAM": sums["S_DRAM"],
        "M": result[:, kernels.R_CONCURRENT],
        "S_Mem": result[:, kernels.R_MEMORY_STALL],
        "batches": result[:, kernels.R_BATCHES],
        "MD_intervals": result[:, kernels.R_DIVERGENT],
        "saturated_intervals": result[:, kernels.R_SATURATED],
    }
    for level, name in (("noc", "L_NoC"), ("dram", "L_DRAM")):
        if gpu.l1.line_bytes is not None and gpu.get(f"{level}.bandwidth_bytes_per_s") is not None:
            terms[name] = gpu.service_cycles_now(level, case.model_name)  # Eq. (M-7), before the miss ratio of M-8
    return terms
