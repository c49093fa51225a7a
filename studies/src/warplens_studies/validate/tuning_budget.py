"""What `warplens tune` finds in a measured space within a budget: one search for each set, and what it chose."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from warplens.errors import FileError
from warplens.tuning import run_tuning
from warplens.tuning.result import Tuning

from .tuning import KEPT, TuningSet, measured_times, read_measured_space

SEARCHES = KEPT.with_name("searches.json")
#: How many of the predicted best a tuner measures.
TRIALS = (10, 20)


@dataclass(frozen=True)
class Search:
    """One search: its budget, how much of the space it predicted, and how fast its choice is."""

    name: str
    gpu: str
    clock: str
    budget_seconds: float
    workers: int
    configurations: int
    predicted: int
    #: Speed of the fastest measured among the predicted best, over that of the fastest of all, by their number.
    best_of: Mapping[int, float]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def search_set(
    chosen: TuningSet, sources: Path, budget_seconds: float, workers: int, progress: Callable[[float, float], None]
) -> Search:
    """Search the space of a set at its last clock, as `warplens tune` does."""
    space, measured = read_measured_space(chosen, sources)
    space = space.with_fixed({name: str(value) for name, value in chosen.fixed.items()})
    clock = chosen.clocks[-1]
    found = run_tuning(
        space,
        chosen.gpu,
        budget=budget_seconds,
        top=max(TRIALS),
        overrides={"clock": clock},
        workers=workers,
        progress=progress,
    )
    speeds = best_speeds(found, measured_times(chosen, space, measured))
    what = chosen.name, chosen.gpu, clock, budget_seconds, workers
    return Search(*what, len(space), found.predicted, speeds)


def best_speeds(found: Tuning, times: Mapping[int, float]) -> dict[int, float]:
    """Of the best that a search chose, by their number; `times` are measured, by configuration."""
    group_of = {index: group for group in found.space.twins for index in group}
    best = [
        min((times[index] for index in group_of[each.configuration] if index in times), default=float("inf"))
        for each in found.best(max(TRIALS))
    ]
    return {count: min(times.values()) / min(best[:count], default=float("inf")) for count in TRIALS}


def kept_searches(gpus: Iterable[str]) -> list[Search]:
    """Those that are committed."""
    wanted = set(gpus)
    rows = json.loads(SEARCHES.read_text(encoding="utf-8")) if SEARCHES.is_file() else []
    return [
        Search(**{**row, "best_of": {int(count): speed for count, speed in row["best_of"].items()}})
        for row in rows
        if row["gpu"] in wanted
    ]


def keep_searches(made: Iterable[Search], sets: Iterable[TuningSet]) -> Path:
    """Write searches to the source tree, in place of those of the same sets; others stay."""
    order = [(each.name, each.gpu) for each in sets]
    rows = {(each.name, each.gpu): each for each in (*kept_searches(gpu for _, gpu in order), *made)}
    kept = [rows[key].to_dict() for key in order if key in rows]
    try:
        SEARCHES.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise FileError(f"{SEARCHES}: cannot be written ({error}); --fresh needs a source checkout") from None
    return SEARCHES
