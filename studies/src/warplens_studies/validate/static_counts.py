"""Instruction counts without running (`static_mix`) against those of execution, for every kernel of the suite."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from warplens.analysis.events import collect_events
from warplens.errors import InputError
from warplens.frontends.cuda.compile import compile_cuda
from warplens.frontends.ptx import execute, parse_ptx
from warplens.frontends.ptx.static_accesses import LINE_BYTES
from warplens.frontends.ptx.static_mix import StaticMix, static_mix
from warplens.machine import INSTRUCTION_CLASSES
from warplens.suite.catalog import SUITE, get_kernel
from warplens.traces import CLASS_NAMES, LaunchTrace

from .report import Sections, markdown, update_sections
from .static_given import GIVEN, REASONS
from .tables import Cell, Table

KINDS = ("compute", "memory", "shared", "barrier")
#: |error| above which a count is poor, and bad.
POOR, BAD = 0.05, 0.25
DATASET = "static"


@dataclass(frozen=True)
class Counted:
    """Instructions of a warp by kind, and lines per access of global or local memory."""

    kinds: Mapping[str, float]
    lines: float | None

    @property
    def total(self) -> float:
        return sum(self.kinds.values())


@dataclass(frozen=True)
class StaticRow:
    """One kernel: its static counts and its executed counts."""

    kernel: str
    static: Counted
    executed: Counted
    trip_counts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""

    def error(self, kind: str) -> float | None:
        """static / executed - 1 of a kind, of `total` or of `lines`; None if both are 0."""
        if kind == "lines":
            a, b = self.static.lines, self.executed.lines
        elif kind == "total":
            a, b = self.static.total, self.executed.total
        else:
            a, b = self.static.kinds[kind], self.executed.kinds[kind]
        if not a and not b:
            return None
        return (a or 0.0) / b - 1.0 if b else np.inf

    def to_dict(self) -> dict[str, Any]:
        found: dict[str, Any] = {"kernel": self.kernel}
        for kind in KINDS:
            found |= {f"{kind}_static": self.static.kinds[kind], f"{kind}_executed": self.executed.kinds[kind]}
        return found | {
            "lines_static": self.static.lines or 0.0,
            "lines_executed": self.executed.lines or 0.0,
            "trip_counts": "; ".join(f"{line}: {trips:g}" for line, trips in self.trip_counts.items()),
        }


def counted_of_mix(mix: StaticMix) -> Counted:
    return Counted(_by_kind(mix.counts), mix.lines_per_access)


def counted_of_trace(trace: LaunchTrace) -> Counted:
    """Means over the warps of a trace."""
    static = trace.static
    counts = np.zeros(len(static))
    warps = lines = accesses = 0
    for group in trace.groups():
        counts += np.bincount(group.static, minlength=len(static))
        warps += len(group)
    for chunk in collect_events(trace, LINE_BYTES, lambda _: 0.0):
        per_event = np.diff(chunk.line_start)
        lines += int(per_event.sum())
        accesses += int((per_event > 0).sum())
    classes = {name: float(counts[static.class_id == i].sum()) / warps for i, name in enumerate(CLASS_NAMES)}
    return Counted(_by_kind(classes), lines / accesses if accesses else None)


def _by_kind(classes: Mapping[str, float]) -> dict[str, float]:
    found = dict.fromkeys(KINDS, 0.0)
    for name, count in classes.items():
        found[INSTRUCTION_CLASSES[name].kind] += count
    return found


def compare_kernel(name: str, size: str = "small") -> StaticRow:
    """One kernel of the suite, counted both ways."""
    kernel = get_kernel(name)
    compiled = compile_cuda(kernel.source_text(), name=kernel.source, options=kernel.options, kernels=(kernel.entry,))
    module, entry = parse_ptx(compiled.ptx, kernel.source), compiled.lowered_names[kernel.entry]
    launch = kernel.prepare(size)
    given = GIVEN.get(name, {})
    mix = static_mix(module, entry, launch.grid, launch.block, launch.arguments, trip_counts=given)
    run = execute(
        module,
        entry,
        launch.grid,
        launch.block,
        launch.copied_arguments(),
        dynamic_shared_memory_bytes=launch.dynamic_shared_memory_bytes,
        constants=launch.constants,
    )
    return StaticRow(name, counted_of_mix(mix), counted_of_trace(run.trace), given, REASONS.get(name, ""))


def compare_suite(
    kernels: Iterable[str] | None = None, *, progress: Callable[[str], None] | None = None
) -> list[StaticRow]:
    """Every kernel of the suite at its small size."""
    rows = []
    for name in SUITE if kernels is None else kernels:
        rows.append(compare_kernel(name))
        if progress is not None:
            progress(name)
    return rows


# -- tables ---------------------------------------------------------------------------------


def _error(value: float | None) -> Cell:
    if value is None:
        return Cell("–")
    text = f"{100.0 * value:+.1f}"
    return Cell("0" if text in ("+0.0", "-0.0") else text, (abs(value) > POOR) + (abs(value) > BAD))


def kernel_table(rows: Iterable[StaticRow]) -> Table:
    """Executed counts of a warp, and the error of the static ones in percent."""
    made = []
    for row in rows:
        executed = row.executed
        made.append(
            (
                Cell(row.kernel),
                Cell(f"{executed.total:.1f}"),
                *(_error(row.error(kind)) for kind in ("total", *KINDS)),
                Cell("–" if executed.lines is None else f"{executed.lines:.2f}"),
                _error(row.error("lines")),
                Cell(", ".join(f"line {line}: {trips:g}" for line, trips in row.trip_counts.items())),
                Cell(row.reason),
            )
        )
    columns = ("kernel", "executed", "all, %", *(f"{kind}, %" for kind in KINDS), "lines", "lines, %", "given", "why")
    return Table("static counts against executed ones, by kernel", columns, tuple(made))


def summary_table(rows: Iterable[StaticRow]) -> Table:
    """How many kernels are exact, close or off, by kind."""
    rows = list(rows)
    made = []
    for kind in ("total", *KINDS, "lines"):
        errors = [abs(error) for row in rows if (error := row.error(kind)) is not None]
        within = [sum(error <= limit for error in errors) for limit in (0.0005, 0.01, POOR, BAD)]
        made.append((Cell(kind), *(Cell(str(each)) for each in (len(errors), *within)), _worst(errors)))
    columns = ("what", "kernels", "equal", "within 1 %", "within 5 %", "within 25 %", "median error, %")
    return Table("static counts against executed ones: agreement", columns, tuple(made))


def _worst(errors: list[float]) -> Cell:
    return Cell(f"{100.0 * float(np.median(errors)):.1f}" if errors else "–")


def sections(rows: Sequence[StaticRow]) -> Sections:
    """The sections that a page can hold."""
    return {"summary": lambda: [summary_table(rows)], "kernels": lambda: [kernel_table(rows)]}


def main() -> None:
    """`python -m warplens_studies.validate.static_counts [PAGE]`: the tables, to a page or to stdout."""

    rows = compare_suite()
    if len(sys.argv) > 2:
        raise InputError("give one page at most")
    if len(sys.argv) == 2:
        update_sections(Path(sys.argv[1]), DATASET, sections(rows))
    else:
        print(markdown(summary_table(rows)))
        print(markdown(kernel_table(rows)))


if __name__ == "__main__":
    main()
