"""What the reference simulator saw: CPI stack, where an L1 miss spends its time, traffic over time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .style import CATEGORY_COLOURS, LINE_COLOURS, pyplot, save

#: Parts of an L1 miss in the colours of the CPI categories they belong to (MDM Fig. 3).
_PARTS = {"L1": "L1", "MSHR": "MSHR", "NOC": "NOC", "LLC": "L2", "QUEUE": "QUEUE", "DRAM": "DRAM"}


def draw_simulation(result: Any, path: Path) -> None:
    """Three panels for one `DetailedResult`."""
    plt = pyplot()
    figure, (stack, latency, traffic) = plt.subplots(
        3, 1, figsize=(7.2, 4.6), gridspec_kw={"height_ratios": [0.55, 0.55, 2.0]}
    )
    stack_parts = [(name, part, CATEGORY_COLOURS[name]) for name, part in result.stack.items()]
    _bar(stack, stack_parts, f"CPI {result.cpi:.3g} of one SM")
    latency_parts = [(name, result.miss_latency[name], CATEGORY_COLOURS[key]) for name, key in _PARTS.items()]
    _bar(latency, latency_parts, "cycles of an L1 miss, on average")
    used = int(np.ceil(result.cycles / result.bin_cycles))
    middle = (np.arange(used) + 0.5) * result.bin_cycles
    seconds = result.bin_cycles * result.seconds / result.cycles
    for name, series, colour in (
        ("NoC replies", result.noc_bytes_over_time, LINE_COLOURS[3]),
        ("DRAM", result.dram_bytes_over_time, LINE_COLOURS[0]),
    ):
        traffic.plot(middle, series[:used] / seconds / 1e9, label=name, color=colour, drawstyle="steps-mid")
    traffic.set_xlabel("cycle")
    traffic.set_ylabel("GB/s")
    traffic.set_ylim(bottom=0)
    traffic.legend(loc="upper right", fontsize=8)
    figure.suptitle(f"{result.kernel} on {result.gpu}: {result.cycles:,.0f} cycles", fontsize=10, fontweight="bold")
    save(figure, path)


def _bar(axis: Any, parts: list[tuple[str, float, str]], label: str) -> None:
    left = 0.0
    total = sum(part for _, part, _ in parts)
    for name, part, colour in parts:
        axis.barh(0, part, left=left, color=colour, height=0.7)
        if part > 0.06 * total:
            axis.annotate(name, (left + part / 2, 0), ha="center", va="center", fontsize=7.5)
        left += part
    axis.set_yticks([])
    axis.set_xlim(0, total if total > 0 else 1)
    axis.grid(visible=False)
    axis.set_xlabel(label, fontsize=8)
