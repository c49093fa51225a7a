"""Warp stall reasons of Nsight Compute and CPI categories, in common groups."""

from __future__ import annotations

from collections.abc import Mapping

from ...categories import CATEGORIES, STALL_REASONS

#: Reason -> group.
STALL_GROUPS = {reason: group for group, reasons in STALL_REASONS.items() for reason in reasons}

# Three ways in which a report gives stalls, best first: samples, warps per cycle, warps per issue.
_FORMS = (
    ("smsp__pcsamp_warps_issue_stalled_", ""),
    ("smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"),
    ("smsp__average_warp_latency_issue_stalled_", ".ratio"),
)


def stall_shares(metrics: Mapping[str, float]) -> dict[str, float] | None:
    """Share of each group in a kernel's stalls; None if the report has no stalls."""
    for start, end in _FORMS:
        found = {
            name.removeprefix(start).removesuffix(end): value
            for name, value in metrics.items()
            if name.startswith(start) and name.endswith(end) and not name.endswith("_not_issued")
        }
        total = sum(found.values())
        if total > 0:
            shares = dict.fromkeys(STALL_REASONS, 0.0)
            for reason, value in found.items():
                group = STALL_GROUPS.get(reason, "dependence")
                shares[group] += value / total
            return shares
    return None


def stack_shares(stack: Mapping[str, float]) -> dict[str, float]:
    """A CPI stack in the same groups."""
    total = sum(stack.values())
    shares = dict.fromkeys(STALL_REASONS, 0.0)
    for name, part in stack.items():
        shares[CATEGORIES[name].group] += part
    return {group: part / total if total else 0.0 for group, part in shares.items()}
