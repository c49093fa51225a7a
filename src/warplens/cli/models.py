"""`warplens models`"""

from __future__ import annotations

from typing import Any

import click

from . import completion
from .common import console, print_json, say, table, wrapped
from .options import json_option


@click.command(short_help="List models, or show the equations and options of one.")
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completion.models_or_rules)
@click.option("--rules", is_flag=True, is_eager=True, help="List the rules of advice instead; NAME is then a rule.")
@json_option
def models(names: tuple[str, ...], rules: bool, as_json: bool) -> None:
    """List the models: paper, equations, inputs that they need, and their options.

    With --rules, list what advice looks for; NAME says what to do about it.
    """
    if rules:
        _show_rules(names, as_json)
        return
    from ..models import MODELS, get_model

    chosen = [type(get_model(name)) for name in names] or list(MODELS.values())
    rows = [_describe(model) for model in chosen]
    if as_json:
        print_json({"schema": 1, "models": rows})
        return
    overview = table("", ("model", "paper", "equations", "needs", "CPI stack"))
    for row in rows:
        overview.add_row(row["name"], row["paper"], row["equations"], row["needs"], "yes" if row["stack"] else "–")
    console().print(overview)
    for row in rows if names else ():
        console().print(f"[bold]{row['name']}[/]: {row['summary']}\n  {row['citation']}")
        for name, option in row["options"].items():
            values = " | ".join(map(str, option["choices"])) or option["type"]
            say(f"  --option {row['name']}.{name}={option['default']}  ({values})")
            say(f"      {option['doc']}")
    if not names:
        console().print("Options of a model: warplens models NAME")


def _show_rules(names: tuple[str, ...], as_json: bool) -> None:
    """The rules of advice: what each recognises; with names, what to do and what that may cost."""
    from ..errors import UnknownNameError, nearest
    from ..explanation import RULES

    for name in names:
        if name not in RULES:
            raise UnknownNameError(f"no rule is named {name!r}; {nearest(name, RULES)}")
    chosen = [RULES[name] for name in names or sorted(RULES)]
    if as_json:
        rows = [{"name": r.name, "title": r.title, "remedy": r.remedy, "cost": r.cost} for r in chosen]
        print_json({"schema": 1, "rules": rows})
        return
    widest = max(len(rule.name) for rule in chosen)
    for rule in chosen:
        wrapped(rule.title, f"{rule.name:<{widest}}  ", widest + 2)
        if names:
            wrapped(rule.remedy, "  do: ", 6)
            wrapped(rule.cost, "  but: ", 7)
            say(f"  before and after: docs/guide/advice.md#{rule.name}")
    if not names:
        say("What to do about one: warplens models --rules NAME")


def _describe(model: Any) -> dict[str, Any]:
    from ..models import options_of

    return {
        "name": model.name,
        "title": model.title,
        "summary": (model.__doc__ or "").strip().splitlines()[0],
        "paper": model.paper.key,
        "citation": str(model.paper),
        "equations": model.equations,
        "needs": model.needs,
        "machine_needs": list(model.machine_needs),
        "aspects": sorted(model.aspects),
        "stack": None if model.categories is None else list(model.categories),
        "options": options_of(model),
    }
