"""What commands share: JSON on stdout, tables for people, and option parsing."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..shown import show_number as show_number
from ..shown import show_seconds as show_seconds

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

T = TypeVar("T")

#: Work that takes longer shows its progress; without a terminal, a line now and then.
PATIENCE_SECONDS = 2.0
LINE_EVERY_SECONDS = 10.0

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON alone on stdout.")


def print_json(document: Any) -> None:
    """The document as JSON; NaN and infinity are refused rather than printed."""
    click.echo(json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False))


def console(*, stderr: bool = False) -> Console:
    """Where tables go. Without a terminal, wide enough that no column is cut."""
    from rich.console import Console

    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=160)


def table(title: str, columns: Iterable[str], *, right: Iterable[str] = ()) -> Table:
    """An empty table in the house style; columns named in `right` are aligned to the right."""
    from rich import box
    from rich.table import Table

    numbers = set(right)
    made = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in numbers else "left", no_wrap=column in numbers)
    return made


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


def progress(items: Sequence[T], title: str, label: Callable[[T], str]) -> Iterator[T]:
    """The items, with a bar on stderr once two seconds have passed (on a terminal)."""
    started = time.monotonic()
    bar = None
    try:
        for index, item in enumerate(items):
            if bar is None and time.monotonic() - started > PATIENCE_SECONDS and sys.stderr.isatty():
                from rich.progress import Progress

                bar = Progress(console=console(stderr=True), transient=True)
                bar.start()
                task = bar.add_task(title, total=len(items))
            if bar is not None:
                bar.update(task, completed=index, description=f"{title} {label(item)}")
            yield item
    finally:
        if bar is not None:
            bar.stop()


@contextmanager
def waiting(what: str) -> Iterator[Any]:
    """A callback that shows progress on stderr once the work takes long: a bar, or a line now and then."""
    started = shown = time.monotonic()
    bar: Any = None

    def report(done: float, total: float) -> None:
        nonlocal bar, shown
        now = time.monotonic()
        if now - started < PATIENCE_SECONDS:
            return
        if sys.stderr.isatty():
            if bar is None:
                from rich.progress import Progress

                bar = Progress(console=console(stderr=True), transient=True)
                bar.add_task(what.replace("[", r"\["))
                bar.start()
            bar.update(bar.task_ids[0], completed=done, total=max(total, 1))
        elif shown == started or now - shown > LINE_EVERY_SECONDS:
            shown = now
            share = done / max(total, 1)
            # The first hundredth includes what is done once, such as compiling: nothing to go by.
            told = f", {show_seconds((now - started) * (1 - share) / share)} left" if 0.01 <= share < 1 else ""
            click.echo(f"{what}: {100 * share:.0f} %{told}", err=True)

    try:
        yield report
    finally:
        if bar is not None:
            bar.stop()


def warn(text: str) -> None:
    """A warning on stderr."""
    click.secho(f"warning: {text}", fg="yellow", err=True)


def selection_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that choose launches of an input and how a trace is read: kernel, launches, order, representative."""
    for option in (
        click.option(
            "--representative",
            type=click.Choice(("clustering", "max", "min")),
            default="clustering",
            help="How the representative warp of a trace is chosen.",
        ),
        click.option(
            "--order", metavar="ORDER", help="How warps interleave in caches: progress, round-robin, oldest-N."
        ),
        click.option("--launch", "launches", metavar="0,3,5-8", help="Only these launches of a trace."),
        click.option("--kernel", "kernel", metavar="REGEX", help="Only kernels whose name matches."),
    ):
        command = option(command)
    return command


def choose(workloads: list[Any], kernel: str | None, launches: str | None) -> list[Any]:
    """The workloads that --kernel and --launch leave."""
    wanted = None if launches is None else parse_ranges(launches, "--launch")
    pattern = None if kernel is None else pattern_of(kernel)
    return [
        each
        for each in workloads
        if (wanted is None or each.launch_index in wanted) and (pattern is None or pattern.search(each.name))
    ]


def pattern_of(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.UsageError(f"--kernel {text!r} is not a regular expression: {error}") from None


def split_options(texts: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """`MODEL.KEY=VALUE` as typed after --option, by model."""
    found: dict[str, dict[str, str]] = {}
    for text in texts:
        target, equals, value = text.partition("=")
        model, dot, key = target.partition(".")
        if not (equals and dot and model and key and value):
            raise click.UsageError(f"--option {text!r}: write MODEL.KEY=VALUE, for example gpumech.clamp=false")
        found.setdefault(model.strip(), {})[key.strip()] = value.strip()
    return found


def changes_of(prediction: Any) -> str:
    changed = ", ".join(
        f"{key} = {show_number(value) if isinstance(value, float) else value}"
        for key, value in prediction.overrides.items()
    )
    return f" with {changed}" if changed else ""
