"""From inputs to a report: each launch on each machine becomes a section, each sweep one of maps and fronts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .._version import __version__
from ..api import JSON_SCHEMA, Comparison, Input, compare, join, load_workloads, place, simulate
from ..errors import InputError, UnknownNameError, nearest
from ..frontends.ncu import KernelProfile, profiles_by_kernel
from ..machine import Gpu
from ..models import Prediction
from ..sweep.local import sensitivity
from ..workload import Workload, resident
from . import figures
from .headline import Headline, headline, preferred_model
from .occupancy import MOST_POINTS
from .sweep_section import SweepSection, sweep_section
from .view import View

#: Launches of an input that get a section of their own, the longest ones; all are in the overview.
MOST_SECTIONS = 8
#: Occupancies that are worked out for a trace, each with a cache simulation of its own.
TRACED_POINTS = 8

VIEWS: dict[str, str] = {
    each.name: each.heading
    for each in (
        figures.CpiStacks,
        figures.Disagreement,
        figures.Tornado,
        figures.Roofline,
        figures.Occupancy,
        figures.TransitDiagram,
        figures.MemoryUse,
        figures.SourceUse,
        figures.Intervals,
        figures.Timeline,
        figures.Simulated,
        figures.HeatMaps,
        figures.Curves,
        figures.Front,
    )
}
"""Names that `--view` takes, with their headings, in the order of the page."""

#: (part of the work that is done, all of it).
Progress = Callable[[float, float], None]


@dataclass(frozen=True)
class Section:
    """One launch on one machine: what it says in words, in pictures, and what could not be shown."""

    kernel: str
    launch: int | None
    gpu: str
    description: str
    headline: Headline
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
        return f"{self.kernel} on {self.gpu}"

    @property
    def base(self) -> Prediction:
        """The prediction that the headline quotes."""
        name = preferred_model(self.predictions)
        return next(p for p in self.predictions if p.model == name)

    def to_dict(self) -> dict[str, Any]:
        return {
            "kernel": self.kernel,
            "launch": self.launch,
            "gpu": self.gpu,
            "headline": list(self.headline.sentences),
            "predictions": [p.to_dict() for p in self.predictions],
            "views": [view.to_dict() for view in self.views],
            "absent": dict(self.absent),
            "skipped": dict(self.skipped),
        }


@dataclass(frozen=True)
class Report:
    """Sections of kernels and sweeps, ready to be written as a page."""

    sections: tuple[Section, ...]
    sweeps: tuple[SweepSection, ...] = ()
    #: Predictions of all launches, those without a section among them.
    overview: tuple[Prediction, ...] = ()
    notes: tuple[str, ...] = ()

    def views(self, name: str | None = None) -> list[View]:
        """All views of a name, or all."""
        found = [view for section in self.sections for view in section.views]
        found += [view for section in self.sweeps for view in section.views]
        return [view for view in found if name in (None, view.name)]

    def html(self) -> str:
        """The page: one text that needs nothing else."""
        from .page import page

        return page(self)

    def save(self, path: str | Path) -> None:
        """Write the page."""
        path = Path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.html(), encoding="utf-8")
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error})") from None

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": JSON_SCHEMA,
            "version": __version__,
            "sections": [section.to_dict() for section in self.sections],
            "sweeps": [section.to_dict() for section in self.sweeps],
            "notes": list(self.notes),
        }

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from .notebook import bundle

        return bundle([view for view in self.views() if view.name in ("stacks", "heat-map")])


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


def make_report(
    inputs: Input | Iterable[Input],
    output: str | Path | None = None,
    *,
    gpus: Iterable[Gpu | str | Path | None] = (),
    models: Iterable[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    profiles: Sequence[KernelProfile] = (),
    simulate: bool = False,
    source: str | None = None,
    wanted: Iterable[str] | None = None,
    choose: Callable[[list[Workload]], list[Workload]] = list,
    progress: Progress | None = None,
    **loading: Any,
) -> Report:
    """A report of kernels and sweeps, written to `output` (.html) where one is given.

    An input is what `warplens.predict` takes, or the `.parquet` table of a
    sweep. `profiles` are Nsight Compute's (`warplens.frontends.ncu`), taken to
    be of the first machine; with `simulate` traced launches also run in the
    reference simulator. `source` is the text of a kernel whose trace has none,
    `wanted` are names of views (all where absent). Also callable as
    `warplens.report(…)`.
    """
    names = frozenset(VIEWS if wanted is None else wanted)
    for name in names - set(VIEWS):
        raise UnknownNameError(f"no view is named {name!r}; {nearest(name, VIEWS)}")
    settings = Settings(
        None if models is None else tuple(models),
        dict(overrides or {}),
        dict(options or {}),
        profiles,
        simulate,
        source,
        names,
    )
    machines = tuple(gpus) or (None,)
    sweeps: list[SweepSection] = []
    groups: list[list[Workload]] = []
    several = [inputs] if isinstance(inputs, str | Path) or not isinstance(inputs, Iterable) else list(inputs)
    for each in several:
        if isinstance(each, str | Path) and str(each).endswith(".parquet"):
            sweeps.append(sweep_section(Path(each), names))
        else:
            groups.append(choose(_workloads(each, machines[0], loading)))
    work = _Work(settings, progress, sum(min(len(group), MOST_SECTIONS) for group in groups) * len(machines))
    parts = [_group(group, machines, work) for group in groups if group]
    report = Report(
        tuple(section for sections, _, _ in parts for section in sections),
        tuple(sweeps),
        tuple(p for _, overview, _ in parts for p in overview),
        tuple(note for _, _, notes in parts for note in notes),
    )
    if output is not None:
        report.save(output)
    return report


def _workloads(given: Any, gpu: Any, loading: Mapping[str, Any]) -> list[Workload]:
    if isinstance(given, str | Path):
        return load_workloads(given, gpu=gpu, **loading)
    if isinstance(given, Workload):
        return [given]
    from ..workload.traced import workload_of_trace

    return [workload_of_trace(given)]


@dataclass
class _Work:
    """What is asked for, and how much of it is done."""

    settings: Settings
    progress: Progress | None
    sections: int
    done: float = 0.0

    def step(self, part: float) -> None:
        self.done += part
        if self.progress is not None:
            self.progress(min(self.done, self.sections), self.sections)


def _group(
    workloads: list[Workload], gpus: Sequence[Any], work: _Work
) -> tuple[list[Section], tuple[Prediction, ...], list[str]]:
    """Sections of the launches of one input, longest first where there are too many; predictions of all."""
    settings = work.settings
    compared = {}
    for workload in workloads:
        for number, gpu in enumerate(gpus):
            found = compare(workload, (gpu,), settings.models, overrides=settings.overrides, options=settings.options)
            compared[id(workload), number] = found
    chosen, notes = workloads, []
    if len(workloads) > MOST_SECTIONS:
        longest = sorted(workloads, key=lambda each: -_seconds(compared[id(each), 0]))[:MOST_SECTIONS]
        chosen = [each for each in workloads if any(each is other for other in longest)]
        notes.append(
            f"{len(workloads)} launches, of which the {MOST_SECTIONS} longest have a section; "
            "choose others with --kernel or --launch"
        )
    sections = [
        _section(workload, gpu, compared[id(workload), number], number == 0, work)
        for workload in chosen
        for number, gpu in enumerate(gpus)
    ]
    joined = join([compared[id(workload), number] for workload in workloads for number in range(len(gpus))])
    return sections, joined.predictions, notes


def _seconds(found: Comparison) -> float:
    name = preferred_model(found.predictions)
    return next(float(p.seconds) for p in found.predictions if p.model == name)


def _section(workload: Workload, gpu: Any, found: Comparison, first_gpu: bool, work: _Work) -> Section:
    settings = work.settings
    placed, machine = place(workload, gpu, settings.overrides)
    predictions = found.predictions
    base = preferred_model(predictions)
    names = [p.model for p in predictions]
    traced = getattr(placed, "trace", None) is not None
    made: dict[str, View] = {}
    absent: dict[str, str] = {}
    references = _measured(placed, settings) if first_gpu else []
    result = simulate(placed, machine, "detailed", record=True) if settings.simulate and traced else None

    def try_view(name: str, make: Callable[[], View], key: str | None = None) -> None:
        if name in settings.wanted or name == "roofline":  # which the headline needs
            try:
                made[key or name] = make()
            except InputError as error:
                absent[key or name] = str(error)
        work.step(0.1)

    if result is not None:
        partial = _less_than_a_wave(placed, machine)
        if partial:
            absent["simulation, CPI of"] = partial
        else:
            label = _simulated_label(placed)
            references.append(
                figures.Reference(placed.name, machine.name, label, result.cycles, result.stack, result.cpi)
            )
        try_view("simulation", lambda: figures.simulated(result))
        try_view("timeline", lambda: figures.timeline(result), "timeline, reference simulator")
    else:
        reason = "it was not asked for (--simulate)" if traced else "it needs a trace or a CUDA source"
        absent["simulation"] = absent["timeline, reference simulator"] = reason
    try_view("stacks", lambda: figures.cpi_stacks(predictions, references))
    try_view("disagreement", lambda: figures.disagreement(predictions, base))
    own = settings.options.get(base)
    title = f"{placed.name} on {machine.name}, {base}"
    try_view("sensitivity", lambda: figures.Tornado(title, tuple(sensitivity(placed, machine, base, options=own))))
    try_view("roofline", lambda: figures.roofline(placed, machine, predictions, references))
    points = TRACED_POINTS if traced else MOST_POINTS
    try_view("occupancy", lambda: figures.occupancy(placed, machine, names, options=settings.options, points=points))
    try_view("transit", lambda: figures.transit_diagram(placed, machine))
    try_view("memory", lambda: figures.memory_use(placed, machine, list(predictions)))
    try_view("source", lambda: figures.source_use(placed, machine, settings.source, result))
    try_view("intervals", lambda: figures.intervals(placed, machine))
    try_view("timeline", lambda: figures.timeline(simulate(placed, machine, "pipeline", record=True)))
    roof, tornado = made.get("roofline"), made.get("sensitivity")
    told = headline(
        placed,
        machine,
        predictions,
        references,
        roof if isinstance(roof, figures.Roofline) else None,
        tornado if isinstance(tornado, figures.Tornado) else None,
    )
    order = list(VIEWS)
    shown = [view for view in made.values() if view.name in settings.wanted]
    return Section(
        placed.name,
        placed.launch_index if traced else None,
        machine.name,
        placed.description,
        told,
        predictions,
        tuple(sorted(shown, key=lambda view: order.index(view.name))),
        {name: reason for name, reason in absent.items() if name.partition(",")[0] in settings.wanted},
        {each.model: each.reason for each in found.skipped},
        tuple(references),
        dict(predictions[0].overrides),
    )


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
