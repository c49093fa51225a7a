"""Options that several commands have, and how what is typed after them is understood."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..errors import refuse_unwritable
from . import completion
from .progress import waiting

if TYPE_CHECKING:
    from ..frontends.ncu import KernelProfile
    from ..workload import Workload

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE = click.Path(dir_okay=False, path_type=Path)


class _Output(click.Path):
    """A file that a command writes at its end: one that cannot be written is refused before the work."""

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> Any:
        path = Path(os.fsdecode(super().convert(value, parameter, context)))
        refuse_unwritable(path)
        return path


OUTPUT = _Output(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print only JSON on stdout.")
gpus_option = click.option(
    "--gpu",
    "gpus",
    multiple=True,
    metavar="NAME|FILE",
    shell_complete=completion.gpus,
    help="Machine; repeat to compare several.",
)


def results_option(default: str, help: str) -> Decorator:
    """-o, the folder that results go to."""
    return click.option(
        "-o", "--output", "folder", type=FOLDER, default=Path(default), show_default=True, metavar="DIR", help=help
    )


def _named(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...] | None:
    return None if not names or "all" in names else names


def _asked(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> tuple[str, ...] | None:
    return None if "all" in names else names


#: The names of models, or None for all of them.
models_option = click.option(
    "--model",
    "models",
    multiple=True,
    metavar="NAME",
    callback=_named,
    shell_complete=completion.models,
    help="Model; repeat, or 'all' (default).",
)
#: The names of models to show side by side, None for all of them, or nothing where one answer is wanted.
asked_models_option = click.option(
    "--model",
    "--models",
    "models",
    multiple=True,
    metavar="NAME",
    callback=_asked,
    shell_complete=completion.models,
    help="Show models side by side: a name (repeat), or 'all'.",
)


def _overridden(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, Any]:
    if not texts:
        return {}
    from ..machine import split_override

    return dict(split_override(text) for text in texts)


def set_option(help: str = "Change a machine or launch parameter.") -> Decorator:
    """--set as a dictionary."""
    return click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", callback=_overridden, help=help)


def _by_model(
    context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        target, equals, value = text.partition("=")
        model, dot, key = target.partition(".")
        if not (equals and dot and model and key and value):
            raise click.UsageError(f"--option {text!r}: write MODEL.KEY=VALUE, for example gpumech.clamp=false")
        found.setdefault(model.strip(), {})[key.strip()] = value.strip()
    return found


#: `MODEL.KEY=VALUE` as a dictionary for each model.
options_option = click.option(
    "--option",
    "options",
    multiple=True,
    metavar="MODEL.KEY=VALUE",
    callback=_by_model,
    help="Set a model's option.",
)


def _read_profiles(
    context: click.Context, parameter: click.Parameter, path: Path | None
) -> list[KernelProfile] | None:
    if path is None:
        return None
    from ..frontends.ncu import read_profiles

    return read_profiles(path)


def profile_option(help: str) -> Decorator:
    """--profile as the launches in it, or None."""
    return click.option("--profile", "profiles", type=FILE, metavar="NCU", callback=_read_profiles, help=help)


@dataclass(frozen=True)
class Selection:
    """Which launches of an input are meant, and how a trace is read."""

    kernel: re.Pattern[str] | None
    launches: set[int] | None
    order: str | None
    representative: str

    def load(self, source: str, **how: Any) -> list[Workload]:
        """The launches of an input that are meant; running it shows its progress."""
        from ..api import load_workloads

        with waiting(f"running {source}") as report:
            return self.choose(
                load_workloads(source, order=self.order, selection=self.representative, progress=report, **how)
            )

    def choose(self, workloads: list[Workload]) -> list[Workload]:
        return [
            each
            for each in workloads
            if (self.launches is None or each.launch_index in self.launches)
            and (self.kernel is None or any(map(self.kernel.search, _names(each))))
        ]

    @staticmethod
    def nothing() -> click.UsageError:
        return click.UsageError("--kernel and --launch match no kernel of the input")


def _names(workload: Workload) -> tuple[str, ...]:
    """Of its kernel: as it is shown, as compiled, and as the source has it where that is known."""
    if workload.trace is None:
        return (workload.name,)
    header = workload.trace.header
    return workload.name, header.kernel, header.extra.get("readable_name", "")


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--kernel, --launch, --order and --representative, as a `Selection`."""

    @wraps(command)
    def selected(
        *, kernel: str | None, launches: str | None, order: str | None, representative: str, **others: Any
    ) -> Any:
        pattern = None if kernel is None else pattern_of(kernel)
        wanted = None if launches is None else parse_ranges(launches, "--launch")
        return command(selection=Selection(pattern, wanted, order, representative), **others)

    for option in (
        click.option(
            "--representative",
            type=click.Choice(("clustering", "max", "min")),
            default="clustering",
            help="How to choose the representative warp of a trace.",
        ),
        click.option(
            "--order", metavar="ORDER", help="Order in which warps access caches: progress, round-robin, oldest-N."
        ),
        click.option("--launch", "launches", metavar="0,3,5-8", help="Only these launches of a trace."),
        click.option(
            "--kernel",
            "kernel",
            metavar="REGEX",
            shell_complete=completion.recorded_kernels,
            help="Only kernels whose name matches.",
        ),
    ):
        selected = option(selected)
    return selected


def comparison_options(models: Decorator) -> Decorator:
    """Which machines, models and launches are compared, and what is changed of them."""

    def decorated(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in (selection_options, options_option, set_option(), models, gpus_option):
            command = option(command)
        return command

    return decorated


def parse_ranges(text: str, option: str) -> set[int]:
    """`0,3,5-8` as a set of numbers."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        try:
            low, high = int(first), int(last) if dash else int(first)
        except ValueError:
            raise click.UsageError(f"{option} {text!r}: write numbers and ranges, for example 0,3,5-8") from None
        if low < 0 or high < low or high - low > 1_000_000:
            raise click.UsageError(f"{option} {text!r}: {part.strip()!r} is not a range of launches")
        found.update(range(low, high + 1))
    return found


def pattern_of(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.UsageError(f"--kernel {text!r} is not a regular expression: {error}") from None
