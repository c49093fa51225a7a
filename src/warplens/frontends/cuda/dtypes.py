"""Types of numbers in arguments: NumPy's, those of `ml_dtypes` that GPUs compute with, and vectors of them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...errors import MissingPackageError, install_command

#: dtypes that a kernel's parameters and arrays can have.
DTYPES = {
    name: np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64",
    )
}  # fmt: skip
#: Those that the package ml_dtypes has. Two int4 or uint4 share a byte, the first in its low half.
NARROW = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn", "int4", "uint4")
_PACKED = ("int4", "uint4", "float4_e2m1fn")
#: Vector types of arrays, and what each of their elements is.
VECTOR_DTYPES = {
    f"{name}{count}": (dtype, count)
    for name, dtype, counts in (
        ("half", "float16", (2,)), ("bfloat16", "bfloat16", (2,)), ("float", "float32", (2, 3, 4)),
        ("double", "float64", (2,)), ("char", "int8", (2, 4)), ("uchar", "uint8", (2, 3, 4)),
        ("int", "int32", (2, 3)), ("uint", "uint32", (2, 3)), ("short", "int16", (2, 4)),
        ("ushort", "uint16", (2, 4)),
    )
    for count in counts
}  # fmt: skip
DTYPE_NAMES = (*DTYPES, *NARROW, *VECTOR_DTYPES)


def find_dtype(name: str) -> tuple[np.dtype[Any], int]:
    """(dtype, elements of a vector) for a name of `DTYPE_NAMES`."""
    name, lanes = VECTOR_DTYPES.get(name, (name, 1))
    return (DTYPES[name] if name in DTYPES else _narrow(name)), lanes


@cache
def _narrow(name: str) -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ImportError:
        raise MissingPackageError(
            f"dtype {name!r} needs ml_dtypes; install it with: {install_command('dtypes')}"
        ) from None
    return np.dtype(getattr(ml_dtypes, name))


def is_known(dtype: np.dtype[Any]) -> bool:
    return dtype in DTYPES.values() or dtype.name in NARROW


def is_whole(dtype: np.dtype[Any]) -> bool:
    """Whether numbers of this type are whole."""
    return dtype.kind in "iu" or dtype.name in ("int4", "uint4")


def whole_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return (-8, 7) if dtype.name == "int4" else (0, 15)


def largest(dtype: np.dtype[Any]) -> float:
    """The largest finite number of a floating-point type."""
    if dtype.kind == "f":
        return float(np.finfo(dtype).max)
    import ml_dtypes

    return float(ml_dtypes.finfo(dtype).max)


def size_bytes(dtype: np.dtype[Any], count: int) -> int:
    return -(-count // 2) if dtype.name in _PACKED else count * dtype.itemsize


def as_on_gpu(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The array as a GPU holds it: 4-bit numbers two to a byte."""
    if array.dtype.name not in _PACKED:
        return array
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8) & 15
    pairs = np.append(flat, np.zeros(flat.size % 2, np.uint8)).reshape(-1, 2)
    return (pairs[:, 0] | pairs[:, 1] << 4).astype(np.uint8)
