"""Loads go before what waits for them within a basic block: equal to an order worked out one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from warplens.analysis._order_kernels import hoist_loads

NO_REGISTER = 255


@dataclass(frozen=True)
class Row:
    """A static instruction: whether it loads, whether a basic block ends with it, its registers, and its memory."""

    loads: bool = False
    ends: bool = False
    writes: tuple[int, ...] = ()
    reads: tuple[int, ...] = ()
    shared: bool = False


registers = st.lists(st.sampled_from((0, 1, 2, 254, NO_REGISTER)), max_size=2).map(tuple)
rarely = st.sampled_from((False, False, False, True))
rows = st.builds(Row, st.booleans(), rarely, registers, registers, rarely)


def found_order(table: list[Row], warps: list[list[int]]) -> list[int]:
    """The kernel's order of all instructions of all warps."""
    start = np.cumsum([0, *map(len, warps)])
    static = np.array([row for warp in warps for row in warp], dtype=np.uint32)

    def flat(lists):
        numbers = np.array([number for each in lists for number in each], dtype=np.uint16)
        return numbers, np.cumsum([0, *map(len, lists)])

    order, level = np.empty(len(static), dtype=np.int64), np.empty(len(static), dtype=np.int64)
    hoist_loads(
        start,
        static,
        np.array([row.loads for row in table]),
        np.array([row.shared for row in table]),
        np.array([row.ends for row in table]),
        *flat([row.writes for row in table]),
        *flat([row.reads for row in table]),
        order,
        level,
    )
    return order.tolist()


def expected_order(table: list[Row], warps: list[list[int]]) -> list[int]:
    order: list[int] = []
    first = 0
    for warp in warps:
        for block in basic_blocks(table, warp):
            levels = levels_of([table[row] for row in block])
            order += [first + place for place in sorted(range(len(block)), key=levels.__getitem__)]
            first += len(block)
    return order


def basic_blocks(table: list[Row], warp: list[int]) -> list[list[int]]:
    blocks: list[list[int]] = []
    for place, row in enumerate(warp):
        follows = place > 0 and row == warp[place - 1] + 1 and not table[warp[place - 1]].ends
        if follows:
            blocks[-1].append(row)
        else:
            blocks.append([row])
    return blocks


def levels_of(block: list[Row]) -> list[int]:
    """One above the loads whose results an instruction needs, and not below who reads what it overwrites."""
    levels: list[int] = []
    for place, row in enumerate(block):
        earlier = list(zip(block[:place], levels, strict=True))

        def there(register, earlier=earlier):
            """The level at which a register can be read: that of its last writer, one more if that loads."""
            writers = [level + other.loads for other, level in earlier if register in other.writes]
            return writers[-1] if writers else 0

        own = [0, *(there(register) for register in row.reads if register != NO_REGISTER)]
        for register in row.writes:
            if register != NO_REGISTER:
                own += [there(register), *(level for other, level in earlier if register in other.reads)]
        if row.shared:  # what loads and stores it keeps its order, but for loads among themselves
            own += [level for other, level in earlier if other.shared and not (row.loads and other.loads)]
        levels.append(max(own))
    return levels


@st.composite
def programs(draw):
    table = draw(st.lists(rows, min_size=1, max_size=12))
    runs = st.tuples(st.integers(0, len(table) - 1), st.integers(1, len(table)))
    warps = draw(st.lists(st.lists(runs, max_size=3), max_size=3))
    return table, [
        [row for first, count in warp for row in range(first, min(first + count, len(table)))] for warp in warps
    ]


LOAD = Row(loads=True, writes=(1,))


@given(programs())
@example(([LOAD, Row(reads=(1,)), Row(loads=True, writes=(2,))], [[0, 1, 2]]))
@example(([LOAD, Row(reads=(1, 0)), Row(writes=(1,)), Row(reads=(1,)), Row()], [[0, 1, 2, 3, 4]]))
@example(([LOAD, Row(reads=(1,), shared=True), Row(loads=True, writes=(2,))], [[0, 1, 2]]))
@example(([LOAD, Row(reads=(1,), shared=True), Row(loads=True, writes=(2,), shared=True)], [[0, 1, 2]]))
@example(([LOAD, Row(reads=(0, 1)), LOAD, Row(reads=(NO_REGISTER,))], [[0, 1, 2, 3], [2, 3]]))
def test_the_order_is_that_of_levels(program):
    assert found_order(*program) == expected_order(*program)


def test_a_load_goes_before_what_waits_for_another():
    table = [Row(loads=True, writes=(1,)), Row(reads=(1,)), Row(loads=True, writes=(2,)), Row(reads=(2,))]
    assert found_order(table, [[0, 1, 2, 3]]) == [0, 2, 1, 3]


def test_the_end_of_a_block_holds_loads_back():
    table = [Row(loads=True, writes=(1,)), Row(reads=(1,), ends=True), Row(loads=True, writes=(2,))]
    assert found_order(table, [[0, 1, 2]]) == [0, 1, 2]
