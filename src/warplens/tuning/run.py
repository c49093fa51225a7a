"""Search a tuning space: predict a spread-out sample, then what promises most, and the best with a whole wave."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from .._version import __version__
from ..errors import InputError
from ..frontends.cuda.compile import compiler_version
from ..machine import Gpu, load_gpu, with_overrides
from ..machine.schema import parameters
from ..models.energy import require_power
from ..result_cache import content_hash
from ..sweeps.cluster import Cluster
from ..sweeps.plan import Unit
from ..sweeps.processes import Processes
from ..sweeps.store import Store, read_sweep
from .estimate import Points, features_of, promising
from .evaluate import STAGES, Work, schema_of
from .result import Tuning
from .space import TuningSpace, read_space

#: Part of a budget after which the best are refined.
SEARCH_SHARE = 0.7
#: Configurations between two estimates, for each worker.
ROUND = 4
#: Configurations that are tried beyond the budget where none of them can run.
MOST_FAILURES = 16
#: Where as many fail at first, all for one reason, the others would too.
MOST_ALIKE = 8
#: Most configurations among which estimates choose.
MOST_CANDIDATES = 20_000
#: Most seconds of finished work that a killed process may lose.
FLUSH_SECONDS = 1.0
MOST_THREADS = 1024

Progress = Callable[[float, float], None]


def run_tuning(
    space: TuningSpace | str | Path,
    gpu: Gpu | str | Path,
    *,
    budget: float | None = None,
    top: int = 10,
    overrides: Mapping[str, Any] | None = None,
    output: str | Path | None = None,
    sources: str | Path | None = None,
    workers: int | None = None,
    scheduler: str | Path | None = None,
    progress: Progress | None = None,
) -> Tuning:
    """Predict the configurations of a tuning space, and find the fastest. Callable as `warplens.tune(…)`.

    `space` is a workload file with a `[tune]` table or a T1 file of Kernel
    Tuner. Without a `budget` (seconds) every configuration is predicted; with
    one, a sample and then those that promise most. The best `top` are
    predicted again with a whole wave of thread blocks. `output` names a
    Parquet file; if it exists, the search resumes from it, also with another
    budget. `workers` processes do the work, or the workers of the Dask
    `scheduler`.
    """
    started = time.monotonic()
    if scheduler is not None and workers is not None:
        raise InputError("give either workers or a scheduler, not both")
    if top < 1 or (budget is not None and not budget > 0):
        raise InputError("top and budget must be above 0")
    found = space if isinstance(space, TuningSpace) else read_space(space, sources=sources)
    machine = with_overrides(gpu if isinstance(gpu, Gpu) else load_gpu(gpu), {})
    _check(found, machine, overrides or {})
    with ExitStack() as stack:
        search = _Search(found, machine, overrides or {}, progress, started, budget)
        if output is not None:
            given = specification(found, machine, overrides or {})
            search.resume(stack.enter_context(Store(Path(output), given, schema_of(found))))
        runner: Processes | Cluster = Processes(workers) if scheduler is None else Cluster(scheduler)
        search.runner = stack.enter_context(runner)
        search.width = ROUND * (runner.workers if isinstance(runner, Processes) else 8)
        stack.callback(search.flush)
        search.run(top)
    table = search.table()
    return Tuning(
        space=found,
        gpu=machine.name,
        table=table,
        resumed=search.resumed,
        seconds=time.monotonic() - started,
        path=None if output is None else Path(output),
    )


def hash_order(space: TuningSpace, indices: Iterable[int]) -> list[int]:
    """Configurations in the order of a hash of their values: any first part of it is a fair sample."""

    def key(index: int) -> str:
        values = space.configurations[index]
        return content_hash(f"{name}={values[name]}" for name in sorted(values) if name in space.used)

    return sorted(indices, key=key)


class _Search:
    """What is predicted so far, and what to predict next. Groups of twins are predicted as one."""

    def __init__(
        self,
        space: TuningSpace,
        machine: Gpu,
        overrides: Mapping[str, Any],
        progress: Progress | None,
        started: float,
        budget: float | None,
    ) -> None:
        self.groups = space.twins
        self.works = [Work(space, machine, stage, overrides) for stage in STAGES]
        self.space, self.progress, self.started, self.budget = space, progress, started, budget
        self.runner: Any = None
        self.width = ROUND
        self.store: Store | None = None
        self.tables: dict[int, pa.Table] = {}
        self.resumed = self._tried = self._top = 0
        self._reasons: set[str | None] = set()
        self._unwritten: list[tuple[int, pa.Table]] = []
        self._flushed = time.monotonic()
        first = {group[0]: number for number, group in enumerate(self.groups)}
        self.order = [first[index] for index in hash_order(space, first)]

    # -- what is known

    def resume(self, store: Store) -> None:
        """Take what an earlier run has finished."""
        self.store = store
        group_of = {index: number for number, group in enumerate(self.groups) for index in group}
        rows = read_sweep(store.path)
        numbers = [
            self._number(group_of[index], stage)
            for index, stage in zip(
                rows.column("configuration").to_pylist(), rows.column("stage").to_pylist(), strict=True
            )
        ]
        places: dict[int, list[int]] = {}
        for index, number in enumerate(numbers):
            places.setdefault(number, []).append(index)
        self.tables = {number: rows.take(places[number]) for number in store.done if number in places}
        self.resumed = len({number % len(self.groups) for number in self.tables})

    def table(self) -> pa.Table:
        tables = [self.tables[number] for number in sorted(self.tables)]
        return pa.concat_tables(tables) if tables else schema_of(self.space).empty_table()

    def _number(self, group: int, stage: str) -> int:
        return STAGES.index(stage) * len(self.groups) + group

    def _is_known(self, group: int, stage: str) -> bool:
        return self._number(group, stage) in self.tables

    def _seconds(self, group: int) -> float:
        """The best that is known of a group; infinite if it cannot run."""
        for stage in reversed(STAGES):
            table = self.tables.get(self._number(group, stage))
            if table is not None:
                value = table.column("seconds")[0].as_py()
                return math.inf if value is None else float(value)
        return math.inf

    @property
    def _any_predicted(self) -> bool:
        return any(self._is_known(group, "search") and math.isfinite(self._seconds(group)) for group in self.order)

    @property
    def _is_hopeless(self) -> bool:
        return self._tried >= MOST_ALIKE and len(self._reasons) == 1 and None not in self._reasons

    # -- the search

    def run(self, top: int) -> None:
        """Until everything is predicted, or the budget is spent; even a small one predicts something that can run."""
        self._top = top
        self._prune()
        while self._time_left(1.0) > 0 or not (self._any_predicted or self._tried >= MOST_FAILURES):
            if self._is_hopeless:
                break
            refining = self._time_left(SEARCH_SHARE) <= 0 or not self._unknown()
            some = self._to_refine(top) if refining else []
            stage = "full" if some else "search"
            some = some or self._promising()
            if not some:
                break
            self._predict(some, stage)

    def _prune(self) -> None:
        """Blocks that no GPU takes need not be compiled."""
        for number in self._unknown():
            try:
                block = self.space.extents("block", self.space.configurations[self.groups[number][0]])
            except InputError:
                block = [MOST_THREADS + 1]
            if math.prod(block) > MOST_THREADS:
                self._keep(number, self.works[0].rows(np.array(self.groups[number])))

    def _unknown(self) -> list[int]:
        return [number for number in self.order if not self._is_known(number, "search")]

    def _promising(self) -> list[int]:
        """What to predict next: the sample, then some more of it and those with the lowest time that is likely."""
        unknown = self._unknown()
        if self.budget is None:
            return unknown
        places = enumerate(self.order[:MOST_CANDIDATES])
        known = {place: self._seconds(number) for place, number in places if self._is_known(number, "search")}
        return [self.order[place] for place in promising(self._points, known, self.width)] or unknown

    @cached_property
    def _points(self) -> Points:
        return features_of(self.space, [self.groups[number][0] for number in self.order[:MOST_CANDIDATES]])

    def _to_refine(self, top: int) -> list[int]:
        """Of the best, those that were predicted from few blocks only."""
        known = [number for number in self.order if math.isfinite(self._seconds(number))]
        best = sorted(known, key=self._seconds)[:top]
        return [number for number in best if not self._is_known(number, "full")]

    def _time_left(self, share: float) -> float:
        return math.inf if self.budget is None else self.started + share * self.budget - time.monotonic()

    # -- the work

    def _predict(self, some: Sequence[int], stage: str) -> None:
        work = STAGES.index(stage)
        units = [Unit(self._number(each, stage), work, np.array(self.groups[each]), 1.0) for each in some]
        results: Iterator[tuple[int, pa.Table]] = self.runner.results(units, self.works, self._tell)
        for number, table in results:
            self._keep(number, table)
            self._tried += 1
            self._reasons.add(table.column("error")[0].as_py())
            self._tell()
            if self._time_left(1.0) <= 0 or self._is_hopeless:
                break

    def _keep(self, number: int, table: pa.Table) -> None:
        self.tables[number] = table
        self._unwritten.append((number, table))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write finished units to disk."""
        if self.store is not None:
            self.store.add(self._unwritten)
        self._unwritten, self._flushed = [], time.monotonic()

    def _tell(self) -> None:
        if self.progress is None:
            return
        if self.budget is None:
            most = len(self.groups) + min(self._top, len(self.groups))  # the best are predicted twice
            self.progress(min(len(self.tables), most), most)
        else:
            self.progress(min(time.monotonic() - self.started, self.budget), self.budget)


def _check(space: TuningSpace, machine: Gpu, overrides: Mapping[str, Any]) -> None:
    """Refuse what concerns every configuration before any work: expressions, and keys of overrides."""
    per_kernel = {"clock"} if overrides.get("clock") == "power" else set()
    if per_kernel:
        require_power(machine)
    given = {k: v for k, v in overrides.items() if not k.startswith("launch.") and k not in per_kernel}
    with_overrides(machine, given)
    for key in ("grid", "block"):
        space.extents(key, space.configurations[0])


def specification(space: TuningSpace, machine: Gpu, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that rows depend on; a budget is not among it."""
    values = repr([machine.get(path) for path in parameters()])
    return {
        "version": __version__,
        "space": space.digest,
        "compiler": compiler_version() if space.source_text else "",
        "configurations": len(space),
        "machines": {machine.name: content_hash([values])},
        "set": dict(overrides),
    }
