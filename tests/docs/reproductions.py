"""The page of reproductions, and the CSV file of each figure and table that it links to."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from warplens.cli.common import show_number
from warplens_studies.reproduce import OMITTED, RECIPES, Recipe, Reproduction, find_recipes
from warplens_studies.reproduce.base import COMPARISON
from warplens_studies.reproduce.claims import IN_TESTS, NOT_COVERED, RECOMPUTED, RULES, PrintedClaim, printed_claims
from warplens_studies.reproduce.inventory import PAPERS, SHOWN_WITH, inventory, outcomes, statements, write_outcomes

from .reference import table

#: Tested beside the recipes (`studies/test_recipes.py`), which take half a minute to compute.
PAGE = "reproductions.md"
FOLDER = Path(__file__).parents[2] / "docs" / "reproductions"
STATEMENTS = FOLDER / "statements.csv"
#: Digits of the numbers: fewer than computed, so that another processor gives the same file.
DIGITS = 6


@cache
def made(name: str) -> Reproduction:
    return RECIPES[name]()


def untimed() -> list[str]:
    return [recipe.name for recipe in find_recipes(()) if not recipe.timed]


def files() -> dict[Path, str]:
    """The CSV file of every item that measures no time, and one of all statements."""
    found = {FOLDER / f"{name}.csv": made(name).results_csv(DIGITS) for name in untimed()}
    return found | {STATEMENTS: _all_statements()}


def _all_statements() -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("item", "holds", "statement", "found"))
    for name in untimed():
        writer.writerows((name, claim.verdict, claim.text, claim.found) for claim in made(name).claims)
    return text.getvalue()


def write_files() -> None:
    """CSV files of the items that measure no time, and what `warplens reproduce --list` says of them."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
    write_outcomes({name: statements(made(name)) for name in untimed()})
    outcomes.cache_clear()


# -- the page ------------------------------------------------------------------------------


def summary() -> str:
    """Papers: how much of each is here, and how it compares."""
    rows = []
    for prefix, (paper, _, _) in PAPERS.items():
        items = [name for name in inventory() if name.rsplit("-", 1)[0] == prefix]
        found = [made(recipe.name) for recipe in _recipes(paper.key) if not recipe.timed]
        claims = [claim for each in found if not RECIPES[each.name].restated for claim in each.claims]
        off = [each for item in found for each in differences(item)]
        rows.append(
            (
                f"{paper.authors}, {paper.venue}",
                f"{len(items)}",
                *(f"{sum(_restated(name) == restated for name in items)}" for restated in (False, True)),
                f"{len(off)}",
                f"{sum(each <= 0.01 for each in off)}",
                f"{len(claims)}",
                f"{sum(claim.holds for claim in claims)}",
            )
        )
    head = (
        *("paper", "figures and tables", "recomputed", "restated", "printed numbers", "within 1 %"),
        *("statements checked", "hold"),
    )
    return table(head, rows)


def _restated(name: str) -> bool | None:
    """Whether an item is restated rather than recomputed; None for one that is left out."""
    recipe = RECIPES.get(SHOWN_WITH.get(name, name))
    return None if recipe is None else recipe.restated


def omitted() -> str:
    return table(("not recomputed", "why"), [(item.title, item.reason) for item in OMITTED.values()])


def claims(what: str) -> str:
    """Claims of the papers: how many by rule, those of a paper that are recomputed, or all of another rule."""
    found = printed_claims()
    if what == "summary":
        rows = [
            (_short(prefix), *(str(sum(c.paper == prefix and c.rule == rule for c in found)) for rule in RULES))
            for prefix in PAPERS
        ]
        return table(("paper", *RULES), rows)
    if what in PAPERS:
        head = ("in the paper", "claim", "item", "holds", "here")
        mine = [claim for claim in found if claim.paper == what and claim.rule == RECOMPUTED]
        return table(head, [(claim.section, claim.claim, *_outcome(claim)) for claim in mine])
    rule = what.replace("-", " ")
    last = "why" if rule == NOT_COVERED else "item"
    rows = [
        (_short(c.paper), c.section, c.claim, c.detail if rule == NOT_COVERED else _link(c.item))
        for c in found
        if c.rule == rule
    ]
    return table(("paper", "in the paper", "claim", last), rows)


def _short(prefix: str) -> str:
    return PAPERS[prefix][0].venue


def _link(item: str) -> str:
    return f"[{item}](reproductions.md#{item})"


def _outcome(claim: PrintedClaim) -> tuple[str, str, str]:
    """The item, how many of its statements about a claim hold, and what the first of them found."""
    if claim.item == IN_TESTS:
        return f"`{claim.detail}`", "yes", "equal"
    if RECIPES[claim.item].timed:
        return _link(claim.item), "–", "measured when run"
    if not claim.detail:
        return _link(claim.item), "–", "the item's numbers"
    with STATEMENTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    mine = [row for row in rows if row["item"] == claim.item and row["statement"].startswith(claim.detail)]
    holding = sum(row["holds"] == "yes" for row in mine)
    verdict = mine[0]["holds"] if len(mine) == 1 else f"{holding} of {len(mine)}"
    return _link(claim.item), verdict, mine[0]["found"]


def of_paper(key: str) -> str:
    """One section per figure or table of a paper that measures no time."""
    return "\n".join(section(made(recipe.name)) for recipe in _recipes(key) if not recipe.timed)


def _recipes(key: str) -> Iterable[Recipe]:
    return [recipe for recipe in find_recipes(()) if recipe.paper.key == key]


def differences(item: Reproduction) -> list[float]:
    """How far our numbers are from those that the paper prints, as ratios."""
    if item.summary.columns != COMPARISON:
        return []
    numbers = [
        (paper, ours)
        for _, paper, ours, _ in item.summary.rows
        if not isinstance(paper, str) and not isinstance(ours, str) and paper and ours is not None
    ]
    return [abs(ours / paper - 1) for paper, ours in numbers]


def section(item: Reproduction) -> str:
    """What an item shows, how it comes out, and its picture."""
    parts = [
        f"### {item.name} {{#{item.name}}}\n",
        f"{item.title.rstrip('.')}. {_result(item)}\n",
        f"![{item.name}](img/reproduce/{item.name}.png)\n",
    ]
    return "\n".join(parts)


def timed_section(item: Reproduction) -> str:
    """One run of an item that measures time: no other run gives the same file or picture."""
    parts = [
        f"### {item.name} {{#{item.name}}}\n",
        f"{item.title}. {statements(item)} statements hold. Assumed: {'; '.join(item.assumptions)}.\n",
        table(item.summary.columns, [tuple(map(_cell, row)) for row in item.summary.rows]),
    ]
    return "\n".join(parts)


def _result(item: Reproduction) -> str:
    """Where the numbers come from, and how many of them and of the statements agree."""
    said = [f"{'Restated, not recomputed: f' if RECIPES[item.name].restated else 'F'}rom {RECIPES[item.name].data}"]
    if off := differences(item):
        largest = f"largest difference {100 * max(off):.2g} %" if max(off) > 1e-9 else "all equal"
        said.append(f"{len(off)} printed number{'s' * (len(off) > 1)}, {largest}")
    if item.claims:
        said.append(f"{statements(item)} statements hold")
    return "; ".join(said) + f". [Numbers](reproductions/{item.name}.csv)."


def _cell(value: str | float | None) -> str:
    if value is None:
        return "–"
    return value if isinstance(value, str) else show_number(value)
