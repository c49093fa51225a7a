"""What all models share: description, options, and the way from equations to a prediction."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, OptionError, UnknownNameError, nearest
from ..machine import Gpu, InstructionTiming
from ..workload import Facts, Needs, Residency, Workload, analyse
from .papers import Paper
from .prediction import Condition, Prediction, Stack

Array = NDArray[np.float64]


class Aspect(StrEnum):
    """Effects that a model may cover: the rows of Lemeire's Table 7."""

    ILP = "ILP"
    COMPUTE_LATENCY = "Λ_comp"
    MEMORY_LATENCY = "Λ_mem"
    BARRIERS = "barriers"
    SUBSYSTEMS = "more than 2 subsystems"
    WORK_GROUPS = "workgroups"
    DIVERGENT_WARPS = "divergent warps"
    ISSUE_LIMIT = "issue limit"
    SCHEDULER = "scheduler"


def option(default: Any, doc: str, choices: tuple[Any, ...] = (), kind: type | None = None) -> Any:
    """A model option: a dataclass field with a help text and, if the set is finite, its allowed values.

    `kind` is the type of an option whose default is None: the model finds the value itself (`auto`).
    """
    return field(default=default, metadata={"doc": doc, "choices": choices, "kind": kind or type(default)})


@dataclass(frozen=True)
class Case:
    """Facts for one machine or a batch; every quantity is an array with one entry per machine (`size`)."""

    facts: Facts
    model_name: str

    @property
    def workload(self) -> Workload:
        return self.facts.workload

    @property
    def gpu(self) -> Gpu:
        return self.facts.gpu

    @property
    def residency(self) -> Residency:
        return self.facts.residency

    @property
    def scalar(self) -> bool:
        return self.facts.shape == ()

    @property
    def size(self) -> int:
        return self.facts.size

    def array(self, value: Any) -> Array:
        """`value` as one number per machine."""
        return np.broadcast_to(np.asarray(value, dtype=np.float64), self.size)

    def require(self, path: str) -> Array:
        """A machine parameter, or an error that names the model."""
        return self.array(self.gpu.require(path, self.model_name))

    def timing(self, instruction_class: str) -> InstructionTiming:
        """λ and Λ of an instruction class for this kernel on these machines."""
        return self.facts.timing(instruction_class, self.model_name)

    @cached_property
    def W(self) -> Array:  # noqa: N802 (the papers' symbol)
        """Resident warps per SM (ω, N)."""
        return self.array(self.residency.warps_per_sm)

    @cached_property
    def active_sms(self) -> Array:
        return self.array(self.residency.active_sms)

    @cached_property
    def issue_rate(self) -> Array:
        return self.array(self.gpu.issue_rate)


@dataclass(frozen=True)
class Outcome:
    """What a model's equations give, per machine of the batch.

    Either `ipc_sm` (warp instructions per cycle of one SM in the steady state)
    or `cycles` (of the whole launch) is set. `stack` holds cycles per warp
    instruction of one SM, per category.
    """

    instructions_per_warp: float
    ipc_sm: Array | None = None
    cycles: Array | None = None
    stack: Mapping[str, Array] | None = None
    terms: Mapping[str, Array] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Model(ABC):
    """A published model: options as fields, equations in `evaluate`."""

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[Paper]
    equations: ClassVar[str]
    needs: ClassVar[str]
    machine_needs: ClassVar[tuple[str, ...]] = ()
    aspects: ClassVar[frozenset[Aspect]] = frozenset()
    categories: ClassVar[tuple[str, ...] | None] = None
    #: Whether the model's own equations include the launch.
    has_launch: ClassVar[bool] = False

    launch_overhead: bool = option(
        False,
        "adds the machine's launch overhead and its limit on block starts (no paper has this)",
    )

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            _check_option(self.name, item, getattr(self, item.name))

    @property
    def requirements(self) -> Needs:
        """What the analysis has to work out for this model."""
        return Needs(self.needs)

    @abstractmethod
    def evaluate(self, case: Case) -> Outcome:
        """The model's equations over all machines of the case."""

    def missing(self, workload: Workload, gpu: Gpu) -> str:
        """Why the model cannot run on this input, or an empty string."""
        try:
            self.check(workload, gpu)
        except InputError as error:
            return str(error)
        return ""

    def check(self, workload: Workload, gpu: Gpu) -> None:
        """Raise `MissingInputError` if the workload or the machine lacks something that the model needs."""
        workload.require(self.needs, f"model {self.name!r}")
        for path in (*self.machine_needs, *_LAUNCH_NEEDS * (self.launch_overhead and not self.has_launch)):
            gpu.require(path, f"model {self.name!r}")

    def is_slow(self, workload: Workload) -> bool:
        """Whether to predict again, just to see what an option changes, takes too long."""
        return False

    def predict(self, facts: Facts) -> Prediction:
        """The prediction for one machine, or for all machines of a batch at once."""
        case = Case(facts, f"model {self.name!r}")
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return assemble(self, case, self.evaluate(case))


