"""`warplens run`"""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..formatting import bare_name, show_name, show_share
from .common import console, escape, print_json, say, show_seconds, table, warn, wrapped
from .options import FILE, OUTPUT, gpus_option, json_option, parse_ranges, pattern_of

if TYPE_CHECKING:
    from ..programs import ProgramResult

#: Kernels that the table shows.
MOST_KERNELS = 20
DEFAULT_GPU = "h200"


class _Run(click.Command):
    """What follows `--` belongs to the program, whatever it looks like."""

    def parse_args(self, context: click.Context, given: list[str]) -> list[str]:
        before, after = given, list[str]()
        if "--" in given:
            at = given.index("--")
            before, after = given[:at], given[at + 1 :]
        context.meta["after"] = after
        return super().parse_args(context, before)


@click.command(cls=_Run, short_help="Run a whole CUDA program without a GPU; predict its kernels.")
@click.argument("files", metavar="[FILE.cu]... -- [PROGRAM] [ARGS]...", nargs=-1, type=FILE)
@gpus_option
@click.option("-o", "--output", type=OUTPUT, help="Keep the recorded launches in a trace (.wlt).")
@click.option("--kernel", metavar="REGEX", help="Record only kernels whose name matches.")
@click.option("--launch", "launches", metavar="0,3,5-8", help="Record only these of the launches that match.")
@click.option("--max-blocks", type=click.IntRange(min=1), metavar="N", help="Record at most N thread blocks.")
@click.option(
    "--waves", metavar="N", type=click.IntRange(min=1), help="Record at most N waves, spread over the grid."
)
@click.option("--nvcc", "options", metavar="OPTIONS", default="", help="Options for nvcc, such as '-Iinclude -DN=4'.")
@click.option("--perfetto", type=OUTPUT, help="Also write the timeline for ui.perfetto.dev.")
@click.option("--report", type=OUTPUT, metavar="FILE.html", help="Also write a page with table, timeline and advice.")
@click.option("--check", is_flag=True, help="Find accesses outside allocations, races and unset bytes.")
@click.option("--force", is_flag=True, help="Overwrite the trace.")
@json_option
@click.pass_context
def run(
    context: click.Context,
    files: tuple[Path, ...],
    gpus: tuple[str, ...],
    output: Path | None,
    kernel: str | None,
    launches: str | None,
    max_blocks: int | None,
    waves: int | None,
    options: str,
    perfetto: Path | None,
    report: Path | None,
    check: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Run a whole CUDA program without a GPU, and predict its kernels.

    FILE.cu are sources to compile and run, with ARGS after `--`. Without them,
    PROGRAM is one that nvcc has built. Its host code runs as it is, its kernels
    on the CPU: run only programs that you trust.
    """
    from .first_run import compile_models_aside

    after = context.meta["after"]
    if not files and not after:
        raise click.UsageError("give sources to compile, or a program after --")
    if files and not any(each.suffix == ".cu" for each in files):
        raise click.UsageError(f"{files[0]}: is no CUDA source (.cu); name a program that is built after --")
    if output is not None and output.suffix != ".wlt":
        raise click.UsageError(f"{output}: the name of a trace ends in .wlt")
    if output is not None and output.exists() and not force:
        raise click.UsageError(f"{output}: exists; give another name, or --force to overwrite it")
    if report is not None and report.suffix not in (".html", ".htm"):
        raise click.UsageError(f"{report}: the name of a page ends in .html")
    compile_models_aside("warplens")
    from ..frontends.runtime import Recording
    from ..machine import load_gpu
    from ..programs import run_program

    result = run_program(
        after,
        [load_gpu(each) for each in gpus or (DEFAULT_GPU,)],
        sources=files,
        options=shlex.split(options),
        recording=Recording(
            None if kernel is None else pattern_of(kernel),
            None if launches is None else frozenset(parse_ranges(launches, "--launch")),
            max_blocks,
            waves,
        ),
        output=output,
        program_output=2 if as_json else None,
        check=check,
        say=lambda text: click.echo(f"warplens: {text}", err=True),
    )
    if perfetto is not None:
        from ..reports.program_timeline import write_timeline

        write_timeline(result, perfetto)
    if report is not None:
        from ..reports.program_page import write_program_page

        write_program_page(result, report)
    if as_json:
        print_json(result.to_dict())
    else:
        _show(result)
        if output is not None:
            say(f"trace: {output}")
    if result.exit_code:
        how = (
            f"was ended by {signal.Signals(-result.exit_code).name}"
            if result.exit_code < 0
            else f"exited with code {result.exit_code}"
        )
        warn(f"the program {how}")


def _show(result: ProgramResult) -> None:
    from ..explanation import words

    if not result.launches:
        say("No kernel ran to its end." if result.failures else "The program launched no kernels.")
        return
    say("")
    for total in result.totals:
        kernels = [each for each in result.kernels if each.gpu == total.gpu]
        numbers = ("launches", "total", "mean", "share")
        view = table("", (*numbers, "kernel, limit and first advice"), right=numbers)
        for each in kernels[:MOST_KERNELS]:
            view.add_row(
                str(each.launches),
                words.time(each.seconds),
                words.time(each.mean_seconds),
                show_share(each.share),
                escape("\n".join(_about(each))),
            )
        out = console()
        wrapped(
            f"{'1 launch' if result.launches == 1 else f'{result.launches} launches'} on {total.gpu}: "
            f"{words.time(total.kernel_seconds)} in kernels",
            style="bold",
        )
        out.print(view, soft_wrap=False, width=80)
        if len(kernels) > MOST_KERNELS:
            say(f"… and {len(kernels) - MOST_KERNELS} more kernels; see all with --json")
        wrapped(total.told)
        say("")
    if result.not_predicted:
        warn(f"{result.not_predicted} launches were not recorded, nor any of their shape; their time is not counted")
    say(f"The program ran {show_seconds(result.run_seconds, 3)} on this machine.")


def _about(total: Any) -> list[str]:
    """A kernel's name, what limits it, and the first piece of advice."""
    from ..explanation import words

    found = [show_name(bare_name(total.kernel), 44)]
    if total.answer is not None:
        if total.answer.limiter is not None:
            found.append(words.limit(total.answer))
        if total.answer.advice:
            first = total.answer.advice[0]
            where = f" at {words.place(first.lines[0])}" if first.lines else ""
            found.append(f"{first.rule}{where}: {words.gain(first)}")
    return found
