"""Tables and pictures of the comparison with an H200."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from warplens.categories import STALL_REASONS
from warplens.frontends.ncu import read_profiles
from warplens.frontends.ncu.stalls import stack_shares
from warplens.machine import load_gpu
from warplens.models import GENERAL_MODELS as MODELS
from warplens.models import get_model
from warplens.reports.style import LINE_COLOURS, pyplot, save

from .h200 import BOUND, FOLDER, MACHINE, SIZES, SOURCES, H200Validation, bound_parts, provenance
from .h200_own import mechanism_table, range_table, request_table
from .h200_profiles import shipped_profiles
from .metrics import cycle_error
from .report import Sections
from .tables import Cell, Table, percent

DATASET = "h200"
#: Mean error in % on real hardware that the models' papers state: a GTX 1080, and sweeps of occupancy.
STATED = {"mdm": 40, "pipeline": 24}
#: Models of the pictures: one of every family, and the bound from counters.
DRAWN = ("roofline", "mwp-cwp-corrected", "wfg-corrected", "gpumech", "mdm", "pipeline", "warplens", BOUND)
#: Models whose CPI stacks stand beside sampled stalls.
STACKED = ("gpumech", "mdm", "warplens")
_PER_TABLE = 10
#: Comparisons by source and size; the first is what tables and pictures of one comparison show.
Found = Mapping[tuple[str, str], H200Validation]
_IN_WORDS = {"sass": "SASS", "ptx": "PTX"}


def _number(value: float, places: int = 2) -> Cell:
    return Cell("–" if math.isnan(value) else f"{value:.{places}f}")


def _count(value: float) -> str:
    return f"{value:,.0f}".replace(",", "\N{THIN SPACE}")


def _heading(model: str) -> str:
    return model.replace("-", "-\n")


def main_of(found: Found) -> H200Validation:
    """The comparison that stands for all where one is shown."""
    keys = [(source, size) for source in SOURCES for size in SIZES]
    return found[min(found, key=keys.index)]


def summary_tables(found: Found) -> list[Table]:
    """Models: means over the kernels that run longer than 20 µs, one table for each source and size."""
    return [_summary_table(each) for each in found.values()]


def _summary_table(found: H200Validation) -> Table:
    rows = []
    for model in found.models:
        each = found.summary(model)
        rows.append(
            (
                Cell(model),
                percent(each.mape, signed=False),
                percent(each.median, signed=False),
                *(Cell(str(number)) for number in each.within),
                percent(each.mape_active, signed=False),
                percent(each.mape_all, signed=False),
                _number(each.rank_ipc),
            )
        )
    columns = (
        "model",
        "MAPE, %",
        "median, %",
        "within 10 %",
        "20 %",
        "30 %",
        "MAPE of active cycles, %",
        "MAPE of all kernels, %",
        "rank correlation of IPC",
    )
    return Table(f"{_named(found)}: {len(found.long_kernels)} kernels above 20 µs", columns, tuple(rows))


def _named(found: H200Validation) -> str:
    return f"from {_IN_WORDS[found.source]}, size {found.size}"


def overview_table(found: Found) -> Table:
    """Models × sources and sizes: MAPE of elapsed cycles and rank correlation of IPC, beside what papers state."""
    rows = []
    for model in main_of(found).models:
        cells = [Cell(model)]
        for each in found.values():
            summary = each.summary(model)
            cells += [percent(summary.mape, signed=False), _number(summary.rank_ipc)]
        rows.append((*cells, Cell(str(STATED.get(model) or ""))))
    columns = [name for each in found.values() for name in (f"{_named(each)}: MAPE, %", "rank")]
    title = "errors in cycles, and rank correlation of IPC, over the kernels that run longer than 20 µs"
    return Table(title, ("model", *columns, "the paper's, %"), tuple(rows))


def _parts(models: Sequence[str]) -> list[Sequence[str]]:
    """Models in tables of a bearable width, the bound in each."""
    names = [model for model in models if model != BOUND]
    return [(*names[i : i + _PER_TABLE], BOUND) for i in range(0, len(names), _PER_TABLE)]


def error_tables(found: Found, size: str) -> list[Table]:
    """Every kernel and model at one size: error in elapsed cycles from each source."""
    chosen = [each for each in found.values() if each.size == size]
    if not chosen:
        return []
    first, *others = chosen
    tables = []
    for models in _parts(first.models):
        rows = []
        for kernel in first.kernels:
            cells = [Cell(kernel), Cell(f"{first.measured[kernel, 0].duration_ns / 1000:.1f}")]
            for model in models:
                cell = percent(first.error(model, kernel))
                more = [percent(each.error(model, kernel)).text for each in others if (kernel, 0) in each.predicted]
                more = [] if model == BOUND else more
                cells.append(Cell(" / ".join([cell.text, *more]), cell.level))
            rows.append(tuple(cells))
        words = " / ".join(_IN_WORDS[each.source] for each in chosen)
        tables.append(
            Table(
                f"error in elapsed cycles at size {size}, %: {words}",
                ("kernel", "µs", *map(_heading, models)),
                tuple(rows),
                note="positive: the model is too slow",
            )
        )
    return tables


def measured_table(found: H200Validation) -> Table:
    """What was measured, and which counter bounds it."""
    rows = []
    for kernel in found.kernels:
        measured = found.measured[kernel, 0]
        parts = bound_parts(measured, found.gpu)
        rows.append(
            (
                Cell(kernel),
                Cell(_count(measured.elapsed_cycles)),
                Cell(f"{100 * measured.spread:.1f}"),
                Cell(_count(measured.active_cycles)),
                Cell(f"{measured.duration_ns / 1000:.1f}"),
                _number(measured.ipc / float(found.gpu.sms)),
                Cell(f"{measured.occupancy_percent:.0f}"),
                *(Cell(f"{100 * cycles / measured.elapsed_cycles:.0f}") for cycles in parts.values()),
            )
        )
    columns = ("kernel", "elapsed cycles", "spread, %", "active cycles", "µs", "IPC of an SM", "occupancy, %")
    bounds = ("issue, %", "L2, %", "DRAM, %")
    return Table("measured, medians", (*columns, *bounds), tuple(rows))


def memory_table(found: H200Validation) -> Table:
    """Instructions, hit ratios and traffic of the cache simulation beside the counters."""
    rows = []
    for kernel in found.kernels:
        measured, ours = found.measured[kernel, 0], found.predicted[kernel, 0]
        hits = []
        for theirs, own in (
            (measured.l1_hit_percent / 100, ours.l1_hit_ratio),
            (measured.l2_hit_percent / 100, ours.l2_hit_ratio),
        ):
            off = abs(own - theirs)
            hits += [Cell(f"{theirs:.2f}"), Cell(f"{own:.2f}", (off > 0.05) + (off > 0.2))]
        traffic = []
        for theirs, own in (
            (measured.l2_bytes, ours.l2_bytes),
            (measured.dram_read_bytes, ours.dram_read_bytes),
            (measured.dram_write_bytes, ours.dram_write_bytes),
        ):
            traffic += [Cell(f"{theirs / 1e6:.1f}"), Cell(f"{own / 1e6:.1f}")]
        ratio = ours.warp_instructions / measured.warp_instructions
        banks = Cell(f"{100 * ours.bank_cycles / measured.elapsed_cycles:.0f}")
        rows.append((Cell(kernel), Cell(f"{ratio:.2f}", int(not 0.7 <= ratio <= 1.4)), *hits, *traffic, banks))
    columns = ("kernel", "instructions, of the counted", "L1 hits, H200", "ours", "L2 hits, H200", "ours")
    bytes_ = ("L2 MB, H200", "ours", "DRAM MB read, H200", "ours", "DRAM MB written, H200", "ours", "banks, %")
    return Table("instructions and memory: counters and the cache simulation", (*columns, *bytes_), tuple(rows))


def sweep_tables(found: Found) -> list[Table]:
    """Models: means over the kernels whose residents were limited, one table for each source."""
    return [_sweep_table(each) for each in found.values() if each.swept]


def _sweep_table(found: H200Validation) -> Table:
    rows = []
    for model in found.models:
        sweeps = found.sweeps(model)
        if not sweeps:
            continue
        ranks = [each.rank for each in sweeps]
        stated = STATED.get(model) if model == "pipeline" else None
        rows.append(
            (
                Cell(model),
                percent(statistics.fmean(each.mape for each in sweeps), signed=False),
                percent(statistics.fmean(each.mape_shape for each in sweeps), signed=False),
                _number(statistics.fmean(ranks)),
                _number(statistics.median(ranks)),
                Cell(f"{sum(rank >= 0.9 for rank in ranks)} of {len(ranks)}"),
                _number(statistics.fmean(each.concordance for each in sweeps)),
                Cell(str(stated or "")),
            )
        )
    ranks_ = ("mean rank correlation", "median", "0.9 or more", "concordance")
    columns = ("model", "MAPE, %", "MAPE_shape, %", *ranks_, "the paper's, %")
    return Table(f"{_named(found)}: speed over occupancies, means over kernels", columns, tuple(rows))


def sweep_kernel_tables(found: H200Validation) -> list[Table]:
    """Swept kernels × models: MAPE / MAPE_shape / rank correlation."""
    models = [model for model in DRAWN if model in found.models]
    rows = []
    for kernel in found.swept:
        shown = [found.measured[kernel, blocks] for blocks in found.levels(kernel)]
        fastest = min(each.elapsed_cycles for each in shown)
        curve = " ".join(f"{each.elapsed_cycles / fastest:.2f}" for each in shown)
        noise = max(each.spread for each in shown)
        levels = " ".join(str(each) for each in found.levels(kernel))
        cells = [Cell(kernel), Cell(levels), Cell(curve), Cell(f"{100 * noise:.0f}")]
        for model in models:
            sweep = found.sweep(model, kernel)
            if sweep is None:
                cells.append(Cell("–"))
                continue
            text = (
                f"{100 * sweep.mape:.0f} / {100 * sweep.mape_shape:.0f} / {sweep.rank:.2f} / {sweep.concordance:.2f}"
            )
            cells.append(Cell(text, int(sweep.rank < 0.9)))
        rows.append(tuple(cells))
    columns = ("kernel", "blocks per SM", "time, of the least", "noise, %", *map(_heading, models))
    return [Table("MAPE in % / MAPE_shape in % / rank correlation / concordance", columns, tuple(rows), labels=3)]


def option_table(found: Found) -> Table:
    """What the option `launch_overhead` does to models that are without it in their papers' form."""
    main = main_of(found)
    workloads, _ = shipped_profiles(main.source, main.size)
    rows = []
    for model in DRAWN:
        if model in main.models and model in MODELS and not get_model(model).launch_overhead:
            more = get_model(model, {"launch_overhead": True})
            errors = [
                abs(cycle_error(more.predict(workloads[kernel], main.gpu).cycles, each.elapsed_cycles))
                for (kernel, blocks), each in main.measured.items()
                if not blocks and kernel in main.long_kernels
            ]
            plain = main.summary(model).mape
            rows.append((Cell(model), *(percent(each, signed=False) for each in (plain, statistics.fmean(errors)))))
    columns = ("model", "MAPE, %", "with the launch overhead, %")
    return Table(f"{_named(main)}: the option launch_overhead", columns, tuple(rows))


