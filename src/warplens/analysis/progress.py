"""The `progress` order of the cache simulation: initial state, and a run over thread blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._cache_records import CacheConfig, Caches, Lines, Timing
from ._progress_kernels import (
    BANK,
    BLOCK,
    COMING,
    SM,
    STORED,
    WARP,
    Progress,
    Steps,
    simulate_progress,
)
from ._service_kernels import L1_PLACES, LLC_PLACES
from ._sharing_kernels import ASKED, NEARBY, NEARBY_PLACES
from .events import Events


def run_in_progress(
    chunk: Events,
    kinds: NDArray[np.uint8],
    lines: Lines,
    caches: Caches,
    timing: Timing,
    arrivals: NDArray[Any],
) -> float:
    """Run thread blocks from start to end; returns the estimated cycles."""
    steps = Steps(
        chunk.event_static,
        chunk.event_instructions,
        chunk.event_gap,
        chunk.event_dependence,
        chunk.event_tail,
        chunk.event_runs,
        chunk.line_start,
    )
    state = _at_start(chunk, caches.config)
    return float(
        simulate_progress(chunk.block_start, chunk.event_start, steps, kinds, lines, caches, timing, arrivals, state)
    )


def _at_start(chunk: Events, config: CacheConfig) -> Progress:
    sms = config.sms
    blocks, warps = len(chunk.block_start) - 1, len(chunk.event_start) - 1
    sizes = np.diff(chunk.block_start)
    state = Progress(
        heap=np.empty(warps + sms + 1, dtype=np.int64),
        warps=np.zeros(warps, dtype=WARP),
        blocks=np.zeros(blocks, dtype=BLOCK),
        sms=np.zeros(sms, dtype=SM),
        line_up=np.empty((sms, max(config.queue, 1), 2), dtype=np.int64),
        outside=np.empty((sms, config.blocks_per_sm * int(sizes.max(initial=0))), dtype=np.int64),
        flight=np.zeros((sms, config.outstanding)),
        stored=np.zeros((sms, config.merge_lines), dtype=STORED),
        coming=np.zeros((sms, L1_PLACES), dtype=COMING),
        llc_coming=np.zeros(LLC_PLACES, dtype=COMING),
        asked=np.zeros((-(-sms // NEARBY), NEARBY_PLACES), dtype=ASKED),
        done=np.full(len(chunk.event_static), -1.0),
        servers=np.zeros(config.llc_banks + 1, dtype=BANK),
    )
    state.warps["block"] = np.repeat(np.arange(blocks), sizes)
    state.warps["event"], state.warps["end"] = chunk.event_start[:-1], chunk.event_start[1:]
    state.warps["held"] = True
    state.blocks["sm"] = np.arange(blocks) % sms
    state.blocks["alive"] = sizes
    state.sms["last"] = -1
    state.stored["line"] = state.asked["line"] = -1
    return state
