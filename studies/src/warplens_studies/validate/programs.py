"""Every model on programs nobody here wrote: launches of public CUDA programs, measured and traced on an H200.

`benchmarks/h200/measure_programs.py` makes the figures and the traces. Only figures are kept: what Nsight Compute
counted, and what each model says from the trace. No number is fitted to these programs.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from warplens._version import __version__
from warplens.api import compare
from warplens.errors import FileError, WarplensError
from warplens.traces import StoredLaunch, read_trace

from .h200 import FOLDER, MACHINE
from .h200_profiles import fingerprint
from .metrics import cycle_error, rank_correlation, to_be_ranked

MEASURED = FOLDER / "programs.json"
PREDICTED = FOLDER / "programs_predictions.json"
OWN = "warplens"
#: A launch counts as predicted well within this error.
NEAR = 0.20
#: Of a prediction's summary, what Nsight Compute counts too.
SIMULATED = ("l1_miss_ratio", "llc_miss_ratio", "dram_read_bytes", "dram_write_bytes")
#: The model's busiest resource, if it is busy at least so much; else latency.
BUSY = 0.7
LIMITERS = {
    "busy_issue": "issue slots",
    "busy_units": "units",
    "busy_L1": "L1 port",
    "busy_NoC_SM": "L2 ports",
    "busy_NoC": "L2 ports",
    "busy_DRAM": "DRAM",
}


@dataclass(frozen=True)
class Launch:
    """A measured launch; `launch` counts those of its program from 0."""

    program: str
    suite: str
    launch: int
    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    blocks: int
    recorded_blocks: int
    exact_share: float | None
    """Share of the recorded instructions on which the trace and the counters agree."""
    trace: str
    measured: Mapping[str, float]

    @property
    def name(self) -> str:
        return f"{self.program}:{self.launch}"

    @property
    def cycles(self) -> float:
        return self.measured["elapsed_cycles"]


@dataclass(frozen=True)
class Predicted:
    """What the models say about a launch, and what the cache simulation counts."""

    cycles: Mapping[str, float]
    low: float | None
    high: float | None
    limiter: str
    simulated: Mapping[str, float]


@dataclass(frozen=True)
class Row:
    """A launch, measured and predicted."""

    launch: Launch
    predicted: Predicted

    def error(self, model: str = OWN) -> float | None:
        """Signed error of the cycles: positive where the model is too slow."""
        cycles = self.predicted.cycles.get(model)
        return None if cycles is None else cycle_error(cycles, self.launch.cycles)

    @property
    def covered(self) -> bool:
        """Whether there is a range and it holds the measured cycles."""
        ranged = coverage([self])
        return ranged is not None and ranged.held == 1.0

    def simulated(self, name: str) -> float | None:
        """What the cache simulation counts, for all blocks."""
        value = self.predicted.simulated.get(name)
        scale = self.launch.blocks / self.launch.recorded_blocks if name.endswith("_bytes") else 1.0
        return None if value is None else value * scale

    def to_dict(self) -> dict[str, Any]:
        launch, predicted = self.launch, self.predicted
        return {
            "program": launch.program,
            "suite": launch.suite,
            "launch": launch.launch,
            "kernel": launch.kernel,
            "blocks": launch.blocks,
            "recorded_blocks": launch.recorded_blocks,
            "limiter": predicted.limiter,
            "cycles_low": predicted.low,
            "cycles_high": predicted.high,
            **{f"predicted_{name}": cycles for name, cycles in predicted.cycles.items()},
            **{f"simulated_{name}": self.simulated(name) for name in SIMULATED},
            **{f"measured_{name}": value for name, value in launch.measured.items()},
        }


# -- measured ------------------------------------------------------------------------------


@cache
def document() -> Mapping[str, Any]:
    """What `benchmarks/h200/measure_programs.py collect` wrote: `about`, `programs` and `launches`."""
    found: dict[str, Any] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return found


def launches() -> list[Launch]:
    """The measured launches in the order of the list of programs."""
    programs = document()["programs"]
    return [
        Launch(
            program=each["program"],
            suite=programs[each["program"]]["suite"],
            launch=each["launch"],
            kernel=each["kernel"],
            grid=tuple(each["grid"]),
            block=tuple(each["block"]),
            blocks=each["blocks"],
            recorded_blocks=each["recorded_blocks"],
            exact_share=each["exact_share"],
            trace=each["trace"],
            measured=each["measured"],
        )
        for each in document()["launches"]
    ]


# -- predicted -----------------------------------------------------------------------------


def predict_all(folder: Path, wanted: Sequence[Launch], workers: int | None = None) -> Iterator[tuple[str, Any]]:
    """(Name of a launch, its prediction or why there is none), as they are done."""
    missing = sorted({each.trace for each in wanted if not (folder / each.trace).is_file()})
    if missing:
        raise FileError(f"{folder}: lacks {', '.join(missing[:3])}{' and others' if len(missing) > 3 else ''}")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers or os.cpu_count() or 1, context) as pool:
        jobs = {pool.submit(predict_launch, folder / each.trace, each.launch): each.name for each in wanted}
        for job in as_completed(jobs):
            yield jobs[job], job.result()


def predict_launch(trace: Path, launch: int) -> Predicted | str:
    """What every model says about one launch of a trace, or why none says anything."""
    try:
        return predicted_of(next(each for each in read_trace(trace) if each.header.launch_index == launch))
    except StopIteration:
        return f"{trace.name} has no launch {launch}"
    except WarplensError as error:
        return str(error)


def predicted_of(trace: StoredLaunch) -> Predicted:
    found = compare(trace, [MACHINE])
    cycles = {each.model: float(each.cycles) for each in found.predictions}
    terms = next((each.terms for each in found.predictions if each.model == OWN), {})
    inputs = found.inputs[0] if found.inputs else {}
    return Predicted(
        cycles=cycles,
        low=_number(terms.get("cycles_low")),
        high=_number(terms.get("cycles_high")),
        limiter=limiter_of(terms),
        simulated={name: float(inputs[name]) for name in SIMULATED if inputs.get(name) is not None},
    )


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def limiter_of(terms: Mapping[str, Any]) -> str:
    """The busiest resource, or latency where none is busy."""
    busy = {name: float(terms[name]) for name in LIMITERS if name in terms}
    busiest = max(busy, key=busy.__getitem__, default=None)
    return LIMITERS[busiest] if busiest is not None and busy[busiest] >= BUSY else "latency"


def write_predictions(found: Mapping[str, Predicted]) -> Path:
    """Keep predictions in the source tree, in the place of older ones of the same launches."""
    kept = {**kept_predictions(), **found}
    head = {"made_by": "warplens validate programs --fresh", "version": __version__, "machine": fingerprint()}
    lines = (
        f"{json.dumps(each.name)}: {json.dumps(_plain(kept[each.name]))}" for each in launches() if each.name in kept
    )
    text = json.dumps(head)[:-1] + ', "launches": {\n' + ",\n".join(lines) + "\n}}\n"
    try:
        PREDICTED.write_text(text, encoding="utf-8")
    except OSError as error:
        raise FileError(f"{PREDICTED}: cannot be written ({error}); --fresh needs a source checkout") from None
    return PREDICTED


def _plain(one: Predicted) -> dict[str, Any]:
    def short(value: float | None) -> float | None:
        return None if value is None else float(f"{value:.6g}")

    return {
        "cycles": {name: short(cycles) for name, cycles in one.cycles.items()},
        "low": short(one.low),
        "high": short(one.high),
        "limiter": one.limiter,
        "simulated": {name: short(value) for name, value in one.simulated.items()},
    }


def kept_predictions() -> dict[str, Predicted]:
    """The predictions that come with the package, whatever machine they belong to."""
    if not PREDICTED.exists():
        return {}
    kept = json.loads(PREDICTED.read_text(encoding="utf-8"))
    return {name: Predicted(**each) for name, each in kept["launches"].items()}


def stale() -> str:
    """Why the kept predictions are not those of this machine and version; empty where they are."""
    if not PREDICTED.exists():
        return f"{PREDICTED.name} is missing"
    kept = json.loads(PREDICTED.read_text(encoding="utf-8"))
    if kept["version"] != __version__:
        return f"{PREDICTED.name} is of version {kept['version']}"
    return "" if kept["machine"] == fingerprint() else f"{PREDICTED.name} is of another machine file"


# -- compared ------------------------------------------------------------------------------


def compare_launches(wanted: Collection[Launch], predictions: Mapping[str, Predicted]) -> list[Row]:
    return [Row(each, predictions[each.name]) for each in wanted if each.name in predictions]


@dataclass(frozen=True)
class Summary:
    """How close a model comes."""

    launches: int
    mean: float
    """Mean of the errors' magnitudes; `median` likewise."""
    median: float
    median_signed: float
    near: float
    """Share of launches within 20 %."""
    above_double: int
    """Launches whose error is above 100 %."""
    rank: float
    """Spearman's ρ of predicted and measured cycles."""


