"""Verdicts of `warplens check` against an H200: small edits of the suite's kernels, measured before and after.

Predicting all of them takes minutes, so verdicts are kept, with a fingerprint of the machine's values.
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from warplens._version import __version__
from warplens.api import place
from warplens.errors import FileError
from warplens.frontends.cuda.module import cuda
from warplens.gate import Snapshot, verdict
from warplens.gate.project import FAIL_ABOVE
from warplens.gate.snapshot import snapshot_of
from warplens.suite.catalog import SUITE
from warplens.workload import workload_of_trace

from .editing import Edit, Version, edits, unedited
from .h200 import FOLDER, MACHINE, lines
from .h200_profiles import fingerprint
from .report import csv_text

MEASURED = FOLDER / "edits_measured.csv"
PREDICTED = FOLDER / "edits_predictions.csv"
BEFORE = "before"
#: Measured changes from which on an edit is a real change, and below which it is none.
REAL, NONE = 0.10, 0.02


@dataclass(frozen=True)
class Predicted:
    """What the gate says of an edit."""

    edit: str
    seconds_before: float
    seconds_after: float
    change: float
    change_low: float
    change_high: float
    outcome: str


@dataclass(frozen=True)
class EditRow:
    """An edit: what was measured, and the verdict."""

    edit: str
    kernel: str
    what: str
    before_us: float
    after_us: float
    predicted_before_us: float
    predicted_after_us: float
    measured_change: float
    change: float
    change_low: float
    change_high: float
    outcome: str

    @property
    def is_real(self) -> bool:
        return abs(self.measured_change) >= REAL

    @property
    def is_none(self) -> bool:
        return abs(self.measured_change) < NONE

    @property
    def sign_right(self) -> bool:
        return self.outcome == ("slower" if self.measured_change > 0.0 else "faster")

    @property
    def alarms(self) -> bool:
        return self.outcome == "slower" and self.change > FAIL_ABOVE

    @property
    def holds(self) -> bool:
        """Whether the measured change lies in the range, or both are too small to tell."""
        return self.change_low <= self.measured_change <= self.change_high or (
            self.is_none and abs(self.change) < NONE
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


# -- measured and predicted ----------------------------------------------------------------


@cache
def measured() -> dict[tuple[str, str], float]:
    """Seconds by kernel and edit."""
    return {(row["kernel"], row["edit"]): 1e-9 * float(row["duration_ns"]) for row in lines(MEASURED)[1]}


def edit_names() -> list[str]:
    """Edits of which both versions were measured."""
    known = measured()
    return [name for name, each in edits().items() if {(each.kernel, BEFORE), (each.kernel, name)} <= set(known)]


def predict_edits(names: Collection[str]) -> Iterator[Predicted]:
    """Run and predict both versions of each edit; the one before is shared by the edits of a kernel."""
    kernel, before = "", None
    for name in names:
        edit = edits()[name]
        if before is None or edit.kernel != kernel:
            kernel, before = edit.kernel, snapshot(edit.kernel, unedited(edit.kernel))
        after = snapshot(kernel, edit.apply(unedited(kernel)))
        found = verdict(before, after)
        changes = found.change, found.change_low, found.change_high
        yield Predicted(name, before.seconds, after.seconds, *changes, found.outcome)


def snapshot(name: str, version: Version) -> Snapshot:
    """What the gate keeps of a version of a suite kernel."""
    kernel, launch = SUITE[name], version.launch
    run = (
        cuda(version.source, name=kernel.source, options=version.options)
        .kernel(kernel.entry)
        .launch(
            launch.grid,
            launch.block,
            *launch.copied_arguments(),
            dynamic_shared_memory_bytes=launch.dynamic_shared_memory_bytes,
            constants=launch.constants,
        )
    )
    return snapshot_of(*place(workload_of_trace(run.trace()), MACHINE), name)


def write_predictions(found: Sequence[Predicted]) -> Path:
    """Keep verdicts in the source tree, in the place of older ones for the same edits."""
    kept = {each.edit: each for each in (*(kept_predictions() if PREDICTED.exists() else ()), *found)}
    head = f"# made by: warplens validate edits --fresh\n# version: {__version__}\n# machine: {fingerprint()}\n"
    rows = ({**asdict(kept[name])} for name in edits() if name in kept)
    text = csv_text({key: f"{v:.5g}" if isinstance(v, float) else v for key, v in row.items()} for row in rows)
    try:
        PREDICTED.write_text(head + text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{PREDICTED}: cannot be written ({error}); --fresh needs a source checkout") from None
    return PREDICTED


def kept_predictions() -> list[Predicted]:
    """The verdicts that come with the package, whatever machine they belong to."""
    return [
        Predicted(row.pop("edit"), outcome=row.pop("outcome"), **{name: float(value) for name, value in row.items()})
        for row in map(dict, lines(PREDICTED)[1])
    ]


def stale(names: Collection[str]) -> str:
    """Why the kept verdicts are not those of this machine and version; empty where they are."""
    if not PREDICTED.exists():
        return f"{PREDICTED.name} is missing"
    head = lines(PREDICTED)[0]
    if head.get("version") != __version__:
        return f"{PREDICTED.name} is of version {head.get('version')}"
    if head.get("machine") != fingerprint():
        return f"{PREDICTED.name} is of another machine file"
    missing = set(names) - {each.edit for each in kept_predictions()}
    return f"{PREDICTED.name} lacks {', '.join(sorted(missing))}" if missing else ""


# -- compared ------------------------------------------------------------------------------


def compare(predicted: Sequence[Predicted]) -> list[EditRow]:
    """The edits in the order of their list."""
    by_name = {each.edit: each for each in predicted}
    return [_row(edits()[name], by_name[name]) for name in edit_names() if name in by_name]


def _row(edit: Edit, found: Predicted) -> EditRow:
    before, after = measured()[edit.kernel, BEFORE], measured()[edit.kernel, edit.name]
    return EditRow(
        edit.name,
        edit.kernel,
        edit.what,
        1e6 * before,
        1e6 * after,
        1e6 * found.seconds_before,
        1e6 * found.seconds_after,
        after / before - 1.0,
        found.change,
        found.change_low,
        found.change_high,
        found.outcome,
    )


@dataclass(frozen=True)
class Summary:
    """How often the gate is right."""

    edits: int
    real: int
    """Measured changes of at least 10 %."""
    caught: int
    """Of those: the verdict has the right sign."""
    wrong: int
    """Of those: the verdict has the wrong sign."""
    none: int
    """Measured changes below 2 %."""
    alarms: int
    """Of those: the gate fails."""
    called_same: int
    """Of those: the verdict is `same`."""
    in_range: int
    """Of all: the measured change lies in the predicted range."""
    median_error: float
    """Median distance between predicted and measured change, as a part of the time before."""


def summarise(rows: Sequence[EditRow]) -> Summary:
    real = [row for row in rows if row.is_real]
    none = [row for row in rows if row.is_none]
    return Summary(
        edits=len(rows),
        real=len(real),
        caught=sum(row.sign_right for row in real),
        wrong=sum(row.outcome != "same" and not row.sign_right for row in real),
        none=len(none),
        alarms=sum(row.alarms for row in none),
        called_same=sum(row.outcome == "same" for row in none),
        in_range=sum(row.holds for row in rows),
        median_error=statistics.median(abs(row.change - row.measured_change) for row in rows),
    )
