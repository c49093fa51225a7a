"""The answers of an application: its launches in groups that are alike, the longest explained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..api import Comparison, join, of_launches, place, predict_best
from ..explanation import RULES, explain
from ..machine import Gpu
from ..workload import Workload
from .progress import progress, waiting

#: Launches of a kernel whose times differ by less than this have one answer.
ALIKE = 0.02
#: Groups of launches that advice is looked for.
MOST_EXPLAINED = 8


@dataclass(eq=False)
class _Group:
    """Launches of a kernel on one machine that take the same time."""

    workload: Workload
    machine: Gpu | None
    seconds: float
    launches: list[int]

    @property
    def total(self) -> float:
        return self.seconds * len(self.launches)


def explain_launches(
    workloads: Sequence[Workload],
    machines: Sequence[Gpu | None],
    overrides: dict[str, Any],
    options: dict[str, dict[str, str]],
    *,
    look: bool,
) -> Comparison:
    """Predictions of all launches, and an answer for each group; with `look`, the longest ones get advice."""
    parts = of_launches(
        progress(workloads, "predicting", lambda workload: workload.name),
        lambda workload: predict_best(workload, machines, overrides=overrides, options=options),
    )
    ran = [(workload, part) for workload, part in zip(workloads, parts, strict=True) if part.predictions]
    answers = []
    for index, machine in enumerate(machines):
        times = [float(part.predictions[index].seconds) for _, part in ran]
        groups = sorted(_groups([each for each, _ in ran], machine, times), key=lambda group: -group.total)
        with waiting("explaining") as report:
            for number, group in enumerate(groups):
                chosen = look and number < MOST_EXPLAINED
                total = min(len(groups), MOST_EXPLAINED) * len(RULES)

                def told(done: int, _: int, before: int = number * len(RULES), total: int = total) -> None:
                    report(before + done, total)

                answer = explain(
                    *place(group.workload, machine, overrides),
                    None if chosen else (),
                    options=options,
                    progress=told,
                )
                note = answer.note or ("" if chosen else _not_sought(look))
                answers.append(replace(answer, launches=tuple(group.launches), note=note))
    return replace(join(parts), answers=tuple(answers))


def _groups(workloads: Sequence[Workload], machine: Gpu | None, seconds: Sequence[float]) -> list[_Group]:
    found: list[_Group] = []
    for workload, time in zip(workloads, seconds, strict=True):
        alike = (g for g in found if g.workload.name == workload.name and abs(time / g.seconds - 1.0) < ALIKE)
        group = next(alike, None)
        if group is None:
            found.append(_Group(workload, machine, time, [workload.launch_index]))
        else:
            group.launches.append(workload.launch_index)
    return found


def _not_sought(look: bool) -> str:
    if not look:
        return "no advice was asked for"
    return f"advice is looked for in the {MOST_EXPLAINED} longest kernels; choose others with --kernel or --launch"
