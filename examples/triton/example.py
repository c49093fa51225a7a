"""What every example of this folder has: a kernel, how it is launched, and what NumPy says about its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Example:
    """A launch. `expected` maps the positions of arguments to what they hold afterwards."""

    kernel: Any
    grid: Sequence[int] | Callable[[dict[str, Any]], Any]
    arguments: Sequence[Any]
    options: Mapping[str, Any]
    expected: Mapping[int, Any]
    tolerance: float = 1e-5
    """Largest difference, relative to the largest number of the result."""
    notes: str = field(default="")

    def error(self, arguments: Sequence[Any]) -> float:
        """The largest relative difference from what is expected."""
        found = []
        for index, wanted in self.expected.items():
            given = np.asarray(arguments[index]).astype(np.float64)
            found.append(float(np.abs(given - wanted).max() / max(np.abs(wanted).max(), 1e-30)))
        return max(found)


def normal(shape: Sequence[int], dtype: Any = np.float32, seed: int = 0) -> Any:
    """Normal random numbers."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32).astype(dtype)
