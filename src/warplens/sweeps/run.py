"""Run a sweep: question, plan, workers, result."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from .._version import __version__
from ..api import Input, load, load_workloads, place
from ..errors import InputError, UnknownNameError, nearest
from ..machine import Gpu, load_gpu, with_overrides
from ..machine.schema import parameters
from ..models import MODELS, get_model
from ..notebook import Displayed
from ..result_cache import content_hash
from ..traces.digest import trace_digest
from ..workload import Workload
from ..workload.launch import LAUNCH_KEYS
from .cluster import Cluster
from .evaluate import Question, Target, schema_of
from .plan import Unit, plan
from .space import Axis, make_axis, make_space
from .store import Store, read_sweep
from .work import Result, Threads, Work

SIMULATORS = ("detailed", "pipeline")
#: Most seconds of finished work that a killed process may lose.
FLUSH_SECONDS = 1.0

#: Called with (fraction of the work done, 1).
Progress = Callable[[float, float], None]


@dataclass(frozen=True, eq=False)
class Sweep(Displayed):
    """The result: a table with a row per kernel, model and configuration, in memory or read on demand."""

    path: Path | None
    configurations: int
    rows: int
    #: Rows that an earlier run had finished.
    resumed_rows: int
    #: Models that cannot use any input of the sweep, with the reason (if all models were requested).
    skipped: Mapping[str, str]
    seconds: float
    _held: pa.Table | None = None
    #: Row groups of the output that were damaged, and computed again.
    repaired: tuple[str, ...] = ()

    @cached_property
    def table(self) -> pa.Table:
        return self._columns(None)

    def _columns(self, names: Sequence[str] | None) -> pa.Table:
        if self._held is None:
            assert self.path is not None
            return read_sweep(self.path, names)
        return self._held if names is None else self._held.select(names)

    def __len__(self) -> int:
        return self.rows

    @cached_property
    def errors(self) -> int:
        """Rows that have an error in place of results."""
        return self.rows - int(self._columns(["error"]).column("error").null_count)

    def to_pandas(self) -> Any:
        return self.table.to_pandas()

    def __repr__(self) -> str:
        return f"<Sweep: {len(self)} rows of {self.configurations} configurations, {self.errors} with errors>"


def run_sweep(
    inputs: Input | Sequence[Input],
    gpu: Gpu | str | Path | None = None,
    vary: Mapping[str, Any] | Sequence[Axis] | None = None,
    *,
    models: Iterable[str] | None = None,
    simulators: Iterable[str] = (),
    overrides: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    mode: str = "grid",
    sample: int | None = None,
    seed: int = 0,
    output: str | Path | None = None,
    workers: int | None = None,
    scheduler: str | Path | None = None,
    progress: Progress | None = None,
) -> Sweep:
    """Predict kernels on every configuration of a design space. Callable as `warplens.sweep(…)`.

    `vary` maps parameters to their values: a list, or text as after `--vary`
    (`"32,64,128"`, `"200GB/s:900GB/s:100GB/s"`). They form a grid, pairs
    (`mode="zip"`), or a Latin hypercube of `sample` points. Without `models`, all
    models run that can use the inputs. `output` names a Parquet file; if it
    exists, the sweep resumes from it. A row equals `predict` with the same
    overrides; an invalid configuration has its error in the row. `workers`
    threads of this process do the work, or the workers of the Dask `scheduler`.
    """
    started = time.monotonic()
    if scheduler is not None and workers is not None:
        raise InputError("give either workers or a scheduler, not both")
    machine = gpu if gpu is None or isinstance(gpu, Gpu) else load_gpu(gpu)
    space = make_space(vary or {}, mode=mode, sample=sample, seed=seed)
    fixed = _fixed_values(overrides or {}, space.columns)
    targets = _targets(models, simulators, options or {})
    workloads = [each for given in _several(inputs) for each in _loaded(given, machine)]
    if not workloads:
        raise InputError("there is no kernel to sweep")
    machines = [place(each, machine)[1] for each in workloads]
    with_overrides(machines[0], {key: value for key, value in fixed.items() if key not in LAUNCH_KEYS})
    skipped: dict[str, str] = {}
    if models is None and not simulators:
        targets, skipped = _possible(targets, workloads, machines)
    question = Question(machine, fixed, space, targets)
    schema = schema_of(question, machines)
    units = plan(workloads, question)

    works = [Work(*pair, question, schema) for pair in zip(workloads, machines, strict=True)]
    with Threads(workers) if scheduler is None else Cluster(scheduler) as runner:

        def results(some: Sequence[Unit]) -> Iterator[Result]:
            told = _Told(units, some, progress)
            return told.of(runner.results(some, works, told))

        if output is None:
            tables = dict(results(units))
            table = pa.concat_tables([tables[unit.number] for unit in units])
            return Sweep(None, space.size, table.num_rows, 0, skipped, time.monotonic() - started, table)
        path = Path(output)
        specification = _specification(workloads, machines, question, mode, sample, seed)
        specification["units"] = content_hash(unit.rows.tobytes() for unit in units)
        with Store(path, specification, schema) as store:
            resumed, done = store.rows, store.done
            _keep(results([unit for unit in units if unit.number not in done]), store)
            rows = store.rows
            repaired = tuple(store.damaged)
    return Sweep(path, space.size, rows, resumed, skipped, time.monotonic() - started, repaired=repaired)


# -- the question ----------------------------------------------------------------------------------


def _several(inputs: Input | Sequence[Input]) -> list[Input]:
    return list(inputs) if isinstance(inputs, list | tuple) else [inputs]  # type: ignore[list-item]


def _loaded(given: Input, gpu: Gpu | None) -> list[Workload]:
    """The launches of an input, with their results kept on disk."""
    found = load_workloads(given, gpu=gpu) if isinstance(given, str | Path) else [load(given)]
    return [dataclasses.replace(each, results=each.results.on_disk()) for each in found]


def _fixed_values(overrides: Mapping[str, Any], varied: Mapping[str, Any]) -> dict[str, Any]:
    found = {}
    for key, value in overrides.items():
        axis = make_axis(key, value)
        if axis.key in varied:
            raise InputError(f"{axis.key} is both set and varied")
        if len(axis) != 1 or axis.continuous:
            raise InputError(f"{axis.key}: --set takes one value; use --vary for several")
        found[axis.key] = axis.values[0].item() if axis.is_numeric else axis.values[0]
    return found


def _targets(
    models: Iterable[str] | None, simulators: Iterable[str], options: Mapping[str, Mapping[str, Any]]
) -> tuple[Target, ...]:
    simulators = list(simulators)
    named = list(models) if models is not None else [] if simulators else list(MODELS)
    for name in simulators:
        if name not in SIMULATORS:
            raise UnknownNameError(f"no simulator is named {name!r}; {nearest(name, SIMULATORS)}")
    for name in options:
        if name not in named:
            raise UnknownNameError(f"options are given for {name!r}, which is not among the models to run")
    for name in named:
        get_model(name, options.get(name))  # reject an unknown model or option before any work
    return (
        *(Target(name, "model", dict(options.get(name, {}))) for name in dict.fromkeys(named)),
        *(Target(name, "simulator") for name in dict.fromkeys(simulators)),
    )


def _possible(
    targets: Sequence[Target], workloads: Sequence[Workload], machines: Sequence[Gpu]
) -> tuple[tuple[Target, ...], dict[str, str]]:
    """Models that can use some kernel, and why the others are left out."""
    kept, skipped = [], {}
    for target in targets:
        model = get_model(target.name, target.options)
        reasons = [model.missing(*pair) for pair in zip(workloads, machines, strict=True)]
        if all(reasons):
            skipped[target.name] = reasons[0]
        else:
            kept.append(target)
    if not kept:
        raise InputError(f"no model can use this input; {next(iter(skipped.values()))}")
    return tuple(kept), skipped


def _specification(
    workloads: Sequence[Workload],
    machines: Sequence[Gpu],
    question: Question,
    mode: str,
    sample: int | None,
    seed: int,
) -> dict[str, Any]:
    """Everything that the rows of a sweep depend on."""
    columns = question.space.columns
    named = {each.name: repr([each.get(path) for path in parameters()]) for each in machines}
    return {
        "version": __version__,
        "kernels": [[each.name, each.launch_index, _digest(each)] for each in workloads],
        "machines": {name: content_hash([text]) for name, text in named.items()},
        "set": dict(question.overrides),
        "space": {
            "mode": "sample" if sample is not None else mode,
            "seed": seed if sample is not None else None,
            "keys": list(columns),
            "configurations": question.space.size,
            "values": content_hash(part for column in columns.values() for part in _text_of(column)),
        },
        "targets": [[target.kind, target.name, dict(target.options)] for target in question.targets],
    }


def _digest(workload: Workload) -> str:
    if workload.trace is not None:
        return content_hash([trace_digest(workload.trace), workload.order, workload.selection, repr(workload.launch)])
    return content_hash(_text_of(workload))


def _text_of(value: Any) -> Iterator[str | bytes]:
    """A value and, recursively, its parts, as text or bytes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value).__name__
        for item in dataclasses.fields(value):
            if item.name not in ("path", "description", "results", "before_simulation"):
                yield item.name
                yield from _text_of(getattr(value, item.name))
    elif hasattr(value, "tobytes"):
        yield repr((value.dtype.str, value.shape))
        yield value.tobytes()
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield repr(key)
            yield from _text_of(each)
    elif isinstance(value, list | tuple):
        yield repr(len(value))
        for each in value:
            yield from _text_of(each)
    else:
        yield repr(value)


# -- the work ----------------------------------------------------------------------------------------


class _Told:
    """Reports progress: the finished fraction of all units, by estimated seconds."""

    def __init__(self, units: Sequence[Unit], left: Sequence[Unit], progress: Progress | None) -> None:
        self._seconds = {unit.number: unit.seconds for unit in units}
        self._total = sum(self._seconds.values())
        self._done = self._total - sum(unit.seconds for unit in left)
        self._progress = progress

    def __call__(self) -> None:
        if self._progress is not None:
            self._progress(min(self._done / self._total, 1.0), 1.0)

    def of(self, results: Iterable[Result]) -> Iterator[Result]:
        """Pass on the results, and report progress after each."""
        for number, table in results:
            yield number, table
            self._done += self._seconds[number]
            self()


def _keep(jobs: Iterable[Result], store: Store) -> None:
    """Write finished units to disk about once a second, and when something goes wrong."""
    finished: list[Result] = []
    flushed = time.monotonic()
    try:
        for job in jobs:
            finished.append(job)
            if time.monotonic() - flushed > FLUSH_SECONDS:
                some, finished = finished, []
                store.add(some)
                flushed = time.monotonic()
    finally:
        store.add(finished)
