"""Computes what the page shows; parts are sent as soon as they are ready."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..api import JSON_SCHEMA, place, predict, summary
from ..errors import InputError, WarplensError
from ..explanation import Answer, explain
from ..machine import Gpu
from ..models import MODELS, Prediction, get_model
from ..reports.answer import advice_list, hot_lines, time_bar, verdict
from ..reports.figures import cpi_stacks, flop_roofline, occupancy, roofline
from ..reports.view import View, plain
from ..workload import Workload, resident
from .controls import blamed, check_machine, checked_changes, described
from .errors import FieldError
from .kernels import Progress

#: Models that are chosen when a page is opened.
FIRST_MODELS = ("roofline", "mwp-cwp", "gpumech", "mdm", "warplens")
MOST_MACHINES = 2
#: Points of the curves over resident warps (and the launch's own): some models simulate each of them.
OCCUPANCIES = 6
#: The machine that the kernel's own file names.
OWN_MACHINE = "@file"

Part = dict[str, Any]


@dataclass(frozen=True)
class MachineChoice:
    gpu: str
    changes: Mapping[str, Any]


@dataclass(frozen=True)
class State:
    """What a visitor has chosen."""

    kernel: str
    machines: tuple[MachineChoice, ...]
    models: tuple[str, ...]


def state_of(document: Any) -> State:
    """The state that a page sent; every complaint names its field."""
    if not isinstance(document, dict):
        raise FieldError("", "the request is not a JSON object")
    kernel = document.get("kernel")
    if not isinstance(kernel, str) or len(kernel) > 200:
        raise FieldError("kernel", "choose a kernel")
    models = document.get("models")
    if not isinstance(models, list) or not models or len(models) > len(MODELS):
        raise FieldError("models", "choose at least one model")
    for name in models:
        if not isinstance(name, str) or name not in MODELS:
            raise FieldError("models", f"no model is called {str(name)[:60]!r}")
    machines = document.get("machines")
    if not isinstance(machines, list) or not 1 <= len(machines) <= MOST_MACHINES:
        raise FieldError("machines.0.gpu", f"one to {MOST_MACHINES} machines can be shown")
    found = []
    for index, each in enumerate(machines):
        if not isinstance(each, dict) or not isinstance(each.get("gpu"), str):
            raise FieldError(f"machines.{index}.gpu", "choose a machine")
        found.append(MachineChoice(each["gpu"], checked_changes(each.get("set", {}), f"machines.{index}.set")))
    return State(kernel, tuple(found), tuple(dict.fromkeys(models)))


@dataclass(frozen=True)
class Task:
    """One machine of a state, ready to be worked on."""

    index: int
    workload: Workload
    named: Gpu
    choice: MachineChoice

    @property
    def field(self) -> str:
        return f"machines.{self.index}"

    def placed(self) -> tuple[Workload, Gpu]:
        """Workload and machine with the visitor's changes."""
        check_machine(self.named, self.choice.changes, f"{self.field}.set")
        try:
            placed, gpu = place(self.workload, self.named, self.choice.changes)
            resident(placed.launch, gpu)
        except InputError as error:
            raise blamed(error, self.field) from None
        return placed, gpu


@dataclass
class Watch:
    """Stands beside the work: `stopped` raises when nobody waits any more, `tell` is handed progress."""

    stopped: Callable[[], None]
    tell: Callable[[Part], None]
    simulations: int = 0

    def running(self, done: float, total: float) -> None:
        """A kernel is at so many of its thread blocks."""
        self.stopped()
        self.tell({"type": "progress", "text": "Running the thread blocks", "done": done, "total": total})

    def over(self, workload: Workload, text: str, total: int) -> Workload:
        """The workload, with this watch over the about `total` cache simulations that it may need."""
        first = self.simulations

        def before() -> None:
            self.stopped()
            done = min(self.simulations - first, total - 1)
            self.tell({"type": "progress", "text": text, "done": done, "total": total})
            self.simulations += 1

        return replace(workload, before_simulation=before)


@dataclass(frozen=True)
class Sources:
    """Where a question finds its kernels and machines."""

    workload_of: Callable[[str, str, Progress], Workload]
    machine_of: Callable[[str, Workload], Gpu]

    def tasks(self, state: State, watch: Watch) -> Iterator[Task]:
        """The machines of a state, one by one, each with its kernel loaded."""
        for index, choice in enumerate(state.machines):
            watch.stopped()
            watch.tell({"type": "progress", "text": "Loading the kernel", "done": 0, "total": 0})
            try:
                workload = self.workload_of(state.kernel, choice.gpu, watch.running)
            except InputError as error:
                raise FieldError("kernel", str(error)) from None
            try:
                yield Task(index, workload, self.machine_of(choice.gpu, workload), choice)
            except InputError as error:
                raise FieldError(f"machines.{index}.gpu", str(error)) from None


