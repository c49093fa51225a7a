"""What a search found: the fastest configurations, what made them fast, and files for tuners."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .agreement import Agreement
from .estimate import Estimate, features_of
from .kernel_tuner import Measured, PredictedFirst, write_cache
from .space import Configuration, TuningSpace, Value

#: Predictions without which nothing is estimated.
LEAST_ESTIMATED_FROM = 16


@dataclass(frozen=True)
class Candidate:
    """A predicted configuration. Others with the same launch, which differ in unused parameters only, are counted."""

    configuration: int
    parameters: Configuration
    seconds: float
    seconds_low: float
    seconds_high: float
    limiter: str
    busy: float
    occupancy: float
    registers: int | None
    #: Warp instructions of the launch.
    instructions: float
    #: "full" where a whole wave of thread blocks ran, "search" where a part of it did.
    stage: str
    twins: int

    def to_dict(self) -> dict[str, Any]:
        return {**vars(self), "parameters": dict(self.parameters)}


@dataclass(frozen=True)
class Effect:
    """How a parameter moves the time while the others stay: its best and worst value, and how far they are apart."""

    parameter: str
    best: Value
    worst: Value
    factor: float

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class Tuning:
    """The result: a row per configuration and stage, in `table` and in the Parquet file at `path`."""

    space: TuningSpace
    gpu: str
    table: pa.Table = field(repr=False)
    #: Launches that an earlier run had predicted.
    resumed: int
    seconds: float
    path: Path | None = None

    @cached_property
    def _rows(self) -> dict[int, dict[str, Any]]:
        """The latest row of each configuration: stages come in their order."""
        return {row["configuration"]: row for row in self.table.to_pylist()}

    @property
    def predicted(self) -> int:
        return sum(row["seconds"] is not None for row in self._rows.values())

    @property
    def failed(self) -> int:
        return sum(row["error"] is not None for row in self._rows.values())

    @property
    def first_error(self) -> str:
        return next((row["error"] for row in self._rows.values() if row["error"]), "")

    @cached_property
    def candidates(self) -> list[Candidate]:
        """Every predicted launch, the fastest first."""
        found = []
        for group in self.space.twins:
            row = self._rows.get(group[0])
            if row is not None and row["seconds"] is not None:
                given: dict[str, Any] = {name: row[name] for name in Candidate.__dataclass_fields__ if name in row}
                given |= {"parameters": self.space.configurations[group[0]], "twins": len(group) - 1}
                found.append(Candidate(**given, instructions=row["cycles"] * row["ipc"]))
        return sorted(found, key=lambda each: each.seconds)

    def best(self, count: int = 10) -> list[Candidate]:
        return self.candidates[:count]

    @cached_property
    def estimates(self) -> dict[int, float]:
        """Seconds of configurations that a budget left out, from those that were predicted."""
        groups = self.space.twins
        known = self._known
        left = [number for number, group in enumerate(groups) if group[0] not in self._rows]
        if not left or len(known) < LEAST_ESTIMATED_FROM:
            return {}
        logs = self._estimated_from(known)
        return {index: float(np.exp(logs[number])) for number in left for index in groups[number]}

    @cached_property
    def estimate_error(self) -> float | None:
        """How far estimates are off in the median: each half of what was predicted is estimated from the other."""
        known = self._known
        if len(known) < 2 * LEAST_ESTIMATED_FROM:
            return None
        halves = known[::2], known[1::2]
        off = [
            np.abs(np.expm1(self._estimated_from(one)[other] - np.log(self._times(other))))
            for one, other in (halves, halves[::-1])
        ]
        return float(np.median(np.concatenate(off)))

    @cached_property
    def _known(self) -> list[int]:
        return [number for number, group in enumerate(self.space.twins) if self._seconds(group[0]) is not None]

    def _times(self, numbers: list[int]) -> NDArray[np.float64]:
        return np.array([self._seconds(self.space.twins[number][0]) for number in numbers], dtype=np.float64)

    def _estimated_from(self, known: list[int]) -> NDArray[np.float64]:
        """Logarithms of the seconds of all groups, from those of some."""
        points = features_of(self.space, [group[0] for group in self.space.twins])
        return Estimate(points, known, self._times(known)).log_seconds

    def _seconds(self, index: int) -> float | None:
        row = self._rows.get(index)
        return None if row is None else row["seconds"]

    @cached_property
    def effects(self) -> list[Effect]:
        """What matters: a sum of effects of single parameters, fitted to the logarithms of all predicted times."""
        names = [
            name for name, values in self.space.parameters.items() if name in self.space.used and len(values) > 1
        ]
        columns = [(name, value) for name in names for value in self.space.parameters[name]]
        if len(self.candidates) < 2 * len(columns):
            return []
        design = [[1.0, *(float(each.parameters[n] == v) for n, v in columns)] for each in self.candidates]
        rows = np.array(design)
        logs = np.log([each.seconds for each in self.candidates])
        normal = rows.T @ rows + 1e-3 * np.eye(rows.shape[1])
        weights = np.linalg.solve(normal, rows.T @ logs)[1:]
        seen = rows[:, 1:].sum(axis=0) > 0
        found = []
        for name in names:
            own = [(w, v) for w, (n, v), s in zip(weights, columns, seen, strict=True) if n == name and s]
            (low, best), (high, worst) = min(own, key=lambda e: e[0]), max(own, key=lambda e: e[0])
            found.append(Effect(name, best, worst, float(np.exp(high - low))))
        return sorted(found, key=lambda each: -each.factor)

    def write_cache(self, path: str | Path) -> None:
        """The predicted times as a cache file of Kernel Tuner. What was not predicted is not in it."""
        rows = [(self.space.configurations[index], row["seconds"]) for index, row in sorted(self._rows.items())]
        problem = self.space.constants.get("ProblemSize")
        write_cache(path, rows, self.space.parameters, device=self.gpu, kernel=self.space.name, problem=problem)

    def strategy(self) -> PredictedFirst:
        """For `tune_kernel` of Kernel Tuner: measures the predicted and estimated best first."""
        keys = tuple(self.space.parameters)
        predicted = {index: row["seconds"] for index, row in self._rows.items() if row["seconds"] is not None}
        seconds = {
            tuple(self.space.configurations[index][key] for key in keys): value
            for index, value in (predicted | self.estimates).items()
        }
        return PredictedFirst(seconds, keys)

    def agreement(self, measured: Measured) -> Agreement:
        """How well predicted times order what a tuner measured; the fastest of the space counts if not predicted."""
        pairs = [
            (each.seconds, time) for each in self.candidates if (time := measured.of(each.parameters)) is not None
        ]
        times = (measured.of(each) for each in self.space.configurations)
        fastest = min((each for each in times if each is not None), default=None)
        return Agreement.of([p for p, _ in pairs], [m for _, m in pairs], fastest)

    def agreement_of_estimates(self, measured: Measured) -> Agreement:
        """How well estimates order the configurations that a budget left out."""
        pairs = [
            (value, time)
            for index, value in self.estimates.items()
            if (time := measured.of(self.space.configurations[index])) is not None
        ]
        return Agreement.of([p for p, _ in pairs], [m for _, m in pairs])

    def to_dict(self, top: int = 10) -> dict[str, Any]:
        return {
            "kernel": self.space.name,
            "gpu": self.gpu,
            "configurations": len(self.space),
            "launches": len(self.space.twins),
            "predicted": self.predicted,
            "estimated": len(self.estimates),
            "estimate_error": self.estimate_error if self.estimates else None,
            "failed": self.failed,
            "resumed": self.resumed,
            "seconds": self.seconds,
            "output": None if self.path is None else str(self.path),
            "best": [each.to_dict() for each in self.best(top)],
            "effects": [each.to_dict() for each in self.effects],
        }

    def __repr__(self) -> str:
        return f"<Tuning: {self.predicted} of {len(self.space)} configurations of {self.space.name} on {self.gpu}>"
