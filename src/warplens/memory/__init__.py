"""The memory system seen from a trace: coalescing, caches, and what missed where."""

from .cache import DEFAULT_ORDER, MissProfile, order_window, simulate_caches
from .events import Events, collect_events, collect_events_of, compute_latencies, instruction_kinds
from .family import family_of, simulate_families, simulate_family

__all__ = [
    "DEFAULT_ORDER",
    "Events",
    "MissProfile",
    "collect_events",
    "collect_events_of",
    "compute_latencies",
    "family_of",
    "instruction_kinds",
    "order_window",
    "simulate_caches",
    "simulate_families",
    "simulate_family",
]
