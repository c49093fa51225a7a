"""How far a command is: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, TypeVar

import click

from .common import console

T = TypeVar("T")

#: Work that takes longer shows its progress; without a terminal, a line now and then.
PATIENCE_SECONDS = 2.0
LINE_EVERY_SECONDS = 10.0
#: A smaller part of the work says nothing of the rest: it includes what is done once, such as compiling.
LEAST_SHARE = 0.01


class TimeLeft:
    """How long work still takes, told so that it does not jump.

    Of the speed so far, a moment counts by the square of the time that had passed: what is done once at the start,
    such as compiling, is soon forgotten. What is told follows with a delay of an eighth of the time that has passed
    or is left, whichever is less. What is done at the first look was done before, by a command that this one resumes.
    """

    def __init__(self) -> None:
        self._began: float | None = None
        self._now = self._share = self._done = 0.0
        self._left: float | None = None

    def at(self, now: float, share: float) -> float | None:
        """Seconds left when `share` of the work is done, None where there is nothing to go by."""
        if self._began is None:
            self._began, self._now, self._share = now, now, share
        passed, step = now - self._began, now - self._now
        if step > 0:
            before = (self._now - self._began) / passed
            # Integrals over (time / passed)², which is passed / 3 for all of the time.
            self._done = self._done * before**2 + (share - self._share) / step * passed * (1 - before**3) / 3
            self._now, self._share = now, share
            coming = None if self._left is None else max(self._left - step, 0.0)
            self._left = (
                coming if self._done <= 0 else self._follow(coming, (1 - share) * passed / 3 / self._done, step)
            )
        return self._left if LEAST_SHARE <= share < 1 else None

    def _follow(self, told: float | None, left: float, step: float) -> float:
        if told is None or self._began is None or left <= 0:
            return left
        weight = -math.expm1(-8 * step / min(self._now - self._began, left))
        return float(max(told, left / 1000) ** (1 - weight) * left**weight)  # too long by as much as too short


def _about(seconds: float) -> str:
    for unit, scale in (("h", 3600), ("min", 60)):
        if seconds >= 1.5 * scale:
            return f"{seconds / scale:.2g} {unit}"
    return f"{seconds:.0f} s"


@contextmanager
def waiting(what: str) -> Iterator[Any]:
    """A callback that shows progress on stderr once the work takes long: a bar, or a line now and then."""
    started = shown = time.monotonic()
    estimate = TimeLeft()
    bar: Any = None

    def report(done: float, total: float, part: str = "") -> None:
        nonlocal bar, shown
        now, share = time.monotonic(), done / max(total, 1)
        left = estimate.at(now, share)
        if now - started < PATIENCE_SECONDS:
            return
        told = "" if left is None else f"{_about(left)} left"
        if sys.stderr.isatty():
            if bar is None:
                bar = _bar()
            title = f"{what} {part}".rstrip().replace("[", r"\[")
            bar.update(bar.task_ids[0], completed=share, description=title, left=told)
        elif shown == started or now - shown > LINE_EVERY_SECONDS:
            shown = now
            click.echo(f"{what}: {100 * share:.0f} %{told and f', {told}'}", err=True)

    try:
        yield report
    finally:
        if bar is not None:
            bar.stop()


def _bar() -> Any:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[left]}"))
    bar = Progress(*columns, console=console(stderr=True), transient=True)
    bar.add_task("", total=1.0, left="")
    bar.start()
    return bar


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[..., None]]:
    """The same for work of so many parts: to be called whenever one of them is finished."""
    with waiting(what) as report:
        done = count()
        report(next(done), total)
        yield lambda *part: report(next(done), total)


def progress(items: Sequence[T], title: str, label: Callable[[T], str]) -> Iterator[T]:
    """The items, and how many of them are done."""
    with waiting(title) as report:
        for index, item in enumerate(items):
            report(index, len(items), label(item))
            yield item
