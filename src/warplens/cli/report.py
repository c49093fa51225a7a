"""`warplens report`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..errors import FileError
from . import completion
from .common import print_json, say, warn
from .options import FILE, OUTPUT, Selection, comparison_options, json_option, models_option, profile_option
from .progress import waiting

_PAGES = (".html", ".htm")


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT|OUT.parquet...", shell_complete=completion.inputs)
@comparison_options(models_option)
@profile_option("Nsight Compute report or CSV of the same kernels on the first machine: a line in the stacks.")
@click.option(
    "--simulate", is_flag=True, help="Also run the cycle-level simulator, for its stack, traffic and timeline."
)
@click.option("--source", type=FILE, metavar="FILE", help="Source of the kernel, if its trace has none.")
@click.option("--view", "names", multiple=True, metavar="NAME", help="Only this view; repeat for several.")
@click.option(
    "--perfetto",
    type=FILE,
    metavar="FILE.json",
    help="Also write the timeline of one kernel for ui.perfetto.dev.",
)
@click.option("-o", "--output", required=True, type=OUTPUT, metavar="FILE")
@json_option
def report(
    inputs: tuple[str, ...],
    gpus: tuple[str, ...],
    models: tuple[str, ...] | None,
    overrides: dict[str, Any],
    options: dict[str, dict[str, str]],
    selection: Selection,
    profiles: list[Any] | None,
    simulate: bool,
    source: Path | None,
    names: tuple[str, ...],
    perfetto: Path | None,
    output: Path,
    as_json: bool,
) -> None:
    """Write a page about kernels, machines and sweeps.

    INPUT is anything that `warplens predict` takes; OUT.parquet is the table of
    a sweep. FILE.html is a self-contained page that needs no network. FILE.png,
    .svg or .pdf is one view, chosen with --view; an unknown name lists them all.
    """
    from .first_run import compile_models_aside

    if models is None:
        compile_models_aside()
    from ..explanation import words
    from ..reports.build import make_report
    from ..reports.style import check_format

    picture = output.suffix not in _PAGES
    if picture:
        check_format(output)
        if len(names) != 1:
            raise click.UsageError(
                f"{output}: a picture shows one view; name it with --view, or write a page (.html)"
            )
    with waiting("reporting") as progress:
        made = make_report(
            inputs,
            gpus=gpus,
            models=models,
            overrides=overrides,
            options=options,
            profiles=profiles or (),
            simulate=simulate,
            source=None if source is None else _text(source),
            wanted=names or None,
            choose=selection.choose,
            progress=progress,
            order=selection.order,
            selection=selection.representative,
        )
    if not made.sections and not made.sweeps:
        raise selection.nothing()
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
    for section in made.sections:
        said = [f"{section.title}: {words.time(section.base.seconds)}"]
        said += [f"limited by {words.limit(section.answer)}"] if section.answer and section.answer.limiter else []
        say("; ".join([*said, *section.compared]))
    for sweep in made.sweeps:
        say(f"{sweep.name}: {'; '.join(sweep.headline)}")
    say(f"{'picture' if picture else 'page'}: {output}")


def _text(path: Path) -> str:

    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path}: cannot be read as text ({error})") from None


def _one_view(made: Any, name: str, output: Path) -> Any:
    """The view that a picture shows; stacks of several kernels and machines are one."""
    from ..reports.figures import CpiStacks

    found = made.views(name)
    if not found:
        reasons = [reason for part in (*made.sections, *made.sweeps) for reason in part.absent.values()]
        raise click.UsageError(
            f"--view {name}: not available; {reasons[0] if reasons else 'the input gives no such view'}"
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
    from ..reports.perfetto import write_perfetto

    if len(made.sections) != 1 or not made.views("timeline"):
        raise click.UsageError(
            f"--perfetto: needs the timeline of one kernel on one machine, not of {len(made.sections)}; "
            "choose with --kernel, --launch and --gpu"
        )
    write_perfetto({view.simulator: view.recorded for view in made.views("timeline")}, path)
