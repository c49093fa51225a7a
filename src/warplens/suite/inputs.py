"""Generators and launch shapes that several kernels of the suite share; every call gives the same data."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from warplens.suite.kernel import Array, SuiteLaunch

SEED = 2020


def generator() -> np.random.Generator:
    return np.random.default_rng(SEED)


def uniform(
    rng: np.random.Generator, shape: int | tuple[int, ...], low: float = 0.0, high: float = 1.0
) -> NDArray[np.float32]:
    values = rng.random(shape, dtype=np.float32)
    values *= np.float32(high - low)
    values += np.float32(low)
    return values


def zeros(shape: int | tuple[int, ...], dtype: Any = np.float32) -> Array:
    return np.zeros(shape, dtype)


def blocks(count: int, per_block: int) -> int:
    """Thread blocks that cover `count` threads."""
    return -(-count // per_block)


def launch_1d(threads: int, *arguments: Any, block: int = 256, **more: Any) -> SuiteLaunch:
    """A one-dimensional launch that covers `threads`."""
    return SuiteLaunch((blocks(threads, block), 1, 1), (block, 1, 1), arguments, **more)


def launch_2d(width: int, height: int, *arguments: Any, block: tuple[int, int] = (32, 8)) -> SuiteLaunch:
    """A two-dimensional launch that covers `width` × `height`."""
    grid = (blocks(width, block[0]), blocks(height, block[1]), 1)
    return SuiteLaunch(grid, (*block, 1), arguments)


def offsets_of(lengths: Array) -> NDArray[np.int32]:
    """Start of each consecutive piece, and end of the last."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def pieces(starts: Array, lengths: Array) -> NDArray[np.int64]:
    """The indices start, start + 1, … of all pieces, one after the other."""
    lengths = lengths.astype(np.int64)
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - lengths), lengths)


def random_csr(
    rng: np.random.Generator, rows: int, columns: int, average_per_row: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Row offsets and column indices of a random sparse matrix. Rows have 0 to about 5 times the average length."""
    lengths = np.minimum(rng.geometric(1.0 / average_per_row, rows) - 1, 5 * average_per_row)
    offsets = offsets_of(lengths)
    return offsets, rng.integers(0, columns, offsets[-1], dtype=np.int32)
