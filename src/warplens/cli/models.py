"""`warplens models`"""

from __future__ import annotations

from typing import Any

import click

from .common import console, print_json, say, table
from .options import json_option


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
def models(names: tuple[str, ...], as_json: bool) -> None:
    """List the models: paper, equations, inputs that they need, and their options."""
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
