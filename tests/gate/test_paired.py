"""The uncertainty of a difference: what both versions have in common cancels."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from warplens.explanation.paired import Timing, paired_change, spent_otherwise


def timing(**causes):
    seconds = sum(causes.values())
    return Timing(seconds, 0.8 * seconds, 1.3 * seconds, causes)


def below(ratio, down):
    """The lower end of a change: the logarithm of the ratio is off by `down` parts of the time before."""
    return ratio * math.exp(-down / ratio) - 1.0


def test_the_same_kernel_is_certainly_the_same():
    assert paired_change(timing(BASE=3.0, DRAM=7.0), timing(BASE=3.0, DRAM=7.0)) == (0.0, 0.0, 0.0)


def test_more_of_one_part_is_slower_whatever_the_error_of_the_part():
    change, low, high = paired_change(timing(BASE=3.0, DRAM=7.0), timing(BASE=3.0, DRAM=8.0))
    assert change == pytest.approx(0.1)
    assert (low, high) == pytest.approx((below(1.1, 0.02), 0.13))


def test_a_part_traded_for_another_may_go_either_way():
    change, low, high = paired_change(timing(BASE=3.0, DRAM=7.0), timing(BASE=6.0, DRAM=4.4))
    assert change == pytest.approx(0.04)
    assert low < 0.0 < high
    assert low == pytest.approx(below(1.04, math.hypot(0.2 * 3.0, 0.3 * 2.6) / 10.0))


def test_the_way_back_has_the_opposite_sign():
    change, low, high = paired_change(timing(DRAM=8.0), timing(DRAM=7.0))
    assert low < change < high < 0.0


def test_a_model_without_a_range_is_trusted_less():
    unknown = Timing(1.0, None, None, {"BASE": 1.0})
    assert paired_change(unknown, Timing(1.1, None, None, {"BASE": 1.1}))[1:] == pytest.approx(
        (below(1.1, 0.03), 0.13)
    )


def test_launched_otherwise_the_parts_of_a_category_err_on_their_own():
    before, after = timing(BASE=3.0, DRAM=7.0), timing(BASE=3.0, DRAM=8.0)
    part = spent_otherwise(before, after)
    assert part == pytest.approx(3.0 / 10.0 - 3.0 / 11.0)
    change, low, high = paired_change(before, after, same_launch=False)
    own = math.exp(part**0.5 * math.hypot(math.log(0.8), math.log(1.3)))
    assert (change, low, high) == pytest.approx((0.1, 1.1 / own - 1.0, 1.1 * own - 1.0))


def test_launched_otherwise_the_same_shares_are_as_sure_as_ever():
    before, after = timing(BASE=3.0, DRAM=7.0), timing(BASE=6.0, DRAM=14.0)
    assert paired_change(before, after, same_launch=False) == paired_change(before, after)


def test_a_time_that_moves_for_no_reason_is_known_less_well():
    steady = timing(BASE=3.0, DRAM=7.0), timing(BASE=3.0, DRAM=8.0)
    before, after = replace(steady[0], nearby=(0.98, 1.02, 1.0)), replace(steady[1], nearby=(1.01, 0.99, 1.0))
    change, low, high = paired_change(before, after)
    ratios = 1.01 / 0.98, 0.99 / 1.02, 1.0
    mean = sum(ratios) / 3
    scatter = 1.1 * (sum((each - mean) ** 2 for each in ratios) / 3) ** 0.5
    assert change == pytest.approx(0.1)
    assert low == pytest.approx(below(1.1, math.hypot(0.02, scatter)))
    assert high == pytest.approx(0.1 + math.hypot(0.03, scatter))


def test_what_moves_both_versions_alike_cancels():
    before, after = (
        replace(each, nearby=(0.95, 1.05)) for each in (timing(DRAM=7.0, BASE=3.0), timing(DRAM=8.0, BASE=3.0))
    )
    assert (
        paired_change(before, after)
        == paired_change(*(replace(each, nearby=()) for each in (before, after)))
        == pytest.approx((0.1, below(1.1, 0.02), 0.13))
    )


def test_hits_that_hang_on_the_order_of_warps_hide_a_small_change():
    before, after = timing(BASE=3.0, DRAM=7.0), timing(BASE=5.0, DRAM=4.5)
    assert paired_change(before, after)[2] < 0.1
    steady, factor = paired_change(before, after), 2.0 ** spent_otherwise(before, after) ** 0.5
    assert paired_change(replace(before, crowded=2.0), after) == pytest.approx(
        (-0.05, 0.95 / factor - 1.0, steady[2])
    )
    assert paired_change(before, replace(after, crowded=2.0)) == pytest.approx(
        (-0.05, steady[1], 0.95 * factor - 1.0)
    )
    assert paired_change(replace(before, crowded=2.0), replace(before, crowded=2.0)) == (0.0, 0.0, 0.0)
