"""Where the models disagree, and which term makes them: differences of CPI stacks from one model's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..models import MODELS, Prediction
from .style import CATEGORY_COLOURS, PLAIN_COLOUR
from .view import BOTH_COLUMNS, Figure, Table, View, axis, escaped, layout

#: Bars longer than this many times the middle one are cut, and say how long they are.
MOST_CUT = 4.0


@dataclass(frozen=True)
class Difference:
    """One model against the base: CPI, its difference by category where both have stacks, what it leaves out."""

    model: str
    cpi: float
    by_category: Mapping[str, float] | None
    #: The category that differs most.
    term: str | None
    #: Aspects that the base considers and this model does not, and the other way round.
    lacks: tuple[str, ...]
    adds: tuple[str, ...]

    def extent(self, base_cpi: float) -> tuple[float, float]:
        """How far its bar reaches to the left and to the right."""
        parts = [self.cpi - base_cpi] if self.by_category is None else list(self.by_category.values())
        return sum(part for part in parts if part < 0), sum(part for part in parts if part > 0)

    def why(self) -> str:
        """The reason, as far as the models tell it."""
        if self.term is not None and self.by_category is not None:
            return f"{self.term}: {self.by_category[self.term]:+.3g} cycles an instruction"
        parts = [f"leaves out {', '.join(self.lacks)}"] if self.lacks else []
        parts += [f"considers {', '.join(self.adds)}"] if self.adds else []
        return "; ".join(parts) or "has no stack to say"


@dataclass(frozen=True)
class Disagreement(View):
    """All models against `base`, the largest differences first."""

    name = "disagreement"
    heading = "Where the models disagree"
    shows = "CPI of each model minus that of the quoted one, by category; what models without a stack leave out"
    needs = "two models"

    kernel: str
    gpu: str
    base: str
    base_cpi: float
    differences: tuple[Difference, ...]

    @property
    def summary(self) -> str:
        first = self.differences[0]
        return (
            f"{self.kernel} on {self.gpu}: furthest from {self.base} (CPI {self.base_cpi:.3g}) is {first.model} "
            f"(CPI {first.cpi:.3g}, {first.cpi / self.base_cpi:.2g}×); {first.why()}"
        )

    def table(self) -> Table:
        rows = [(each.model, each.cpi, each.cpi / self.base_cpi, each.why()) for each in self.differences]
        return Table(("model", "CPI", f"over {self.base}", "what makes the difference"), tuple(rows))

    @property
    def _categories(self) -> list[str]:
        used = {
            name
            for each in self.differences
            for name, part in (each.by_category or {}).items()
            if abs(part) > 0.001 * self.base_cpi
        }
        return [name for name in CATEGORY_COLOURS if name in used]

    @property
    def _ends(self) -> tuple[float, float]:
        """Ends of the axis: one model that is far off must not hide what makes the others differ."""
        found = [each.extent(self.base_cpi) for each in self.differences]
        reach = sorted(max(-low, high) for low, high in found)
        most = max(MOST_CUT * reach[len(reach) // 2], 1e-12)
        low, high = min(low for low, _ in found), max(high for _, high in found)
        return 1.08 * max(low, -most), 1.08 * min(high, most)

    def _cut(self) -> list[tuple[int, float]]:
        """(place, difference) of bars that go on beyond an end."""
        low, high = self._ends
        rows = [(place, each.cpi - self.base_cpi) for place, each in enumerate(self.differences)]
        return [(place, value) for place, value in rows if not low <= value <= high]

    def figure(self) -> Figure:
        names = [escaped(each.model) for each in self.differences]
        base = {"type": "bar", "orientation": "h", "y": names}
        traces = []
        for name in self._categories:
            parts = [None if each.by_category is None else each.by_category.get(name) for each in self.differences]
            traces.append({**base, "x": parts, "name": name, "marker": {"color": CATEGORY_COLOURS[name]},
                           "hovertemplate": "%{y}: " + name + " %{x:+.4g}<extra></extra>"})  # fmt: skip
        whole = [None if each.by_category is not None else each.cpi - self.base_cpi for each in self.differences]
        if any(value is not None for value in whole):
            traces.append({**base, "x": whole, "name": "no stack", "marker": {"color": PLAIN_COLOUR},
                           "hovertemplate": "%{y}: %{x:+.4g}<extra></extra>"})  # fmt: skip
        low, high = self._ends
        x = axis(f"CPI minus that of {self.base}", zeroline=True, range=[low, high])
        notes = [
            {"text": f"{value:+.3g}", "x": low if value < 0 else high, "y": names[place], "showarrow": False,
             "xanchor": "left" if value < 0 else "right", "font": {"color": "white", "size": 11}}
            for place, value in self._cut()
        ]  # fmt: skip
        y = {"autorange": "reversed", "automargin": True, "type": "category"}
        height = 120 + 24 * len(names)
        look = layout(height=height, barmode="relative", xaxis=x, yaxis=y, bargap=0.3, annotations=notes)
        return {"data": traces, "layout": look}

    def draw(self, plt: Any) -> Any:
        figure, panel = plt.subplots(figsize=(BOTH_COLUMNS, 0.9 + 0.2 * len(self.differences)))
        for position, each in enumerate(self.differences):
            ends = {True: 0.0, False: 0.0}
            parts = each.by_category or {"": each.cpi - self.base_cpi}
            for name, part in parts.items():
                positive = part >= 0
                colour = CATEGORY_COLOURS.get(name, PLAIN_COLOUR)
                panel.barh(position, part, left=ends[positive], color=colour, height=0.65)
                ends[positive] += part
        low, high = self._ends
        panel.set_xlim(low, high)
        for position, value in self._cut():
            end = low if value < 0 else high
            side = "left" if value < 0 else "right"
            panel.annotate(f" {value:+.3g} ", (end, position), ha=side, va="center", fontsize=7, color="white")
        panel.set_yticks(range(len(self.differences)), [each.model for each in self.differences])
        panel.invert_yaxis()
        panel.axvline(0.0, color="black", linewidth=0.8)
        panel.grid(axis="y", visible=False)
        panel.set_xlabel(f"CPI minus that of {self.base} ({self.base_cpi:.3g})")
        panel.set_title(f"{self.kernel} on {self.gpu}", loc="left", fontsize=9, fontweight="bold", parse_math=False)
        handles = [plt.Rectangle((0, 0), 1, 1, color=CATEGORY_COLOURS[name]) for name in self._categories]
        if handles:
            place = {"loc": "outside upper right", "ncols": len(handles), "fontsize": 7.5, "handlelength": 1.0}
            figure.legend(handles, self._categories, **place)
        return figure


def disagreement(predictions: Sequence[Prediction], base: str) -> Disagreement:
    """Predictions of one launch on one machine against that of model `base`."""
    own = next((p for p in predictions if p.model == base), None)
    others = [p for p in predictions if p.model != base]
    if own is None or not others:
        raise InputError(f"no two models to compare, one of which is {base!r}")
    found = [_difference(p, own) for p in others]
    found.sort(key=lambda each: -max(each.cpi / own.cpi, own.cpi / each.cpi))
    return Disagreement(own.kernel, own.gpu, base, own.cpi, tuple(found))


def _difference(prediction: Prediction, base: Prediction) -> Difference:
    by_category = term = None
    if prediction.stack is not None and base.stack is not None:
        names = dict.fromkeys((*base.stack, *prediction.stack))
        by_category = {name: prediction.stack.get(name, 0.0) - base.stack.get(name, 0.0) for name in names}
        term = max(by_category, key=lambda name: abs(by_category[name]))
    own, theirs = (MODELS[name].aspects for name in (base.model, prediction.model))
    lacks, adds = (tuple(sorted(str(aspect) for aspect in some)) for some in (own - theirs, theirs - own))
    return Difference(prediction.model, prediction.cpi, by_category, term, lacks, adds)
