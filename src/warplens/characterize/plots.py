"""Pictures of the raw data: latency by size, throughput by occupancy, mixes, bandwidth, misses in flight."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..machine.classes import PRODUCT_COLUMNS
from ..reports.style import LINE_COLOURS, PLAIN_COLOUR, pyplot, save
from . import analysis, products
from .analysis import Raw

_KIB = 1 << 10
#: Operations of each panel of the occupancy picture.
_PANELS = {
    "arithmetic": ("fp32_fma", "int32_add", "int32_mad", "int32_add_logic", "fp64_fma", "fp16_fma2"),
    "other units": ("sfu_ex2", "load_shared", "load_shared_16B", "atomic_shared", "shuffle", "matrix_m16n8k16"),
    "divisions": ("fp32_div", "int32_div", "fp64_div"),
}
_MODEL_STYLES = {"one subsystem": ":", "two subsystems": "--", "two subsystems, issue limit": "-"}


def draw_all(raw: Raw, folder: Path) -> list[Path]:
    """Draws every picture as PNG; returns the paths."""
    pictures = {
        "latency": _latency,
        "occupancy": _occupancy,
        "mixes": _mixes,
        "bandwidth": _bandwidth,
        "in-flight": _in_flight,
        "patterns": _patterns,
        **({"products": _products} if products.operation(PRODUCT_COLUMNS[0]) in analysis.operations(raw) else {}),
    }
    paths = []
    for name, draw in pictures.items():
        paths.append(folder / f"{name}.png")
        save(draw(raw), paths[-1])
    return paths


def _size_axis(axes: Any, sizes: Any) -> None:
    axes.set_xscale("log", base=2)
    ticks = [2**n for n in range(int(np.log2(min(sizes))), int(np.log2(max(sizes))) + 1, 2)]
    axes.set_xticks(ticks, [_size_text(tick) for tick in ticks])


def _size_text(size: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size // _KIB} KiB"


def _latency(raw: Raw) -> Any:
    figure, axes = pyplot().subplots(figsize=(7.2, 3.6))
    for cached, label, colour in ((True, "through L1", LINE_COLOURS[0]), (False, "past L1", LINE_COLOURS[1])):
        sizes, cycles = analysis.latency_curve(raw, cached=cached)
        axes.plot(sizes, cycles, "o-", markersize=3, color=colour, label=label)
        for plateau in analysis.plateaus(sizes, cycles):
            text = f"{plateau.cycles:.0f} to {_size_text(plateau.last_bytes)}"
            middle = np.sqrt(plateau.first_bytes * plateau.last_bytes)
            axes.annotate(text, (middle, plateau.cycles + 12), ha="center", fontsize=8)
    cold = analysis.dram_latency(raw).value
    axes.axhline(cold, color=PLAIN_COLOUR, linestyle=":", label=f"cold lines in touched pages: {cold:.0f}")
    _size_axis(axes, analysis.latency_curve(raw, cached=False)[0])
    axes.set(xlabel="size of the ring", ylabel="cycles of a dependent load", ylim=(0, None))
    axes.legend(loc="upper left", bbox_to_anchor=(0.02, 0.9))
    return figure


def _occupancy(raw: Raw) -> Any:
    figure, panels = pyplot().subplots(1, len(_PANELS), figsize=(10.5, 4.2))
    for axes, (title, names) in zip(panels, _PANELS.items(), strict=True):
        for colour, name in zip(LINE_COLOURS, names, strict=False):
            found = analysis.sweep(raw, name, 1)
            axes.plot(found.warps, found.instructions_per_cycle, "o-", markersize=3, color=colour, label=name)
            if title != "divisions":
                more = analysis.sweep(raw, name, 4)
                axes.plot(more.warps, more.instructions_per_cycle, ":", color=colour)
        axes.set_xscale("log", base=2)
        axes.set_xticks([1, 2, 4, 8, 16, 32, 64], ["1", "2", "4", "8", "16", "32", "64"])
        axes.set(title=title, xlabel="warps of an SM", ylim=(0, None))
        axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.18), ncol=2)
    panels[0].set_ylabel("warp instructions per cycle of an SM")
    return figure


def _products(raw: Raw) -> Any:
    figure, axes = pyplot().subplots(figsize=(6.4, 3.4))
    found = [analysis.sweep(raw, products.operation(columns), 1) for columns in PRODUCT_COLUMNS]
    for place, warps in enumerate(found[0].warps):
        cycles = [each.cycles[place].value for each in found]
        label = f"{warps // 4} warpgroup{'s' if warps > 4 else ''}"
        axes.plot(PRODUCT_COLUMNS, cycles, "o-", markersize=3, color=LINE_COLOURS[place], label=label)
    axes.plot(PRODUCT_COLUMNS, np.divide(PRODUCT_COLUMNS, 8), ":", color=PLAIN_COLOUR, label="columns / 8")
    axes.set_xticks(PRODUCT_COLUMNS)
    axes.set(xlabel="columns of the product", ylabel="cycles of an SM for a warp's part", ylim=(0, None))
    axes.legend()
    return figure


def _mixes(raw: Raw) -> Any:
    pairs = analysis.mixes(raw)
    columns = 5
    rows = -(-len(pairs) // columns)
    figure, panels = pyplot().subplots(rows, columns, figsize=(11, 2.1 * rows), sharex=True, sharey=True)
    limit = analysis.issue_limit(raw).value
    betas = np.geomspace(1, 32, 60)
    for axes, pair in zip(panels.flat, pairs, strict=False):
        times = analysis.interval(raw, pair.first).value, analysis.interval(raw, pair.second).value
        for model, style in _MODEL_STYLES.items():
            values = analysis.mix_throughput(model, betas, *times, limit)
            axes.plot(betas, values, style, color=PLAIN_COLOUR, linewidth=1, label=model)
        colour = LINE_COLOURS[1] if pair.shared else LINE_COLOURS[0]
        axes.plot(pair.betas, pair.measured, "o", markersize=4, color=colour, label="measured")
        axes.set_title(f"{pair.first}\n+ {pair.second}: {'one' if pair.shared else 'two'}", fontsize=7.5)
        axes.set_xscale("log", base=2)
        axes.set_xticks([1, 4, 16], ["1", "4", "16"])
    spare = list(panels.flat)[len(pairs) :]
    for axes in spare:
        axes.axis("off")
    handles, labels = panels.flat[0].get_legend_handles_labels()
    if spare:
        spare[0].legend(handles, labels, loc="center left", fontsize=7.5)
    figure.supxlabel("β: instructions of the first kind to one of the second", fontsize=9)
    figure.supylabel("instructions of the first kind per cycle", fontsize=9)
    return figure


def _bandwidth(raw: Raw) -> Any:
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(9, 3.4))
    rows = raw["bandwidth"]["l2_by_sms"]
    for colour, words in zip(LINE_COLOURS, (1, 4), strict=False):
        chosen = [row for row in rows if row["words"] == words]
        values = [analysis.bandwidth(row).value / 1e12 for row in chosen]
        sms = [np.median(row["sms"]) for row in chosen]
        left.plot(sms, values, "o-", markersize=3, color=colour, label=f"{4 * words} bytes a lane")
    left.set(xlabel="SMs that read from L2", ylabel="TB/s", ylim=(0, None))
    left.legend()
    rows = raw["bandwidth"]["l2_by_size"]
    sizes = [row["size_bytes"] for row in rows]
    right.plot(
        sizes, [analysis.bandwidth(row).value / 1e12 for row in rows], "o-", markersize=3, color=LINE_COLOURS[0]
    )
    for colour, name in zip(LINE_COLOURS[1:], ("read", "write", "copy"), strict=False):
        value = analysis.bandwidth(raw["bandwidth"]["dram"][name]).value / 1e12
        right.axhline(value, linestyle=":", color=colour, label=f"{name} of DRAM: {value:.2f}")
    right.axvline(raw["device"]["l2_bytes"], color=PLAIN_COLOUR, linewidth=1)
    _size_axis(right, [4 << 20, max(sizes)])
    right.set(xlabel="size read again and again by all SMs (line: L2 as reported)", ylim=(0, None))
    right.legend()
    return figure


def _patterns(raw: Raw) -> Any:
    """Loads that hit the L1 by the stride of their lanes, and uncoalesced requests."""
    figure, (left, right) = pyplot().subplots(1, 2, figsize=(9, 3.4))
    rows = [row for row in raw["patterns"] if row["pattern"].startswith("stride ")]
    strides = [row["offsets"][1] // analysis.WORD_BYTES for row in rows]
    lines = round(analysis.l1_lines_per_cycle(raw))
    left.bar(range(len(rows)), [np.median(row["cycles"]) for row in rows], color=LINE_COLOURS[0], label="measured")
    bounds = {
        f"lines / {lines}": [np.ceil(analysis.line_count(row["offsets"]) / lines) for row in rows],
        "words of one bank": [analysis.bank_words(row["offsets"]) for row in rows],
    }
    for (label, values), mark in zip(bounds.items(), ("_", "x"), strict=True):
        left.plot(range(len(rows)), values, mark, color=PLAIN_COLOUR, markersize=7, label=label)
    left.set_xticks(range(len(rows)), [str(stride) for stride in strides])
    left.set(xlabel="distance of lanes in words", ylabel="cycles of a load that hits the L1")
    left.legend()
    kinds = {"LOADS": "loads", "STORES": "stores", "ADDITIONS": "atomics"}
    for place, every in enumerate((False, True)):
        values = [analysis.scattered_cycles(raw, kind, 4, every=every).value for kind in kinds]
        where = np.arange(len(kinds)) + 0.4 * place
        right.bar(where, values, 0.38, color=LINE_COLOURS[place], label="all SMs" if every else "one SM")
    right.set_xticks(np.arange(len(kinds)) + 0.2, list(kinds.values()))
    right.set(xlabel="a word of a line of its own, in L2", ylabel="cycles of an SM for each")
    right.legend()
    return figure


def _in_flight(raw: Raw) -> Any:
    figure, panels = pyplot().subplots(1, 2, figsize=(9, 3.4), sharey=True)
    patterns = list(dict.fromkeys(row["pattern"] for row in raw["misses"]))
    for axes, level in zip(panels, ("l2", "dram"), strict=True):
        for colour, pattern in zip(LINE_COLOURS, patterns, strict=False):
            found = analysis.flight(raw, pattern, level)
            axes.plot(found.sectors, found.sectors_per_cycle, "o", markersize=3, color=colour, label=pattern)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        ticks = [2**n for n in range(0, 14, 2)]
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        ticks = [2.0**n for n in range(-8, 3, 2)]
        axes.set_yticks(ticks, [f"{tick:.3g}" for tick in ticks])
        axes.set(title=f"from {level.upper()}", xlabel="sectors that one SM asks for at a time")
    panels[0].set_ylabel("sectors per cycle")
    panels[0].legend(title="a warp's load")
    return figure
