"""Caches and DRAM: which level serves each memory instruction, and what DRAM carries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError
from ..machine import Gpu
from ..models import Prediction
from ..workload import Workload, analyse
from ..workload.instructions import InstructionTable, instruction_table
from .style import CATEGORY_COLOURS
from .view import BOTH_COLUMNS, Figure, Table, View, axis, escaped, layout

#: Memory instructions that are shown, those with most requests.
MOST_INSTRUCTIONS = 16
_LEVELS = (("L1", CATEGORY_COLOURS["L1"]), ("LLC", CATEGORY_COLOURS["L2"]), ("DRAM", CATEGORY_COLOURS["DRAM"]))


@dataclass(frozen=True)
class Served:
    """One static memory instruction: requests by the level that served them, and lines per execution."""

    label: str
    requests: dict[str, float]
    lines_per_execution: float


@dataclass(frozen=True)
class MemoryUse(View):
    """Requests of the recorded thread blocks, and the part of DRAM's bandwidth that predictions imply."""

    name = "memory"
    heading = "Caches and DRAM"
    shows = "requests of each memory instruction by the level that serves them; hit ratios; DRAM traffic"
    needs = "a trace or a CUDA source"

    kernel: str
    gpu: str
    instructions: tuple[Served, ...]
    l1_hit_ratio: float
    llc_hit_ratio: float
    dram_read_bytes: float
    dram_write_bytes: float
    #: Model -> part of the bandwidth.
    dram_use: dict[str, float]

    @property
    def summary(self) -> str:
        written = self.dram_write_bytes / 2**20
        return (
            f"{self.kernel} on {self.gpu}: {100 * self.l1_hit_ratio:.1f} % of requests hit L1, "
            f"{100 * self.llc_hit_ratio:.1f} % of the others LLC; DRAM reads {self.dram_read_bytes / 2**20:.3g} MiB "
            f"and writes {written:.3g} MiB in the recorded thread blocks"
        )

    def table(self) -> Table:
        rows = [
            (each.label, each.lines_per_execution, *(each.requests[level] for level, _ in _LEVELS))
            for each in self.instructions
        ]
        names = tuple(f"requests served by {level}" for level, _ in _LEVELS)
        return Table(("instruction", "lines per execution", *names), tuple(rows))

    def figure(self) -> Figure:
        names = [escaped(each.label) for each in self.instructions]
        traces = [
            {"type": "bar", "orientation": "h", "y": names, "name": level, "marker": {"color": colour},
             "x": [each.requests[level] for each in self.instructions],
             "hovertemplate": "%{y}: %{x:,} requests"}
            for level, colour in _LEVELS
        ]  # fmt: skip
        y = {"autorange": "reversed", "automargin": True, "type": "category"}
        height = 130 + 26 * len(names)
        x = axis("requests, by the level that serves them")
        return {"data": traces, "layout": layout(height=height, barmode="stack", xaxis=x, yaxis=y, bargap=0.3)}

    def draw(self, plt: Any) -> Any:
        figure, panel = plt.subplots(figsize=(BOTH_COLUMNS, 0.9 + 0.21 * len(self.instructions)))
        left = np.zeros(len(self.instructions))
        for level, colour in _LEVELS:
            values = np.array([each.requests[level] for each in self.instructions])
            panel.barh(range(len(values)), values, 0.65, left=left, color=colour, label=level)
            left += values
        labels = [each.label for each in self.instructions]
        panel.set_yticks(range(len(labels)), labels, fontsize=7.5, parse_math=False)
        panel.invert_yaxis()
        panel.grid(axis="y", visible=False)
        panel.set_xlabel("requests, by the level that serves them")
        panel.set_title(f"{self.kernel} on {self.gpu}", loc="left", fontsize=9, fontweight="bold", parse_math=False)
        figure.legend(loc="outside upper right", ncols=3, fontsize=7.5, handlelength=1.0)
        return figure


def memory_use(workload: Workload, gpu: Gpu, predictions: list[Prediction] | None = None) -> MemoryUse:
    """The cache simulation of a traced workload on a machine (see `warplens.api.place`)."""
    found = instruction_table(workload, gpu)
    chosen = np.flatnonzero(found.is_memory)
    if not len(chosen):
        raise InputError(f"{workload.name}: no instruction reaches the L1")
    chosen = chosen[np.argsort(-found.requests[chosen], kind="stable")][:MOST_INSTRUCTIONS]
    served = []
    for index in chosen.tolist():
        total = float(found.requests[index])
        l1 = total * float(found.l1_hit_ratio[index])
        beyond = found.llc_hit_ratio[index]
        llc = 0.0 if np.isnan(beyond) else (total - l1) * float(beyond)
        served.append(
            Served(
                label_of(found, index), {"L1": l1, "LLC": llc, "DRAM": total - l1 - llc}, float(found.lines[index])
            )
        )
    facts = analyse(workload, gpu)
    summary = facts.summary()
    bandwidth = gpu.dram.bandwidth_bytes_per_s
    per_instruction = facts.bytes_per_instruction()["DRAM"]
    use = {
        p.model: per_instruction * p.cycles * p.ipc / p.seconds / float(bandwidth)
        for p in predictions or ()
        if bandwidth is not None
    }
    return MemoryUse(
        workload.name,
        gpu.name,
        tuple(served),
        1.0 - summary["l1_miss_ratio"],
        1.0 - summary["llc_miss_ratio"],
        float(summary["dram_read_bytes"]),
        float(summary["dram_write_bytes"]),
        use,
    )


def label_of(found: InstructionTable, index: int) -> str:
    """Line, PC and opcode of an instruction."""
    static = found.static
    line = f"line {static.line[index]}, " if static.line[index] else ""
    return f"{line}{int(static.pc[index]):#x} {static.opcode[index]}"
