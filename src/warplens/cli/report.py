"""`warplens report`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .common import (
    choose,
    console,
    json_option,
    print_json,
    selection_options,
    split_options,
    waiting,
    warn,
)

_PAGES = (".html", ".htm")


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT|OUT.parquet...")
@click.option("--gpu", "gpus", multiple=True, metavar="NAME|FILE", help="Machine; repeat to compare several.")
@click.option("--model", "models", multiple=True, metavar="NAME", help="Model; repeat, or 'all' (default).")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a machine or launch parameter.")
@click.option("--option", "options", multiple=True, metavar="MODEL.KEY=VALUE", help="Set a model's option.")
@selection_options
@click.option(
    "--profile",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="NCU",
    help="Nsight Compute's report or CSV of the same kernels on the first machine: a line in the stacks.",
)
@click.option("--simulate", is_flag=True, help="Run the cycle-level simulator too: its stack, traffic and timeline.")
@click.option(
    "--source",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Source of a kernel whose trace carries none.",
)
@click.option("--view", "names", multiple=True, metavar="NAME", help="Only this view; repeat for several.")
@click.option(
    "--perfetto",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE.json",
    help="Also write the timeline of one kernel for ui.perfetto.dev.",
)
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")
@json_option
def report(
    inputs: tuple[str, ...],
    gpus: tuple[str, ...],
    models: tuple[str, ...],
    overrides: tuple[str, ...],
    options: tuple[str, ...],
    kernel: str | None,
    launches: str | None,
    order: str | None,
    representative: str,
    profile: Path | None,
    simulate: bool,
    source: Path | None,
    names: tuple[str, ...],
    perfetto: Path | None,
    output: Path,
    as_json: bool,
) -> None:
    """Write a page about kernels, machines and sweeps.

    INPUT is what `warplens predict` takes; OUT.parquet is the table of a sweep.
    The page (FILE.html) is one file that opens from disk and needs no network.
    FILE.png, .svg or .pdf is one view, named with --view: stacks, disagreement,
    sensitivity, roofline, occupancy, transit, memory, source, intervals,
    timeline, simulation, heat-map, curve, pareto.
    """
    from .first_run import compile_models_aside

    if not models or "all" in models:
        compile_models_aside()
    from ..machine import split_override
    from ..report.build import make_report
    from ..report.style import check_format

    picture = output.suffix not in _PAGES
    if picture:
        check_format(output)
        if len(names) != 1:
            raise click.UsageError(
                f"{output}: a picture shows one view; name it with --view, or write a page (.html)"
            )
    profiles: Any = ()
    if profile is not None:
        from ..frontends.ncu import read_profiles

        profiles = read_profiles(profile)
    with waiting("reporting") as progress:
        made = make_report(
            inputs,
            gpus=gpus,
            models=None if not models or "all" in models else models,
            overrides=dict(split_override(text) for text in overrides),
            options=split_options(options),
            profiles=profiles,
            simulate=simulate,
            source=None if source is None else _text(source),
            wanted=names or None,
            choose=lambda workloads: choose(workloads, kernel, launches),
            progress=progress,
            order=order,
            selection=representative,
        )
    if not made.sections and not made.sweeps:
        raise click.UsageError("--kernel and --launch match no kernel of the input")
    for text in made.notes:
        warn(text)
    if picture:
        _one_view(made, names[0], output).save(output)
    else:
        made.save(output)
    if perfetto is not None:
        _write_perfetto(made, perfetto)
    if as_json:
        print_json({**made.to_dict(), "output": str(output)})
        return
    out = console()
    for section in made.sections:
        out.print(f"{section.title}: {section.headline}", markup=False)
    for sweep in made.sweeps:
        out.print(f"{sweep.name}: {'; '.join(sweep.headline)}", markup=False)
    out.print(f"{'picture' if picture else 'page'}: {output}", markup=False)


def _text(path: Path) -> str:
    from ..errors import FileError

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read as text ({error})") from None


def _one_view(made: Any, name: str, output: Path) -> Any:
    """The view that a picture shows; stacks of several kernels and machines are one."""
    from ..report.figures import CpiStacks

    found = made.views(name)
    if not found:
        reasons = [reason for part in (*made.sections, *made.sweeps) for reason in part.absent.values()]
        raise click.UsageError(
            f"--view {name}: there is none; {reasons[0] if reasons else 'the input gives no such view'}"
        )
    if name == "stacks":
        return CpiStacks(tuple(group for view in found for group in view.groups))
    if len(found) > 1:
        raise click.UsageError(
            f"{output}: {len(found)} views are named {name}; choose one kernel and machine with --kernel, --launch "
            "and --gpu"
        )
    return found[0]


def _write_perfetto(made: Any, path: Path) -> None:
    """The timelines of one kernel on one machine: those of both simulators stand below each other."""
    from ..report.perfetto import write_perfetto

    if len(made.sections) != 1 or not made.views("timeline"):
        raise click.UsageError(
            f"--perfetto: needs the timeline of one kernel on one machine, not of {len(made.sections)}; "
            "choose with --kernel, --launch and --gpu"
        )
    write_perfetto({view.simulator: view.recorded for view in made.views("timeline")}, path)