def solve(workload: Workload, gpu: Gpu, model: Model, given: Iterable[str] = ()) -> Prediction:
    """Check the inputs, analyse the workload on the machine, and predict.

    `given` names options that a user chose: a warning says which of them change nothing here.
    """
    model.check(workload, gpu)
    made = model.predict(analyse(workload, gpu, model.requirements, f"model {model.name!r}"))
    idle = tuple(
        Condition(f"option {name}={_show(getattr(model, name))} changes nothing here")
        for name in given
        if _changes_nothing(workload, gpu, model, made, name)
    )
    return dataclasses.replace(made, conditions=(*made.conditions, *idle)) if idle else made


def _changes_nothing(workload: Workload, gpu: Gpu, model: Model, made: Prediction, name: str) -> bool:
    """Whether the model predicts the same with an option's default, which is not what it has."""
    default: Any = next(item.default for item in dataclasses.fields(model) if item.name == name)
    if getattr(model, name) == default or model.is_slow(workload):
        return False
    try:
        usual = solve(workload, gpu, dataclasses.replace(model, **{name: default}))
    except InputError:  # without the option the model cannot run
        return False
    now = _numbers(made)  # may have a term that only the option has
    return all(key in now and np.array_equal(now[key], value) for key, value in _numbers(usual).items())


def _numbers(prediction: Prediction) -> dict[str, Any]:
    return {"cycles": prediction.cycles, **(prediction.stack or {}), **prediction.terms}


#: What the option `launch_overhead` asks of the machine.
_LAUNCH_NEEDS = ("launch_overhead_cycles", "block_launch_cycles")


def assemble(model: Model, case: Case, outcome: Outcome) -> Prediction:
    """Turn a model's outcome into a prediction whose stack sums to `cpi`."""
    residency, gpu = case.residency, case.gpu
    instructions = outcome.instructions_per_warp * case.array(residency.total_warps)
    if case.facts.total_instructions is not None:
        instructions = case.array(case.facts.total_instructions)
    if outcome.cycles is not None:
        cycles = outcome.cycles
    else:
        assert outcome.ipc_sm is not None
        cycles = instructions / (outcome.ipc_sm * case.active_sms)
    if not np.all(np.isfinite(cycles)) or np.any(cycles <= 0):
        raise InputError(
            f"model {model.name!r} gives no finite time above 0 for workload {case.workload.name!r} "
            f"on machine {gpu.name!r}; check latencies and intervals of its instruction classes"
        )
    running = cycles
    added = model.launch_overhead and not model.has_launch
    if added:  # block starts overlap with running blocks; the launch itself does not
        starts = case.array(residency.total_warps) / case.array(residency.warps_per_block)
        cycles = np.maximum(running, starts * case.require("block_launch_cycles"))
        cycles = cycles + case.array(gpu.launch_cycles)
    ipc = instructions / cycles
    cpi = case.array(gpu.sms) / ipc
    stack = None
    if outcome.stack is not None:
        idle_share = case.array(gpu.sms) / case.active_sms
        parts = {name: case.array(part) * idle_share for name, part in outcome.stack.items()}
        if added:
            parts["IDLE"] = cpi * (1.0 - running / cycles)
        stack = _close(parts, cpi)
    notes = tuple(Condition(note) for note in (*residency.notes, *case.facts.notes))
    prediction = Prediction(
        kernel=case.workload.name,
        launch=case.workload.launch_index,
        gpu=gpu.name,
        overrides=dict(gpu.overrides) | dict(case.workload.launch_overrides),
        model=model.name,
        cycles=cycles,
        seconds=cycles / case.array(gpu.clock_hz),
        ipc=ipc,
        cpi=cpi,
        stack=None if stack is None else Stack(stack),
        terms={"W": case.W, **{name: case.array(term) for name, term in outcome.terms.items()}},
        conditions=(*outcome.conditions, *notes),
        clock_hz=gpu.clock_hz,
        clock=gpu.clock_name,
    )
    return prediction.row(0) if case.scalar else prediction


