"""The answer to "how long, what limits it, and what should I change?": plain results for display and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..models.energy import Energy
from ..models.prediction import Prediction
from ..notebook import Displayed

#: The part of GPUPerf's time from which on one of its benefits counts.
LEAST_BENEFIT = 0.1


@dataclass(frozen=True)
class Counts:
    """What instructions did in the recorded thread blocks. What does not apply to them is None."""

    executions: int
    #: Threads of a warp that take part, on average.
    active_lanes: float
    #: Of accesses that reach the L1: sectors of a request, and those that its bytes need side by side.
    sectors_per_request: float | None = None
    least_sectors: float | None = None
    #: Cycles that an access to shared memory holds the banks.
    conflict_ways: float | None = None
    l1_hit_ratio: float | None = None
    l2_hit_ratio: float | None = None
    dram_bytes: float = 0.0


@dataclass(frozen=True)
class Line:
    """A source line; `share` is its part of what is told of it. `file` is empty where only the line is known."""

    file: str
    line: int
    share: float
    text: str = ""
    counts: Counts | None = None
    #: Lines of other files whose code was inlined here; their shares are part of this one's.
    inner: tuple[Line, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"file": self.file, "line": self.line, "share": self.share}
        if self.counts is not None:
            found |= vars(self.counts)
        if self.inner:
            found["inner"] = [each.to_dict() for each in self.inner]
        return found


@dataclass(frozen=True)
class Opinion:
    """What GPUPerf says of a cause: the benefit that speaks of it, and the part of GPUPerf's time that goes."""

    benefit: str
    gain: float

    @property
    def agrees(self) -> bool:
        """A part of 1/W is left to gain on the fullest SM, so a little counts as nothing."""
        return self.gain >= LEAST_BENEFIT

    def to_dict(self) -> dict[str, Any]:
        return {"benefit": self.benefit, "gain": self.gain}


@dataclass(frozen=True)
class Advice:
    """One thing to change. The gain is the difference of two solutions of the model."""

    rule: str
    #: What is wrong, in one sentence with its numbers.
    text: str
    #: What to do, in CUDA terms.
    remedy: str
    #: What the change may cost.
    cost: str
    lines: tuple[Line, ...]
    seconds: float
    seconds_after: float
    speedup_low: float
    speedup_high: float
    #: What GPUPerf says of the same cause; None where it has no benefit for it.
    opinion: Opinion | None = None

    @property
    def speedup(self) -> float:
        return self.seconds / self.seconds_after

    @property
    def gain(self) -> float:
        """The part of the time that goes."""
        return 1.0 - self.seconds_after / self.seconds

    def scaled(self, seconds: float) -> Advice:
        """The same gain on another time."""
        return replace(self, seconds=seconds, seconds_after=self.seconds_after * (seconds / self.seconds))

    def to_dict(self) -> dict[str, Any]:
        return {
            "rule": self.rule,
            "text": self.text,
            "remedy": self.remedy,
            "cost": self.cost,
            "lines": [line.to_dict() for line in self.lines],
            "seconds_after": self.seconds_after,
            "speedup": self.speedup,
            "speedup_low": self.speedup_low,
            "speedup_high": self.speedup_high,
            "gpuperf": self.opinion and self.opinion.to_dict(),
        }


@dataclass(frozen=True)
class Limiter:
    """What the time depends on: a resource and how full it is, or "latency" where none is full."""

    resource: str
    busy: float
    #: The resource in words.
    name: str
    #: What fills the time where no resource does.
    waits: str = ""


@dataclass(frozen=True)
class Occupancy:
    """Warps of an SM over those that it can hold, and what keeps more away."""

    achieved: float
    limiter: str


@dataclass(frozen=True)
class Answer(Displayed):
    """One kernel on one GPU: the time with its range, what limits it, and what to change.

    Only the `warplens` model gives a range, a limiter and busy resources; they are missing where another one answers.
    """

    prediction: Prediction
    seconds_low: float | None
    seconds_high: float | None
    limiter: Limiter | None
    #: Busy parts of compute, l1, l2 and dram.
    speed_of_light: Mapping[str, float]
    occupancy: Occupancy
    advice: tuple[Advice, ...] = ()
    #: Source lines by their share of the time.
    lines: tuple[Line, ...] = field(default=(), repr=False)
    #: The rest of the time: launching, idle SMs, and instructions of which no line is known.
    rest: Mapping[str, float] = field(default_factory=dict, repr=False)
    #: Why there is no advice to give, why another model answers, or what part of the trace gains come from.
    note: str = ""
    #: The launches that this is the answer for, where there are several alike.
    launches: tuple[int, ...] = ()
    #: None where the machine gives no power.
    energy: Energy | None = field(default=None, repr=False)
    #: The benefits of GPUPerf, each a part of its time; empty without a trace.
    benefits: Mapping[str, float] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        from .words import plain

        return plain(self)

    @property
    def seconds(self) -> float:
        return float(self.prediction.seconds)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kernel": self.prediction.kernel,
            "launch": self.prediction.launch,
            "gpu": self.prediction.gpu,
            "model": self.prediction.model,
            "seconds": self.seconds,
            "seconds_low": self.seconds_low,
            "seconds_high": self.seconds_high,
            "limiter": self.limiter and {"resource": self.limiter.resource, "busy": self.limiter.busy},
            "speed_of_light": dict(self.speed_of_light),
            "occupancy": {"achieved": self.occupancy.achieved, "limiter": self.occupancy.limiter},
            "advice": [each.to_dict() for each in self.advice],
            "lines": [line.to_dict() for line in self.lines],
            "note": self.note,
            "launches": list(self.launches) or [self.prediction.launch],
            "rest": dict(self.rest),
            "energy": self.energy and self.energy.to_dict(),
            "benefits": dict(self.benefits),
        }
