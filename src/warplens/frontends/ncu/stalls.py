"""Warp stall reasons of Nsight Compute and categories of CPI stacks, in groups that both can be summed to.

A profiler knows that a warp waits for its load, not whether the load waits for
an MSHR or a DRAM queue; a model knows that, but not one reason for which an
instruction is late from another. Groups are as fine as both sides allow.
"""

from __future__ import annotations

from collections.abc import Mapping

#: Group -> (categories of CPI stacks, reasons of Nsight Compute).
GROUPS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "issue": (("BASE",), ("selected", "not_selected", "math_pipe_throttle", "dispatch_stall")),
    "dependence": (
        ("DEP",),
        (
            "wait",
            "short_scoreboard",
            "gmma",
            "branch_resolving",
            "no_instruction",
            "no_instructions",
            "imc_miss",
            "misc",
        ),
    ),
    "memory": (
        ("L1", "L2", "DRAM", "MSHR", "NOC", "QUEUE"),
        ("long_scoreboard", "lg_throttle", "mio_throttle", "tex_throttle", "drain"),
    ),
    "synchronisation": (("SYNC",), ("barrier", "membar", "sleeping", "warpgroup_arrive")),
    "idle": (("IDLE",), ()),
}

#: Reason -> group.
STALL_GROUPS = {reason: group for group, (_, reasons) in GROUPS.items() for reason in reasons}

# Three ways in which a report gives stalls, best first: samples, warps per cycle, warps per issue.
_FORMS = (
    ("smsp__pcsamp_warps_issue_stalled_", ""),
    ("smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"),
    ("smsp__average_warp_latency_issue_stalled_", ".ratio"),
)


def stall_shares(metrics: Mapping[str, float]) -> dict[str, float] | None:
    """Share of each group in a kernel's stalls, or None where the report has none."""
    for start, end in _FORMS:
        found = {
            name.removeprefix(start).removesuffix(end): value
            for name, value in metrics.items()
            if name.startswith(start) and name.endswith(end) and not name.endswith("_not_issued")
        }
        total = sum(found.values())
        if total > 0:
            shares = dict.fromkeys(GROUPS, 0.0)
            for reason, value in found.items():
                group = STALL_GROUPS.get(reason, "dependence")
                shares[group] += value / total
            return shares
    return None


def stack_shares(stack: Mapping[str, float]) -> dict[str, float]:
    """A CPI stack in the same groups."""
    total = sum(stack.values())
    return {
        group: sum(stack.get(name, 0.0) for name in categories) / total if total else 0.0
        for group, (categories, _) in GROUPS.items()
    }
