"""All models side by side: their CPI, what each says it is made of, and the measured or simulated CPI as a line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from pathlib import Path
from typing import Any

from ..models import Prediction
from .style import CATEGORY_COLOURS, PLAIN_COLOUR, pyplot, save
from .view import BOTH_COLUMNS, Figure, Table, View, axis, escaped, layout

#: CPIs further apart than this factor are drawn on a logarithmic axis, where parts cannot be stacked.
MOST_LINEAR = 12.0
#: Shares below this part of the CPI are left out of legends.
_LEAST_SHARE = 0.001
REFERENCE_COLOUR = "#000000"


@dataclass(frozen=True)
class Reference:
    """What a launch really takes: measured on a GPU, or simulated cycle by cycle. `gpu` None: on any.

    `cpi` is given where `cycles` are not those of all instructions that
    predictions count (a simulation of the recorded thread blocks); otherwise it
    follows from them.
    """

    kernel: str
    gpu: str | None
    label: str
    cycles: float
    stack: Mapping[str, float] | None = None
    cpi: float | None = None

    def cpi_beside(self, prediction: Prediction) -> float:
        """CPI in the unit of a prediction: its SMs and instructions, these cycles."""
        return prediction.cpi * self.cycles / prediction.cycles if self.cpi is None else self.cpi


@dataclass(frozen=True)
class Bar:
    """One model's CPI, and its parts where its paper defines them."""

    model: str
    cpi: float
    stack: Mapping[str, float] | None
    cycles: float
    seconds: float | None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class StackGroup:
    """One launch on one machine. `launch` is named where a kernel has several."""

    kernel: str
    launch: int | None
    gpu: str
    bars: tuple[Bar, ...]
    #: CPI by label, in the unit of the bars: the same instructions, the reference's cycles.
    lines: Mapping[str, float]

    @property
    def title(self) -> str:
        number = "" if self.launch is None else f", launch {self.launch},"
        return f"{self.kernel}{number} on {self.gpu}"

    @property
    def linear(self) -> bool:
        """Whether bars can be told apart on a linear axis, so that their parts can be stacked."""
        values = [bar.cpi for bar in self.bars] + list(self.lines.values())
        return max(values) <= MOST_LINEAR * min(values)


