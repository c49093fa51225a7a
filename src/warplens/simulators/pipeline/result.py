"""The result of the Pipeline model: time, use of the pipelines, and the execution profile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Reasons why a pipeline is idle, in the kernel's order.
IDLE_CAUSES = ("dependence", "issue limit", "barrier", "no work")


@dataclass(frozen=True)
class PipelineUse:
    """One pipeline: busy cycles (λ), and idle cycles by cause.

    Idle causes, in order of precedence: "no work" if no resident warp has an
    instruction left for the pipeline, "issue limit" if one is ready, "barrier" if
    a barrier holds all warps that have one, and "dependence" otherwise.
    """

    busy_cycles: float
    idle_cycles: Mapping[str, float]
    fill_rate: float


@dataclass(frozen=True, eq=False)
class Profile:
    """Execution profile: which instruction of which warp held which pipeline when, in order of issue.

    `busy_until` is the end of λ, `done` the end of Λ (of a barrier: when it
    opens). ClassTimes are cycles; `pipeline` indexes `pipelines`. `waited_for` is the
    row whose result the instruction waited for until it started, or -1.
    `complete` is False where later issues were left out.
    """

    pipelines: tuple[str, ...]
    warp: NDArray[np.int64]
    instruction: NDArray[np.int64]
    instruction_class: tuple[str, ...]
    pipeline: NDArray[np.int64]
    start: NDArray[np.float64]
    busy_until: NDArray[np.float64]
    done: NDArray[np.float64]
    waited_for: NDArray[np.int64]
    group_size: int
    complete: bool = True

    def __len__(self) -> int:
        return len(self.warp)


@dataclass(frozen=True, eq=False)
class PipelineResult:
    """One kernel launch on one GPU. `cycles` are those of the SM with most groups.

    `groups`, `instructions` and `simulated_cycles` are what was simulated of
    that SM; `cycles` and `warps_per_cycle` are scaled to all of it where that
    is a part (`warnings` say so). `overlap` is the part of the time in which two
    or more pipelines are busy, `issue_fill` the use of the issue limit.
    """

    kernel: str
    launch: int | None
    gpu: str
    overrides: Mapping[str, Any]
    cycles: float
    seconds: float
    ipc: float
    warps_per_sm: int
    group_size: int
    concurrent_groups: int
    groups: int
    instructions: int
    warps_per_cycle: float
    policy: str
    in_order: bool
    simulated_cycles: float
    pipelines: Mapping[str, PipelineUse]
    overlap: float
    any_busy: float
    issue_fill: float
    profile: Profile | None = field(default=None, repr=False)
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON, without the profile."""
        return {
            "kernel": self.kernel,
            "launch": self.launch,
            "gpu": self.gpu,
            "overrides": dict(self.overrides),
            "simulator": "pipeline",
            "cycles": self.cycles,
            "seconds": self.seconds,
            "ipc": self.ipc,
            "warps_per_sm": self.warps_per_sm,
            "group_size": self.group_size,
            "concurrent_groups": self.concurrent_groups,
            "groups": self.groups,
            "instructions": self.instructions,
            "scheduler": self.policy,
            "in_order": self.in_order,
            "warps_per_cycle": self.warps_per_cycle,
            "simulated_cycles": self.simulated_cycles,
            "pipelines": {
                name: {"busy": use.busy_cycles, "fill_rate": use.fill_rate, "idle": dict(use.idle_cycles)}
                for name, use in self.pipelines.items()
            },
            "any_busy": self.any_busy,
            "overlap": self.overlap,
            "issue_fill": self.issue_fill,
            "warnings": list(self.warnings),
        }
