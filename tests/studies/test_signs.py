"""Signs of pairs of configurations."""

from __future__ import annotations

from warplens.explanation.paired import Timing
from warplens_studies.validate.signs import Signs, signs


def sure(*times: float) -> list[Timing]:
    """Predictions without causes, whose differences have no uncertainty."""
    return [Timing(each, None, None, {}) for each in times]


def test_pairs_are_classed_by_how_far_they_are_apart() -> None:
    found = signs([1.0, 1.01, 1.2, 2.0], sure(1.0, 1.005, 0.9, 3.0), "aaaa")
    assert list(found) == ["below 2 %", "10 to 30 %", "30 % and more"]
    near, apart, far = found.values()
    assert near == Signs(1, 1, 1, 0)
    assert apart == Signs(2, 0, 0, 2)
    assert far == Signs(3, 3, 0, 0)
    assert (near.share(near.same), apart.share(apart.right), far.share(far.right)) == (1.0, 0.0, 1.0)


def test_what_trades_one_category_for_another_is_called_the_same() -> None:
    one, other = (Timing(1.0 + more, 0.7, 1.3, {"L1": 0.5 - more, "DRAM": 0.5 + 2 * more}) for more in (0.0, 0.1))
    assert signs([1.0, 1.2], [one, other], "aa")["10 to 30 %"] == Signs(1, 1, 0, 0)
    one, other = (Timing(1.0 + more / 10, 0.7, 1.3, {"L1": 1 - more, "DRAM": 1.1 * more}) for more in (0.2, 0.8))
    assert signs([1.2, 1.0], [one, other], "aa")["10 to 30 %"] == Signs(1, 0, 1, 0)


def test_a_class_without_pairs_has_no_share() -> None:
    near = signs([1.0, 1.05], sure(1.0, 1.1), "aa")["below 2 %"]
    assert near.share(near.same) is None


def test_configurations_that_are_launched_otherwise_are_told_apart_less() -> None:
    one, other = (
        Timing(sum(parts), 0.0, 2.0, dict(zip(("L1", "DRAM"), parts, strict=True)))
        for parts in ((1.0, 1.0), (1.0, 1.2))
    )
    assert signs([2.0, 2.2], [one, other], "aa")["10 to 30 %"].same == 0
    assert signs([2.0, 2.2], [one, other], "ab")["10 to 30 %"] == Signs(1, 1, 1, 0)
