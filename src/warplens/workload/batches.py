"""Batches of machines: what caches depend on, which machines are alike, and one with values of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machine import Gpu, with_overrides
from ..machine.schema import parameters
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


def distinct(columns: Sequence[Any], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(first row of each distinct combination of the columns' values, which combination each row has).

    Columns that are no arrays have one value for all rows.
    """
    codes = np.zeros(size, dtype=np.int64)
    count = 1
    for column in columns:
        if not isinstance(column, np.ndarray) or column.ndim == 0 or np.all(column == column[0]):
            continue
        values, inverse = np.unique(column, return_inverse=True)
        present, codes = np.unique(codes * len(values) + inverse.ravel(), return_inverse=True)
        codes, count = codes.ravel(), len(present)
    first = np.zeros(count, dtype=np.int64)
    first[codes[::-1]] = np.arange(size)[::-1]
    return first, codes


def is_batch(gpu: Gpu, launch: Launch) -> bool:
    values = [*gpu.overrides.values(), launch.warps_per_sm, launch.blocks_per_sm]
    return any(isinstance(value, np.ndarray) for value in values)


def with_values(gpu: Gpu, values: Mapping[str, Any]) -> Gpu:
    """A machine with some values of another one, by TOML path."""
    changed = {parameters()[path].key: value for path, value in values.items() if gpu.get(path) != value}
    return with_overrides(gpu, changed)
