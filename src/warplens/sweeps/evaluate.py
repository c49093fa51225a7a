"""Evaluates configurations of a design space for one kernel: many per call, each row equal to `predict`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..api import place, predict, simulate
from ..categories import CATEGORIES
from ..errors import WarplensError
from ..machine import Gpu
from ..machine.schema import parameters
from ..models import Prediction, get_model
from ..workload import Facts, Needs, Workload, analyse, resident
from ..workload.launch import LAUNCH_KEYS
from .space import Space

T = TypeVar("T")
Rows = NDArray[np.int64]

#: Result columns, apart from the CPI stack.
RESULTS = ("cycles", "seconds", "ipc", "cpi", "warps")


@dataclass(frozen=True)
class Target:
    """A model with its options, or a simulator."""

    name: str
    kind: str = "model"
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """What a sweep asks of every kernel: machine, overrides common to all configurations, space and targets."""

    gpu: Gpu | None
    overrides: Mapping[str, Any]
    space: Space
    targets: tuple[Target, ...]

    def place(self, workload: Workload, rows: Rows) -> tuple[Workload, Gpu]:
        """Workload and machine of one configuration, or those of a batch."""
        return place(workload, self.gpu, {**self.overrides, **self.chosen(rows)})

    def chosen(self, rows: Rows) -> dict[str, Any]:
        """Overrides of some configurations: plain values for one, arrays of numbers for several."""
        if len(rows) == 1:
            return self.space.configuration(int(rows[0]))
        columns = self.space.columns
        # Texts and flags are the same in all rows of a group.
        return {key: col[rows] if isinstance(col, np.ndarray) else col[rows[0]] for key, col in columns.items()}

    def groups(self, rows: Rows) -> list[Rows]:
        """Group the rows that differ only in numbers."""
        lists = [column for column in self.space.columns.values() if not isinstance(column, np.ndarray)]
        if not lists:
            return [rows]
        found: dict[tuple[Any, ...], list[int]] = {}
        for row in rows.tolist():
            found.setdefault(tuple(column[row] for column in lists), []).append(row)
        return [np.array(each) for each in found.values()]


def attempt(rows: Rows, function: Callable[[Rows], T]) -> tuple[list[tuple[Rows, T]], dict[int, str]]:
    """(results of groups of rows, errors by row): on an error, halve the rows until a single one is to blame."""
    try:
        return [(rows, function(rows))], {}
    except Exception as error:
        if len(rows) == 1:
            # An unexpected error must not end an overnight sweep either; its row reports it.
            known = isinstance(error, WarplensError)
            return [], {int(rows[0]): str(error) if known else f"{type(error).__name__}: {error}"}
    middle = len(rows) // 2
    results, errors = attempt(rows[:middle], function)
    more, more_errors = attempt(rows[middle:], function)
    return results + more, errors | more_errors


def evaluate(workload: Workload, question: Question, rows: Rows, schema: pa.Schema) -> pa.Table:
    """One row per target and configuration."""
    placed: list[tuple[Rows, Placed]] = []
    errors: dict[int, str] = {}
    for group in question.groups(rows):
        some, failed = attempt(group, lambda each: _placed(question, workload, each))
        placed += some
        errors |= failed
    tables = []
    for target in question.targets:
        found = Found(rows)
        for row, text in errors.items():
            found.fail(np.array([row]), text)
        for group, own in placed:
            _ask(target, question, workload, own, group, found)
        tables.append(_table(workload, question, target, rows, found, schema))
    return pa.concat_tables(tables)


@dataclass(eq=False)
class Placed:
    """Configurations of a kernel, with the facts that models with the same needs share."""

    workload: Workload
    gpu: Gpu
    _facts: dict[Needs, Facts] = field(default_factory=dict, repr=False)

    def facts(self, needs: Needs) -> Facts:
        if needs not in self._facts:
            self._facts[needs] = analyse(self.workload, self.gpu, needs, "the sweep")
        return self._facts[needs]


def _placed(question: Question, workload: Workload, rows: Rows) -> Placed:
    placed, gpu = question.place(workload, rows)
    resident(placed.launch, gpu)  # a launch that does not fit is an error of its configuration only
    return Placed(placed, gpu)


def _ask(target: Target, question: Question, workload: Workload, placed: Placed, rows: Rows, found: Found) -> None:
    if target.kind == "simulator":
        for row in rows.tolist():
            _, failed = attempt(
                np.array([row]),
                lambda each: found.simulated(each, simulate(*question.place(workload, each), target.name)),
            )
            for text in failed.values():
                found.fail(np.array([row]), text)
        return
    model = get_model(target.name, target.options)
    reason = model.missing(placed.workload, placed.gpu)
    if reason:  # a missing input concerns all rows: no need to look for one to blame
        found.fail(rows, reason)
        return

    def ask(some: Rows) -> Prediction:
        if some is rows and len(rows) > 1:
            return model.predict(placed.facts(model.requirements))
        return predict(*question.place(workload, some), model)

    results, errors = attempt(rows, ask)
    for some, prediction in results:
        found.predicted(some, prediction)
    for row, text in errors.items():
        found.fail(np.array([row]), text)


class Found:
    """Results of one target, in the order of the rows."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.numbers = {name: np.full(len(rows), np.nan) for name in RESULTS}
        self.stack: dict[str, Any] = {}
        self.texts: list[str] = []
        self.error = np.full(len(rows), -1, dtype=np.int64)
        self.warning = np.zeros(len(rows), dtype=np.int64)
        self.warnings: list[str] = [""]

    def _places(self, rows: Rows) -> Any:
        return slice(None) if len(rows) == len(self.rows) else np.searchsorted(self.rows, rows)

    def fail(self, rows: Rows, text: str) -> None:
        if text not in self.texts:
            self.texts.append(text)
        self.error[self._places(rows)] = self.texts.index(text)

    def predicted(self, rows: Rows, prediction: Prediction) -> None:
        places = self._places(rows)
        for name in ("cycles", "seconds", "ipc", "cpi"):
            self.numbers[name][places] = getattr(prediction, name)
        self.numbers["warps"][places] = prediction.terms["W"]
        self._put_stack(places, prediction.stack or {})
        masks = np.zeros(len(rows), dtype=np.int64)
        texts: list[str] = []
        for condition in prediction.conditions:
            if condition.text in texts or len(texts) > 60:
                continue
            masks |= np.int64(1 << len(texts)) * np.broadcast_to(
                True if condition.where is None else np.ravel(condition.where), len(rows)
            )
            texts.append(condition.text)
        codes, inverse = np.unique(masks, return_inverse=True)
        numbers = [
            self._warning("; ".join(text for bit, text in enumerate(texts) if code >> bit & 1)) for code in codes
        ]
        self.warning[places] = np.array(numbers)[inverse.ravel()]

    def simulated(self, row: Rows, result: Any) -> None:
        places = self._places(row)
        for name in ("cycles", "seconds", "ipc"):
            self.numbers[name][places] = getattr(result, name)
        if getattr(result, "cpi", None) is not None:
            self.numbers["cpi"][places] = result.cpi
        self._put_stack(places, getattr(result, "stack", None) or {})
        self.warning[places] = self._warning("; ".join(result.warnings))

    def _put_stack(self, places: Any, stack: Mapping[str, Any]) -> None:
        for name, part in stack.items():
            self.stack.setdefault(name, np.full(len(self.rows), np.nan))[places] = part

    def _warning(self, text: str) -> int:
        if text not in self.warnings:
            self.warnings.append(text)
        return self.warnings.index(text)


