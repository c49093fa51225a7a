"""Progress of a command: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .common import console, escape

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")

#: Work that takes longer than this shows its progress.
PATIENCE_SECONDS = 2.0
#: How often it prints a line if stderr is not a terminal.
LINE_EVERY_SECONDS = 10.0


@contextmanager
def waiting(what: str, kept: Path | None = None) -> Iterator[Any]:
    """A callback `report(done, total, part)` that shows progress on stderr once the work takes long.

    Where the same command goes on from the file `kept`, one that is interrupted says so.
    """
    started = shown = time.monotonic()
    bar: Progress | None = None

    def report(done: float, total: float, part: str = "") -> None:
        nonlocal bar, shown
        now, share = time.monotonic(), done / max(total, 1)
        if now - started < PATIENCE_SECONDS:
            return
        if bar is None:
            bar = _bar()
            bar.start()
        task = bar.tasks[0]
        bar.update(task.id, completed=share, description=escape(f"{what} {part}".rstrip()))
        if bar.disable and (shown == started or now - shown > LINE_EVERY_SECONDS):
            shown = now
            left = f", {timedelta(seconds=task.time_remaining)} left" if task.time_remaining else ""
            click.echo(f"{what}: {100 * share:.0f} %{left}", err=True)

    try:
        yield report
    except KeyboardInterrupt:
        if kept is not None and kept.exists():
            click.echo(f"{kept} keeps what is finished: run the same command again to go on", err=True)
        raise
    finally:
        if bar is not None:
            bar.stop()


def _bar() -> Progress:
    """A bar with the time left; without a terminal it shows nothing and only estimates."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    quiet = not sys.stderr.isatty()
    bar = Progress(*columns, console=console(stderr=True), transient=True, disable=quiet)
    bar.add_task("", total=1.0)
    return bar


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[..., None]]:
    """The same for `total` equal parts: call it whenever one of them is finished."""
    with waiting(what) as report:
        done = count()
        report(next(done), total)
        yield lambda *part: report(next(done), total)


def progress(items: Sequence[T], title: str, label: Callable[[T], str]) -> Iterator[T]:
    """Yield the items and show how many are done."""
    with waiting(title) as report:
        for index, item in enumerate(items):
            report(index, len(items), label(item))
            yield item
