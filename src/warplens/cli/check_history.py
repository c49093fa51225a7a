"""`warplens check --history` and `--bisect`: kernels over the commits of a project."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .answers import bar
from .common import print_json, say, warn, wrapped
from .progress import waiting

if TYPE_CHECKING:
    from ..gate import Point, Scope

#: Columns of a commit's bar and of its subject.
_BAR, _SUBJECT = 24, 31


def show_history(scope: Scope, commits: int, page: Path, as_json: bool) -> None:
    """Predicted times of the last commits: drawn on a page, and as bars."""
    from .._version import __version__
    from ..api import JSON_SCHEMA
    from ..gate import history
    from ..reports.history import write_history

    with waiting("predicting commits") as report:
        points = history(scope, commits, report)
    write_history(points, page)
    if as_json:
        document = {"schema": JSON_SCHEMA, "version": __version__, "page": str(page)}
        print_json({**document, "commits": [point.to_dict() for point in points]})
        return
    names = dict.fromkeys((each.identity, each.gpu) for point in points for each in point.snapshots)
    for identity, gpu in names:
        wrapped(f"{identity} on {gpu}", style="bold")
        _bars(points, (identity, gpu))
        say("")
    for point in points:
        if point.error:
            warn(f"{point.commit.short} cannot be predicted: {point.error}")
    say(f"page: {page}")


def _bars(points: list[Point], key: tuple[object, str]) -> None:
    from ..formatting import show_name, show_seconds

    times = {
        point.commit: each.seconds for point in points for each in point.snapshots if (each.identity, each.gpu) == key
    }
    longest = max(times.values())
    for commit, seconds in times.items():
        shown = f"{bar(seconds / longest, _BAR)} {show_seconds(seconds, 3):>8}"
        say(f"{commit.short:<8} {commit.date}  {shown}  {show_name(commit.subject, _SUBJECT - 2)}"[:80])


def show_bisection(scope: Scope, names: str, limit: float, as_json: bool) -> int:
    """The commit that made a kernel slower, and the exit status: 1 where there is one."""
    from ..gate import bisect, words

    with waiting("predicting commits") as report:
        found = bisect(scope, names, limit, report)
    if as_json:
        print_json({"slower": found is not None, **({} if found is None else found.to_dict())})
        return int(found is not None)
    if found is None:
        wrapped(f"no kernel is slower at the end of {names}", style="green")
        return 0
    wrapped(f"{found.commit.short} {found.commit.date} {found.commit.subject}", style="bold red")
    for verdict in found.verdicts:
        wrapped(words.headline(verdict), "  ", 2)
        for cause in verdict.causes:
            wrapped(cause.text, "    ", 6)
    for commit in found.skipped:
        warn(f"{commit.short} cannot be predicted; it may be the one instead")
    wrapped(f"the first slower commit of {names}; {found.predicted} commits were predicted")
    return 1