def summarise(rows: Sequence[Row], model: str = OWN) -> Summary | None:
    """None where the model says nothing."""
    known = [(row, error) for row in rows if (error := row.error(model)) is not None]
    if not known:
        return None
    errors = [error for _, error in known]
    sizes = [abs(error) for error in errors]
    return Summary(
        launches=len(known),
        mean=statistics.fmean(sizes),
        median=statistics.median(sizes),
        median_signed=statistics.median(errors),
        near=sum(size <= NEAR for size in sizes) / len(sizes),
        above_double=sum(size > 1.0 for size in sizes),
        rank=rank_correlation(
            to_be_ranked([row.predicted.cycles[model] for row, _ in known]),
            to_be_ranked([row.launch.cycles for row, _ in known]),
        ),
    )


@dataclass(frozen=True)
class Coverage:
    """The range that comes with the cycles of `warplens`."""

    held: float
    """Share of launches whose measured cycles it holds."""
    half_width: float
    """Median of half its width, over the predicted cycles."""


def coverage(rows: Sequence[Row]) -> Coverage | None:
    """None where no prediction has a range."""
    held, widths = [], []
    for row in rows:
        low, high = row.predicted.low, row.predicted.high
        if low is not None and high is not None:
            held.append(low <= row.launch.cycles <= high)
            widths.append((high - low) / 2.0 / row.predicted.cycles[OWN])
    return Coverage(sum(held) / len(held), statistics.median(widths)) if held else None


def models_of(rows: Sequence[Row]) -> list[str]:
    """Models with a prediction, our own first and the others by their mean error."""
    names = dict.fromkeys(model for row in rows for model in row.predicted.cycles)
    means = {name: found.mean for name in names if (found := summarise(rows, name)) is not None}
    return sorted(means, key=lambda name: (name != OWN, means[name]))
