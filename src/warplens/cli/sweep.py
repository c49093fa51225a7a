"""`warplens sweep`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .common import (
    console,
    escape,
    print_json,
    say,
    show_cell,
    show_name,
    show_not_run,
    show_seconds,
    show_setting,
    table,
)
from .options import (
    FILE,
    FOLDER,
    Selection,
    json_option,
    models_option,
    options_option,
    selection_options,
    set_option,
)
from .progress import waiting
from .sweep_answers import Answers, show_answers

#: Lines of the table of fastest configurations.
MOST_LINES = 30


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@click.option("--gpu", metavar="NAME|FILE", help="Machine that the configurations are variants of.")
@click.option(
    "--vary", "axes", multiple=True, metavar="KEY=a,b,c|KEY=a:b:step", help="Values of a parameter; both ends count."
)
@set_option("Change a parameter in all of them.")
@click.option("--zip", "zipped", is_flag=True, help="Take the values together, first with first, not all pairs.")
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Only N points, a Latin hypercube.")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Of the sample.")
@click.option("-o", "--output", required=True, type=FILE, metavar="OUT.parquet")
@models_option
@click.option(
    "--simulator", "simulators", multiple=True, type=click.Choice(("detailed", "pipeline")), help="Simulate as well."
)
@options_option
@selection_options
@click.option(
    "--pareto",
    "costs",
    multiple=True,
    metavar="COST",
    help="Front of speed against a cost such as '3*sms + l1.mshrs'.",
)
@click.option(
    "--sensitivity", "sensitive", is_flag=True, help="Slopes and swings of the parameters, what limits next."
)
@click.option("--agreement", is_flag=True, help="Whether the models rank the configurations alike.")
@click.option("--heat-map", "heat", metavar="KEY,KEY", help="IPC over two of the parameters (with --plots).")
@click.option("--plots", type=FOLDER, help="Folder for pictures of the answers.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Threads; default: one per core.")
@click.option("--scheduler", metavar="ADDRESS|FILE", help="Dask scheduler whose workers do the work.")
@json_option
def sweep(
    inputs: tuple[str, ...],
    gpu: str | None,
    axes: tuple[str, ...],
    overrides: dict[str, Any],
    zipped: bool,
    sample: int | None,
    seed: int,
    output: Path,
    models: tuple[str, ...] | None,
    simulators: tuple[str, ...],
    options: dict[str, dict[str, str]],
    selection: Selection,
    costs: tuple[str, ...],
    sensitive: bool,
    agreement: bool,
    heat: str | None,
    plots: Path | None,
    workers: int | None,
    scheduler: str | None,
    as_json: bool,
) -> None:
    """Predict kernels on every configuration of a design space.

    The result is a Parquet table with a row per kernel, model and
    configuration. A sweep that was interrupted goes on where it was when the
    same command is given again; another one into the same file is refused. A
    configuration that makes no sense has its error in its rows.
    """
    from ..sweeps import parse_axis, run_sweep

    if zipped and sample is not None:
        raise click.UsageError("--zip and --sample exclude each other")
    if workers is not None and scheduler is not None:
        raise click.UsageError("--workers are threads of this machine; with --scheduler its own workers do the work")
    if (heat is None) != (plots is None) and not (costs or sensitive):
        raise click.UsageError("--heat-map and --plots go together; --plots draws --pareto and --sensitivity too")
    answers = Answers(costs, sensitive, agreement, None if heat is None else tuple(heat.split(",", 1)), plots)
    answers.check()
    space = [parse_axis(text) for text in axes]
    workloads = [workload for each in inputs for workload in selection.load(each, gpu=gpu)]
    if not workloads:
        raise selection.nothing()
    with waiting("sweeping") as report:
        result = run_sweep(
            workloads,
            gpu,
            space,
            models=models,
            simulators=simulators,
            overrides=overrides,
            options=options,
            mode="zip" if zipped else "grid",
            sample=sample,
            seed=seed,
            output=output,
            workers=workers,
            scheduler=scheduler,
            progress=report,
        )
    found = answers.find(result, workloads, gpu, overrides) if result.errors < len(result) else {}
    if as_json:
        print_json(_document(result) | found)
    else:
        _show(result, [axis.key for axis in space])
        show_answers(found, [axis.key for axis in space])
    if len(result) and result.errors == len(result):
        import pyarrow.compute as pc

        from ..errors import WarplensError

        first = pc.drop_null(result.table.column("error"))[0].as_py()
        raise WarplensError(f"{output}: no configuration could be worked out; the first error: {first}")


def _document(result: Any) -> dict[str, Any]:
    from .._version import __version__
    from ..api import JSON_SCHEMA

    return {
        "schema": JSON_SCHEMA,
        "version": __version__,
        "output": str(result.path),
        "configurations": result.configurations,
        "rows": len(result),
        "resumed_rows": result.resumed_rows,
        "errors": result.errors,
        "skipped": dict(result.skipped),
        "seconds": result.seconds,
    }


def _show(result: Any, keys: list[str]) -> None:
    from ..sweeps.questions import fastest

    out = console()
    best = fastest(result.table)
    numbers = ("time", "IPC", "over slowest", *keys)
    view = table("fastest configurations", ("kernel", "model", *numbers), right=numbers)
    for line in best[:MOST_LINES]:
        shown = [show_cell(line["ipc"]), show_cell(line["speed"] / line["least_speed"])]
        shown += [show_setting(key, line[key]) for key in keys]
        view.add_row(escape(show_name(line["kernel"])), line["model"], show_seconds(line["seconds"]), *shown)
    out.print(view)
    if len(best) > MOST_LINES:
        say(f"… and {len(best) - MOST_LINES} more in the table")
    resumed = f", {result.resumed_rows} of them from before" if result.resumed_rows else ""
    failed = f", {result.errors} with errors" if result.errors else ""
    say(f"{result.path}: {len(result)} rows of {result.configurations} configurations{failed}{resumed}")
    if result.errors:
        say(f"first error: {result.table.column('error').drop_null()[0]}")
    show_not_run(((name, "", reason) for name, reason in result.skipped.items()))