# -- tables ----------------------------------------------------------------------------------


def schema_of(question: Question, machines: Sequence[Gpu]) -> pa.Schema:
    """Columns of the result: kernel and model, the results, and the configuration by the keys of `--vary`."""
    fields = [
        ("configuration", pa.int64()),
        ("kernel", pa.string()),
        ("launch", pa.int64()),
        ("gpu", pa.string()),
        ("model", pa.string()),
        ("kind", pa.string()),
        *((name, pa.float64()) for name in RESULTS),
        *((f"stack.{name}", pa.float64()) for name in CATEGORIES),
        ("error", pa.string()),
        ("warnings", pa.string()),
    ]
    changed = {*question.overrides, *question.space.columns}
    for path, param in parameters().items():
        if param.key in changed or any(gpu.get(path) is not None for gpu in machines):
            fields.append((param.key, {bool: pa.bool_(), str: pa.string()}.get(param.kind, pa.float64())))
    fields += [(key, pa.float64()) for key in LAUNCH_KEYS if key in changed]
    return pa.schema(fields)


def _table(
    workload: Workload, question: Question, target: Target, rows: Rows, found: Found, schema: pa.Schema
) -> pa.Table:
    count = len(rows)
    machine = _machine_of(workload, question.gpu)

    def numbers(values: Any) -> pa.Array:
        return pa.array(values, from_pandas=True)  # NaN is null

    def coded(texts: Sequence[str], codes: Any) -> pa.Array:
        if not texts:
            return pa.nulls(count, pa.string())
        return pa.array(texts, pa.string()).take(pa.array(np.where(codes < 0, 0, codes), mask=codes < 0))

    columns: dict[str, pa.Array] = {
        "configuration": pa.array(rows),
        "kernel": pa.repeat(pa.scalar(workload.name), count),
        "launch": pa.repeat(pa.scalar(workload.launch_index), count),
        "gpu": pa.repeat(pa.scalar(machine.name), count),
        "model": pa.repeat(pa.scalar(target.name), count),
        "kind": pa.repeat(pa.scalar(target.kind), count),
        "error": coded(found.texts, found.error),
        "warnings": coded(found.warnings, found.warning),
    }
    columns |= {name: numbers(values) for name, values in found.numbers.items()}
    columns |= {f"stack.{name}": numbers(values) for name, values in found.stack.items()}
    for item in schema:
        if item.name not in columns:
            columns[item.name] = _configured(item, question, machine, rows)
    return pa.table([columns[item.name].cast(item.type) for item in schema], schema=schema)


def _configured(item: pa.Field, question: Question, machine: Gpu, rows: Rows) -> pa.Array:
    """A column of the configuration."""
    key = item.name
    if key.startswith("stack."):
        return pa.nulls(len(rows), item.type)
    column = question.space.columns.get(key)
    if isinstance(column, np.ndarray):
        return pa.array(column[rows])
    if column is not None:
        return pa.array([column[row] for row in rows.tolist()], item.type)
    if key in LAUNCH_KEYS:
        return pa.repeat(pa.scalar(float(question.overrides[key]), item.type), len(rows))
    path = next(path for path, param in parameters().items() if param.key == key)
    value = machine.get(path) if key not in question.overrides else question.overrides[key]
    return pa.repeat(pa.scalar(value, item.type), len(rows))


def _machine_of(workload: Workload, gpu: Gpu | None) -> Gpu:
    return place(workload, gpu)[1] if gpu is None else gpu
