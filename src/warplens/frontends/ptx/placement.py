"""Addresses of arrays that several launches share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from .spaces import GLOBAL_WINDOW

#: Room for the variables of any module, before the first array.
_VARIABLE_BYTES = 1 << 28


@dataclass
class Placement:
    """Where arrays lie. Those of earlier launches keep their addresses; others come behind all."""

    end: int = GLOBAL_WINDOW + _VARIABLE_BYTES
    arrays: list[tuple[NDArray[Any], int]] = field(default_factory=list)

    def find(self, array: NDArray[Any]) -> int | None:
        """The address of an array that has been placed."""
        known = (at for other, at in self.arrays if other.ctypes.data == array.ctypes.data)
        return next(known, None)
