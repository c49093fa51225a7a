"""Recorded words, and the columns of a trace that they become.

An executed segment is a word with its number (upper half) and its active lanes
(lower half). Base and stride of each of its accesses follow, then the addresses
of the lanes where the stride is IRREGULAR.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class RecordFormat(NamedTuple):
    """The instructions of each segment, and which of them access memory."""

    segment_start: Any
    segment_static: Any
    access_start: Any
    access_place: Any
    """The place of an access among the instructions of its segment."""
    access_lanes: Any
    """Lanes that an access can use, as bits: all, or the rows of a matrix."""


class Words(NamedTuple):
    """The words of some warps: where those of each warp begin and end."""

    words: Any
    start: Any
    end: Any


class WarpEnds(NamedTuple):
    """Running totals per warp, from 0: one entry more than there are warps."""

    instructions: Any
    accesses: Any
    lanes: Any


class Columns(NamedTuple):
    """Columns of a WarpGroup."""

    static: Any
    mask: Any
    base: Any
    stride: Any
    lanes: Any
