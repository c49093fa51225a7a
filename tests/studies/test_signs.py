"""Signs of pairs of configurations."""

from __future__ import annotations

from warplens_studies.validate.signs import Signs, signs


def test_pairs_are_classed_by_how_far_they_are_apart() -> None:
    found = signs([1.0, 1.01, 1.2, 2.0], [1.0, 1.005, 0.9, 3.0])
    assert list(found) == ["below 2 %", "10 to 30 %", "30 % and more"]
    near, apart, far = found.values()
    assert near == Signs(1, 1, 1)
    assert apart == Signs(2, 0, 0)
    assert far == Signs(3, 3, 0)
    assert (near.same_share, apart.right_share, far.right_share) == (1.0, 0.0, 1.0)


def test_a_class_without_pairs_has_no_share() -> None:
    assert signs([1.0, 1.05], [1.0, 1.1])["below 2 %"].same_share is None
