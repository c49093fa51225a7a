"""Analysis of a launch for models: coalescing, cache misses, and a warp's mix, dependences and intervals."""

from .cache_families import family_of, simulate_families, simulate_family
from .cache_run import DEFAULT_ORDER, CacheRun, Coalescing, cache_config, cache_run, cache_runs, order_window
from .caches import MissProfile, simulate_caches
from .dependence import DependenceGraph, Instruction
from .events import (
    Events,
    EventStream,
    IssueTiming,
    collect_events,
    collect_events_of,
    compute_latencies,
    instruction_kinds,
    timing_of,
)
from .instruction_mix import InstructionMix, MixEntry
from .intervals import (
    COLUMNS,
    STALL_CAUSES,
    IntervalProfile,
    ProfileBatch,
    batch_of_profiles,
    default_causes,
    intervals_of_graph,
)
from .work_flow import NODE_KINDS, FlowNode, WorkFlowGraph

__all__ = [
    "COLUMNS",
    "DEFAULT_ORDER",
    "NODE_KINDS",
    "STALL_CAUSES",
    "CacheRun",
    "Coalescing",
    "DependenceGraph",
    "EventStream",
    "Events",
    "FlowNode",
    "Instruction",
    "InstructionMix",
    "IntervalProfile",
    "IssueTiming",
    "MissProfile",
    "MixEntry",
    "ProfileBatch",
    "WorkFlowGraph",
    "batch_of_profiles",
    "cache_config",
    "cache_run",
    "cache_runs",
    "collect_events",
    "collect_events_of",
    "compute_latencies",
    "default_causes",
    "family_of",
    "instruction_kinds",
    "intervals_of_graph",
    "order_window",
    "simulate_caches",
    "simulate_families",
    "simulate_family",
    "timing_of",
]
