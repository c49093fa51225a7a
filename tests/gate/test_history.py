"""The guilty commit, of snapshots without predictions."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from warplens.gate.history import Point, bisect
from warplens.gate.revisions import Commit

from .making import slowed, snapshot

history = sys.modules[bisect.__module__]  # the package has a function of that name


def bisected(monkeypatch, snapshots):
    """The bisection of commits that have one kernel each."""
    commits = [Commit(f"c{n}", f"c{n}", "2026-01-01", f"commit {n}") for n in range(len(snapshots))]
    repository = SimpleNamespace(
        commit=lambda name: commits[0] if name == "good" else commits[-1], commits=lambda names: commits[1:]
    )
    points = {each: Point(each, (found,)) for each, found in zip(commits, snapshots, strict=True)}
    monkeypatch.setattr(history, "Repository", SimpleNamespace(around=lambda root: repository))
    monkeypatch.setattr(history, "point_at", lambda scope, repository, commit: points[commit])
    scope = SimpleNamespace(project=SimpleNamespace(root="."), kernel=None)
    return bisect(scope, "good..bad", 0.05)


def test_a_commit_is_told_what_it_changed_itself(monkeypatch):
    """What earlier commits changed without harm is not its work."""
    good = snapshot(counts={"fp64": 0.0, "DRAM bytes": 1e6, "warp instructions": 1000.0})
    harmless = slowed(good, 0.001, counts={"fp64": 500.0, "DRAM bytes": 1e6, "warp instructions": 1000.0})
    guilty = slowed(harmless, 0.3, counts={"fp64": 500.0, "DRAM bytes": 2e6, "warp instructions": 1000.0})
    found = bisected(monkeypatch, [good, harmless, harmless, guilty, guilty])
    assert (found.commit.name, found.before.name) == ("c3", "c2")
    (told,) = found.verdicts
    assert [each.kind for each in told.causes] == ["stall", "sectors"]
    assert told.change == pytest.approx(0.3)


def test_small_steps_that_add_up_are_told_since_the_good_commit(monkeypatch):
    steps = [snapshot()]
    for _ in range(4):
        steps.append(slowed(steps[-1], 0.018))
    (told,) = bisected(monkeypatch, steps).verdicts
    assert told.outcome == "slower" and told.change > 0.05
