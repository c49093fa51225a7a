"""What measured times of a tuning space say without a model: how well a card predicts itself, what a search finds.

A set may name a parameter that hardly changes the kernel (`twin`). Two configurations that differ in it alone are
twins, and the time of one predicts that of the other as well as any model can that does not know what the card did
at the moment.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from warplens.errors import FileError
from warplens.explanation.paired import Timing
from warplens.tuning import Measured, TuningSpace, hash_order
from warplens.tuning.agreement import Agreement
from warplens.tuning.estimate import Estimate, features_of, promising

from .signs import Signs, signs
from .tuning import KEPT, SAMPLE, TuningSet, measured_times, read_measured_space

LIMITS = KEPT.with_name("limits.json")
#: Twins that differ by as much were not measured alike.
FAR = 1.3
#: Launches after which a search is looked at, and launches between two estimates: those of two workers.
LOOKS, WIDTH = (100, 200, 300, 400), 8


@dataclass(frozen=True)
class Twins:
    """How well the times of twins predict those of some configurations."""

    name: str
    gpu: str
    parameter: str
    configurations: int
    #: Part of the configurations whose twin differs by `FAR` or more.
    far: float
    agreement: Agreement
    #: Of pairs of the sample, by class; none among all configurations.
    signs: tuple[Signs, ...]


@dataclass(frozen=True)
class SearchStep:
    """What a search has found after some launches, where measured times stand for predictions."""

    name: str
    gpu: str
    launches: int
    of: int
    #: Speed of the best found over that of the best, and of the tenth best found over that of the tenth best.
    best: float
    tenth: float
    #: Of the estimates of all that is left.
    left: Agreement


@dataclass(frozen=True)
class Limits:
    twins: tuple[Twins, ...] = ()
    steps: tuple[SearchStep, ...] = ()

    @classmethod
    def of(cls, sets: Iterable[TuningSet], sources: Path) -> Limits:
        twins: list[Twins] = []
        steps: list[SearchStep] = []
        for chosen in sets:
            space, measured = read_measured_space(chosen, sources)
            times = measured_times(chosen, space, measured)
            twins += _twins(chosen, space, measured, times)
            steps += _steps(chosen, space, times)
        return cls(tuple(twins), tuple(steps))

    @classmethod
    def kept(cls, gpus: Iterable[str]) -> Limits:
        """Those that are committed."""
        document = json.loads(LIMITS.read_text(encoding="utf-8"))
        wanted = set(gpus)
        twins = [
            Twins(
                **{**row, "agreement": _agreement(row["agreement"]), "signs": tuple(Signs(*s) for s in row["signs"])}
            )
            for row in document["twins"]
            if row["gpu"] in wanted
        ]
        steps = [
            SearchStep(**{**row, "left": _agreement(row["left"])})
            for row in document["steps"]
            if row["gpu"] in wanted
        ]
        return cls(tuple(twins), tuple(steps))

    def keep(self) -> Path:
        try:
            LIMITS.write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise FileError(f"{LIMITS}: cannot be written ({error}); --fresh needs a source checkout") from None
        return LIMITS

    def to_dict(self) -> dict[str, Any]:
        twins = [
            {
                **vars(row),
                "agreement": row.agreement.to_dict(),
                "signs": [list(asdict(s).values()) for s in row.signs],
            }
            for row in self.twins
        ]
        return {"twins": twins, "steps": [{**vars(row), "left": row.left.to_dict()} for row in self.steps]}


def _agreement(document: dict[str, Any]) -> Agreement:
    best = document["best_of"]
    return Agreement(**{**document, "best_of": None if best is None else {int(k): v for k, v in best.items()}})


def _twins(chosen: TuningSet, space: TuningSpace, measured: Measured, times: dict[int, float]) -> list[Twins]:
    """Of the sample that is predicted, and of all configurations."""
    order = hash_order(space, times)
    found = []
    for part in (order[:SAMPLE], order) if len(order) > SAMPLE else (order,):
        pairs = [(times[index], twin) for index in part if (twin := _time_of_twin(chosen, space, measured, index))]
        if len(pairs) < 2:
            continue
        own, other = ([pair[side] for pair in pairs] for side in (0, 1))
        known = [Timing(each, None, None, {}) for each in other]
        classes = signs(own, known, [""] * len(pairs)) if len(pairs) <= SAMPLE else {}
        far = sum(max(a / b, b / a) >= FAR for a, b in pairs) / len(pairs)
        told = Agreement.of(other, own), tuple(classes.values())
        found.append(Twins(chosen.name, chosen.gpu, chosen.twin, len(pairs), far, *told))
    return found


def _time_of_twin(chosen: TuningSet, space: TuningSpace, measured: Measured, index: int) -> float | None:
    own = space.configurations[index]
    others = (
        {**own, chosen.twin: value} for value in space.parameters.get(chosen.twin, ()) if value != own[chosen.twin]
    )
    return next((time for each in others if (time := measured.of(each)) is not None), None)


def _steps(chosen: TuningSet, space: TuningSpace, times: dict[int, float]) -> list[SearchStep]:
    """The search of `warplens tune`, over the launches that were measured."""
    timed = [next((index for index in group if index in times), None) for group in space.twins]
    order = hash_order(
        space, [each for each in timed if each is not None and chosen.reached(space.configurations[each])]
    )
    if len(order) < LOOKS[0] + 10:
        return []
    points = features_of(space, order)
    seconds = np.array([times[index] for index in order])
    ranked = np.sort(seconds)
    known: dict[int, float] = {}
    found = []
    for look in LOOKS:
        if len(order) < look + 10:
            break
        while len(known) < look:
            known |= {place: float(seconds[place]) for place in promising(points, known, WIDTH)[: look - len(known)]}
        left = [place for place in range(len(order)) if place not in known]
        estimate = Estimate(points, sorted(known), seconds[sorted(known)])
        agreement = Agreement.of(np.exp(estimate.log_seconds[left]).tolist(), seconds[left].tolist())
        best, tenth = (float(ranked[n] / sorted(known.values())[n]) for n in (0, 9))
        found.append(SearchStep(chosen.name, chosen.gpu, look, len(order), best, tenth, agreement))
    return found
