"""What the estimate of progress starts from: the times of a machine, and warps that have not run yet."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..machine import Gpu
from . import _cache_kernels as _kernels
from ._cache_kernels import Caches, Lines
from ._progress_kernels import (
    BANK,
    BLOCK,
    COMING,
    L1_PLACES,
    LLC_PLACES,
    SM,
    WARP,
    Progress,
    Steps,
    simulate_progress,
)
from .events import Events


def timing_of(gpu: Gpu, needed_by: str) -> NDArray[np.float64]:
    """Latencies and service times of the progress estimate; what a machine lacks takes no time."""
    found = np.zeros(_kernels.TIMINGS)
    found[_kernels.Q_ISSUE_INTERVAL] = 1.0 / gpu.issue_rate
    found[_kernels.Q_L1_LATENCY] = gpu.l1.latency_cycles or 0.0
    found[_kernels.Q_LLC_LATENCY] = gpu.llc.latency_cycles or 0.0
    found[_kernels.Q_DRAM_LATENCY] = gpu.dram_latency_cycles_now(needed_by)
    if gpu.noc.bandwidth_bytes_per_s is not None:
        found[_kernels.Q_NOC_SERVICE] = gpu.service_cycles_now("noc", needed_by)
        port = gpu.noc.sm_bandwidth_bytes_per_s
        share = found[_kernels.Q_NOC_SERVICE] * gpu.sms
        found[_kernels.Q_SM_SERVICE] = share if port is None else gpu.clock_hz * gpu.transfer_bytes / port
    found[_kernels.Q_DRAM_SERVICE] = gpu.service_cycles_now("dram", needed_by)
    limit = gpu.noc.queue_entries if gpu.l1.streaming else gpu.l1.mshrs
    found[_kernels.Q_OUTSTANDING] = 1e6 if limit is None else limit
    return found


def run_in_progress(
    chunk: Events,
    kinds: NDArray[np.uint8],
    lines: Lines,
    caches: Caches,
    timing: NDArray[np.float64],
    arrivals: NDArray[np.float64],
) -> float:
    """Thread blocks from their start to their end; the estimated cycles."""
    steps = Steps(
        chunk.event_static,
        chunk.event_instructions,
        chunk.event_gap,
        chunk.event_dependence,
        chunk.event_tail,
        chunk.line_start,
    )
    state = _at_start(chunk, caches.parameters, max(int(timing[_kernels.Q_OUTSTANDING]), 1))
    return float(
        simulate_progress(chunk.block_start, chunk.event_start, steps, kinds, lines, caches, timing, arrivals, state)
    )


def _at_start(chunk: Events, parameters: NDArray[np.int64], outstanding: int) -> Progress:
    sms, blocks_per_sm, depth = (
        int(parameters[index]) for index in (_kernels.P_SMS, _kernels.P_BLOCKS_PER_SM, _kernels.P_QUEUE)
    )
    blocks, warps = len(chunk.block_start) - 1, len(chunk.event_start) - 1
    sizes = np.diff(chunk.block_start)
    state = Progress(
        heap=np.empty(warps + sms + 1, dtype=np.int64),
        warps=np.zeros(warps, dtype=WARP),
        blocks=np.zeros(blocks, dtype=BLOCK),
        sms=np.zeros(sms, dtype=SM),
        line_up=np.empty((sms, depth), dtype=np.int64),
        outside=np.empty((sms, blocks_per_sm * int(sizes.max(initial=0))), dtype=np.int64),
        flight=np.zeros((sms, outstanding)),
        coming=np.zeros((sms, L1_PLACES), dtype=COMING),
        llc_coming=np.zeros(LLC_PLACES, dtype=COMING),
        done=np.zeros(len(chunk.event_static)),
        servers=np.zeros(int(parameters[_kernels.P_LLC_BANKS]) + 1, dtype=BANK),
    )
    state.warps["block"] = np.repeat(np.arange(blocks), sizes)
    state.warps["event"], state.warps["end"] = chunk.event_start[:-1], chunk.event_start[1:]
    state.warps["held"] = True
    state.blocks["sm"] = np.arange(blocks) % sms
    state.blocks["alive"] = sizes
    state.sms["last"] = -1
    return state
