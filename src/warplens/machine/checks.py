"""Checks of machines: each value against the schema, and relations between values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import MachineError
from ..units import LARGEST
from .fields import Parameter
from .schema import Gpu


def check_value(param: Parameter, value: Any) -> Any:
    """`value` as the schema stores it; a bad one raises ValueError with the reason."""
    if param.kind is bool:
        if not isinstance(value, bool | np.bool_):
            raise ValueError(f"{value!r} is not true or false")
        return bool(value)
    if param.kind is str:
        if not isinstance(value, str):
            raise ValueError(f"{value!r} is not text")
        if param.choices and value not in param.choices:
            raise ValueError(f"{value!r} is not one of {', '.join(param.choices)}")
        return value
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number | np.ndarray):
        raise ValueError(f"{value!r} is not a number")
    return _check_number(param, value)


def _check_number(param: Parameter, value: Any) -> Any:
    if isinstance(value, int) and abs(value) > LARGEST:
        raise ValueError(f"{value!r} is too large (at most {LARGEST:g})")
    if np.asarray(value).dtype.kind not in "iuf":
        raise ValueError(f"{value!r} is not a number")
    numbers = np.asarray(value, dtype=np.float64)
    if numbers.ndim > 1 or numbers.size == 0:
        raise ValueError(f"an array of shape {numbers.shape} is not one-dimensional or is empty")
    if not np.all(np.isfinite(numbers)) or np.any(np.abs(numbers) > LARGEST):
        raise ValueError(f"{value!r} is not a finite number of at most {LARGEST:g}")
    if np.any(numbers <= param.minimum if param.exclusive else numbers < param.minimum):
        word = "above" if param.exclusive else "at least"
        raise ValueError(f"{value!r} must be {word} {param.minimum:g}")
    if np.any(numbers > param.most):
        raise ValueError(f"{value!r} must be at most {param.most:,}")
    if param.kind is int and np.any(numbers != np.floor(numbers)):
        raise ValueError(f"{value!r} is not a whole number")
    if numbers.ndim == 0:
        return int(numbers) if param.kind is int else float(numbers)
    return numbers


def check_consistency(gpu: Gpu, where: Callable[[str], str] | None = None) -> None:
    """Check relations between parameters; the first that fails raises `MachineError`.

    `where` gives the place of a key, for machines that come from a file.
    """

    def fail(key: str, why: str) -> None:
        raise MachineError(f"{where(key) if where else f'machine {gpu.name!r}'}: {key}: {why}")

    for level, cache_ in (("l1", gpu.l1), ("llc", gpu.llc)):
        if cache_.size_bytes is not None and cache_.ways is not None and cache_.line_bytes is not None:
            sizes, ways = np.broadcast_arrays(cache_.size_bytes, np.multiply(cache_.ways, cache_.line_bytes))
            wrong = np.flatnonzero(np.remainder(sizes, ways) != 0)
            if len(wrong):
                size, way = (int(each.flat[wrong[0]]) for each in (sizes, ways))
                near = " or ".join(str(each) for each in (size // way * way, -(-size // way) * way) if each)
                fail(
                    f"{level}.size_bytes", f"must be a multiple of ways × line_bytes, {way}; {size} is not, {near} is"
                )
    if gpu.l1.sector_bytes is not None:
        if gpu.l1.line_bytes is None:
            fail("l1.sector_bytes", "needs l1.line_bytes")
        if np.any(np.remainder(gpu.l1.line_bytes, gpu.l1.sector_bytes) != 0):
            fail("l1.sector_bytes", "must divide l1.line_bytes")
