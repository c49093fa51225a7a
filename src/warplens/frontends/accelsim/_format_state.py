"""What the compiled writer of instruction lines reads, as records with named fields."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

#: Bytes that one line needs besides its static part: mask, mode, and 32 addresses or deltas with their blanks.
LINE_ROOM = 32 * 22 + 64
#: The warp that is being written, whether its heading is, and its next instruction, access and listed lane.
CURSOR = np.dtype(
    [("warp", np.int64), ("headed", np.bool_), ("instruction", np.int64), ("access", np.int64), ("lane", np.int64)],
    align=True,
)


class Texts(NamedTuple):
    """Texts, one after the other."""

    text: Any
    start: Any


class LineTexts(NamedTuple):
    """The fixed parts of the lines of each static instruction."""

    before: Texts
    """What comes before the mask."""
    after: Texts
    """What comes between the mask and the addresses."""
    end: Texts
    """What comes after the addresses."""


class WarpTexts(NamedTuple):
    """What the lines of each warp begin with."""

    heading: Texts
    prefix: Texts
    """Before each instruction: block and warp, in old versions."""


class GroupColumns(NamedTuple):
    """Columns of a WarpGroup, and the access size of each static instruction."""

    start: Any
    access_start: Any
    lane_start: Any
    static: Any
    mask: Any
    base: Any
    stride: Any
    lanes: Any
    access_bytes: Any
