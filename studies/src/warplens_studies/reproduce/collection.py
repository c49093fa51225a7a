"""Inputs of GPUMech and MDM from whole applications: what collecting them costs once, and what each machine costs.

The papers run applications through a functional simulator or a binary instrumented
for a GPU. Here their host code runs unchanged and their kernels run on the CPU. The
applications are compiled from `programs` and check their own results.
"""

from __future__ import annotations

import os
import platform
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from warplens.api import load_workloads, place, predict
from warplens.errors import WarplensError
from warplens.frontends.ptx.execute import Execution
from warplens.frontends.runtime import LaunchInfo, Recording, Server
from warplens.frontends.runtime.build import build_stand_in
from warplens.frontends.runtime.compile import compile_program
from warplens.machine import Gpu, load_gpu
from warplens.models import get_model
from warplens.models.papers import GPUMECH, MDM
from warplens.programs.run import execute_program
from warplens.reports.style import LINE_COLOURS
from warplens.simulators.detailed import simulate_detailed
from warplens.traces import TraceWriter
from warplens.workload import Workload
from warplens.workload.traced import cache_misses, representative_of

from ..validate import accelsim
from .base import FROM_PROGRAMS, Claim, Findings, Table, recipe
from .speed import OTHER_CACHES, duration, machine

PROGRAMS = tuple(sorted((Path(__file__).parent / "programs").glob("*.cu")))
#: Whose runtime the applications see; the traces are of its PTX.
_GPU, _ARCHITECTURE = "h200", 90
_CONFIGURATIONS = (1, 10, 100, 1000)


@dataclass(frozen=True)
class Costs:
    """CPU seconds of one application, of all its processes."""

    application: str
    launches: int
    recorded: int
    instructions: int
    """Warp instructions of all its launches."""
    run: float
    """The application, nothing recorded."""
    collect: float
    """The application, and traces of the launches that stand for all."""
    choose: float
    """Intervals of all warps, clusters, representative warps."""
    again: tuple[float, float]
    """Caches and equations of GPUMech and of MDM on another machine."""
    simulation: float
    """The recorded launches on the reference simulator."""

    @property
    def one_time(self) -> float:
        return self.collect + self.choose

    def recurrent(self, model: str) -> float:
        return self.again[_MODELS.index(model)]


_MODELS = ("gpumech", "mdm")


class _Collector:
    """Writes recorded launches; predicts nothing."""

    def __init__(self, writer: TraceWriter) -> None:
        self.writer = writer
        self.launches: list[LaunchInfo] = []
        self.failures: list[str] = []

    def launched(self, info: LaunchInfo, execution: Execution | None, before: object) -> None:
        self.launches.append(info)
        if execution is not None:
            for group in execution.groups:
                self.writer.write(group)
            self.writer.end_launch(execution.header, execution.trace.static)

    def failed(self, message: str) -> None:
        self.failures.append(message)

    def elapsed(self, process: int, first: int, second: int) -> float:
        return 0.0

    def running(self, info: LaunchInfo, done: int, total: int) -> None: ...

    def copied(self, process: int, direction: int, size_bytes: int, stream: int, pinned: bool) -> None: ...

    def recorded(self, process: int, event: int, stream: int) -> None: ...

    def awaited(self, process: int, stream: int, event: int) -> None: ...

    def synchronized(self, process: int, stream: int) -> None: ...


def collect(program: Path, trace: Path, recording: Recording) -> list[LaunchInfo]:
    """Run an application and write its recorded launches."""
    stand_in, silent = build_stand_in(), os.open(os.devnull, os.O_WRONLY)
    try:
        with tempfile.TemporaryDirectory() as folder, TraceWriter(trace, may_be_empty=True) as writer:
            notes = _Collector(writer)
            server = Server(Path(folder) / "socket", load_gpu(_GPU), recording, notes)
            code = execute_program([str(program)], Path(folder) / "socket", stand_in, server, silent, None)
    finally:
        os.close(silent)
    if code or notes.failures:
        raise WarplensError(
            f"{program.name}: ended with code {code}; {'; '.join(notes.failures) or 'it says no more'}"
        )
    return notes.launches


