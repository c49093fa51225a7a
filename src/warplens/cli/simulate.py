"""`warplens simulate`"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from .._version import __version__
from ..errors import OptionError
from . import completion
from .common import console, print_json, say, show_number, show_seconds, table, title_of, warn
from .options import OUTPUT, Selection, json_option, selection_options, set_option
from .progress import progress


@dataclass(frozen=True)
class Simulator:
    """What the command needs of a simulator. Results have `to_dict()` and `warnings`."""

    run: Callable[[Any, Any, Mapping[str, str], bool], Any]
    """(workload, machine, options as typed, keep the execution profile) -> result."""
    show: Callable[[Any], None]
    draw: Callable[[Any, Path], None] | None = None
    perfetto: Callable[[Any, Any, Path], None] | None = None


def _run_pipeline(workload: Any, gpu: Any, options: Mapping[str, str], record: bool) -> Any:

    from ..models import get_model
    from ..simulators.pipeline import PipelineOptions, simulate_pipeline

    model = get_model("pipeline", options)
    if model.launch_overhead:
        raise OptionError(
            "launch_overhead: the simulator runs a busy SM and has no launch; use `warplens predict` for the overhead"
        )
    chosen = {item.name: getattr(model, item.name) for item in fields(PipelineOptions)}
    return simulate_pipeline(workload, gpu, record=record, **chosen)


def _draw_pipeline(result: Any, path: Path) -> None:
    from ..reports.timeline import draw_simulation

    draw_simulation(result, path)


def _perfetto(result: Any, gpu: Any, path: Path) -> None:
    from ..reports.perfetto import write_perfetto

    write_perfetto(result.profile, path, float(gpu.clock_hz))


def _show_pipeline(result: Any) -> None:
    from ..simulators.pipeline import IDLE_CAUSES

    out = console()
    numbers = ("cycles", "time", "IPC", "warps/cycle", "warps per SM", "groups", "overlap")
    view = table(title_of(result), (*numbers, "scheduler", "order"), right=numbers)
    view.add_row(
        show_number(result.cycles),
        show_seconds(result.seconds),
        show_number(result.ipc),
        show_number(result.warps_per_cycle),
        f"{result.concurrent_groups} × {result.group_size}",
        str(result.groups),
        _percent(result.overlap),
        result.policy,
        "in order" if result.in_order else "any",
    )
    out.print(view)
    columns = ("fill rate", "busy", *(f"idle: {cause}" for cause in IDLE_CAUSES))
    uses = table("", ("pipeline", *columns), right=columns)
    for name, use in result.pipelines.items():
        idle = [show_number(use.idle_cycles[cause]) for cause in IDLE_CAUSES]
        uses.add_row(name, _percent(use.fill_rate), show_number(use.busy_cycles), *idle)
    if result.issue_fill > 0:
        uses.add_row("issue limit", _percent(result.issue_fill))
    out.print(uses)
    out.print(f"[dim]busy and idle: cycles of one SM, out of {show_number(result.simulated_cycles)} simulated[/]")
    for text in result.warnings:
        say(f"note: {text}")


def _percent(part: float) -> str:
    return f"{100.0 * part:.1f}%"


def _run_detailed(workload: Any, gpu: Any, options: Mapping[str, str], record: bool) -> Any:
    from ..simulators.detailed import simulate_detailed

    if options:
        raise click.UsageError("the detailed simulator has no options; change the machine with --set")
    return simulate_detailed(workload, gpu, record=record)


def _draw_detailed(result: Any, path: Path) -> None:
    from ..reports.simulation import draw_simulation

    draw_simulation(result, path)


def _show_detailed(result: Any) -> None:
    out = console()
    numbers = ("cycles", "time", "IPC", "CPI", "L1 misses", "LLC misses", "DRAM read", "DRAM written")
    view = table(title_of(result), numbers, right=numbers)
    view.add_row(
        show_number(result.cycles),
        show_seconds(result.seconds),
        show_number(result.ipc),
        show_number(result.cpi),
        _percent(result.l1_miss_ratio),
        _percent(result.llc_miss_ratio),
        f"{result.dram_read_bytes / 2**20:.4g} MiB",
        f"{result.dram_write_bytes / 2**20:.4g} MiB",
    )
    out.print(view)
    whole = sum(result.miss_latency.values())
    for title, parts, total in (
        ("CPI stack, % of the issue slots", result.stack, result.cpi),
        (f"mean L1 miss of {whole:.4g} cycles, % in each part", result.miss_latency, whole),
    ):
        shares = table(title, tuple(parts), right=tuple(parts))
        shares.add_row(*(_percent(part / total) for part in parts.values()))
        out.print(shares)


#: Simulators by name.
SIMULATORS: dict[str, Simulator] = {
    "detailed": Simulator(_run_detailed, _show_detailed, _draw_detailed, _perfetto),
    "pipeline": Simulator(_run_pipeline, _show_pipeline, _draw_pipeline, _perfetto),
}


@click.command()
@click.argument("source", metavar="INPUT", shell_complete=completion.inputs)
@click.option("--gpu", metavar="NAME|FILE", shell_complete=completion.gpus, help="Machine.")
@click.option(
    "--simulator",
    type=click.Choice(tuple(SIMULATORS)),
    help="Default: detailed for a trace, pipeline for a workload file.",
)
@set_option()
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="Set an option of the simulator.")
@selection_options
@click.option("--plot", type=OUTPUT, help="Draw the execution (.png, .svg).")
@click.option("--perfetto", type=OUTPUT, help="Write the execution for ui.perfetto.dev.")
@json_option
def simulate(
    source: str,
    gpu: str | None,
    simulator: str | None,
    overrides: dict[str, Any],
    options: tuple[str, ...],
    selection: Selection,
    plot: Path | None,
    perfetto: Path | None,
    as_json: bool,
) -> None:
    """Simulate a kernel event by event.

    INPUT is a workload file (*.toml), the name of a bundled example, a trace
    (*.wlt), or an Accel-Sim kernelslist.g or *.traceg[.xz|.gz]. Without --gpu
    warplens uses the machine that the workload file names. The detailed
    simulator is the cycle-level reference and needs a trace. The pipeline
    simulator is the Pipeline model of Lemeire et al. and takes its options
    (`warplens models pipeline`).
    """
    from ..api import JSON_SCHEMA, default_simulator, place

    workloads = selection.load(source, gpu=gpu)
    if not workloads:
        raise selection.nothing()
    if simulator is None:
        simulator = default_simulator(workloads[0])
    chosen = SIMULATORS[simulator]
    if len(workloads) > 1 and (plot is not None or perfetto is not None):
        raise click.UsageError(
            f"--plot and --perfetto show one launch, not {len(workloads)}; choose it with --launch"
        )
    for name, path, function in (("--plot", plot, chosen.draw), ("--perfetto", perfetto, chosen.perfetto)):
        if path is not None and function is None:
            raise click.UsageError(f"{name}: the {simulator} simulator has no such output")
    given = _split_options(options, simulator)
    results = []
    for workload in progress(workloads, "simulating", lambda each: each.name):
        placed, machine = place(workload, gpu, overrides)
        result = chosen.run(placed, machine, given, plot is not None or perfetto is not None)
        if plot is not None and chosen.draw is not None:
            chosen.draw(result, plot)
        if perfetto is not None and chosen.perfetto is not None:
            chosen.perfetto(result, machine, perfetto)
        results.append(result)
    if as_json:
        documents = [result.to_dict() for result in results]
        print_json({"schema": JSON_SCHEMA, "version": __version__, "simulations": documents})
        for text in dict.fromkeys(text for result in results for text in result.warnings):
            warn(text)
        return
    for result in results:
        chosen.show(result)
    for label, path in (("picture", plot), ("perfetto", perfetto)):
        if path is not None:
            say(f"{label}: {path}")


def _split_options(texts: tuple[str, ...], simulator: str) -> dict[str, str]:
    """`KEY=VALUE`, or `SIMULATOR.KEY=VALUE` as `predict` has it."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        key = key.strip().removeprefix(f"{simulator}.")
        if not (equals and key and value.strip()):
            raise click.UsageError(f"--option {text!r}: write KEY=VALUE, for example policy=gto")
        found[key] = value.strip()
    return found
