"""A measured run of a kernel, for models that scale measurements."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasuredRun:
    """Seconds at one clock: loads outstanding, computation that overlaps them, other computation, stores."""

    clock_hz: float
    load_seconds: float
    overlapped_seconds: float
    outside_seconds: float
    store_seconds: float = 0.0
    #: Warp instructions of one warp; a trace takes precedence.
    instructions_per_warp: float = 1.0
