"""Which loop of the PTX a loop of machine code stands for."""

from __future__ import annotations

from warplens.analysis.machine_loops import MachineKernel, Regions, match_loops

from .assembly import Line, assembled, ptx

CLASSES = {"LDG.E": "load_global", "FFMA": "fp32", "BRA": "control", "EXIT": "control"}


def matched(lines: list[Line], rows: list[str], *blocks: tuple[int, ...]) -> Regions:
    code = assembled(lines, len(rows), *blocks)
    classes = [CLASSES[line.opcode] for line in lines]
    return match_loops(MachineKernel(code, classes, [row.instruction_class for row in ptx(*rows)], {}))


def test_a_loop_is_known_by_its_accesses() -> None:
    """The compiler moved arithmetic of the second loop into the first, whose load begins the PTX."""
    rows = ["ld.global", "bra", "fma", "fma", "fma", "bra", "exit"]
    moved = [Line("FFMA", 2), Line("FFMA", 3), Line("FFMA", 4)]
    lines = [Line("LDG.E", 0), *moved, Line("BRA", target=0, guarded=True), Line("EXIT", 6)]
    regions = matched(lines, rows, (0, 0, 1), (2, 1, 2), (6,))
    assert regions.headers[1:] == (0,)


def test_an_unrolled_loop_comes_before_the_one_for_the_rest() -> None:
    """Wherever it lies: what is left over is less than one of its passes."""
    rest = [Line("LDG.E", 0), Line("FFMA", 1), Line("BRA", 2, target=0, guarded=True)]
    unrolled = [Line("LDG.E", 0)] * 4 + [Line("FFMA", 1)] * 4 + [Line("BRA", 2, target=3, guarded=True)]
    regions = matched([*rest, *unrolled, Line("EXIT", 3)], ["ld.global", "fma", "bra", "exit"], (0, 0, 1), (3,))
    assert [passes for passes, _ in regions.variants[1]] == [4, 1]


def test_whole_passes_outside_of_a_loop_are_no_beginning_of_one() -> None:
    once = [Line("LDG.E", 0), Line("FFMA", 1)]
    lines = [*once, *once, Line("BRA", 2, target=2, guarded=True), Line("EXIT", 3)]
    regions = matched(lines, ["ld.global", "fma", "bra", "exit"], (0, 0, 1), (3,))
    assert regions.entered == ({}, {})


def test_what_was_moved_out_of_a_loop_is_no_beginning_of_it() -> None:
    """The header's load is before the loop alone."""
    lines = [Line("LDG.E", 0), Line("FFMA", 2), Line("BRA", 3, target=1, guarded=True), Line("EXIT", 4)]
    regions = matched(lines, ["ld.global", "bra", "fma", "bra", "exit"], (0, 2, 1), (2, 0), (4,))
    assert regions.entered == ({}, {})