def stall_table() -> Table:
    """Warp stalls that Nsight Compute sampled, beside CPI stacks of the same launches, in groups that both have."""
    profiled = read_profiles(FOLDER / "stalls.csv")
    workloads, _ = shipped_profiles(SOURCES[0], SIZES[0])
    gpu = load_gpu(MACHINE)
    rows = []
    for profile in profiled:
        shares = profile.stalls or {}
        rows.append((Cell(profile.kernel), Cell("sampled stalls"), *(_share(each) for each in shares.values())))
        for model in STACKED:
            stack = get_model(model).predict(workloads[profile.kernel], gpu).stack or {}
            rows.append((Cell(""), Cell(model), *(_share(each) for each in stack_shares(stack).values())))
    return Table("where time goes, %", ("kernel", "", *STALL_REASONS), tuple(rows), labels=2)


def _share(value: float) -> Cell:
    return Cell(f"{100 * value:.0f}")


def provenance_table() -> Table:
    rows = tuple((Cell(key), Cell(text)) for key, text in provenance().items())
    return Table("where the measurements come from", ("what", ""), rows, labels=2)


def sections(found: Found) -> Sections:
    """What a page can hold."""
    main = main_of(found)

    def one(make: Callable[..., Table], *arguments: Any) -> Callable[[], list[Table]]:
        return lambda: [make(*arguments)]

    return {
        "overview": one(overview_table, found),
        "summary": partial(summary_tables, found),
        **{f"errors {size}": partial(error_tables, found, size) for size in SIZES},
        "measured": one(measured_table, main),
        "memory": one(memory_table, main),
        "sweeps": partial(sweep_tables, found),
        "sweep-kernels": partial(sweep_kernel_tables, main),
        "options": one(option_table, found),
        "stalls": one(stall_table),
        "requests": one(request_table, main),
        "range": one(range_table, list(found.values())),
        "mechanisms": one(mechanism_table, main),
        "provenance": one(provenance_table),
    }


