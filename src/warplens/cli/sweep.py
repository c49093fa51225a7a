"""`warplens sweep`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .._version import __version__
from ..errors import WarplensError
from . import completion
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
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...", shell_complete=completion.inputs)
@click.option("--gpu", metavar="NAME|FILE", shell_complete=completion.gpus, help="Machine to vary.")
@click.option(
    "--vary",
    "axes",
    multiple=True,
    metavar="KEY=a,b,c|KEY=a:b:step",
    help="Values of a parameter; ranges include both ends.",
)
@set_option("Change a parameter in all configurations.")
@click.option("--zip", "zipped", is_flag=True, help="Pair the values, first with first, instead of all combinations.")
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Sample N configurations (Latin hypercube).")
@click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the sample.")
@click.option("-o", "--output", required=True, type=FILE, metavar="OUT.parquet")
@models_option
@click.option(
    "--simulator",
    "simulators",
    multiple=True,
    type=click.Choice(("detailed", "pipeline")),
    help="Also simulate; repeat.",
)
@options_option
@selection_options
@click.option(
    "--pareto",
    "costs",
    multiple=True,
    metavar="COST",
    help="Pareto front of speed against a cost such as '3*sms + l1.mshrs'.",
)
@click.option(
    "--sensitivity", "sensitive", is_flag=True, help="How much each parameter matters, and what limits next."
)
@click.option("--agreement", is_flag=True, help="How far the models agree on the ranking of configurations.")
@click.option("--energy", is_flag=True, help="Energy over the clocks of --vary clock=…, and where it is least.")
@click.option("--heat-map", "heat", metavar="KEY,KEY", help="IPC over two parameters (with --plots).")
@click.option("--plots", type=FOLDER, help="Folder for plots.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Threads; default: one per core.")
@click.option("--scheduler", metavar="ADDRESS|FILE", help="Run on the workers of a Dask scheduler.")
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
    energy: bool,
    heat: str | None,
    plots: Path | None,
    workers: int | None,
    scheduler: str | None,
    as_json: bool,
) -> None:
    """Predict kernels on every configuration of a design space.

    The result is a Parquet table with a row per kernel, model and
    configuration. Run the same command again to continue an interrupted sweep;
    a different sweep into the same file is refused. Rows of an impossible
    configuration hold its error.
    """
    from ..sweeps import parse_axis, run_sweep

    if output.suffix != ".parquet":
        raise click.UsageError(f"{output}: the table is a Parquet file; give a name that ends in .parquet")
    if zipped and sample is not None:
        raise click.UsageError("--zip and --sample cannot be used together")
    if workers is not None and scheduler is not None:
        raise click.UsageError(
            "--workers starts threads on this machine, but --scheduler uses its own workers: give one of them"
        )
    if (heat is None) != (plots is None) and not (costs or sensitive):
        raise click.UsageError("--heat-map and --plots go together; --plots draws --pareto and --sensitivity too")
    space = [parse_axis(text) for text in axes]
    clocks = next((tuple(map(float, axis.values)) for axis in space if axis.key == "clock"), None)
    if energy and clocks is None:
        raise click.UsageError("--energy shows the energy over clocks: add --vary clock=1GHz:2GHz:0.2GHz")
    heat_axes = None if heat is None else tuple(heat.split(",", 1))
    answers = Answers(costs, sensitive, agreement, heat_axes, plots, clocks if energy else None)
    answers.check()
    workloads = [workload for each in inputs for workload in selection.load(each, gpu=gpu)]
    if not workloads:
        raise selection.nothing()
    with waiting("sweeping", output) as report:
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

        first = pc.drop_null(result.table.column("error"))[0].as_py()
        raise WarplensError(f"{output}: every configuration failed; the first error: {first}")


def _document(result: Any) -> dict[str, Any]:
    from ..api import JSON_SCHEMA

    return {
        "schema": JSON_SCHEMA,
        "version": __version__,
        "output": str(result.path),
        "configurations": result.configurations,
        "rows": len(result),
        "resumed_rows": result.resumed_rows,
        "repaired": list(result.repaired),
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
    for group in result.repaired:
        say(f"computed again: {group} was damaged")
    if result.errors:
        say(f"first error: {result.table.column('error').drop_null()[0]}")
    show_not_run(((name, "", reason) for name, reason in result.skipped.items()))
