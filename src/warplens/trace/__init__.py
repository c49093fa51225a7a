"""Traces: the columns every front end emits, and their files.

The module can be called: `warplens.trace("saxpy.toml")` runs the kernel of a
workload file and records it (`warplens.api.record`).
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from .schema import (
    CLASS_IDS,
    CLASS_NAMES,
    IRREGULAR,
    NO_REGISTER,
    SPACES,
    LaunchHeader,
    LaunchTrace,
    MemoryTrace,
    StaticInstruction,
    StaticTable,
    WarpGroup,
    static_table,
)
from .store import EMPTY_GROUP, StoredLaunch, TraceWriter, read_trace

__all__ = [
    "CLASS_IDS",
    "CLASS_NAMES",
    "EMPTY_GROUP",
    "IRREGULAR",
    "NO_REGISTER",
    "SPACES",
    "LaunchHeader",
    "LaunchTrace",
    "MemoryTrace",
    "StaticInstruction",
    "StaticTable",
    "StoredLaunch",
    "TraceWriter",
    "WarpGroup",
    "read_trace",
    "static_table",
]


class _CallableModule(ModuleType):
    """`warplens.trace` is the name of this package and, for users, of a function."""

    def __call__(self, *arguments: Any, **options: Any) -> LaunchTrace:
        recorded: LaunchTrace = import_module("warplens.api").record(*arguments, **options)
        return recorded


sys.modules[__name__].__class__ = _CallableModule
