"""Numbers beside the source: executions, divergence, stalls and hit ratios of every line and instruction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from ..machine import Gpu
from ..simulators.detailed import DetailedResult
from ..workload import Workload
from ..workload.instructions import InstructionTable, instruction_table
from .style import CATEGORY_COLOURS
from .view import BOTH_COLUMNS, Figure, Table, View, axis, escaped, layout

#: Lines that the picture shows, those with most stalls.
MOST_LINES = 20
#: Static instructions that a page lists.
MOST_INSTRUCTIONS = 2000


@dataclass(frozen=True)
class Counts:
    """One source line, or one instruction. Ratios are None where nothing asked that cache."""

    line: int
    executions: int
    active_lanes: float
    waits_share: float
    """Part of the representative warp's stalls that it spends before it."""
    waited_for_share: float
    """Part of those stalls that others spend waiting for its result."""
    lines_per_load: float | None
    l1_hit_ratio: float | None
    llc_hit_ratio: float | None
    dram_bytes: float
    lost_slots: float | None = None
    """Part of all issue slots that stayed empty while it was next, where the launch was simulated."""
    pc: int | None = None
    opcode: str = ""


COLUMNS = (
    "executions",
    "active lanes",
    "waits, %",
    "waited for, %",
    "lines per load",
    "L1 hits, %",
    "LLC hits, %",
    "DRAM, KiB",
    "issue slots lost, %",
)


def cells_of(row: Counts) -> tuple[Any, ...]:
    """A row under `COLUMNS`."""
    ratios = [None if value is None else 100.0 * value for value in (row.l1_hit_ratio, row.llc_hit_ratio)]
    kibibytes = row.dram_bytes / 1024 if row.dram_bytes else None
    shares = (100.0 * row.waits_share, 100.0 * row.waited_for_share)
    lost = None if row.lost_slots is None else 100.0 * row.lost_slots
    return (row.executions, row.active_lanes, *shares, row.lines_per_load, *ratios, kibibytes, lost)


