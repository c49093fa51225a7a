"""How far a command is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

import click

from .common import console, show_seconds

T = TypeVar("T")

#: Work that takes longer shows its progress; without a terminal, a line now and then.
PATIENCE_SECONDS = 2.0
LINE_EVERY_SECONDS = 10.0


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


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[..., None]]:
    """The same for work of so many parts: to be called whenever one of them is finished."""
    with waiting(what) as report:
        done = count(1)
        yield lambda *part: report(next(done), total)
