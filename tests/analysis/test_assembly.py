"""PTX in the order of an assembler: what its instructions read and access stays what it was."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from reference.traces import Step, memory_trace
from warplens.analysis.assembly import Assembly
from warplens.analysis.events import EventStream
from warplens.traces import StaticInstruction, static_table
from warplens.traces.machine_code import MACHINE_CODE, TracedCode

from .assembly import Line, assembled

#: `sum += a[i] * b[i]` twice, as PTX has it: each pair of loads, then the sum.
ROWS = (
    StaticInstruction(0x00, "ld.global", "load_global", "global", 4, (1,), (0,)),
    StaticInstruction(0x08, "ld.global", "load_global", "global", 4, (2,), (0,)),
    StaticInstruction(0x10, "fma", "fp32", "none", 0, (3,), (1, 2, 3)),
    StaticInstruction(0x18, "ld.global", "load_global", "global", 4, (4,), (0,)),
    StaticInstruction(0x20, "ld.global", "load_global", "global", 4, (5,), (0,)),
    StaticInstruction(0x28, "fma", "fp32", "none", 0, (3,), (4, 5, 3)),
    StaticInstruction(0x30, "st.global", "store_global", "global", 4, (), (0, 3)),
    StaticInstruction(0x38, "add", "int32", "none", 0, (0,), (0, 255)),
    StaticInstruction(0x40, "bar", "barrier"),
    StaticInstruction(0x48, "ld.global", "load_global", "global", 4, (1,), (0,)),
    StaticInstruction(0x50, "st.global", "store_global", "global", 4, (), (0, 1)),
)
LOADS, STORES = (0, 1, 3, 4, 9), (6, 10)
OPCODES = ("LDG", "LDG", "FFMA", "LDG", "LDG", "FFMA", "STG", "IADD3", "BAR", "LDG", "STG")


def code_of(origins: list[int]) -> TracedCode:
    """Machine code that has the PTX instructions in this order; -2 is a jump, which ends a block."""
    lines = [Line(OPCODES[each], each) if each >= 0 else Line("BRA", guarded=True) for each in origins]
    return assembled([*lines, Line("EXIT")], len(ROWS), (0,))


def order(warp: list[int], code: TracedCode | None = None) -> list[int]:
    (group,) = trace_of(warp).groups()
    return Assembly(static_table(ROWS), code).ordered(group).static.tolist()


def trace_of(*warps: list[int]):
    """Each access of a warp has an address of its own."""
    steps = [
        [Step(row, (128 * (at + 1),) if ROWS[row].access_bytes else ()) for at, row in enumerate(warp)]
        for warp in warps
    ]
    return memory_trace(ROWS, [steps])


def reads(statics: list[int]) -> list[tuple[int, list[int]]]:
    """Of each instruction and its sources, which execution of which instruction wrote them; in no order."""
    writers: dict[int, tuple[int, int]] = {}
    count: dict[int, int] = {}
    found = []
    for row in statics:
        count[row] = count.get(row, 0) + 1
        found.append((row, count[row], [writers.get(each) for each in ROWS[row].sources if each != 255]))
        writers.update((each, (row, count[row])) for each in ROWS[row].destinations if each != 255)
    return sorted(found, key=lambda each: each[:2])


runs = st.tuples(st.integers(0, len(ROWS) - 1), st.integers(1, len(ROWS)))
warps = st.lists(runs, max_size=4).map(
    lambda found: [row for first, count in found for row in range(first, min(first + count, len(ROWS)))]
)
codes = st.one_of(
    st.none(), st.lists(st.integers(-2, len(ROWS) - 1).filter(lambda each: each != -1), max_size=24).map(code_of)
)


@given(st.lists(warps, min_size=1, max_size=3), codes)
def test_every_instruction_reads_what_it_read_and_keeps_its_address(executed, code):
    (group,) = trace_of(*executed).groups()
    found = Assembly(static_table(ROWS), code).ordered(group)
    for warp, before in enumerate(executed):
        span = slice(group.start[warp], group.start[warp + 1])
        after = found.static[span].tolist()
        assert reads(after) == reads(before)
        accesses = slice(group.access_start[warp], group.access_start[warp + 1])
        assert addresses(found, after, accesses) == addresses(group, before, accesses)


def addresses(group, statics, accesses):
    """What each execution of each instruction accesses."""
    rows = [row for row in statics if ROWS[row].access_bytes]
    return sorted(zip(rows, group.base[accesses].tolist(), strict=True))


def test_without_machine_code_loads_go_before_what_waits():
    assert order([0, 1, 2, 3, 4, 5, 6]) == [0, 1, 3, 4, 2, 5, 6]


def test_machine_code_says_how_far_loads_go():
    near = code_of([0, 1, 3, 2, 4, 5, 6])
    assert order([0, 1, 2, 3, 4, 5, 6], near) == [0, 1, 3, 2, 4, 5, 6]


def test_a_copy_of_an_unrolled_loop_is_enough():
    unrolled = code_of([0, 1, 3, 4, 2, 5, 0, 1, 3, 4, 2, 5, 6])
    assert order([0, 1, 2, 3, 4, 5], unrolled) == [0, 1, 3, 4, 2, 5]


def test_accesses_in_several_blocks_say_nothing():
    divided = code_of([4, 3, -2, 0, 1, 2, 5, 6])
    assert order([0, 1, 2, 3, 4, 5, 6], divided) == [0, 1, 3, 4, 2, 5, 6]


def test_an_access_that_became_part_of_another_follows_those_before_it():
    wide = code_of([3, 0, 2, 5, 6])
    assert order([0, 1, 2, 3, 4, 5, 6], wide) == [3, 0, 1, 4, 2, 5, 6]


def test_what_is_nowhere_in_machine_code_waits_no_sooner_than_what_needs_it():
    """The first sum became part of another instruction: it does not hold the loads behind it up."""
    folded = code_of([0, 1, 3, 4, 5, 6])
    assert order([0, 1, 2, 3, 4, 5, 6], folded) == [0, 1, 3, 4, 2, 5, 6]


def test_what_nobody_needs_stays_behind_the_last_access():
    assert order([0, 1, 2, 3, 4], code_of([0, 1, 3, 4])) == [0, 1, 3, 4, 2]


def test_nothing_passes_a_barrier():
    code = code_of([9, 0, 1, 2, 3, 4, 5, 6, 7, 8, 10])
    assert order([6, 7, 8, 9, 10], code) == [6, 7, 8, 9, 10]


def test_events_of_assembled_ptx_wait_as_machine_code_does():
    executed = [0, 1, 2, 3, 4, 5, 6]
    plain = trace_of(executed)
    coded = replace(
        plain, header=replace(plain.header, extra={MACHINE_CODE: code_of([0, 1, 3, 2, 4, 5, 6]).packed()})
    )

    def waits(trace, **options):
        (events,) = EventStream(trace, 128, lambda name: 4.0, **options)
        return list(zip(events.event_static.tolist(), events.event_dependence.tolist(), strict=True))

    assert waits(coded) == [(0, -1), (1, -1), (3, 1), (4, 1), (6, 3)]
    assert waits(plain, assembled=True) == [(0, -1), (1, -1), (3, -1), (4, -1), (6, 3)]
    assert waits(coded, assembled=True) == [(0, -1), (1, -1), (3, -1), (4, 1), (6, 3)]