@dataclass(frozen=True)
class CpiStacks(View):
    """CPI stacks of several models, for one or more kernels and machines (GPUMech Fig. 16)."""

    name = "stacks"
    heading = "CPI stacks"
    shows = "CPI stacks of all models (GPUMech Fig. 16), with measured and simulated CPI as lines"

    groups: tuple[StackGroup, ...]

    @property
    def summary(self) -> str:
        parts = []
        for group in self.groups:
            low, high = (pick(group.bars, key=lambda bar: bar.cpi) for pick in (min, max))
            text = f"{group.title}: CPI from {low.cpi:.3g} ({low.model}) to {high.cpi:.3g} ({high.model})"
            lines = "".join(f", {label} {cpi:.3g}" for label, cpi in group.lines.items())
            parts.append(text + lines)
        return "; ".join(parts)

    @property
    def categories(self) -> list[str]:
        """Those that take a visible part of any stack, in the order of the papers."""
        shares = [
            {name: part / bar.cpi for name, part in bar.stack.items()}
            for group in self.groups
            for bar in group.bars
            if bar.stack
        ]
        return [name for name in CATEGORY_COLOURS if any(each.get(name, 0.0) >= _LEAST_SHARE for each in shares)]

    def table(self) -> Table:
        names = self.categories
        rows = []
        for group in self.groups:
            place = (group.kernel, group.launch, group.gpu)
            for bar in group.bars:
                shares = [None if bar.stack is None else 100.0 * bar.stack.get(each, 0.0) / bar.cpi for each in names]
                rows.append((*place, bar.model, bar.cycles, bar.cpi, *shares))
            for label, cpi in group.lines.items():
                rows.append((*place, label, None, cpi, *[None] * len(names)))
        shares_of = tuple(f"{name}, %" for name in names)
        return Table(("kernel", "launch", "GPU", "model", "cycles", "CPI", *shares_of), tuple(rows))

    def figure(self) -> Figure:
        """Two panels a group: CPI (stacked where the axis is linear) and the shares of the stacks."""
        traces: list[dict[str, Any]] = []
        shapes: list[dict[str, Any]] = []
        notes: list[dict[str, Any]] = []
        rows = [1.6 + len(group.bars) for group in self.groups]
        axes: dict[str, Any] = {}
        top = 1.0
        shown: set[str] = set()
        for number, (group, height) in enumerate(zip(self.groups, rows, strict=True)):
            left, right = (f"{2 * number + side}" if number or side > 1 else "" for side in (1, 2))
            bottom = top - height / sum(rows)
            domain = [bottom + 0.9 / sum(rows) * (number + 1 < len(rows)), top - 0.7 / sum(rows)]
            names = [escaped(bar.model) for bar in group.bars]
            y = {"domain": domain, "autorange": "reversed", "automargin": True}
            axes[f"xaxis{left}"] = axis(
                "CPI of one SM", domain=[0, 0.46], anchor=f"y{left}", type="linear" if group.linear else "log"
            )
            axes[f"yaxis{left}"] = {**y, "anchor": f"x{left}", "type": "category"}
            axes[f"xaxis{right}"] = axis("share of the CPI, %", domain=[0.52, 1], anchor=f"y{right}", range=[0, 100])
            axes[f"yaxis{right}"] = {**y, "anchor": f"x{right}", "matches": f"y{left}", "showticklabels": False}
            traces += _bars(group, names, self.categories, left, right, shown)
            for label, cpi in group.lines.items():
                place = {"xref": f"x{left}", "yref": f"y{left} domain"}
                line = {"color": "rgba(127,127,127,1)", "width": 2, "dash": "dash"}
                shapes.append({"type": "line", "x0": cpi, "x1": cpi, "y0": 0, "y1": 1, "line": line, **place})
                at = cpi if group.linear else _log10(cpi)
                notes.append(
                    {"text": escaped(f"{label} {cpi:.3g}"), "x": at, "y": 1, "yanchor": "bottom", "showarrow": False,
                     "font": {"size": 11}, **place}
                )  # fmt: skip
            if len(self.groups) > 1:
                title = escaped(group.title)
                notes.append(
                    {"text": f"<b>{title}</b>", "x": 0, "xref": "paper", "y": top, "yref": "paper", "yanchor": "top",
                     "xanchor": "left", "showarrow": False}
                )  # fmt: skip
            top = bottom
        height = int(90 + 24 * sum(rows))
        look = layout(height=height, barmode="stack", shapes=shapes, annotations=notes, bargap=0.3, **axes)
        if len(self.groups) == 1:  # on a narrow window the panels lie below each other
            look["meta"] = {
                "narrow": {
                    "height": 2 * height,
                    "xaxis": {"domain": [0, 1]},
                    "yaxis": {"domain": [0.58, 1]},
                    "xaxis2": {"domain": [0, 1]},
                    "yaxis2": {"domain": [0.08, 0.5], "showticklabels": True},
                }
            }
        return {"data": traces, "layout": look}

    def draw(self, plt: Any) -> Any:
        heights = [0.9 + 0.22 * len(group.bars) for group in self.groups]
        figure, axes = plt.subplots(
            len(self.groups),
            2,
            figsize=(BOTH_COLUMNS, sum(heights) + 0.3),
            squeeze=False,
            sharey="row",
            gridspec_kw={"width_ratios": [1, 1.4], "height_ratios": heights},
        )
        for (left, right), group in zip(axes, self.groups, strict=True):
            _draw_cpi(left, group)
            _draw_shares(right, group)
            left.set_yticks(range(len(group.bars)), [bar.model for bar in group.bars])
            left.invert_yaxis()
            left.set_title(group.title, loc="left", fontsize=9, fontweight="bold", parse_math=False)
        shown = {name: CATEGORY_COLOURS[name] for name in self.categories}
        if shown:
            handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in shown.values()]
            place = {"loc": "outside upper right", "ncols": len(shown), "fontsize": 7.5, "handlelength": 1.0}
            figure.legend(handles, shown, **place)
        return figure


def cpi_stacks(predictions: Sequence[Prediction], measured: Iterable[Reference] | None = None) -> CpiStacks:
    """The stacks of predictions, by kernel and machine; `measured` are lines, and bars where they have a stack."""
    groups: dict[tuple[str, int | None, str], list[Prediction]] = {}
    for prediction in predictions:
        for one in prediction:
            groups.setdefault((one.kernel, one.launch, one.gpu), []).append(one)
    references = list(measured or ())
    found = []
    places = [(kernel, gpu) for kernel, _, gpu in groups]
    for (kernel, launch, gpu), group in groups.items():
        known = [each for each in references if each.kernel == kernel and each.gpu in (None, gpu)]
        bars = [Bar(p.model, p.cpi, p.stack, p.cycles, p.seconds, tuple(p.warnings)) for p in group]
        lines = {each.label: each.cpi_beside(group[0]) for each in known}
        for each in known:
            if each.stack is not None:
                bars.append(Bar(each.label, lines[each.label], each.stack, each.cycles, None))
        several = places.count((kernel, gpu)) > 1
        found.append(StackGroup(kernel, launch if several else None, gpu, tuple(bars), lines))
    return CpiStacks(tuple(found))


