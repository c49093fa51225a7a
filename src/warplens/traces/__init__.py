"""Traces: the columns every front end emits, and their files."""

from ._codes import IRREGULAR, SHARED_BITS
from .schema import (
    CLASS_IDS,
    CLASS_NAMES,
    NO_REGISTER,
    SPACES,
    LaunchHeader,
    LaunchTrace,
    MemoryTrace,
    StaticInstruction,
    StaticTable,
    WarpGroup,
    active_lanes,
    static_table,
)
from .store import EMPTY_GROUP, StoredLaunch, TraceWriter, first_alike, read_trace

__all__ = [
    "CLASS_IDS",
    "CLASS_NAMES",
    "EMPTY_GROUP",
    "IRREGULAR",
    "NO_REGISTER",
    "SHARED_BITS",
    "SPACES",
    "LaunchHeader",
    "LaunchTrace",
    "MemoryTrace",
    "StaticInstruction",
    "StaticTable",
    "StoredLaunch",
    "TraceWriter",
    "WarpGroup",
    "active_lanes",
    "first_alike",
    "read_trace",
    "static_table",
]
