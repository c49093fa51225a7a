"""Rare operands: the calls that machine code makes for them, and the way through what is called."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reference.traces import Step
from warplens.analysis.machine_calls import way_through
from warplens.analysis.machine_form import machine_form
from warplens.traces.machine_code import MACHINE_CODE, code_of
from warplens.traces.rewrite import joined

from .assembly import Line, assembled, ptx, traced

#: A division (PTX 0) in a loop: a test, a call for rare operands, and the function that is called.
LINES = [
    Line("MUFU", 0),
    Line("BRA", 0, target=4, guarded=True),
    Line("MOV", 0),
    Line("CALL", 0, target=7),
    Line("FFMA", 0),
    Line("BRA", 1, target=0, guarded=True),
    Line("EXIT", 2),
    Line("FSETP", 2),
    Line("RET", 2),
]


def opcodes(turns: int, rare: int) -> list[str]:
    """The machine code of one warp, which divides so many times."""
    code = replace(assembled(LINES, 3, (0, 0, 1), (2,)), rare_paths={0: (turns, rare)} if rare else {})
    trace = traced(ptx("fma", "bra", "exit"), [*[Step(0), Step(1)] * turns, Step(2)], code)
    assert code_of(trace.header) == code
    form = machine_form(joined(list(trace.groups())), trace)
    assert form is not None
    return [form.static.opcode[row] for row in form.group.static]


@pytest.mark.parametrize("rare", [0, 1, 3, 4])
def test_as_many_executions_make_the_call_as_had_rare_operands(rare: int) -> None:
    found = opcodes(4, rare)
    assert [found.count(name) for name in ("CALL", "FSETP", "RET")] == [rare] * 3
    assert found.count("MUFU") == found.count("FFMA") == 4


def test_what_is_called_runs_right_after_the_call() -> None:
    assert opcodes(1, 1) == ["MUFU", "BRA", "MOV", "CALL", "FSETP", "RET", "FFMA", "BRA", "EXIT"]


def test_calls_are_spread_over_the_executions() -> None:
    found = opcodes(4, 2)
    turns = " ".join(found).split("MUFU")[1:]
    assert ["CALL" in each for each in turns] == [False, True, False, True]


def test_the_way_through_a_function_is_the_one_of_middling_length() -> None:
    """Of one in two calls it is 3 long, of one in four 6 and 9: 5.25 in the mean."""
    lines = [
        *(Line("ISETP"), Line("BRA", target=8, guarded=True)),
        *(Line("FMUL"), Line("FADD"), Line("BRA", target=8, guarded=True)),
        *(Line("FFMA"), Line("FFMA"), Line("BRA", target=8), Line("RET")),
    ]
    assert way_through(assembled(lines, 0, (0,)), 0) == (0, 1, 2, 3, 4, 8)


def test_a_loop_in_a_function_ends() -> None:
    lines = [Line("FFMA"), Line("BRA", target=0, guarded=True), Line("RET")]
    assert way_through(assembled(lines, 0, (0,)), 0) == (0, 1, 2)


@pytest.mark.parametrize("broken", [3, [[0, 1]], [[0, 1, 2]], [["a", 1, 1]]])
def test_headers_refuse_counts_that_are_none(broken: object) -> None:
    code = assembled(LINES, 3, (0, 0, 1), (2,))
    trace = traced(ptx("fma", "bra", "exit"), [Step(0), Step(1), Step(2)], code)
    extra = {MACHINE_CODE: {**code.packed(), "rare_paths": broken}}
    with pytest.raises(ValueError, match="rare_paths"):
        code_of(replace(trace.header, extra=extra))
