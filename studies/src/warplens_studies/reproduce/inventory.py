"""Every figure and table of the five papers: recomputed here, shown with another one, or left out for a reason."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from warplens.errors import InputError
from warplens.models import Paper
from warplens.models.papers import GPUMECH, HONG_KIM, LEMEIRE, MDM, MDM_CAL

from .base import Recipe, Reproduction, find_recipes, natural_order

#: How names begin, and how many figures and tables the paper has.
PAPERS: dict[str, tuple[Paper, int, int]] = {
    "hong-kim": (HONG_KIM, 20, 6),
    "gpumech": (GPUMECH, 16, 3),
    "mdm-cal": (MDM_CAL, 3, 2),
    "mdm": (MDM, 15, 5),
    "lemeire": (LEMEIRE, 18, 12),
}

#: Items that are part of another one.
SHOWN_WITH = {
    "hong-kim-fig12": "hong-kim-fig13",
    "lemeire-fig18": "lemeire-fig17",
    "lemeire-table11": "lemeire-table10",
    "lemeire-table12": "lemeire-table10",
}

#: Results of the recipes that do not measure time, so that the list need not compute them.
OUTCOMES = Path(__file__).parent / "outcomes.csv"


@dataclass(frozen=True)
class Omission:
    """A figure or table that is not recomputed here, and why."""

    name: str
    title: str
    reason: str

    @property
    def paper(self) -> Paper:
        return PAPERS[self.name.rsplit("-", 1)[0]][0]

    def to_dict(self) -> dict[str, str]:
        return {"name": self.name, "paper": self.paper.key, "title": self.title, "reason": self.reason}


OMITTED = {
    item.name: item
    for item in (
        Omission(
            "hong-kim-fig1",
            "Figure 1: overview of the GPU architecture",
            "a block diagram with nothing to compute; what the model takes of it is in hong-kim-table1",
        ),
        Omission(
            "gpumech-fig5",
            "Figure 5: overview of GPUMech",
            "a block diagram; its boxes are our packages analysis (one warp) and models (many)",
        ),
        Omission(
            "gpumech-fig10",
            "Figure 10: the input collector",
            "a block diagram; its boxes are our packages frontends and analysis",
        ),
        Omission(
            "mdm-fig1",
            "Figure 1: performance prediction with MDM",
            "a block diagram; its steps are our packages frontends to models, whose times are in mdm-table2",
        ),
        Omission(
            "lemeire-fig10",
            "Figure 10: subsystems as pipelines and the issue limit as a valve",
            "a drawing of the idea; what it does is in lemeire-fig12 and lemeire-fig13",
        ),
    )
}


def inventory() -> list[str]:
    """Names of all figures and tables of the papers, in their order."""
    return [
        f"{prefix}-{kind}{number}"
        for prefix, (_, figures, tables) in PAPERS.items()
        for kind, count in (("fig", figures), ("table", tables))
        for number in range(1, count + 1)
    ]


@cache
def outcomes() -> dict[str, str]:
    """How many statements of the text hold, by recipe; those that measure time have none here."""
    with OUTCOMES.open(encoding="utf-8", newline="") as file:
        return {row["name"]: row["statements"] for row in csv.DictReader(file)}


def listing() -> list[dict[str, str]]:
    """One row per figure, table or section: what is compared, with which data, and the outcome or the omission."""
    rows = []
    for recipe in find_recipes(()):
        others = [name for name, shown in SHOWN_WITH.items() if shown == recipe.name]
        outcome = "measured when run" if recipe.timed else outcomes().get(recipe.name, "")
        rows.append(
            {**recipe.to_dict(), "statements": outcome, "covers": " ".join([recipe.name, *others]), "reason": ""}
        )
    empty = {"compares": "", "data": "", "statements": "", "covers": ""}
    rows += [{**item.to_dict(), **empty} for item in OMITTED.values()]
    return sorted(rows, key=lambda row: natural_order(row["name"]))


def chosen(names: Iterable[str]) -> list[Recipe]:
    """Recipes by the names of figures and tables; an error with the reason for one that is left out."""
    wanted = [SHOWN_WITH.get(name, name) for name in names]
    for name in wanted:
        if name in OMITTED:
            raise InputError(f"{name} is not recomputed: {OMITTED[name].reason}")
    return find_recipes(wanted)


def write_outcomes(found: dict[str, str]) -> None:
    """Store the result of `statements` for each recipe."""
    lines = ["name,statements", *(f"{name},{found[name]}" for name in sorted(found, key=natural_order))]
    OUTCOMES.write_text("\n".join(lines) + "\n", encoding="utf-8")


def statements(made: Reproduction) -> str:
    """Statements of the text that hold, of all that were checked."""
    return f"{sum(claim.holds for claim in made.claims)} of {len(made.claims)}" if made.claims else "none"
