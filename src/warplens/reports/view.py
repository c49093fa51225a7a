"""What every view has: plain data, a plotly figure, a drawing for print, a table, and a sentence in its place."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..formatting import show_number
from .style import check_format, pyplot, save

#: A figure of plotly.js: {"data": [traces], "layout": {…}}.
Figure = dict[str, Any]
#: Inches of one column and of both columns of a paper.
COLUMN, BOTH_COLUMNS = 3.5, 7.2


@dataclass(frozen=True)
class Table:
    """The numbers of a figure, for those who would rather read them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    def text(self) -> list[list[str]]:
        """The cells as text."""
        return [[_cell(value, name) for value, name in zip(row, self.columns, strict=True)] for row in self.rows]


def _cell(value: Any, column: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, int | float | np.number):
        return str(value)
    if column.endswith("%"):
        return "<0.1" if 0 < value < 0.05 else f"{value:.1f}"
    return show_number(float(value))


@dataclass(frozen=True)
class View(ABC):
    """A picture of results: fields are plain numbers and texts, ready for JSON."""

    name: ClassVar[str]
    """As `--view` takes it."""
    heading: ClassVar[str]
    """As pages show it."""
    shows: ClassVar[str]
    """What is in it, for the guide."""
    needs: ClassVar[str] = "–"
    """Inputs that it cannot do without, for the guide."""

    @property
    def title(self) -> str:
        """The heading, with more where a page has several views of the kind."""
        return self.heading

    @property
    @abstractmethod
    def summary(self) -> str:
        """What the picture shows, in a sentence."""

    @abstractmethod
    def figure(self) -> Figure:
        """For plotly.js, without colours of text and background: the page has them."""

    @abstractmethod
    def draw(self, plt: Any) -> Any:
        """The same as a matplotlib figure, for print."""

    @abstractmethod
    def table(self) -> Table:
        """The numbers behind it."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; NaN and infinity are null."""
        return {"view": self.name, "summary": self.summary, **plain(asdict(self))}

    def save(self, path: Path) -> None:
        """A picture file: .png, .svg or .pdf."""
        check_format(path)
        save(self.draw(pyplot()), path, dpi=300)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        from .notebook import bundle

        return bundle([self])


def plain(value: Any) -> Any:
    """The value with NumPy's types turned to Python's, and non-finite numbers to None."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not np.isfinite(value) else value


# -- pieces of plotly figures -------------------------------------------------------------


def layout(title: str = "", *, height: int, **rest: Any) -> dict[str, Any]:
    """A layout in the house style; colours that depend on light or dark are left to the page."""
    return {
        "height": height,
        "margin": {"l": 60, "r": 20, "t": 40 if title else 16, "b": 50},
        "font": {"family": "system-ui, sans-serif", "size": 13},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "font": {"size": 12}},
        **({"title": {"text": escaped(title), "font": {"size": 14}, "x": 0, "xref": "paper"}} if title else {}),
        **rest,
    }


def axis(title: str = "", **rest: Any) -> dict[str, Any]:
    """An axis with its title; `automargin` keeps long labels inside."""
    ticks = {"dtick": "D2"} if rest.get("type") == "log" else {}  # 1, 2 and 5 of each decade
    return {"title": {"text": escaped(title)}, "automargin": True, "zeroline": False, **ticks, **rest}


def escaped(text: str) -> str:
    """Text for plotly, which reads some HTML tags in labels and hover texts: none of them shall come from a name."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
