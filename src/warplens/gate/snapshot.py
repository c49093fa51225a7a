"""What a gate keeps of a kernel on a GPU: enough to say later what changed, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from ..analysis.banks import conflict_degrees, shared_accesses
from ..explanation import Line, explain
from ..explanation.doubts import timing_of
from ..explanation.paired import Timing
from ..explanation.versions import counts_of
from ..machine import Gpu
from ..workload import Workload, analyse

#: Source lines that are kept: those that take most of the time.
MOST_LINES = 8
_LAUNCH = ("thread blocks", "threads per block", "warps per SM")
#: Counts beside those of `counts_of`: local memory as the compiler lays it out, and what bank conflicts add to.
LOCAL_BYTES = "local memory per thread, bytes"
BANK_CYCLES = "cycles of the banks of shared memory"


@dataclass(frozen=True, order=True)
class Identity:
    """Which kernel is meant: the input that has it, its name, and which launch of it."""

    path: str
    """Of the input, from the root of the project."""
    kernel: str
    launch: int = 0

    def __str__(self) -> str:
        return f"{self.kernel}#{self.launch}" if self.launch else self.kernel


@dataclass(frozen=True)
class Snapshot:
    """A kernel on a GPU at one time."""

    identity: Identity
    gpu: str
    timing: Timing
    #: As `explanation.versions.counts_of` has them.
    counts: Mapping[str, float] = field(default_factory=dict)
    #: The lines that take most of the time.
    lines: tuple[Line, ...] = ()
    model: str = "warplens"
    #: The file of the kernel's source, from the root of the project; empty where it has none.
    source: str = ""
    #: A digest of the arguments of the launch, or of those of the program; empty where nobody knows them.
    arguments: str = ""

    @property
    def seconds(self) -> float:
        return self.timing.seconds

    def launched_as(self, other: Snapshot) -> bool:
        """Whether as many blocks of as many threads run, with as many others on an SM; a baseline rounds numbers."""
        pairs = ((self.counts.get(name, 0.0), other.counts.get(name, 0.0)) for name in _LAUNCH)
        return all(math.isclose(ours, theirs, rel_tol=1e-3) for ours, theirs in pairs)

    @property
    def source_name(self) -> str:
        return PurePosixPath(self.source).name

    def with_texts(self, text: str) -> Snapshot:
        """Lines with what the source has in them."""
        rows = text.splitlines()

        def known(line: Line) -> bool:
            return line.file in ("", self.source_name) and 0 < line.line <= len(rows)

        lines = (replace(each, text=rows[each.line - 1].strip()) if known(each) else each for each in self.lines)
        return replace(self, lines=tuple(lines))

    def to_dict(self) -> dict[str, Any]:
        return {
            "path": self.identity.path,
            "kernel": self.identity.kernel,
            "launch": self.identity.launch,
            "gpu": self.gpu,
            "model": self.model,
            "source": self.source,
            "arguments": self.arguments,
            "seconds": self.timing.seconds,
            "seconds_low": self.timing.seconds_low,
            "seconds_high": self.timing.seconds_high,
            "causes": dict(self.timing.causes),
            "nearby": list(self.timing.nearby),
            "crowded": self.timing.crowded,
            "counts": dict(self.counts),
            "lines": [[each.file, each.line, each.share, each.text] for each in self.lines],
        }

    @classmethod
    def of_dict(cls, values: Mapping[str, Any]) -> Snapshot:
        timing = Timing(
            values["seconds"],
            values["seconds_low"],
            values["seconds_high"],
            values["causes"],
            tuple(values["nearby"]),
            values["crowded"],
        )
        return cls(
            Identity(values["path"], values["kernel"], values["launch"]),
            values["gpu"],
            timing,
            values["counts"],
            tuple(Line(*row) for row in values["lines"]),
            values["model"],
            values["source"],
            values["arguments"],
        )


def snapshot_of(
    workload: Workload, gpu: Gpu, path: str, source: str = "", local_bytes: int | None = None
) -> Snapshot:
    """The snapshot of a placed workload: its prediction, without looking for advice."""
    answer = explain(workload, gpu, ())
    counts = {name: value for name, value in counts_of(workload, gpu).items() if value}
    if local_bytes:
        counts[LOCAL_BYTES] = float(local_bytes)
    if cycles := _bank_cycles(workload, gpu):
        counts[BANK_CYCLES] = cycles
    return Snapshot(
        Identity(path, workload.name, workload.launch_index),
        gpu.name,
        timing_of(workload, gpu, answer),
        counts,
        tuple(replace(line, counts=None, inner=()) for line in answer.lines[:MOST_LINES]),
        answer.prediction.model,
        source,
    )


def _bank_cycles(workload: Workload, gpu: Gpu) -> float:
    """Cycles for which all requests of the launch hold the banks of shared memory."""
    trace = workload.trace
    if trace is None or not shared_accesses(trace.static).any():
        return 0.0
    traced = analyse(workload, gpu, needed_by="counts").traced
    assert traced is not None
    held = sum(int(conflict_degrees(group, trace.static)[1].sum()) for group in trace.groups())
    return held * (workload.launch.blocks or traced.recorded_blocks) / max(traced.recorded_blocks, 1)
