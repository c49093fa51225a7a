"""Numbers beside the source: time, executions, divergence and hit ratios of every line and instruction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..explanation.answer import Counts, Line
from ..explanation.lines import counts_of, lines_by_time, rest_of_time
from ..explanation.scene import MODEL, scene_of
from ..machine import Gpu
from ..simulators.detailed import DetailedResult
from ..workload import Workload
from .style import CATEGORY_COLOURS
from .view import BOTH_COLUMNS, Figure, Table, View, axis, escaped, layout

#: Lines that the picture shows, those with most time.
MOST_LINES = 20
#: Static instructions that a page lists.
MOST_INSTRUCTIONS = 2000
#: What is said of time that belongs to no instruction.
REST = {"launch": "the launch itself", "idle": "SMs without work"}


@dataclass(frozen=True)
class Row:
    """One source line, or one instruction."""

    line: int
    #: Part of the launch's time.
    share: float
    counts: Counts
    #: Part of all issue slots that stayed empty while it was next, where the launch was simulated.
    lost_slots: float | None = None
    #: Lines of headers whose code was inlined here.
    inner: tuple[Line, ...] = ()
    pc: int | None = None
    opcode: str = ""


COLUMNS = (
    "time, %",
    "executions",
    "active lanes",
    "sectors per request",
    "least sectors",
    "conflict ways",
    "L1 hits, %",
    "L2 hits, %",
    "DRAM, KiB",
    "issue slots lost, %",
)


def cells_of(row: Row) -> tuple[Any, ...]:
    """A row under `COLUMNS`."""
    counts = row.counts
    return (
        100.0 * row.share,
        counts.executions,
        counts.active_lanes,
        counts.sectors_per_request,
        counts.least_sectors,
        counts.conflict_ways,
        _percent(counts.l1_hit_ratio),
        _percent(counts.l2_hit_ratio),
        counts.dram_bytes / 1024 if counts.dram_bytes else None,
        _percent(row.lost_slots),
    )


def _percent(part: float | None) -> float | None:
    return None if part is None else 100.0 * part


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
    lines: tuple[Row, ...]
    instructions: tuple[Row, ...]
    total_instructions: int
    #: Parts of the time that no line has: launching, idle SMs.
    rest: Mapping[str, float]

    def text_of(self, line: int) -> str:
        return self.text[line - 1].strip() if 0 < line <= len(self.text) else ""

    @property
    def summary(self) -> str:
        worst = max(self.lines, key=lambda row: row.share)
        place = f"line {worst.line}" if worst.line else "the kernel"
        text = f" ({self.text_of(worst.line)})" if self.text_of(worst.line) else ""
        other = "".join(f"; {REST[name]}: {100 * part:.0f} %" for name, part in self.rest.items() if part >= 0.05)
        return (
            f"{self.kernel} on {self.gpu}: {100 * worst.share:.0f} % of the time goes to {place}{text}, "
            f"as model {MODEL!r} divides it{other}"
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
    def _shown(self) -> list[Row]:
        worst = sorted(self.lines, key=lambda row: -row.share)[:MOST_LINES]
        return sorted(worst, key=lambda row: row.line)

    def _label(self, row: Row) -> str:
        text = self.text_of(row.line)
        return f"{row.line}: {text[:60]}{'…' if len(text) > 60 else ''}" if row.line else "no line"

    def figure(self) -> Figure:
        rows = self._shown
        names = [escaped(self._label(row)) for row in rows]
        traces = [
            {"type": "bar", "orientation": "h", "y": names, "x": [100 * row.share for row in rows],
             "marker": {"color": CATEGORY_COLOURS["DRAM"]}, "hovertemplate": "%{y}: %{x:.1f} %<extra></extra>"}
        ]  # fmt: skip
        y = {"autorange": "reversed", "automargin": True, "type": "category", "tickfont": {"family": "monospace"}}
        x = axis("share of the time, %")
        height = 130 + 26 * len(rows)
        return {"data": traces, "layout": layout(height=height, xaxis=x, yaxis=y, bargap=0.25)}

    def draw(self, plt: Any) -> Any:
        rows = self._shown
        figure, panel = plt.subplots(figsize=(BOTH_COLUMNS, 0.9 + 0.26 * len(rows)))
        panel.barh(range(len(rows)), [100 * row.share for row in rows], 0.7, color=CATEGORY_COLOURS["DRAM"])
        panel.set_yticks(
            range(len(rows)), [self._label(row) for row in rows], fontsize=7, family="monospace", parse_math=False
        )
        panel.invert_yaxis()
        panel.grid(axis="y", visible=False)
        panel.set_xlabel("share of the time, %")
        panel.set_title(f"{self.kernel} on {self.gpu}", loc="left", fontsize=9, fontweight="bold", parse_math=False)
        return figure


def source_use(
    workload: Workload, gpu: Gpu, source: str | None = None, simulated: DetailedResult | None = None
) -> SourceUse:
    """Lines and instructions of a traced workload on a machine.

    `source` is the text, where the trace has none; `simulated` a run of the
    same launch in the reference simulator, which knows the issue slots lost.
    """
    scene = scene_of(workload, gpu)
    static, executions = scene.static, scene.table.executions
    lost = None if simulated is None else np.sum(list(simulated.stalled_slots.values()), axis=0)
    text = source if source is not None else scene.trace.header.extra.get("source_text")

    def row(rows: Any, line: int, **names: Any) -> Row:
        share, slots = (
            None if each is None else float(each[rows].sum()) for each in (scene.times.instructions, lost)
        )
        return Row(line, share or 0.0, counts_of(scene, rows), slots, **names)

    executed = np.flatnonzero(executions > 0)
    by_line = {line.line: line for line in lines_by_time(scene)}
    return SourceUse(
        workload.name,
        gpu.name,
        scene.source_name,
        tuple(text.splitlines()) if isinstance(text, str) else (),
        tuple(
            row(executed[static.line[executed] == line], line, inner=by_line[line].inner if line else ())
            for line in np.unique(static.line[executed]).tolist()
        ),
        tuple(
            row(
                np.array([index]), int(static.line[index]), pc=int(static.pc[index]), opcode=str(static.opcode[index])
            )
            for index in executed[:MOST_INSTRUCTIONS].tolist()
        ),
        len(executed),
        {name: part for name, part in rest_of_time(scene).items() if name in REST},
    )
