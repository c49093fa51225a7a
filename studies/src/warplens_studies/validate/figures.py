"""Figs. 5 to 9 of mdm-micro2020 drawn from a validation, and the miss ratios."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from warplens.reports.style import LINE_COLOURS, pyplot, save

from .harness import Validation
from .paper import CAPPED, MODELS, STATED, SWEEPS, TITLES, Stated, Sweep

#: Bars above this error (%) are cut; the number is shown at the cut.
_CUT = 250.0
_COLOURS = dict(zip(MODELS, (LINE_COLOURS[index] for index in (0, 3, 5, 4, 1)), strict=True))
_RULES = {"queues take all requests": MODELS, "queues take requests capped by the MSHRs": CAPPED}
_GROUPS: dict[str, bool | None] = {"NMD": False, "MD": True, "all": None}
_OTHERS = "The paper has other benchmarks and another simulator (GPGPU-Sim 3.2)"

Series = Sequence[tuple[str, str, Sequence[float]]]


def draw_all(validation: Validation, folder: Path) -> tuple[list[Path], list[str]]:
    """(Pictures written to `folder`, why others were left out)."""
    drawn: list[Path] = []
    left_out: list[str] = []
    for name, missing, draw in _figures(validation):
        if missing:
            left_out.append(f"{name} is left out: it needs {missing}")
            continue
        path = folder / f"{name}.png"
        save(draw(pyplot()), path)
        drawn.append(path)
    return drawn, left_out


def _figures(validation: Validation) -> Iterator[tuple[str, str, Callable[[Any], Any]]]:
    """(Name, what it lacks, how to draw it) of every figure."""
    run = {row.model for row in validation.rows}
    models = [name for name in (*MODELS, *CAPPED) if name not in run]
    lacking = f"model {models[0]}" if models else ""
    yield "mdm-fig5", lacking, partial(_kernels, validation=validation)
    for sweep in SWEEPS:
        settings = [name for name in sweep.settings.values() if name not in validation.configurations]
        reason = lacking or (f"configuration {settings[0]}" if settings else "")
        if not any(validation.divergent(kernel) for kernel in validation.kernels):
            reason = "a divergent kernel"
        yield sweep.figure, reason, partial(_sweep, validation=validation, sweep=sweep)
    yield "miss-ratios", "", partial(_misses, validation=validation)


# -- pieces --------------------------------------------------------------------------------


def _caption(figure: Any, title: str, text: str) -> None:
    width, height = figure.get_size_inches()
    lines = textwrap.wrap(text.replace(" %", "\N{NO-BREAK SPACE}%"), int(width * 17.5))
    figure.set_size_inches(width, height + 0.1 + 0.13 * len(lines))
    figure.suptitle(title, x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    figure.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=7, color="#555555", linespacing=1.25)


def _legend(figure: Any, axis: Any, *, paper: bool = False) -> None:
    handles, labels = axis.get_legend_handles_labels()
    if paper:
        handles.append(pyplot().Line2D([], [], color="black", linewidth=1.6))
        labels.append("stated in the paper")
    figure.legend(handles, labels, loc="outside upper right", ncols=len(labels), fontsize=8, columnspacing=1.2)


def _bars(axis: Any, groups: Sequence[str], series: Series, *, cut: float | None = None) -> None:
    """One bar per group and (label, colour, percentages); numbers on all bars, or on those that `cut` shortens."""
    from matplotlib.patheffects import withStroke

    width = 0.84 / len(series)
    for number, (label, colour, values) in enumerate(series):
        places = [group + (number - (len(series) - 1) / 2) * width for group in range(len(groups))]
        heights = [value if cut is None else min(value, cut) for value in values]
        axis.bar(places, heights, 0.94 * width, label=label, color=colour)
        for place, value, height in zip(places, values, heights, strict=True):
            if cut is not None and value <= cut:
                continue
            axis.annotate(
                f"{value:.0f}",
                (place, height),
                xytext=(0, 1.5),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=6.5,
                rotation=0 if cut is None else 90,
                zorder=6,
                path_effects=[withStroke(linewidth=1.8, foreground="white")],
            )
    axis.set_xlim(-0.6, len(groups) - 0.4)
    axis.set_xticks(range(len(groups)), groups)
    axis.grid(axis="x", visible=False)


def _dash(axis: Any, group: int, stated: Stated) -> None:
    """Draw the paper's value across the bar of its model."""
    width = 0.84 / len(MODELS)
    place = group + (MODELS.index(stated.model) - (len(MODELS) - 1) / 2) * width
    ends = [place - 0.55 * width, place + 0.55 * width]
    axis.plot(ends, [stated.percent] * 2, color="black", linewidth=1.6, zorder=5)


def _means(
    validation: Validation, models: Sequence[str], order: str, points: Sequence[tuple[str, bool | None]]
) -> Series:
    """Mean |error| of each model at (configuration, kernels) points."""
    return [
        (
            TITLES[base],
            _COLOURS[base],
            [
                100.0 * (validation.mean_error(model, order=order, configuration=name, divergent=which) or 0.0)
                for name, which in points
            ],
        )
        for base, model in zip(MODELS, models, strict=True)
    ]


# -- Fig. 5 --------------------------------------------------------------------------------


