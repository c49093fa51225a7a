"""From inputs to a report: each launch on each machine becomes a section, each sweep one of maps and fronts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._version import __version__
from ..api import JSON_SCHEMA, Comparison, Input, compare, join, load_workloads
from ..errors import UnknownNameError, nearest, writing
from ..frontends.ncu import KernelProfile
from ..machine import Gpu
from ..models import Prediction
from ..workload import Workload, workload_of_trace
from .quoted import quoted
from .section import VIEWS, Section, Settings, make_section
from .sweep_section import SweepSection, sweep_section
from .view import View

#: Launches of an input that get a section of their own, the longest ones; all are in the overview.
MOST_SECTIONS = 8
#: Part of the progress bar that loading inputs takes.
_LOADING = 0.2
#: (part of the work that is done, all of it).
Progress = Callable[[float, float], None]


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
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.html(), encoding="utf-8")

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
    `wanted` are names of views; where absent, all, with the answer before them.
    Also callable as `warplens.report(…)`.
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
        wanted is None,
    )
    machines = tuple(gpus) or (None,)
    sweeps: list[SweepSection] = []
    groups: list[list[Workload]] = []
    several = [inputs] if isinstance(inputs, str | Path) or not isinstance(inputs, Iterable) else list(inputs)
    work = _Work(settings, progress, len(several))
    for each in several:
        if isinstance(each, str | Path) and str(each).endswith(".parquet"):
            sweeps.append(sweep_section(Path(each), names))
        else:
            groups.append(choose(_workloads(each, machines[0], {"progress": work.loading, **loading})))
        work.loaded += 1
    work.sections = sum(min(len(group), MOST_SECTIONS) for group in groups) * len(machines)
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
    """The launches of an input; cache simulations of traces are kept in the user's cache folder."""
    if isinstance(given, str | Path):
        found = load_workloads(given, gpu=gpu, **loading)
    else:
        found = [given if isinstance(given, Workload) else workload_of_trace(given)]
    return [replace(each, results=each.results.on_disk()) for each in found]


@dataclass
class _Work:
    """What is asked for, and how much of it is done: inputs are loaded first, then sections made."""

    settings: Settings
    progress: Progress | None
    inputs: int
    loaded: int = 0
    sections: int = 1
    done: float = 0.0

    def _tell(self, part: float) -> None:
        if self.progress is not None:
            self.progress(min(part, 1.0), 1.0)

    def loading(self, done: float, total: float) -> None:
        self._tell(_LOADING * (self.loaded + done / max(total, 1)) / self.inputs)

    def step(self, part: float) -> None:
        """A part of a section is done."""
        self.done += part
        self._tell(_LOADING + (1.0 - _LOADING) * self.done / max(self.sections, 1))


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
        make_section(workload, gpu, compared[id(workload), number], settings, measured=number == 0, step=work.step)
        for workload in chosen
        for number, gpu in enumerate(gpus)
    ]
    joined = join([compared[id(workload), number] for workload in workloads for number in range(len(gpus))])
    return sections, joined.predictions, notes


def _seconds(found: Comparison) -> float:
    return float(quoted(found.predictions).seconds)
