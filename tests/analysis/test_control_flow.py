"""Natural loops of small graphs."""

from __future__ import annotations

from warplens.analysis.control_flow import natural_loops


def test_straight_code_has_no_loops():
    found = natural_loops([[1], [2], []])
    assert not found.loops and found.innermost == (-1, -1, -1) and found.reachable == {0, 1, 2}


def test_an_inner_loop_lies_in_its_outer_loop():
    #  0 → 1 ⇄ (2 ⇄ 2) , 1 → 3
    found = natural_loops([[1], [2, 3], [2, 1], []])
    outer, inner = found.loops
    assert outer.header == 1 and outer.blocks == {1, 2} and outer.parent == -1
    assert inner.header == 2 and inner.blocks == {2} and inner.parent == 0
    assert found.innermost == (-1, 0, 1, -1) and found.chain(1) == [1, 0]


def test_a_branch_back_to_where_others_come_in_is_no_loop():
    # 0 → 1, 0 → 2, 1 → 2, 2 → 1: neither dominates the other.
    assert not natural_loops([[1, 2], [2], [1]]).loops


def test_unreachable_code_counts_for_nothing():
    found = natural_loops([[], [1]])
    assert not found.loops and found.reachable == {0}


def test_two_ways_back_are_one_loop():
    found = natural_loops([[1], [2, 3], [1], [1, 4], []])
    (loop,) = found.loops
    assert loop.header == 1 and loop.blocks == {1, 2, 3}
