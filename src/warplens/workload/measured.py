"""A run of a kernel that somebody measured, as models that scale measurements take it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MeasuredRun:
    """Seconds of a run at one clock: with loads outstanding, computation under them and outside, bound by stores."""

    clock_hz: float
    load_seconds: float
    overlapped_seconds: float
    outside_seconds: float
    store_seconds: float = 0.0
    #: Warp instructions of one warp; what is known of a trace takes precedence.
    instructions_per_warp: float = 1.0
