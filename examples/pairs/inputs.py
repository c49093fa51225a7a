"""Inputs of pairs that no fill of a workload file gives."""

from __future__ import annotations

from typing import Any

import numpy as np


def sorted_keys(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Keys in order, 500 times each."""
    return (np.arange(shape[0]) // 500).astype(dtype)