def answers(state: State, sources: Sources, watch: Watch) -> Iterator[Part]:
    """The parts of an answer, those that need most simulations last. Advice is asked for apart: it takes longer."""
    began = time.perf_counter()
    done: list[tuple[Task, Workload, Gpu, list[Prediction]]] = []
    for task in sources.tasks(state, watch):
        try:
            placed, gpu = task.placed()
        except FieldError:
            yield _machine_part(task, task.workload, task.named)  # the page can still show what the machine has
            raise
        yield _machine_part(task, placed, gpu)
        watched = watch.over(placed, "Simulating caches", 1)
        answer = explain(watched, gpu, ())
        yield _answer_part(task, answer)
        predictions, skipped = _predicted(state, watched, gpu, watch.stopped)
        yield _predictions_part(task, watched, gpu, predictions, skipped)
        yield _view(task, "flops", partial(flop_roofline, watched, gpu, answer.prediction))
        yield _view(task, "roofline", partial(roofline, watched, gpu, answer.prediction))
        if predictions:
            yield _view(task, "stacks", partial(cpi_stacks, predictions))
            done.append((task, placed, gpu, predictions))
    for task, placed, gpu, predictions in done:
        watch.stopped()
        # A curve over warps starts from the launch as it is, whatever number of warps is chosen.
        launch = watch.over(task.workload, "Simulating caches at other occupancies", OCCUPANCIES)
        yield _view(task, "occupancy", partial(_occupancy, launch, placed, gpu, predictions))
    table = table_of([each for *_, predictions in done for each in predictions])
    took = 1e3 * (time.perf_counter() - began)
    yield {"type": "done", "milliseconds": took, "simulations": watch.simulations, "csv": table}


def advice(state: State, sources: Sources, watch: Watch) -> Iterator[Part]:
    """What to change in the kernel, machine by machine."""
    for task in sources.tasks(state, watch):

        def looking(done: int, total: int) -> None:
            watch.stopped()
            watch.tell({"type": "progress", "text": "Looking for advice", "done": done, "total": total})

        found = explain(*task.placed(), progress=looking)
        nodes = [advice_list(found), hot_lines(found)]
        part: Part = {"type": "advice", "machine": task.index, "answer": plain(found.to_dict())}
        yield part | {"nodes": [each for each in nodes if each is not None]}
    yield {"type": "done"}


def _answer_part(task: Task, answer: Answer) -> Part:
    """Time, limiter and where the time goes."""
    nodes = [verdict(answer), time_bar(answer.prediction)]
    return {"type": "answer", "machine": task.index, "nodes": [each for each in nodes if each is not None]}


def _occupancy(launch: Workload, placed: Workload, gpu: Gpu, predictions: list[Prediction]) -> View:
    """The curves of all models. The first does the cache simulations, which the others, side by side, then know."""
    here = float(resident(placed.launch, gpu).warps_per_sm)
    first, *rest = ([each.model] for each in predictions)
    view = occupancy(launch, gpu, first, points=OCCUPANCIES)
    with ThreadPoolExecutor(max(len(rest), 1)) as pool:
        curves = [
            each.curves for each in pool.map(lambda names: occupancy(launch, gpu, names, points=OCCUPANCIES), rest)
        ]
    return replace(view, resident_warps=here, curves=sum(curves, view.curves))


def _machine_part(task: Task, workload: Workload, gpu: Gpu) -> Part:
    return {
        "type": "machine",
        "machine": task.index,
        "name": gpu.name,
        "description": gpu.description,
        "controls": plain(described((task.workload, task.named), (workload, gpu))),
    }


def _predicted(
    state: State, workload: Workload, gpu: Gpu, stopped: Callable[[], None]
) -> tuple[list[Prediction], list[dict[str, str]]]:
    made, skipped = [], []
    for name in state.models:
        stopped()
        try:
            made.append(predict(workload, gpu, name))
        except WarplensError as error:
            skipped.append({"model": name, "reason": str(error).removeprefix(f"model {name!r} ")})
    return made, skipped


def _predictions_part(
    task: Task, workload: Workload, gpu: Gpu, predictions: list[Prediction], skipped: list[dict[str, str]]
) -> Part:
    found = summary(workload, gpu) if predictions else {}
    return {
        "type": "predictions",
        "machine": task.index,
        "schema": JSON_SCHEMA,
        "predictions": [each.to_dict() for each in predictions],
        "skipped": skipped,
        "possible": [name for name in MODELS if not get_model(name).missing(workload, gpu)],
        "input": plain(found),
    }


def table_of(predictions: list[Prediction]) -> str:
    """The predictions as CSV; a name that a spreadsheet would take for a formula is quoted."""
    out = io.StringIO()
    categories = list(dict.fromkeys(name for each in predictions for name in each.stack or {}))
    changed = list(dict.fromkeys(key for each in predictions for key in each.overrides))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["kernel", "gpu", *changed, "model", "cycles", "seconds", "ipc", "cpi", *categories])
    for each in predictions:
        values = each.to_dict()
        kernel = f"'{each.kernel}" if each.kernel[:1] in "=+-@" else each.kernel
        numbers = [values[name] for name in ("cycles", "seconds", "ipc", "cpi")]
        stack = [(each.stack or {}).get(name) for name in categories]
        writer.writerow(
            [kernel, each.gpu, *(each.overrides.get(key) for key in changed), each.model, *numbers, *stack]
        )
    return out.getvalue()


def _view(task: Task, name: str, make: Callable[[], View]) -> Part:
    """A figure, or why there is none."""
    part: Part = {"type": "view", "machine": task.index, "view": name}
    try:
        view = make()
    except WarplensError as error:
        return part | {"message": str(error)}
    return part | {"summary": view.summary, "figure": plain(view.figure())}
