"""Batches of machines: what caches depend on."""

from __future__ import annotations

import numpy as np

from ..machine import Gpu
from .launch import Launch

#: What changes a cache simulation, besides the residents of an SM. Times are those of the machine as named.
_CACHE_KEYS = (
    "sms",
    "l1.size_bytes",
    "l1.ways",
    "l1.line_bytes",
    "l1.sector_bytes",
    "l1.write_policy",
    "l1.write_allocate",
    "llc.size_bytes",
    "llc.ways",
    "llc.banks",
    "llc.hashed",
    "llc.fetch_bytes",
    "llc.write_policy",
    "llc.write_allocate",
)
#: What changes the order of accesses where it is estimated.
_PROGRESS_KEYS = ("scheduler", "l1.streaming", "l1.mshrs", "l1.queue_entries", "noc.queue_entries")


def cache_keys(order: str) -> tuple[str, ...]:
    """Parameters on which a cache simulation in an order of warps depends."""
    return _CACHE_KEYS + (_PROGRESS_KEYS if order == "progress" else ())


def is_batch(gpu: Gpu, launch: Launch) -> bool:
    values = [*gpu.overrides.values(), launch.warps_per_sm, launch.blocks_per_sm]
    return any(isinstance(value, np.ndarray) for value in values)
