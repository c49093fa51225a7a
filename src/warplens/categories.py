"""Stall categories: the parts of a CPI stack, in the order in which tables and pictures show them.

Everything that is said or drawn of a category stands here. To add one takes a
row of `CATEGORIES` and the model or simulator that computes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Category:
    """`label` names it in a legend; `sentence` says what warps do in that time."""

    name: str
    label: str
    sentence: str
    colour: str
    group: str


#: Stall reasons of Nsight Compute, in groups that CPI stacks can be summed to as well. A profiler sees that a warp
#: waits for its load, but not whether the load waits for an MSHR or for DRAM; a model knows that, but does not tell
#: apart why an instruction is late. Groups are as fine as both sides allow.
STALL_REASONS: Mapping[str, tuple[str, ...]] = {
    "issue": ("selected", "not_selected", "math_pipe_throttle", "dispatch_stall"),
    "dependence": (
        "wait",
        "short_scoreboard",
        "gmma",
        "branch_resolving",
        "no_instruction",
        "no_instructions",
        "imc_miss",
        "misc",
    ),
    "memory": ("long_scoreboard", "lg_throttle", "mio_throttle", "tex_throttle", "drain"),
    "synchronisation": ("barrier", "membar", "sleeping", "warpgroup_arrive"),
    "idle": (),
}

#: By name. The colours are readable in print and distinct for most colour-blind readers.
CATEGORIES: dict[str, Category] = {
    each.name: each
    for each in (
        Category("BASE", "issue", "issues instructions", "#4c9f70", "issue"),
        Category("DEP", "results of computation", "waits for results of computation", "#a6d96a", "dependence"),
        Category("L1", "L1", "waits for the L1", "#c6dbef", "memory"),
        Category("L2", "L2", "waits for the L2", "#6baed6", "memory"),
        Category("DRAM", "DRAM latency", "waits for DRAM's latency", "#2171b5", "memory"),
        Category("MSHR", "MSHRs", "waits for MSHRs", "#d7301f", "memory"),
        Category("NOC", "network to the L2", "waits for the network to the L2", "#fdae61", "memory"),
        Category("QUEUE", "DRAM bandwidth", "queues for DRAM bandwidth", "#7b3294", "memory"),
        Category("SYNC", "barriers", "waits at barriers", "#969696", "synchronisation"),
        Category("IDLE", "no work", "has no work", "#d9d9d9", "idle"),
    )
}


def in_order(names: Iterable[str]) -> list[str]:
    """The categories among `names`, in the order in which they are shown."""
    present = set(names)
    return [name for name in CATEGORIES if name in present]
