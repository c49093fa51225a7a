"""`warplens reproduce`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from warplens.cli.common import console, print_json, say, show_number, table
from warplens.cli.options import json_option, results_option


@click.command(short_help="Recompute figures and tables of the papers.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "everything", is_flag=True, help="Recompute every figure and table, as without NAME.")
@click.option("--list", "only_list", is_flag=True, help="List the figures and tables, and what is compared.")
@click.option(
    "--traces",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="First simulate and predict the programs in DIR anew.",
)
@results_option("out/reproduce", "Where NAME.csv and NAME.png go.")
@json_option
def reproduce(
    names: tuple[str, ...], everything: bool, only_list: bool, traces: Path | None, folder: Path, as_json: bool
) -> None:
    """Recompute figures and tables of the papers, with the paper's numbers beside ours.

    Without NAME, all of them. For each, the numbers go to DIR/NAME.csv and a
    picture to DIR/NAME.png. The figures of MDM and GPUMech also show public
    programs, whose numbers are kept: --traces makes them anew from traces of
    whole programs, such as `warplens run -o` writes.
    """
    from warplens.api import JSON_SCHEMA
    from warplens.errors import MissingPackageError

    from ..reproduce import chosen, draw, write_csv

    if everything and names:
        raise click.UsageError("--all and names exclude each other")
    if only_list:
        _list(names, as_json, JSON_SCHEMA)
        return
    recipes = chosen(names)
    if traces is not None:
        _renew_programs(traces)
    documents: list[dict[str, Any]] = []
    missing: MissingPackageError | None = None
    for recipe in recipes:
        try:
            made = recipe()
        except MissingPackageError as error:  # whole programs need nvcc; other items do not
            missing = error
            click.echo(f"{recipe.name}: left out", err=True)
            continue
        data = write_csv(made, folder)
        picture: Path | None = None
        try:
            picture = draw(made, folder)
        except MissingPackageError as error:
            missing = error  # write the numbers of all items first
        if as_json:
            files = {"csv": str(data), "png": None if picture is None else str(picture)}
            documents.append({**made.to_dict(), **files})
        else:
            _show(made)
        where = " ".join(str(path) for path in (data, picture) if path is not None)
        click.secho(f"{made.name}: {where}", bold=not as_json, err=as_json)
    if as_json:
        print_json({"schema": JSON_SCHEMA, "reproductions": documents})
    if missing is not None:
        raise missing


def _renew_programs(traces: Path) -> None:
    """Simulate and predict the launches of traces, and keep the numbers in the source tree."""
    from warplens.cli.progress import counting

    from ..reproduce.applications import chosen_launches, record, write

    wanted, found = chosen_launches(traces), []
    with counting("simulating programs", len(wanted)) as finished:
        for each in record(wanted):
            found.append(each)
            finished()
    click.echo(f"{write(found)}: {len(found)} kernels of programs", err=True)


def _list(names: tuple[str, ...], as_json: bool, schema: int) -> None:
    from ..reproduce import OMITTED, chosen, listing

    wanted = {recipe.name for recipe in chosen(name for name in names if name not in OMITTED)} if names else set()
    rows = [row for row in listing() if not names or row["name"] in wanted or row["name"] in names]
    if as_json:
        done = [{key: value for key, value in row.items() if key != "reason"} for row in rows if not row["reason"]]
        kept = ("name", "paper", "title", "reason")
        omitted = [{key: row[key] for key in kept} for row in rows if row["reason"]]
        print_json({"schema": schema, "reproductions": done, "omitted": omitted})
        return
    view = table("", ("name", "figure or table", "what is compared", "data", "hold"))
    for row in rows:
        compares = f"not done: {row['reason']}" if row["reason"] else row["compares"]
        view.add_row(row["name"], row["title"], compares, row["data"], row["statements"])
    console().print(view)
    click.echo("hold: statements of the paper's text that our numbers bear out, of those that were checked")


def _show(made: Any) -> None:
    """Show the short table of an item, the paper's claims, and our assumptions."""
    from rich.text import Text

    out = console()
    summary = made.summary
    numbers = summary.columns[1:]
    out.print(f"\n[bold]{made.title}[/] ({made.paper.authors}, {made.paper.venue})")
    view = table("", summary.columns, right=numbers)
    for row in summary.rows:
        view.add_row(*(Text(_cell(cell)) for cell in row))
    out.print(view)
    if made.claims:
        claims = table("", ("statement", "holds", "what we find"))
        for claim in made.claims:
            style = "green" if claim.holds else "red"
            claims.add_row(Text(claim.text), Text(claim.verdict, style=style), Text(claim.found))
        out.print(claims)
    for label, texts in (("assumed", made.assumptions), ("note", made.remarks)):
        for text in texts:
            say(f"{label}: {text}")


def _cell(cell: Any) -> str:
    if cell is None:
        return "–"
    return cell if isinstance(cell, str) else show_number(cell)
