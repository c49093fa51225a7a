"""One launch on one machine: the answer, the views behind it, and what could not be shown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ..api import Comparison, explain, place, simulate
from ..errors import InputError
from ..explanation import Answer
from ..formatting import show_number
from ..frontends.ncu import KernelProfile, profiles_by_kernel
from ..machine import Gpu
from ..models import Prediction
from ..sweeps.local import sensitivity
from ..workload import Workload, resident
from ..workload.part import part_if_long
from . import figures
from .occupancy import MOST_POINTS
from .quoted import quoted
from .view import View

#: Occupancies that are worked out for a trace, each with a cache simulation of its own.
TRACED_POINTS = 8

VIEW_KINDS: tuple[type[View], ...] = (
    figures.FlopRoofline,
    figures.Roofline,
    figures.SourceUse,
    figures.CpiStacks,
    figures.Disagreement,
    figures.MemoryUse,
    figures.Occupancy,
    figures.Tornado,
    figures.TransitDiagram,
    figures.Intervals,
    figures.Timeline,
    figures.Simulated,
    figures.HeatMaps,
    figures.Curves,
    figures.Front,
)
"""In the order of the page."""

VIEWS: dict[str, str] = {each.name: each.heading for each in VIEW_KINDS}
"""Names that `--view` takes, with their headings."""

#: Parts of the time that the answer and views take, about, which simulate caches anew; the others share the rest.
_SHARES = {"answer": 0.4, "sensitivity": 0.2, "occupancy": 0.2}
_REST = 0.2 / 11

#: Told that a part of a section is done.
Step = Callable[[float], None]


@dataclass(frozen=True)
class Settings:
    """What a report is asked for besides its inputs."""

    models: tuple[str, ...] | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    profiles: Sequence[KernelProfile] = ()
    simulate: bool = False
    source: str | None = None
    wanted: frozenset[str] = frozenset(VIEWS)
    #: Whether advice is worked out, which takes a while.
    answers: bool = True


@dataclass(frozen=True)
class Section:
    """One launch on one machine: the answer, pictures, and what could not be shown."""

    kernel: str
    launch: int | None
    gpu: str
    description: str
    #: None where only views were asked for.
    answer: Answer | None
    predictions: tuple[Prediction, ...]
    views: tuple[View, ...]
    #: View -> why it is not there.
    absent: Mapping[str, str]
    #: Model -> why it did not run.
    skipped: Mapping[str, str]
    references: tuple[figures.Reference, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        number = f" (launch {self.launch})" if self.launch else ""
        return f"{self.kernel}{number} on {self.gpu}"

    @property
    def base(self) -> Prediction:
        """The prediction that is quoted."""
        return self.answer.prediction if self.answer is not None else quoted(self.predictions)

    @property
    def compared(self) -> list[str]:
        """How far the quoted prediction is from what was measured or simulated."""
        return [_compared(self.base, each) for each in self.references]

    def to_dict(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "launch": self.launch,
            "gpu": self.gpu,
            "answer": None if self.answer is None else self.answer.to_dict(),
            "compared": self.compared,
            "predictions": [p.to_dict() for p in self.predictions],
            "views": [view.to_dict() for view in self.views],
            "absent": dict(self.absent),
            "skipped": dict(self.skipped),
        }


@dataclass
class _Making:
    """Views of a section as they are made, and why others cannot be."""

    wanted: frozenset[str]
    step: Step
    views: dict[str, View] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)

    def attempt(self, name: str, make: Callable[[], View], detail: str = "") -> None:
        if name in self.wanted:
            key = f"{name}, {detail}" if detail else name
            try:
                self.views[key] = make()
            except InputError as error:
                self.absent[key] = str(error)
        self.step(_SHARES.get(name, _REST))


def make_section(
    workload: Workload, gpu: Any, found: Comparison, settings: Settings, *, measured: bool, step: Step
) -> Section:
    """The section of a workload whose predictions are `found`; `measured`: profiles are of this machine."""
    placed, machine = place(workload, gpu, settings.overrides)
    making = _Making(settings.wanted, step)
    references = _measured(placed, settings) if measured else []
    answer = _answer(placed, machine, settings, step) if settings.answers else None
    best = answer.prediction if answer is not None else quoted(found.predictions)
    references += _make_views(making, placed, machine, found.predictions, best, references, settings)
    order = list(VIEWS)
    return Section(
        placed.name,
        placed.launch_index if _is_traced(placed) else None,
        machine.name,
        placed.description,
        answer,
        found.predictions,
        tuple(sorted(making.views.values(), key=lambda view: order.index(view.name))),
        {name: reason for name, reason in making.absent.items() if name.partition(",")[0] in settings.wanted},
        {each.model: each.reason for each in found.skipped},
        tuple(references),
        dict(found.predictions[0].overrides),
    )


def _answer(placed: Workload, machine: Gpu, settings: Settings, step: Step) -> Answer:
    share, told = _SHARES["answer"], 0.0

    def progress(done: int, total: int) -> None:
        nonlocal told
        step(share * done / total - told)
        told = share * done / total

    answer = explain(placed, machine, options=settings.options, progress=progress)
    progress(1, 1)
    return answer


def _make_views(
    making: _Making,
    placed: Workload,
    machine: Gpu,
    predictions: tuple[Prediction, ...],
    best: Prediction,
    references: list[figures.Reference],
    settings: Settings,
) -> list[figures.Reference]:
    """All views that the input allows; returns what the reference simulator adds to compare with."""
    base, traced = quoted(predictions).model, _is_traced(placed)
    found: list[figures.Reference] = []
    result = None
    if settings.simulate and traced:
        result = simulate(placed, machine, "detailed", record=True)
        partial = _less_than_a_wave(placed, machine)
        if partial:
            making.absent["simulation, CPI of"] = partial
        else:
            label = _simulated_label(placed)
            found.append(figures.Reference(placed.name, machine.name, label, result.cycles, result.stack, result.cpi))
        making.attempt("simulation", lambda: figures.simulated(result))
        making.attempt("timeline", lambda: figures.timeline(result), "reference simulator")
    else:
        reason = "it was not asked for (--simulate)" if traced else "it needs a trace or a CUDA source"
        making.absent["simulation"] = making.absent["timeline, reference simulator"] = reason
    all_references = [*references, *found]
    options, names = settings.options, [p.model for p in predictions]
    points = TRACED_POINTS if traced else MOST_POINTS

    some = placed
    with suppress(InputError):  # the views say themselves what they miss
        some = part_if_long(placed, machine) if traced else placed

    def what_would_help() -> View:
        kinds = sensitivity(some, machine, base, options=options.get(base), slopes=False)
        part = "" if some is placed else f" ({_recorded_blocks(some)} of {_recorded_blocks(placed)} recorded blocks)"
        return figures.Tornado(f"{placed.name} on {machine.name}, {base}{part}", tuple(kinds))

    def occupancies() -> View:
        return figures.occupancy(some, machine, names, options=options, points=points)

    # These two simulate caches over and over, in compiled code that lets others run.
    with ThreadPoolExecutor(2) as pool:
        slow = [
            pool.submit(making.attempt, "sensitivity", what_would_help),
            pool.submit(making.attempt, "occupancy", occupancies),
        ]
        making.attempt("stacks", lambda: figures.cpi_stacks(predictions, all_references))
        making.attempt("disagreement", lambda: figures.disagreement(predictions, base))
        making.attempt("roofline", lambda: figures.roofline(placed, machine, best, all_references))
        making.attempt("flops", lambda: figures.flop_roofline(placed, machine, best, all_references))
        making.attempt("transit", lambda: figures.transit_diagram(placed, machine))
        making.attempt("memory", lambda: figures.memory_use(placed, machine, list(predictions)))
        making.attempt("source", lambda: figures.source_use(placed, machine, settings.source, result))
        making.attempt("intervals", lambda: figures.intervals(placed, machine))
        making.attempt("timeline", lambda: figures.timeline(simulate(placed, machine, "pipeline", record=True)))
        for each in slow:
            each.result()
    return found


def _compared(base: Prediction, each: figures.Reference) -> str:
    factor = base.cpi / each.cpi_beside(base) - 1.0
    far = f"{100 * abs(factor):.0f} % {'above' if factor >= 0 else 'below'}"
    off = far if abs(factor) >= 0.005 else "within 0.5 %"
    return f"{each.label}: {show_number(each.cycles)} cycles; {base.model} is {off}"


def _is_traced(workload: Workload) -> bool:
    return workload.trace is not None


def _measured(workload: Workload, settings: Settings) -> list[figures.Reference]:
    """What Nsight Compute measured of a kernel of this name."""
    profile = profiles_by_kernel(settings.profiles).get(workload.name)
    if profile is None or profile.cycles is None:
        return []
    return [figures.Reference(workload.name, None, "measured", profile.cycles)]


def _recorded_blocks(workload: Any) -> int:
    header = workload.trace.header
    return int(header.extra.get("recorded_blocks", header.blocks))


def _less_than_a_wave(workload: Any, gpu: Gpu) -> str:
    """Why a simulation's CPI is not the launch's, or nothing: it has fewer thread blocks than would run at once."""
    found = resident(workload.launch, gpu)
    recorded, blocks = _recorded_blocks(workload), workload.trace.header.blocks
    wave = min(float(found.blocks_per_sm) * float(found.active_sms), blocks)
    if recorded >= wave:
        return ""
    return (
        f"{recorded} of {blocks} thread blocks are recorded and simulated, fewer than the {wave:g} that run at once, "
        "so that it says nothing of the whole launch"
    )


def _simulated_label(workload: Any) -> str:
    """Says so where the trace, and with it the simulation, has a part of the launch."""
    recorded, blocks = _recorded_blocks(workload), workload.trace.header.blocks
    return "simulated" if recorded == blocks else f"simulated ({recorded} of {blocks} blocks)"