def all_tables(found: Found) -> list[Table]:
    """For a terminal: the kernels, then the means."""
    made = sections(found)
    names = (*(f"errors {size}" for size in SIZES), "memory", "sweep-kernels", "summary", "sweeps", "overview")
    shown = [table for name in names if main_of(found).swept or "sweep" not in name for table in made[name]()]
    return [table for table in shown if table.rows]


# -- pictures ------------------------------------------------------------------------------


def draw_all(comparisons: Found, folder: Path) -> list[Path]:
    """h200-scatter.png, and h200-sweeps.png where kernels were swept."""
    found = main_of(comparisons)
    models = [model for model in DRAWN if model in found.models]
    paths = [folder / "h200-scatter.png"]
    save(_scatter(pyplot(), found, models), paths[0])
    if found.swept:
        paths.append(folder / "h200-sweeps.png")
        save(_sweeps(pyplot(), found, models), paths[1])
    return paths


def _scatter(plt: Any, found: H200Validation, models: Sequence[str]) -> Any:
    """Predicted against measured cycles, one panel for every model; short kernels are hollow."""
    columns = 4
    lines = math.ceil(len(models) / columns)
    figure, axes = plt.subplots(lines, columns, figsize=(11, 2.9 * lines), sharex=True, sharey=True, squeeze=False)
    long = set(found.long_kernels)
    real = [found.measured[kernel, 0].elapsed_cycles for kernel in found.kernels]
    ends = (min(real) / 2, max(real) * 2)
    for axis in axes.flat[len(models) :]:
        axis.set_visible(False)
    for number, (model, axis) in enumerate(zip(models, axes.flat, strict=False)):
        axis.set(xscale="log", yscale="log", xlim=ends, ylim=(ends[0] / 4, ends[1] * 4))
        axis.minorticks_off()
        axis.set_xticks((30_000, 100_000, 300_000), ("30k", "100k", "300k"))
        axis.plot(ends, ends, color="#333333", linewidth=0.9)
        axis.fill_between(
            ends, [0.7 * each for each in ends], [1.3 * each for each in ends], color="#dddddd", linewidth=0
        )
        worst = sorted(found.long_kernels, key=lambda kernel: -abs(math.log1p(found.error(model, kernel) or 0.0)))[:3]
        for kernel in found.kernels:
            cycles = found.cycles(model, kernel)
            if cycles is None:
                continue
            measured = found.measured[kernel, 0].elapsed_cycles
            colour = LINE_COLOURS[number % len(LINE_COLOURS)]
            axis.plot(
                measured,
                min(max(cycles, ends[0] / 4), ends[1] * 4),
                "o",
                markersize=4,
                markeredgecolor=colour,
                markerfacecolor=colour if kernel in long else "none",
            )
        _label(
            axis,
            {kernel: (found.measured[kernel, 0].elapsed_cycles, found.cycles(model, kernel)) for kernel in worst},
        )
        mean = found.summary(model).mape
        axis.set_title(f"{'bound from counters' if model == BOUND else model}: MAPE {100 * mean:.0f} %", fontsize=9)
    figure.supxlabel("measured elapsed cycles; grey: within 30 %; hollow: 20 µs or less", fontsize=8)
    figure.supylabel("predicted cycles", fontsize=8)
    return figure