@dataclass(frozen=True)
class SourceUse(View):
    """A kernel's lines and instructions; `text` is the source that lines number, where it is known."""

    name = "source"
    heading = "Source"
    shows = "the source with numbers per line, and a table of all instructions"
    needs = "a trace or a CUDA source"

    kernel: str
    gpu: str
    source_name: str
    text: tuple[str, ...]
    lines: tuple[Counts, ...]
    instructions: tuple[Counts, ...]
    total_instructions: int
    stall_cycles: float

    def text_of(self, line: int) -> str:
        return self.text[line - 1].strip() if 0 < line <= len(self.text) else ""

    @property
    def summary(self) -> str:
        worst = max(self.lines, key=lambda row: row.waited_for_share)
        place = f"line {worst.line}" if worst.line else "the kernel"
        text = f" ({self.text_of(worst.line)})" if self.text_of(worst.line) else ""
        return (
            f"{self.kernel} on {self.gpu}: {100 * worst.waited_for_share:.0f} % of a warp's {self.stall_cycles:.0f} "
            f"cycles of stalls wait for {place}{text}"
        )

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of `COLUMNS` that have numbers: slots are lost where the launch was simulated."""
        return COLUMNS if any(row.lost_slots is not None for row in self.lines) else COLUMNS[:-1]

    def table(self) -> Table:
        width = len(self.columns)
        rows = tuple((row.line or None, self.text_of(row.line), *cells_of(row)[:width]) for row in self.lines)
        return Table(("line", "source", *self.columns), rows)

    @property
    def _shown(self) -> list[Counts]:
        worst = sorted(self.lines, key=lambda row: -(row.waits_share + row.waited_for_share))[:MOST_LINES]
        return sorted(worst, key=lambda row: row.line)

    def _label(self, row: Counts) -> str:
        text = self.text_of(row.line)
        return f"{row.line}: {text[:60]}{'…' if len(text) > 60 else ''}" if row.line else "no line"

    def figure(self) -> Figure:
        rows = self._shown
        names = [escaped(self._label(row)) for row in rows]
        traces = [
            {"type": "bar", "orientation": "h", "y": names, "x": values, "name": name, "marker": {"color": colour},
             "hovertemplate": "%{y}: %{x:.1f} %"}
            for name, values, colour in (
                ("others wait for it", [100 * row.waited_for_share for row in rows], CATEGORY_COLOURS["DRAM"]),
                ("waits itself", [100 * row.waits_share for row in rows], CATEGORY_COLOURS["DEP"]),
            )
        ]  # fmt: skip
        y = {"autorange": "reversed", "automargin": True, "type": "category", "tickfont": {"family": "monospace"}}
        x = axis("share of the representative warp's stalls, %")
        height = 130 + 34 * len(rows)
        return {"data": traces, "layout": layout(height=height, barmode="group", xaxis=x, yaxis=y, bargap=0.25)}

    def draw(self, plt: Any) -> Any:
        rows = self._shown
        figure, panel = plt.subplots(figsize=(BOTH_COLUMNS, 0.9 + 0.26 * len(rows)))
        for shift, name, attribute, colour in (
            (-0.2, "others wait for it", "waited_for_share", CATEGORY_COLOURS["DRAM"]),
            (0.2, "waits itself", "waits_share", CATEGORY_COLOURS["DEP"]),
        ):
            values = [100 * getattr(row, attribute) for row in rows]
            panel.barh(np.arange(len(rows)) + shift, values, 0.38, color=colour, label=name)
        panel.set_yticks(
            range(len(rows)), [self._label(row) for row in rows], fontsize=7, family="monospace", parse_math=False
        )
        panel.invert_yaxis()
        panel.grid(axis="y", visible=False)
        panel.set_xlabel("share of the representative warp's stalls, %")
        panel.set_title(f"{self.kernel} on {self.gpu}", loc="left", fontsize=9, fontweight="bold", parse_math=False)
        figure.legend(loc="outside upper right", ncols=2, fontsize=7.5, handlelength=1.0)
        return figure


def source_use(
    workload: Workload, gpu: Gpu, source: str | None = None, simulated: DetailedResult | None = None
) -> SourceUse:
    """Lines and instructions of a traced workload on a machine.

    `source` is the text, where the trace has none; `simulated` a run of the
    same launch in the reference simulator, which knows the issue slots lost.
    """
    found = instruction_table(workload, gpu)
    lost = None if simulated is None else np.sum(list(simulated.stalled_slots.values()), axis=0)
    extra = workload.require_trace("the source view").header.extra
    text = source if source is not None else extra.get("source_text")
    lines = np.unique(found.static.line[found.executions > 0])
    total = float(found.waits_cycles.sum())
    rows = []
    for line in lines.tolist():
        rows.append(_counts(found, np.flatnonzero(found.static.line == line), line, total, lost))
    executed = np.flatnonzero(found.executions > 0)
    instructions = [
        _counts(found, np.array([index]), int(found.static.line[index]), total, lost,
                pc=int(found.static.pc[index]), opcode=str(found.static.opcode[index]))
        for index in executed[:MOST_INSTRUCTIONS].tolist()
    ]  # fmt: skip
    return SourceUse(
        workload.name,
        gpu.name,
        PurePath(str(extra.get("source", ""))).name,  # where it lay is nobody's business
        tuple(text.splitlines()) if isinstance(text, str) else (),
        tuple(rows),
        tuple(instructions),
        len(executed),
        total,
    )


def _counts(found: InstructionTable, rows: Any, line: int, total: float, lost: Any, **names: Any) -> Counts:
    executions = found.executions[rows]
    requests = found.requests[rows]
    loads = rows[found.is_load[rows]]
    beyond = requests * (1.0 - np.nan_to_num(found.l1_hit_ratio[rows]))
    return Counts(
        line=line,
        executions=int(executions.sum()),
        active_lanes=float(executions @ found.active_lanes[rows] / max(executions.sum(), 1)),
        waits_share=float(found.waits_cycles[rows].sum() / total) if total else 0.0,
        waited_for_share=float(found.waited_for_cycles[rows].sum() / total) if total else 0.0,
        lines_per_load=_mean(found.lines[loads], found.executions[loads].astype(float)),
        l1_hit_ratio=_mean(found.l1_hit_ratio[rows], requests),
        llc_hit_ratio=_mean(found.llc_hit_ratio[rows], beyond),
        dram_bytes=float(found.dram_bytes[rows].sum()),
        lost_slots=None if lost is None else float(lost[rows].sum()),
        **names,
    )


def _mean(values: Any, weights: Any) -> float | None:
    """Weighted mean of what is known, or None."""
    known = ~np.isnan(values) & (weights > 0)
    return float(np.average(values[known], weights=weights[known])) if known.any() else None
