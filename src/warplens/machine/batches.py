"""Batches of machines: which of them are equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def distinct(columns: Sequence[Any], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(first row of each distinct combination of values, index of each row's combination).

    A column that is not an array has one value for all rows.
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
