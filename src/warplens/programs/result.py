"""What running a program gives: per kernel and GPU the predicted time, what limits it, and what to change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..formatting import show_bytes, show_seconds
from .timeline import Slice

if TYPE_CHECKING:
    from ..explanation import Answer

#: Time that is only rounding: a thousandth of a clock cycle.
NOTHING_SECONDS = 1e-12


@dataclass(frozen=True)
class KernelTotal:
    """All launches of one kernel on one GPU."""

    kernel: str
    gpu: str
    launches: int
    #: Launches that were recorded; they stand for the others of their shape.
    recorded: int
    seconds: float
    #: Of the time of all kernels.
    share: float
    #: The answer for the recorded launch that takes longest; None for kernels that take next to nothing.
    answer: Answer | None = None

    @property
    def mean_seconds(self) -> float:
        return self.seconds / self.launches

    def to_dict(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "gpu": self.gpu,
            "launches": self.launches,
            "recorded": self.recorded,
            "seconds": self.seconds,
            "mean_seconds": self.mean_seconds,
            "share": self.share,
            "answer": self.answer and self.answer.to_dict(),
        }


@dataclass(frozen=True)
class GpuTotal:
    """A program on one GPU."""

    gpu: str
    kernel_seconds: float
    #: Seconds of copies and fills by what they are.
    copies: Mapping[str, float]
    copied_bytes: Mapping[str, int]
    #: From the first to the last work of the GPU, and how much of it it has none.
    elapsed_seconds: float
    gap_seconds: float

    @property
    def told(self) -> str:
        """The time and its parts in a sentence; parts that take no time are left out."""
        found = {"kernels": self.kernel_seconds, **self.copies, "gaps": self.gap_seconds}
        sizes = {name: f" ({show_bytes(size)})" for name, size in self.copied_bytes.items()}
        parts = [
            f"{name} {show_seconds(seconds, 3)}{sizes.get(name, '')}"
            for name, seconds in found.items()
            if seconds > NOTHING_SECONDS
        ]
        return f"{show_seconds(self.elapsed_seconds, 3)} from first to last: {', '.join(parts)}"

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "copies": dict(self.copies), "copied_bytes": dict(self.copied_bytes)}


@dataclass(frozen=True)
class ProgramResult:
    """A program that has run."""

    command: tuple[str, ...]
    exit_code: int
    launches: int
    run_seconds: float
    kernels: tuple[KernelTotal, ...]
    totals: tuple[GpuTotal, ...]
    #: Work of the first GPU in time.
    timeline: tuple[Slice, ...] = field(default=(), repr=False)
    #: Launches that nothing recorded stands for.
    not_predicted: int = 0
    failures: tuple[str, ...] = ()
    #: What `check` could not search, and why.
    unchecked: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "version": __version__,
            "command": list(self.command),
            "exit_code": self.exit_code,
            "launches": self.launches,
            "run_seconds": self.run_seconds,
            "not_predicted": self.not_predicted,
            "kernels": [each.to_dict() for each in self.kernels],
            "totals": [each.to_dict() for each in self.totals],
            "failures": list(self.failures),
            "unchecked": list(self.unchecked),
        }
