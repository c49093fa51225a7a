"""The time that work still takes: steady, and right in the end."""

from __future__ import annotations

import itertools
import random

import pytest

from warplens.cli.progress import TimeLeft


def estimates(durations: list[float], first: float = 0.0) -> list[tuple[float, float | None]]:
    """(time left, time told) after each of so many equal parts; `first` of the work was done before."""
    now, ends, made = 0.0, sum(durations), TimeLeft()
    made.at(0.0, first)
    found = []
    for index, seconds in enumerate(durations, 1):
        now += seconds
        found.append((ends - now, made.at(now, first + (1 - first) * index / len(durations))))
    return found


def test_even_work_is_told_exactly() -> None:
    for left, told in estimates([0.5] * 40)[:-1]:
        assert told == pytest.approx(left)


def test_what_was_done_before_is_no_work_of_this_run() -> None:
    for left, told in estimates([2.0] * 20, first=0.9)[:-1]:
        assert told == pytest.approx(left)


def test_a_slow_start_is_forgotten() -> None:
    """The mean speed so far says half as much again."""
    left, told = estimates([30.0] + [0.1] * 999)[700]
    assert told == pytest.approx(left, rel=0.1)


@pytest.mark.parametrize("pace", [3.0, 0.5])
def test_another_pace_is_learnt_before_the_end(pace: float) -> None:
    left, told = estimates([1.0] * 500 + [pace] * 500)[900]
    assert told == pytest.approx(left, rel=0.2 if pace > 1 else 0.6)


def test_uneven_work_moves_the_end_little() -> None:
    """The end that is told moves half as much as the one that the mean speed so far gives, and is as good."""
    chosen = random.Random(1)
    durations = [20.0] + [chosen.expovariate(2.0) for _ in range(300)]  # compiling, then parts of any length
    found = estimates(durations)
    passed = list(itertools.accumulate(durations))
    ends = [now + told for now, (_, told) in zip(passed, found, strict=True) if told is not None][60:]
    means = [now * len(durations) / count for count, now in enumerate(passed, 1)][60:-1]

    def moved(times: list[float]) -> float:
        return sum(abs(one - other) for one, other in itertools.pairwise(times))

    assert moved(ends) < moved(means) / 2
    assert abs(ends[0] - passed[-1]) < abs(means[0] - passed[-1])
    assert all(end == pytest.approx(passed[-1], rel=0.1) for end in ends[60:])


def test_nothing_to_go_by() -> None:
    made = TimeLeft()
    assert made.at(0.0, 0.0) is None
    assert made.at(5.0, 0.001) is None
    assert made.at(6.0, 0.5) is not None
    assert made.at(7.0, 0.4) is not None  # more work was found: the last estimate holds
    assert made.at(8.0, 1.0) is None
