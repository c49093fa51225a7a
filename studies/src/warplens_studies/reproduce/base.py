"""A reproduction: the paper's numbers beside ours, claims of the text, assumptions, and a drawing."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from warplens._version import __version__
from warplens.errors import InputError, UnknownNameError, nearest
from warplens.models import Paper

Cell = str | float | None
Row = tuple[Cell, ...]

#: Columns of the usual summary: the paper's number and ours.
COMPARISON = ("quantity", "paper", "ours", "difference")

#: Data that a recipe's numbers come from.
FROM_THE_PAPER = "inputs that the paper prints"
FROM_KERNELS = "16 kernels on our simulator and Accel-Sim"
FROM_SETS = "public programs, the suite's stand-ins, and 16 kernels on our simulator and Accel-Sim"
FROM_SETS_SIMULATED = "public programs, the suite's stand-ins and three small kernels, on our simulator"
FROM_H200 = "the suite, measured on an H200"
FROM_H200_AND_STANDINS = "the suite, measured on an H200, and its kernels after Rodinia's on our simulator"
FROM_SUITE = "the suite's CUDA kernels, run on the CPU"
FROM_PROGRAMS = "three whole programs, run on the CPU"
#: Data of recipes that compare what this package states with what the paper prints: nothing is recomputed.
OUR_MACHINES = "the machine files of this package"
OUR_MODELS = "the models and file formats of this package"
OUR_WORKLOADS = "the workload files of this package"
RESTATED = (OUR_MACHINES, OUR_MODELS, OUR_WORKLOADS)


@dataclass(frozen=True)
class Table:
    """Named columns and rows; None is an empty cell."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Claim:
    """A statement of the paper's text, whether our numbers support it, and those numbers."""

    text: str
    holds: bool
    found: str

    @property
    def verdict(self) -> str:
        return "yes" if self.holds else "no"


@dataclass(frozen=True)
class Findings:
    """The result of a recipe. `summary` is a short table for people; without it, all rows are shown."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    draw: Callable[[Any], Any]
    """Draws the figure with the pyplot module it is given, and returns it."""
    claims: tuple[Claim, ...] = ()
    assumptions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """Notes for the reader: explained differences, omissions."""
    summary: Table | None = None


@dataclass(frozen=True)
class Reproduction:
    """A figure or table of a paper, recomputed."""

    name: str
    paper: Paper
    title: str
    compares: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    assumptions: tuple[str, ...]
    remarks: tuple[str, ...]
    draw: Callable[[Any], Any] = field(repr=False)
    summary: Table = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "paper": self.paper.key,
            "title": self.title,
            "compares": self.compares,
            "columns": list(self.columns),
            "rows": [list(row) for row in self.rows],
            "claims": [{"claim": c.text, "holds": bool(c.holds), "found": c.found} for c in self.claims],
            "assumptions": list(self.assumptions),
            "remarks": list(self.remarks),
        }

    def to_csv(self) -> str:
        """The rows as CSV, after comments with the description, the assumptions and the claims that hold."""
        return f"# warplens {__version__}, reproduce {self.name}\n{self.results_csv()}"

    def results_csv(self, digits: int = 12) -> str:
        """The same without the version, with numbers rounded to `digits`."""
        head = [
            str(self.paper),
            self.title,
            f"compares: {self.compares}",
            *(f"assumption: {text}" for text in self.assumptions),
            *(f"remark: {text}" for text in self.remarks),
        ]
        if self.claims:
            claims = [("claim", "holds", "found"), *((c.text, c.verdict, c.found) for c in self.claims)]
            head += _csv(claims, digits)
        if self.summary.rows != self.rows:
            head += _csv([self.summary.columns, *self.summary.rows], digits)
        return "\n".join([*(f"# {line}" for line in head), *_csv([self.columns, *self.rows], digits)]) + "\n"


@dataclass(frozen=True)
class Recipe:
    """How to reproduce one figure or table: its description, known before anything is computed."""

    name: str
    paper: Paper
    title: str
    compares: str
    compute: Callable[[], Findings]
    data: str = FROM_THE_PAPER
    """Data that the numbers come from."""
    timed: bool = False
    """Whether it measures time, which differs from run to run."""

    @property
    def restated(self) -> bool:
        """Whether it compares our own files with the print instead of recomputing it."""
        return self.data in RESTATED

    def __call__(self) -> Reproduction:
        found = self.compute()
        return Reproduction(
            name=self.name,
            paper=self.paper,
            title=self.title,
            compares=self.compares,
            columns=found.columns,
            rows=found.rows,
            claims=found.claims,
            assumptions=found.assumptions,
            remarks=found.remarks,
            draw=found.draw,
            summary=found.summary or Table(found.columns, found.rows),
        )

    def to_dict(self) -> dict[str, str]:
        return {
            "name": self.name,
            "paper": self.paper.key,
            "title": self.title,
            "compares": self.compares,
            "data": self.data,
        }


#: All recipes by name; `recipe_names` has them in the order in which lists show them.
RECIPES: dict[str, Recipe] = {}


def recipe(
    name: str, paper: Paper, title: str, compares: str, *, data: str = FROM_THE_PAPER, timed: bool = False
) -> Callable[[Callable[[], Findings]], Recipe]:
    """Registers the decorated function as the way to reproduce `name`."""

    def register(compute: Callable[[], Findings]) -> Recipe:
        RECIPES[name] = Recipe(name, paper, title, compares, compute, data, timed)
        return RECIPES[name]

    return register


def recipe_names() -> list[str]:
    """Names of all recipes, paper by paper, with numbers in their natural order."""
    return sorted(RECIPES, key=natural_order)


def natural_order(name: str) -> list[int | str]:
    """A key that sorts `fig2` before `fig11`."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def find_recipes(names: Iterable[str]) -> list[Recipe]:
    """Recipes by name, without repeats; without names, all of them."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in RECIPES:
            raise UnknownNameError(f"no figure or table is named {name!r}; {nearest(name, RECIPES)}")
    return [RECIPES[name] for name in wanted or recipe_names()]


def write_csv(reproduction: Reproduction, folder: Path) -> Path:
    """NAME.csv in `folder`."""
    path = folder / f"{reproduction.name}.csv"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(reproduction.to_csv(), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error}); choose another folder with -o") from None
    return path


def _csv(rows: Iterable[Sequence[Cell]], digits: int) -> list[str]:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_plain(cell, digits) for cell in row] for row in rows)
    return text.getvalue().splitlines()


def _plain(cell: Cell, digits: int) -> str:
    if cell is None:
        return ""
    return cell if isinstance(cell, str) else f"{cell:.{digits}g}"


def compare(quantity: str, paper: float | None, ours: float) -> Row:
    """A row of the usual summary (`COMPARISON`)."""
    return (quantity, paper, ours, difference(paper, ours))


def difference(paper: float | None, ours: float) -> str:
    """Difference of ours from the paper's, in percent of the latter; empty if the paper has no number."""
    if paper is None:
        return ""
    if abs(ours - paper) <= 1e-9 * abs(paper):
        return "none"
    percent = 100.0 * (ours / paper - 1.0)
    return f"{percent:+.2f} %" if abs(percent) >= 0.005 else f"{percent:+.1g} %"