def _close(stack: dict[str, Array], cpi: Array) -> dict[str, Array]:
    """The stack with rounding errors moved into its largest part, so that the parts add up to `cpi` exactly."""
    names = list(stack)
    parts = np.stack([stack[name] for name in names])
    rows = np.arange(parts.shape[1])
    largest = np.argmax(parts, axis=0)
    for _ in range(4):
        total = np.zeros_like(cpi)
        for part in parts:  # the order in which a reader adds them up
            total = total + part
        parts[largest, rows] += cpi - total
    return dict(zip(names, parts, strict=True))


# -- options ---------------------------------------------------------------------------


def _check_option(model: str, item: dataclasses.Field[Any], value: Any) -> None:
    choices = item.metadata.get("choices", ())
    where = f"option {model}.{item.name}"
    if choices:
        if value not in choices:
            raise OptionError(f"{where}: {value!r} is not one of {', '.join(map(_show, choices))}")
    elif value is None and item.default is None:
        return
    elif _kind(item) is bool:
        if not isinstance(value, bool):
            raise OptionError(f"{where}: {value!r} is not true or false")
    elif _kind(item) in (int, float):
        whole = _kind(item) is int
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not 0 <= value <= 1e18:
            raise OptionError(f"{where}: {value!r} is not a {'whole ' * whole}number of at least 0")


def _kind(item: dataclasses.Field[Any]) -> Any:
    return item.metadata.get("kind", type(item.default))


def _show(value: Any) -> str:
    return {None: "auto", True: "true", False: "false"}.get(value, str(value))


def options_of(model: type[Model]) -> dict[str, dict[str, Any]]:
    """Options of a model: default, values and explanation."""
    return {
        item.name: {
            "default": _show(item.default)
            if item.default is None or isinstance(item.default, bool)
            else item.default,
            "type": "true | false" if _kind(item) is bool else _kind(item).__name__,
            "choices": [_show(choice) for choice in item.metadata.get("choices", ())],
            "doc": item.metadata.get("doc", ""),
        }
        for item in dataclasses.fields(model)
    }


def parse_options(model: type[Model], given: Mapping[str, Any]) -> dict[str, Any]:
    """Turn typed options (`clamp=false`, `min_gap=10`) into values of the model's fields."""
    fields = {item.name: item for item in dataclasses.fields(model)}
    parsed = {}
    for name, raw in given.items():
        if name not in fields:
            known = nearest(name, fields) if fields else "it has no options"
            raise UnknownNameError(f"model {model.name!r} has no option {name!r}; {known}")
        parsed[name] = _parse_option(fields[name], raw) if isinstance(raw, str) else raw
    return parsed


def _parse_option(item: dataclasses.Field[Any], raw: str) -> Any:
    for choice in item.metadata.get("choices", ()):
        if raw == _show(choice):
            return choice
    if item.default is None and raw == _show(None):
        return None
    if _kind(item) is bool and raw.lower() in ("true", "false"):
        return raw.lower() == "true"
    if _kind(item) in (int, float):
        try:
            return _kind(item)(raw)
        except ValueError:
            return raw
    return raw
