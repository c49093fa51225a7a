"""Branches of `#if` that a source switches off."""

from __future__ import annotations

import pytest

from warplens.frontends.cuda.conditional import without_skipped_branches


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("#ifdef ON", "a"),
        ("#ifdef UNSET", "b"),
        ("#ifndef ON", "b"),
        ("#if 0", "b"),
        ("#if 1 // always", "a"),
        ("#if defined(ON) && !defined UNSET", "a"),
        ("#if defined(UNSET) || defined(ON)", "a"),
        ("#if defined(UNSET) || defined(OTHER)", "b"),
        ("#ifdef LATER", "ab"),  # a header after the source may define it
        ("#ifdef __CUDA_ARCH__", "ab"),
        ("#if SIZE > 3", "ab"),
        ("#if defined(ON) && defined(UNSET) || 1", "ab"),
    ],
)
def test_branches_that_the_text_decides(condition: str, kept: str) -> None:
    text = f"#define ON\n{condition}\na\n#else\nb\n#endif\n#define LATER\n"
    left = without_skipped_branches(text)
    assert [left.count("\n"), left.split("\n")[2::2][:2]] == [7, ["a" * ("a" in kept), "b" * ("b" in kept)]]


def test_one_of_several_branches_is_kept_and_those_within_it() -> None:
    text = "#if defined(A)\n1\n#elif defined(B)\n2\n#else\n#ifdef C\n3\n#else\n4\n#endif\n#endif\n"
    for name, left in (("A", "1"), ("B", "2"), ("C", "3"), ("D", "4")):
        assert without_skipped_branches(f"#define {name}\n{text}").split() == ["#define", name, left]


def test_a_macro_in_a_branch_that_is_off_is_not_defined() -> None:
    text = "#ifdef OFF\n#define ON\n#endif\n#undef ON\n#ifdef ON\n1\n#endif\n"
    assert "1" in without_skipped_branches(text)  # a build may set it
    assert without_skipped_branches("#endif\nx").split() == ["#endif", "x"]