def stack_alone(stack: Mapping[str, float]) -> CpiStacks:
    """One stack whose model and kernel are not known."""
    cpi = sum(stack.values())
    return CpiStacks((StackGroup("CPI stack", None, "one machine", (Bar("", cpi, stack, cpi, None),), {}),))


def draw_comparison(predictions: Sequence[Prediction], path: Path) -> None:
    """The stacks of predictions as a picture file."""
    save(cpi_stacks(predictions).draw(pyplot()), path)


# -- plotly ----------------------------------------------------------------------------------


def _log10(value: float) -> float:

    return log10(value)


def _bars(
    group: StackGroup, names: list[str], categories: list[str], left: str, right: str, shown: set[str]
) -> list[dict[str, Any]]:
    """CPI on the left, one trace a category where they are stacked; shares on the right."""
    traces: list[dict[str, Any]] = []
    base = {"type": "bar", "orientation": "h", "y": names}
    cpi = [bar.cpi for bar in group.bars]
    labels = [f" {value:.3g}" for value in cpi]
    plain = [None if group.linear and bar.stack else bar.cpi for bar in group.bars]
    own = {"xaxis": f"x{left}", "yaxis": f"y{left}"}
    hover = "%{y}<br>CPI %{x:.4g}<extra></extra>"
    if group.linear:
        for name in categories:
            parts = [(bar.stack or {}).get(name) for bar in group.bars]
            traces.append({**base, **own, "x": parts, "name": name, "legendgroup": name, "showlegend": False,
                           "marker": {"color": CATEGORY_COLOURS[name]},
                           "hovertemplate": "%{y}: " + name + " %{x:.4g}<extra></extra>"})  # fmt: skip
    traces.append({**base, **own, "x": plain, "name": "no stack", "showlegend": False,
                   "marker": {"color": PLAIN_COLOUR}, "hovertemplate": hover})  # fmt: skip
    # The number stands at the end of each bar, in a trace of its own so that stacks have it too.
    traces.append({"type": "scatter", "mode": "text", "x": cpi, "y": names, "text": labels, **own,
                   "textposition": "middle right", "cliponaxis": False, "showlegend": False,
                   "hoverinfo": "skip"})  # fmt: skip
    for name in categories:
        shares = [None if bar.stack is None else 100.0 * bar.stack.get(name, 0.0) / bar.cpi for bar in group.bars]
        traces.append({**base, "xaxis": f"x{right}", "yaxis": f"y{right}", "x": shares, "name": name,
                       "legendgroup": name, "showlegend": name not in shown,
                       "marker": {"color": CATEGORY_COLOURS[name]},
                       "hovertemplate": "%{y}: " + name + " %{x:.1f} %<extra></extra>"})  # fmt: skip
        shown.add(name)
    return traces


# -- matplotlib ----------------------------------------------------------------------------------


def _draw_cpi(axis: Any, group: StackGroup) -> None:
    values = [bar.cpi for bar in group.bars]
    for position, bar in enumerate(group.bars):
        start = 0.0
        parts = bar.stack if group.linear and bar.stack else {}
        for name, part in parts.items():
            axis.barh(position, part, left=start, color=CATEGORY_COLOURS[name], height=0.65)
            start += part
        if not parts:
            axis.barh(position, bar.cpi, color=PLAIN_COLOUR, height=0.65)
        place = {"xytext": (3, 0), "textcoords": "offset points", "va": "center", "fontsize": 7}
        axis.annotate(f"{bar.cpi:.3g}", (bar.cpi, position), **place)
    if group.linear:
        axis.set_xlim(0, max([*values, *group.lines.values()]) * 1.2)
    else:
        axis.set_xscale("log")
        axis.set_xlim(min(values) / 3, max(values) * 6)
    for label, cpi in group.lines.items():
        axis.axvline(cpi, color=REFERENCE_COLOUR, linewidth=1.2, linestyle="--")
        place = {"xycoords": ("data", "axes fraction"), "ha": "right", "va": "bottom", "fontsize": 6.5}
        axis.annotate(f"{label} ", (cpi, 0.0), rotation=90, **place)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("CPI of one SM (cycles per warp instruction)")


def _draw_shares(axis: Any, group: StackGroup) -> None:
    for position, bar in enumerate(group.bars):
        start = 0.0
        for name, part in (bar.stack or {}).items():
            share = 100.0 * part / bar.cpi
            axis.barh(position, share, left=start, color=CATEGORY_COLOURS[name], height=0.65)
            start += share
        if bar.stack is None:
            axis.annotate("no stack in its paper", (1, position), va="center", fontsize=7, color="#777777")
    axis.set_xlim(0, 100)
    axis.grid(axis="y", visible=False)
    axis.set_xlabel("share of the CPI, %")
