"""`warplens`: the group of all commands, and how errors leave it."""

from __future__ import annotations

import os
import sys

import click

from .._version import __version__
from ..errors import InputError, WarplensError
from ..frontends.cuda.options import TRUST_VARIABLE
from .characterize import characterize
from .check import check
from .compare import compare
from .convert import convert
from .gpus import gpus
from .init import init
from .models import models
from .predict import predict
from .report import report
from .run import run
from .serve import serve
from .simulate import simulate
from .studies import reproduce, validate
from .suite import suite
from .sweep import sweep
from .trace import trace
from .tune import tune


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="warplens")
def cli() -> None:
    """Predict how fast a GPU kernel runs on a GPU you may not have, and why.

    Start with `warplens predict saxpy --gpu h200`: it runs a CUDA kernel on the CPU, and says how long it takes
    on a GPU, what limits it, and what to change. For a kernel of your own, `warplens init FILE.cu` writes the
    workload file that `predict` takes.
    """


def _trust(context: click.Context, parameter: click.Parameter, given: bool) -> None:
    if given:
        os.environ[TRUST_VARIABLE] = "1"


for command in (predict, compare, check, trace, simulate, sweep, tune, report, serve):
    command.params.append(
        click.Option(
            ["--trust"],
            is_flag=True,
            expose_value=False,
            callback=_trust,
            help="Allow any compiler option in workload files, and run their Python code without a note.",
        )
    )

for command in (
    models,
    gpus,
    init,
    predict,
    compare,
    check,
    reproduce,
    validate,
    run,
    trace,
    convert,
    simulate,
    sweep,
    tune,
    report,
    serve,
    suite,
    characterize,
):
    cli.add_command(command)


#: What messages of the API advise, and what that is on the command line.
_OPTIONS = {'gpu="NAME"': "--gpu NAME", "; use load_workloads": "; name one with --launch"}


def as_options(message: str) -> str:
    """A message of the API in the words of the command line."""
    for parameter, option in _OPTIONS.items():
        message = message.replace(parameter, option)
    return message


def main() -> None:
    """Run a command: exit 0 on success, 2 on bad usage or input, 1 on failure."""
    try:
        cli(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        sys.exit(130)
    except WarplensError as error:
        click.echo(f"error: {as_options(str(error))}", err=True)
        sys.exit(2 if isinstance(error, InputError) else 1)
    except BrokenPipeError:  # the reader (head, less) closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:  # a file or folder that the system refuses where no command expects it
        place = f"{error.filename}: " if error.filename else ""
        click.echo(f"error: {place}{error.strerror or error}", err=True)
        sys.exit(2)
