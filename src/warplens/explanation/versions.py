"""Two versions of a kernel: what a change did to its time, by cause, by source line and in counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..categories import CATEGORIES
from ..machine import Gpu
from ..traces import CLASS_NAMES
from ..workload import Workload, analyse, resident
from ..workload.instructions import executions_of
from .answer import Advice, Answer, Line
from .explain import explain, speedup_range

#: A version of a kernel: a workload that is placed on a machine.
Version = tuple[Workload, Gpu]


@dataclass(frozen=True)
class Change:
    """A quantity in both versions: a cause of lost time in seconds, or a count."""

    name: str
    before: float
    after: float

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "before": self.before, "after": self.after}


@dataclass(frozen=True)
class LineChange:
    """A source line in both versions, and the seconds that it takes; None in the version that does not have it."""

    text: str
    before: Line | None
    after: Line | None
    seconds_before: float
    seconds_after: float

    def to_dict(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "before": self.before and self.before.to_dict(),
            "after": self.after and self.after.to_dict(),
            "seconds_before": self.seconds_before,
            "seconds_after": self.seconds_after,
        }


@dataclass(frozen=True)
class VersionComparison:
    """Two versions of a kernel on one GPU. The range is that of the ratio: errors that both share cancel."""

    before: Answer
    after: Answer
    speedup_low: float | None
    speedup_high: float | None
    #: Seconds by stall category, in the order of a CPI stack.
    causes: tuple[Change, ...]
    #: Lines by how much their time changed.
    lines: tuple[LineChange, ...]
    #: Of the whole launch: instructions by class, sectors, DRAM bytes, and what limits occupancy.
    counts: tuple[Change, ...]

    @property
    def speedup(self) -> float:
        return self.before.seconds / self.after.seconds

    @property
    def is_significant(self) -> bool:
        """Whether the range leaves no doubt which version is faster."""
        if self.speedup_low is None or self.speedup_high is None:
            return False
        return self.speedup_low > 1.0 or self.speedup_high < 1.0

    @property
    def advice_gone(self) -> tuple[Advice, ...]:
        return _others(self.before, self.after)

    @property
    def advice_new(self) -> tuple[Advice, ...]:
        return _others(self.after, self.before)

    def to_dict(self) -> dict[str, Any]:
        return {
            "gpu": self.before.prediction.gpu,
            "speedup": self.speedup,
            "speedup_low": self.speedup_low,
            "speedup_high": self.speedup_high,
            "significant": self.is_significant,
            "before": self.before.to_dict(),
            "after": self.after.to_dict(),
            "causes": [change.to_dict() for change in self.causes],
            "lines": [change.to_dict() for change in self.lines],
            "counts": [change.to_dict() for change in self.counts],
            "advice_gone": [advice.rule for advice in self.advice_gone],
            "advice_new": [advice.rule for advice in self.advice_new],
        }


def _others(one: Answer, other: Answer) -> tuple[Advice, ...]:
    """Advice by rules that the other version does not have."""
    rules = {advice.rule for advice in other.advice}
    return tuple(advice for advice in one.advice if advice.rule not in rules)


def compare_versions(
    before: Version,
    after: Version,
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> VersionComparison:
    """What changed between two versions of a kernel, each placed on its machine."""

    def half(first: int, done: int, total: int) -> None:
        if progress is not None:
            progress(first * total + done, 2 * total)

    first, second = (
        explain(*version, options=options, progress=partial(half, index))
        for index, version in enumerate((before, after))
    )
    ranged = first.limiter is not None and second.limiter is not None
    low, high = speedup_range(first.prediction, second.prediction) if ranged else (None, None)
    return VersionComparison(
        first,
        second,
        low,
        high,
        _changes(seconds_by_cause(first), seconds_by_cause(second)),
        _line_changes(first, second),
        _changes(counts_of(*before), counts_of(*after)),
    )


def _changes(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[Change, ...]:
    """Quantities that at least one version has."""
    found = (Change(name, before.get(name, 0.0), after.get(name, 0.0)) for name in {**before, **after})
    return tuple(change for change in found if change.before or change.after)


def seconds_by_cause(answer: Answer) -> dict[str, float]:
    """A CPI stack in seconds of the launch."""
    made = answer.prediction
    stack = made.stack or {}
    return {name: float(stack.get(name, 0.0) / made.cpi) * answer.seconds for name in CATEGORIES}


def launch_of(workload: Workload, gpu: Gpu) -> dict[str, float]:
    """With how many others an instruction runs."""
    launch = workload.launch
    return {
        "warps per SM": float(resident(launch, gpu).warps_per_sm),
        "thread blocks": float(launch.blocks or 0),
        "threads per block": float(launch.threads_per_block or 0),
    }


def counts_of(workload: Workload, gpu: Gpu) -> dict[str, float]:
    """What a kernel does, counted over the whole launch, and what it takes of an SM."""
    launch, facts = workload.launch, analyse(workload, gpu, needed_by="counts")
    found = {
        **launch_of(workload, gpu),
        "registers per thread": float(launch.registers_per_thread or 0),
        "shared memory per block, bytes": float(launch.shared_memory_per_block_bytes or 0),
    }
    if facts.traced is None:
        return found
    traced = facts.traced
    misses, scale = traced.misses, (launch.blocks or traced.recorded_blocks) / max(traced.recorded_blocks, 1)
    executions, _ = executions_of(workload)
    by_class = scale * np.bincount(traced.trace.static.class_id, executions, len(CLASS_NAMES))

    def total(*names: str) -> float:
        return sum(scale * float(misses.column(name).sum()) for name in names)

    return {
        "warp instructions": float(by_class.sum()),
        **{name: float(count) for name, count in zip(CLASS_NAMES, by_class, strict=True)},
        "sectors asked of the L1": total("requests"),
        "sectors asked of the L2": total("llc_hits", "llc_misses"),
        "DRAM bytes": total("dram_reads", "dram_writes") * misses.transfer_bytes,
        **found,
    }


def _line_changes(before: Answer, after: Answer) -> tuple[LineChange, ...]:
    """Lines of both versions, matched by their text, or by file and number where there is none."""
    found: dict[Any, LineChange] = {}
    for line in before.lines:
        known = found.get(_key(line), LineChange(line.text, line, None, 0.0, 0.0))
        found[_key(line)] = replace(known, seconds_before=known.seconds_before + line.share * before.seconds)
    for line in after.lines:
        known = found.get(_key(line), LineChange(line.text, None, line, 0.0, 0.0))
        known = replace(known, after=known.after or line)
        found[_key(line)] = replace(known, seconds_after=known.seconds_after + line.share * after.seconds)
    return tuple(sorted(found.values(), key=lambda each: -abs(each.seconds_after - each.seconds_before)))


def _key(line: Line) -> Any:
    return line.text or (line.file, line.line)