def _kernels(plt: Any, validation: Validation) -> Any:
    """Signed error of every kernel, so that too fast and too slow differ; means of |error| on the right."""
    configuration, order = validation.main_configuration, validation.main_order
    kernels = sorted(validation.kernels, key=validation.divergent)
    others = sum(not validation.divergent(kernel) for kernel in kernels)
    errors = validation.errors(order, configuration)
    figure, axes = plt.subplots(
        2, 2, figsize=(11, 5.6), width_ratios=(max(len(kernels), 6), 4.2), sharex="col", sharey="col", squeeze=False
    )
    for (left, right), (rule, models) in zip(axes, _RULES.items(), strict=True):
        series = [
            (TITLES[base], _COLOURS[base], [100.0 * errors[kernel, model] for kernel in kernels])
            for base, model in zip(MODELS, models, strict=True)
        ]
        _bars(left, kernels, series, cut=_CUT)
        left.axhline(0, color="#444444", linewidth=0.8)
        left.set_ylim(-110, _CUT + 60)
        left.set_yticks(range(-100, int(_CUT) + 1, 50))
        left.set_ylabel("IPC error, %")
        left.set_title(f"Each kernel; {rule}", loc="left", fontsize=9)
        left.tick_params(axis="x", labelrotation=30, labelsize=7.5)
        for label in left.get_xticklabels():
            label.set_horizontalalignment("right")
        if 0 < others < len(kernels):
            left.axvline(others - 0.5, color="#999999", linewidth=0.8, linestyle=":")
            for start, text in ((-0.6, "NMD"), (others - 0.5, "MD")):
                left.text(start + 0.08, _CUT + 36, text, fontsize=8, color="#777777")
        _bars(right, list(_GROUPS), _means(validation, models, order, [(configuration, w) for w in _GROUPS.values()]))
        for stated in STATED:
            if stated.figure == "Fig. 5":
                _dash(right, list(_GROUPS).index(stated.setting), stated)
        right.margins(y=0.09)
        right.set_title("Mean |error|, %", loc="left", fontsize=9)
    _legend(figure, axes[0, 0], paper=True)
    _caption(
        figure,
        f"Fig. 5: IPC error of each kernel ({configuration})",
        f"Caches in {order} order. Positive: the model is too fast; a bar that is cut has its number on top. "
        f"{_OTHERS}; it states {_said('Fig. 5')}.",
    )
    return figure


def _said(figure: str) -> str:
    """The paper's numbers in words."""
    return ", ".join(
        f"{TITLES[each.model]} {each.percent:g} % ({each.setting})" for each in STATED if each.figure == figure
    )


# -- Figs. 6 to 9 --------------------------------------------------------------------------


def _sweep(plt: Any, validation: Validation, sweep: Sweep) -> Any:
    """Mean error of the divergent kernels: a row per order, a column per rule of the queues."""
    orders = validation.orders
    settings = list(sweep.settings.values())
    number = f"Fig. {sweep.figure.removeprefix('mdm-fig')}"
    figure, axes = plt.subplots(
        len(orders), 2, figsize=(9.5, 0.7 + 2.1 * len(orders)), squeeze=False, sharex=True, sharey=True
    )
    for row, order in zip(axes, orders, strict=True):
        for axis, (rule, models) in zip(row, _RULES.items(), strict=True):
            _bars(axis, list(sweep.settings), _means(validation, models, order, [(name, True) for name in settings]))
            for stated in STATED:
                if stated.figure == number:
                    _dash(axis, settings.index(stated.configuration), stated)
            axis.margins(y=0.09)
            axis.set_title(f"Caches in {order} order; {rule}", loc="left", fontsize=8)
        row[0].set_ylabel("mean |IPC error|, %")
    for axis in axes[-1]:
        axis.set_xlabel(sweep.title)
    said = _said(number)
    _legend(figure, axes[0, 0], paper=bool(said))
    _caption(
        figure,
        f"{number}: error over {sweep.title}",
        f"Mean over the divergent kernels. {_OTHERS}; its text states {said or 'no numbers for this figure'}.",
    )
    return figure


# -- miss ratios -----------------------------------------------------------------------------


def _misses(plt: Any, validation: Validation) -> Any:
    """Every kernel a row: the reference as a tick, each order as a mark."""
    configuration, orders = validation.main_configuration, validation.miss_orders
    rows = [row for row in validation.misses if row.configuration == configuration]
    kernels = validation.kernels
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 1.0 + 0.27 * len(kernels)), sharey=True)
    for axis, level, title in zip(axes, ("l1", "llc"), ("L1 (stores included)", "LLC"), strict=True):
        reference = {row.kernel: getattr(row, f"{level}_reference") for row in rows}
        places = range(len(kernels))
        axis.vlines(
            [reference[kernel] for kernel in kernels],
            [place - 0.42 for place in places],
            [place + 0.42 for place in places],
            color="black",
            linewidth=2.2,
            label="reference",
        )
        for number, order in enumerate(orders):
            shift = (number - (len(orders) - 1) / 2) * 0.8 / len(orders)
            found = {row.kernel: getattr(row, level) for row in rows if row.order == order}
            axis.plot(
                [found[kernel] for kernel in kernels],
                [place + shift for place in places],
                linestyle="",
                marker="osD^v<>"[number % 7],
                markersize=4,
                color=LINE_COLOURS[number % len(LINE_COLOURS)],
                label=order,
            )
        for place in places[:-1]:
            axis.axhline(place + 0.5, color="#eeeeee", linewidth=0.8)
        axis.grid(axis="y", visible=False)
        axis.set_xlim(-0.03, 1.05)
        axis.set_title(title, loc="left", fontsize=9)
        axis.set_xlabel("miss ratio")
    axes[0].set_yticks(range(len(kernels)), kernels, fontsize=8)
    axes[0].set_ylim(len(kernels) - 0.5, -0.5)
    _legend(figure, axes[0])
    figure.suptitle(f"Miss ratios ({configuration})", x=0.01, ha="left", fontsize=10.5, fontweight="bold")
    return figure
