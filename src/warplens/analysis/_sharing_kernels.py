"""Reads of the same lines by SMs nearby, which may share an answer of the LLC."""

from __future__ import annotations

import numpy as np

from ..jit import helper
from ._cache_kernels import bank_of
from ._cache_records import PAIR

# SMs whose requests meet on their way to the LLC (a GPC of NVIDIA's).
NEARBY = 16
# Lines on their way that are remembered, of SMs nearby.
NEARBY_PLACES = 1 << 14

#: Sectors of a line that an SM has asked for, until when they are under way, and whether another shares the answer.
ASKED = np.dtype(
    [("line", np.int64), ("sectors", np.int64), ("sm", np.int64), ("until", np.float64), ("shared", np.bool_)],
    align=True,
)


@helper
def shares(line, sectors, number, now, back, asked):
    """Whether a request goes along with that of an SM nearby; at most two share an answer."""
    place = asked[(number // PAIR) % len(asked), bank_of(line, NEARBY_PLACES, True)]
    under_way = place.line == line and place.until > now and sectors & ~place.sectors == 0
    if under_way and place.sm != number and not place.shared:
        place.shared = True
        return True
    place.line = line
    place.sectors = sectors
    place.sm = number
    place.until = back
    place.shared = False
    return False
