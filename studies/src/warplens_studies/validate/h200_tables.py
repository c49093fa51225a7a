"""Tables of the comparison with an H200."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from warplens.api import predict
from warplens.categories import STALL_REASONS
from warplens.frontends.ncu import read_profiles
from warplens.frontends.ncu.stalls import stack_shares
from warplens.machine import load_gpu
from warplens.models import GENERAL_MODELS as MODELS
from warplens.models import get_model

from .h200 import BOUND, FOLDER, MACHINE, SIZES, SOURCES, H200Validation, bound_parts, provenance
from .h200_own import mechanism_table, range_table, request_table
from .h200_papers import IPC, by_measure, papers_table
from .h200_profiles import shipped_profiles
from .metrics import cycle_error
from .report import Sections
from .tables import Cell, Table, percent

DATASET = "h200"
#: Models of the pictures: one of every family, and the bound from counters.
DRAWN = ("roofline", "mwp-cwp-corrected", "wfg-corrected", "gpumech", "mdm", "pipeline", "warplens", BOUND)
#: Models whose CPI stacks are shown beside sampled stalls.
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
    """The comparison to show if only one is shown."""
    keys = [(source, size) for source in SOURCES for size in SIZES]
    return found[min(found, key=keys.index)]


def summary_tables(found: Found) -> list[Table]:
    """Models: means over the kernels that run longer than 20 µs, one table for each source and size."""
    return [
        Table(f"{_named(each)}: {len(each.long_kernels)} kernels above 20 µs", _SUMMARY, tuple(_summary_rows(each)))
        for each in found.values()
    ]


def all_summaries_table(found: Found) -> Table:
    """The same as one table."""
    rows = [(Cell(source), Cell(size), *row) for (source, size), each in found.items() for row in _summary_rows(each)]
    title = "errors in elapsed cycles, over the kernels above 20 µs"
    return Table(title, ("source", "size", *_SUMMARY), tuple(rows), labels=3)


_SUMMARY = (
    "model",
    "MAPE, %",
    "median, %",
    "within 10 %",
    "within 20 %",
    "within 30 %",
    "MAPE of active cycles, %",
    "MAPE of all kernels, %",
    "rank correlation of IPC",
)


def _summary_rows(found: H200Validation) -> Iterator[tuple[Cell, ...]]:
    for model in found.models:
        each = found.summary(model)
        yield (
            Cell(model),
            percent(each.mape, signed=False),
            percent(each.median, signed=False),
            *(Cell(str(number)) for number in each.within),
            percent(each.mape_active, signed=False),
            percent(each.mape_all, signed=False),
            _number(each.rank_ipc),
        )


def _named(found: H200Validation) -> str:
    return f"from {_IN_WORDS[found.source]}, size {found.size}"


def launch_table(found: Found) -> Table:
    """How many kernels each comparison has."""
    rows = [
        (
            Cell(_named(each)),
            *(Cell(str(len(group))) for group in (each.kernels, each.long_kernels, each.swept)),
        )
        for each in found.values()
    ]
    columns = ("predicted", "kernels", "above 20 µs", "over occupancies")
    return Table("kernels of each comparison", columns, tuple(rows))


def overview_table(found: Found) -> Table:
    """Models: MAPE of every comparison; IPC error, rank correlation and occupancy sweeps of the first."""
    main = main_of(found)
    rows = []
    for model in main.models:
        sweeps = main.sweeps(model)
        swept = [
            percent(statistics.fmean(each), signed=False) if each else Cell("–")
            for each in ([sweep.mape for sweep in sweeps], [sweep.mape_shape for sweep in sweeps])
        ]
        rows.append(
            (
                Cell(model),
                *(percent(each.summary(model).mape, signed=False) for each in found.values()),
                percent(by_measure(main, model, IPC), signed=False),
                _number(main.summary(model).rank_ipc),
                *swept,
                _number(statistics.fmean(sweep.rank for sweep in sweeps) if sweeps else math.nan),
            )
        )
    columns = (
        "model",
        *(f"{_IN_WORDS[each.source]}, {each.size}" for each in found.values()),
        *("IPC error", "rank", "occupancies", "shape", "rank over occupancies"),
    )
    return Table("MAPE in % and rank correlation of IPC", columns, tuple(rows))


def _parts(models: Sequence[str]) -> list[Sequence[str]]:
    """Split models into tables of moderate width, each with the bound."""
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


def all_errors_table(found: Found) -> Table:
    """Every size, source and kernel in a row, every model in a column."""
    models = main_of(found).models
    rows = [
        (
            *map(Cell, (size, source, kernel)),
            Cell(f"{each.measured[kernel, 0].duration_ns / 1000:.1f}"),
            *(percent(each.error(model, kernel)) for model in models),
        )
        for (source, size), each in found.items()
        for kernel in each.kernels
    ]
    title = "error in elapsed cycles in %; positive is too slow"
    return Table(title, ("size", "source", "kernel", "µs", *models), tuple(rows), labels=3)


def measured_table(found: H200Validation) -> Table:
    """Measurements, and the counter that bounds each kernel."""
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
    columns = (
        "kernel",
        "instructions, ours / counted",
        "L1 hits, H200",
        "L1 hits, ours",
        "L2 hits, H200",
        "L2 hits, ours",
    )
    bytes_ = [
        f"{what}, {whose}" for what in ("L2 MB", "DRAM MB read", "DRAM MB written") for whose in ("H200", "ours")
    ]
    return Table(
        "instructions and memory: counters and the cache simulation",
        (*columns, *bytes_, "shared-memory banks, % of the time"),
        tuple(rows),
    )


def sweep_tables(found: Found) -> list[Table]:
    """Models: means over the kernels whose residents were limited, one table for each source."""
    return [
        Table(f"{_named(each)}: speed over occupancies, means over kernels", _SWEEPS, tuple(_sweep_rows(each)))
        for each in found.values()
        if each.swept
    ]


_SWEEPS = ("model", "MAPE, %", "MAPE_shape, %", "mean rank correlation", "median", "0.9 or more", "concordance")


def _sweep_rows(found: H200Validation) -> Iterator[tuple[Cell, ...]]:
    for model in found.models:
        sweeps = found.sweeps(model)
        if not sweeps:
            continue
        ranks = [each.rank for each in sweeps]
        yield (
            Cell(model),
            percent(statistics.fmean(each.mape for each in sweeps), signed=False),
            percent(statistics.fmean(each.mape_shape for each in sweeps), signed=False),
            _number(statistics.fmean(ranks)),
            _number(statistics.median(ranks)),
            Cell(f"{sum(rank >= 0.9 for rank in ranks)} of {len(ranks)}"),
            _number(statistics.fmean(each.concordance for each in sweeps)),
        )


def all_sweeps_table(found: Found) -> Table:
    """Every source, swept kernel and model in a row."""
    rows = [
        (
            Cell(source),
            Cell(kernel),
            Cell(" ".join(str(level) for level in each.levels(kernel))),
            Cell(model),
            *(percent(value, signed=False) for value in (sweep.mape, sweep.mape_shape)),
            _number(sweep.rank),
            _number(sweep.concordance),
            *(percent(value, signed=False) for value in (sweep.span, sweep.noise)),
        )
        for (source, _), each in found.items()
        for kernel in each.swept
        for model in each.models
        if (sweep := each.sweep(model, kernel)) is not None
    ]
    columns = (
        *("source", "kernel", "blocks per SM", "model", "MAPE, %", "MAPE_shape, %", "rank correlation"),
        *("concordance", "measured span, %", "measured noise, %"),
    )
    return Table("speed over occupancies, kernel by kernel", columns, tuple(rows), labels=4)


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
    """The effect of the option `launch_overhead` on models whose papers lack it."""
    main = main_of(found)
    workloads, _ = shipped_profiles(main.source, main.size)
    rows = []
    for model in DRAWN:
        if model in main.models and model in MODELS and not get_model(model).launch_overhead:
            more = get_model(model, {"launch_overhead": True})
            errors = [
                abs(cycle_error(predict(workloads[kernel], main.gpu, more).cycles, each.elapsed_cycles))
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
            stack = predict(workloads[profile.kernel], gpu, model).stack or {}
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
        "launches": one(launch_table, found),
        "overview": one(overview_table, found),
        "papers": one(papers_table, found, main.size),
        "summary": partial(summary_tables, found),
        "summaries": one(all_summaries_table, found),
        "errors": one(all_errors_table, found),
        **{f"errors {size}": partial(error_tables, found, size) for size in SIZES},
        "measured": one(measured_table, main),
        "memory": one(memory_table, main),
        "sweeps": partial(sweep_tables, found),
        "sweep-kernels": partial(sweep_kernel_tables, main),
        "all-sweeps": one(all_sweeps_table, found),
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
    means = ("summary", "sweeps", "overview", "papers")
    names = (*(f"errors {size}" for size in SIZES), "memory", "sweep-kernels", *means)
    shown = [table for name in names if main_of(found).swept or "sweep" not in name for table in made[name]()]
    return [table for table in shown if table.rows]