def _label(axis: Any, points: Mapping[str, tuple[float, Any]]) -> None:
    """Names beside points, from the lowest up; one that would stand on another is raised."""
    low, high = map(math.log10, axis.get_ylim())
    per_point = (high - low) / 150  # decades; a panel is about so many points high
    free = low
    for kernel, (x, y) in sorted(points.items(), key=lambda item: item[1][1]):
        height = math.log10(y) - 2 * per_point
        raised = max(free - height, 0.0) / per_point
        right = x * x > math.prod(axis.get_xlim())
        axis.annotate(
            kernel,
            (x, y),
            fontsize=6,
            xytext=(-4 if right else 4, raised - 2),
            textcoords="offset points",
            ha="right" if right else "left",
        )
        free = max(height, free) + 7 * per_point


def _sweeps(plt: Any, found: H200Validation, models: Sequence[str]) -> Any:
    """Speed over resident warps, relative to the best measured one, one panel for every kernel."""
    columns = 5
    lines = math.ceil((len(found.swept) + 1) / columns)
    figure, axes = plt.subplots(lines, columns, figsize=(12, 2.2 * lines), squeeze=False)
    for axis in axes.flat[len(found.swept) :]:
        axis.axis("off")
    for kernel, axis in zip(found.swept, axes.flat, strict=False):
        levels = found.levels(kernel)
        warps = [found.predicted[kernel, blocks].warps_per_sm for blocks in levels]
        real = [found.measured[kernel, blocks].elapsed_cycles for blocks in levels]
        for number, model in enumerate(models):
            cycles = [found.cycles(model, kernel, blocks) for blocks in levels]
            if None not in cycles:
                speeds = [min(real) / each for each in cycles if each is not None]
                axis.plot(warps, speeds, color=LINE_COLOURS[number], linewidth=1.1, label=model)
        axis.plot(warps, [min(real) / each for each in real], "ko-", markersize=3.5, linewidth=1.4, label="measured")
        axis.set_title(kernel, fontsize=8)
        axis.set_ylim(0, 2.2)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    axes.flat[-1].legend(handles, labels, loc="center", fontsize=7)
    figure.supxlabel("resident warps per SM", fontsize=8)
    figure.supylabel("speed, of the best measured", fontsize=8)
    return figure