def measure(source: Path) -> Costs:
    """Each step on one application, everything compiled before."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program = compile_program([source], folder, build_stand_in(), _ARCHITECTURE)
        trace, empty = folder / "application.wlt", folder / "nothing.wlt"
        nothing = Recording(launches=frozenset())
        for recording in (nothing, Recording()):  # compiles the kernels
            collect(program, trace, recording)
        run, _ = _timed(lambda: collect(program, empty, nothing))
        once, launches = _timed(lambda: collect(program, trace, Recording()))
        gpumech, mdm = (_again(trace, each) for each in _MODELS)
        workloads, base, _ = _ready(trace)
        choose, _ = _timed(lambda: [representative_of(each, base) for each in workloads])
        simulation, _ = _timed(lambda: [simulate_detailed(each, base) for each in workloads])
        instructions = sum(each.instructions for each in launches)
        counts = len(launches), len(workloads), instructions
        return Costs(source.stem, *counts, run, once, choose, (gpumech, mdm), simulation)


def _ready(trace: Path) -> tuple[Sequence[Workload], Gpu, Gpu]:
    """Launches whose caches were simulated on a machine, that machine, and one with other caches."""
    workloads = load_workloads(trace)
    _, base = place(workloads[0], accelsim.GPU)
    _, changed = place(workloads[0], accelsim.GPU, OTHER_CACHES)
    for each in workloads:
        cache_misses(each, base)
    return workloads, base, changed


def _again(trace: Path, model: str) -> float:
    """Another machine, after warps were chosen: caches and equations."""
    workloads, base, changed = _ready(trace)
    for each in workloads:
        representative_of(each, base)
    made = get_model(model)
    return _timed(lambda: [predict(each, changed, made) for each in workloads])[0]


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of this process and those that it waits for."""

    def now() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    started = now()
    result = work()
    return now() - started, result


@cache
def _all() -> tuple[Costs, ...]:
    measure(PROGRAMS[0])  # compiles the models
    return tuple(map(measure, PROGRAMS))


_ASSUMPTIONS = (
    f"CPU seconds of all processes on {machine()}, Python {platform.python_version()}, everything compiled before; "
    "other work on the machine changes them",
    "the applications are small programs written here, with host code that checks what the kernels compute; of equal "
    "launches the first, second, fourth, eighth … are recorded",
)


def _findings(model: str, title: str, claims: tuple[Claim, ...]) -> Findings:
    found = _all()
    rows = tuple(
        (
            each.application,
            each.launches,
            each.recorded,
            each.instructions,
            each.run,
            each.collect,
            each.choose,
            each.recurrent(model),
            each.simulation,
        )
        for each in found
    )
    once, again = sum(each.one_time for each in found), sum(each.recurrent(model) for each in found)
    simulation = sum(each.simulation for each in found)

    def draw(plt: Any) -> Any:
        figure, axis = plt.subplots(figsize=(7.6, 3.2))
        counts = list(_CONFIGURATIONS)
        axis.plot(
            counts, [n * simulation for n in counts], marker="o", label="reference simulator", color=LINE_COLOURS[0]
        )
        values = [once + n * again for n in counts]
        axis.plot(counts, values, marker="o", label=f"{title}: one-time + recurrent", color=LINE_COLOURS[1])
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xlabel("architectural configurations")
        axis.set_ylabel(f"CPU seconds, {len(found)} applications")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.legend(fontsize=8)
        return figure

    return Findings(
        columns=(
            "application",
            "launches",
            "recorded",
            "warp instructions",
            "run [s]",
            "run and record [s]",
            "choose warps [s]",
            f"{title} recurrent [s]",
            "reference simulator [s]",
        ),
        rows=rows,
        draw=draw,
        claims=claims,
        assumptions=_ASSUMPTIONS,
        summary=Table(
            ("configurations", "reference simulator", f"{title} one-time", f"{title} recurrent"),
            tuple(
                (str(count), duration(count * simulation), duration(once), duration(count * again))
                for count in _CONFIGURATIONS
            ),
        ),
    )


@recipe(
    "mdm-collection",
    MDM,
    "Section II: inputs collected from whole applications, as in Table II",
    "one-time cost (running, recording, choosing warps) and recurrent cost (caches, equations) of three applications",
    timed=True,
    data=FROM_PROGRAMS,
)
def mdm_collection() -> Findings:
    once = sum(each.one_time for each in _all())
    again = sum(each.recurrent("mdm") for each in _all())
    simulation = sum(each.simulation for each in _all())
    return _findings(
        "mdm",
        "MDM",
        (
            Claim(
                "the recurring costs are small compared to the one-time costs (§II)",
                again < once / 2,
                f"{duration(again)} for each machine after {duration(once)} (paper: 2 minutes after 3.6 hours)",
            ),
            Claim(
                "MDM's one-time cost is much smaller than simulation (§II)",
                once < simulation / 2,
                f"{duration(once)} against {duration(simulation)} for the recorded launches",
            ),
        ),
    )


@recipe(
    "gpumech-collection",
    GPUMECH,
    "Section V: the input collector on whole applications",
    "CPU seconds of running and recording three applications, of choosing warps, and of each further machine",
    timed=True,
    data=FROM_PROGRAMS,
)
def gpumech_collection() -> Findings:
    first = sum(each.one_time + each.recurrent("gpumech") for each in _all())
    again = sum(each.recurrent("gpumech") for each in _all())
    return _findings(
        "gpumech",
        "GPUMech",
        (
            Claim(
                "clustering warps is a one-time cost of each input (§VI-D)",
                again < first / 2,
                f"another machine takes {duration(again)}, caches and equations, in place of {duration(first)}",
            ),
        ),
    )
