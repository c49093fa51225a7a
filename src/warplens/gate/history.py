"""A project's kernels over its commits: predicted times of each, and the commit that made a kernel slower."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .._version import __version__
from ..api import JSON_SCHEMA
from ..errors import InputError
from .check import Scope, there
from .revisions import Commit, Repository
from .snapshot import Snapshot
from .verdicts import Verdict, verdicts

Told = Callable[[int, int], None]


@dataclass(frozen=True)
class Point:
    """A commit and its kernels; where they cannot be predicted, why."""

    commit: Commit
    snapshots: tuple[Snapshot, ...]
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        return {
            "commit": self.commit.name,
            "date": self.commit.date,
            "subject": self.commit.subject,
            "kernels": [
                {"path": each.identity.path, "kernel": str(each.identity), "gpu": each.gpu, "seconds": each.seconds}
                for each in self.snapshots
            ],
            "error": self.error,
        }


def history(scope: Scope, most: int, progress: Told | None = None) -> list[Point]:
    """The last commits of the branch, the oldest first."""
    repository = Repository.around(scope.project.root)
    commits = repository.commits("HEAD", most)
    found = []
    for done, commit in enumerate(commits):
        if progress is not None:
            progress(done, len(commits))
        found.append(point_at(scope, repository, commit))
    _check_chosen(scope, found)
    return found


def _check_chosen(scope: Scope, points: Iterable[Point]) -> None:
    """A name that matches no kernel of any commit is a mistake."""
    if scope.kernel is not None and not any(each.snapshots or each.error for each in points):
        raise InputError(f"--kernel {scope.kernel.pattern}: no kernel of these commits has such a name")


def point_at(scope: Scope, repository: Repository, commit: Commit) -> Point:
    with repository.checked_out(commit) as folder:
        try:
            return Point(commit, tuple(scope.snapshots_at(repository.root, folder)))
        except InputError as error:
            return Point(commit, (), there(error, folder))


@dataclass(frozen=True)
class Bisection:
    """The first commit that is slower than the good one, its predecessor, and what it changed."""

    commit: Commit
    before: Commit
    verdicts: tuple[Verdict, ...]
    #: Commits that could not be predicted, among them the culprit perhaps.
    skipped: tuple[Commit, ...]
    predicted: int

    def to_dict(self) -> dict[str, Any]:
        return {
            "schema": JSON_SCHEMA,
            "version": __version__,
            "commit": self.commit.name,
            "subject": self.commit.subject,
            "before": self.before.name,
            "verdicts": [each.to_dict() for each in self.verdicts],
            "skipped": [each.name for each in self.skipped],
            "predicted": self.predicted,
        }


def bisect(scope: Scope, names: str, limit: float, progress: Told | None = None) -> Bisection | None:
    """Halve the commits of `GOOD..BAD` until one is left that makes a kernel slower; None where BAD is not slower."""
    good, dots, bad = names.partition("..")
    if not (good and dots and bad) or bad.startswith("."):
        raise InputError(f"--bisect {names!r}: write GOOD..BAD, for example v1.0..HEAD")
    repository = Repository.around(scope.project.root)
    commits = [repository.commit(good), *repository.commits(f"{good}..{repository.commit(bad).name}")]
    if len(commits) < 2:
        raise InputError(f"--bisect {names!r}: no commit lies between them; is {good} older than {bad}?")
    points: dict[int, Point] = {}

    def point(place: int) -> Point:
        if place not in points:
            points[place] = point_at(scope, repository, commits[place])
            if progress is not None:
                progress(len(points), len(commits).bit_length() + 1)
        return points[place]

    def slower(first: int, second: int) -> tuple[Verdict, ...]:
        found = verdicts(point(first).snapshots, point(second).snapshots)
        return tuple(each for each in found if each.fails(limit))

    for place, name in ((0, good), (len(commits) - 1, bad)):
        if point(place).error:
            raise InputError(f"--bisect: {name} cannot be predicted: {point(place).error}")
    _check_chosen(scope, points.values())
    if not slower(0, len(commits) - 1):
        return None
    low, high = 0, len(commits) - 1  # `low` is good, `high` is slower
    while middle := next((place for place in _between(low, high) if not point(place).error), None):
        low, high = (low, middle) if slower(0, middle) else (middle, high)
    skipped = tuple(commits[place] for place in range(low + 1, high) if point(place).error)
    # What the commit itself changed; where many small steps add up, what they did since the good one.
    steps = {(each.identity, each.gpu): each for each in verdicts(point(low).snapshots, point(high).snapshots)}
    found = ((each, steps[each.identity, each.gpu]) for each in slower(0, high))
    told = tuple(step if step.outcome == "slower" else whole for whole, step in found)
    return Bisection(commits[high], commits[low], told, skipped, len(points))


def _between(low: int, high: int) -> list[int]:
    """Places between two, the middle first."""
    return sorted(range(low + 1, high), key=lambda place: abs(2 * place - low - high))
