"""Execution configuration (Lemeire et al., §3.1.2): groups of a core, in total, at a time, and simulated."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

_ROUNDING = 1e-9


PARTIAL_GROUP = "only whole groups of warps are resident; the time is scaled to all warps"
SOME_WAVES = "the launch has more instructions than `most_issues`: some waves are simulated and their time is scaled"
FIRST_INSTRUCTIONS = (
    "a wave has more instructions than `most_issues`: the first of each warp are simulated and their time is scaled"
)


@dataclass(frozen=True)
class ExecutionConfig:
    """`groups` of `group_size` warps, `concurrent` at a time. The core takes the simulated cycles × `scale`.

    If set, only the first `most_instructions` of each warp are simulated.
    """

    group_size: int
    concurrent: int
    groups: int
    scale: float = 1.0
    most_instructions: int | None = None
    warnings: tuple[str, ...] = ()

    @property
    def warps(self) -> int:
        return self.group_size * self.groups

    @property
    def waves(self) -> float:
        return self.groups / self.concurrent


def execution_of(warps: float, blocks_per_sm: float, warps_per_block: float, groups: float | None) -> ExecutionConfig:
    """Whole groups for one SM with `warps` residents; `groups` are its share of the launch (None: one run).

    If fewer warps than one block are resident, they form one group. Residents
    beyond a whole number of groups are left out.
    """
    if blocks_per_sm < 1 - _ROUNDING:
        size, concurrent = max(1, floor(warps + _ROUNDING)), 1
    else:
        size, concurrent = max(1, round(warps_per_block)), floor(blocks_per_sm + _ROUNDING)
    whole = abs(size * concurrent - warps) <= _ROUNDING * warps
    wanted = warps if groups is None else groups * warps_per_block
    count = concurrent if groups is None else max(1, ceil(wanted / size - _ROUNDING))
    return ExecutionConfig(
        size, concurrent, count, wanted / (count * size), warnings=() if whole else (PARTIAL_GROUP,)
    )


def bounded(execution: ExecutionConfig, instructions: int, most_issues: float) -> ExecutionConfig:
    """Cut to at most `most_issues` issues: to whole waves, and if needed to the first instructions of each warp."""
    run = execution
    if run.warps * instructions <= most_issues:
        return run
    wave = min(run.concurrent, run.groups) * run.group_size
    groups = min(run.groups, max(1, floor(most_issues / (wave * instructions))) * run.concurrent)
    warnings, cut, scale = [*run.warnings], None, run.scale * run.groups / groups
    if groups < run.groups:
        warnings.append(SOME_WAVES)
    if wave * instructions > most_issues:
        cut = max(1, floor(most_issues / wave))
        scale *= instructions / cut
        warnings.append(FIRST_INSTRUCTIONS)
    return ExecutionConfig(run.group_size, run.concurrent, groups, scale, cut, tuple(warnings))
