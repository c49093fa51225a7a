"""Loads and stores that touch too many sectors, told apart by how their lanes lie."""

from __future__ import annotations

import random

import pytest

from reference.traces import Step, evenly
from warplens.workload import Workload

from ..small import advice, findings, kernel, load, row, silent, store

IN, OUT = 1 << 20, 1 << 30


def strided(stride: int, *, base: int = IN) -> Workload:
    """Lanes read at a stride and write side by side; every warp has data of its own."""
    return kernel(
        (load(0), store(1)),
        lambda warp: [
            Step(0, evenly(base + warp * 32 * stride, stride)),
            Step(1, evenly(OUT + warp * 128, 4)),
        ],
        blocks=128,
    )


def test_strided_loads_fetch_whole_sectors() -> None:
    found = advice("uncoalesced-loads", strided(128))
    assert found.text == (
        "Uncoalesced loads: 32.0 sectors per request where 4.0 would do; lanes are 128 bytes apart; "
        "896 of 1024 bytes fetched are not used."
    )
    assert [(line.line, line.share) for line in found.lines] == [(1, 1.0)]
    # The L2 fetches 64 bytes for each lane: DRAM moves 2048 + 128 bytes for a warp, and 128 + 128 without the stride.
    assert 2.5 < found.speedup < 8.5


def test_coalesced_loads_are_fine() -> None:
    assert not findings("uncoalesced-loads", strided(4))
    assert not findings("uncoalesced-stores", strided(4))


def test_fields_of_a_structure_go_to_arrays_of_their_own() -> None:
    """Four loads use all of 16 bytes, so the L1 has what the last three ask for: nothing is fetched in vain."""
    rows = (*(load(number, register=number + 1) for number in range(4)), store(4))
    found = findings(
        "uncoalesced-loads",
        kernel(
            rows,
            lambda warp: [
                *(Step(k, evenly(IN + warp * 512 + 4 * k, 16)) for k in range(4)),
                Step(4, evenly(OUT + warp * 128, 4)),
            ],
        ),
    )
    (strided_loads,) = found
    assert strided_loads.text == (
        "Uncoalesced loads: 16.0 sectors per request where 4.0 would do; lanes are 16 bytes apart."
    )


@pytest.mark.parametrize(
    ("width", "remedy"), [(16, "Each lane has several accesses"), (4, "Lanes step over the fields")]
)
def test_wide_accesses_side_by_side_are_no_fields(width: int, remedy: str) -> None:
    rows = (*(load(number, width, register=number + 1) for number in range(4)), store(4))
    (found,) = findings(
        "uncoalesced-loads",
        kernel(
            rows,
            lambda warp: [
                *(Step(k, evenly(IN + warp * 128 * width + width * k, 4 * width)) for k in range(4)),
                Step(4, evenly(OUT + warp * 128, 4)),
            ],
        ),
    )
    assert found.remedy.startswith(remedy)


@pytest.mark.parametrize(("lanes_in_x", "rows_of_warp"), [(32, 1), (16, 2), (8, 4)])
def test_blocks_of_two_dimensions(lanes_in_x: int, rows_of_warp: int) -> None:
    """threadIdx.x counts the slow index: a warp reads short columns."""
    pitch = 4096

    def addresses(warp: int) -> tuple[int, ...]:
        return tuple(
            IN + warp % 128 * 4 * rows_of_warp + (warp // 128 * lanes_in_x + x) * pitch + 4 * y
            for y in range(rows_of_warp)
            for x in range(lanes_in_x)
        )

    work = kernel((load(0),), lambda warp: [Step(0, addresses(warp))], blocks=16)
    found = findings("uncoalesced-loads", work)
    sectors = lanes_in_x
    assert f"{sectors:.1f} sectors per request where 4.0 would do; lanes are 4096 bytes apart" in found[0].text


def test_stores_are_told_apart_from_loads() -> None:
    work = kernel(
        (load(0), store(1)),
        lambda warp: [Step(0, evenly(IN + warp * 128, 4)), Step(1, evenly(OUT + warp * 2048, 64))],
        blocks=128,
    )
    assert silent("uncoalesced-loads", work)
    found = advice("uncoalesced-stores", work)
    assert found.text == (
        "Uncoalesced stores: 32.0 sectors per request where 4.0 would do; lanes are 64 bytes apart; "
        "896 of 1024 bytes of their sectors are not written."
    )
    assert [line.line for line in found.lines] == [2]


def test_misaligned_loads_touch_one_sector_too_many() -> None:
    (found,) = findings("uncoalesced-loads", strided(4, base=IN + 8))
    assert found.text == (
        "Misaligned loads: 5.0 sectors per request where 4.0 would do; "
        "lanes lie side by side, but begin 8 bytes into a sector."
    )


def test_gathers_follow_loaded_values() -> None:
    """The index is loaded, scaled and added to a base; another access is scattered by arithmetic alone."""
    rng = random.Random(1)
    rows = (
        load(0, register=1),
        row("int32", 1, destinations=(2,), sources=(1,)),
        load(2, register=3, sources=(2,)),
        load(3, register=4, sources=(5,)),
    )

    def steps(warp: int) -> list[Step]:
        scattered = [tuple(IN + 4 * rng.randrange(1 << 16) for _ in range(32)) for _ in range(2)]
        return [Step(0, evenly(OUT + 128 * warp, 4)), Step(1), Step(2, scattered[0]), Step(3, scattered[1])]

    gathered, scattered = findings("uncoalesced-loads", kernel(rows, steps))
    assert gathered.text.startswith("Gathered loads: 3")
    assert "lanes go where loaded values send them" in gathered.text
    assert "Sort or bin" in gathered.remedy
    assert "lanes go to scattered addresses" in scattered.text
    assert gathered.weights[2] > 0 and not gathered.weights[3]
    assert scattered.weights[3] > 0 and not scattered.weights[2]


def both_strided(load_stride: int, store_stride: int) -> Workload:
    return kernel(
        (load(0), store(1)),
        lambda warp: [
            Step(0, evenly(IN + warp * 32 * load_stride, load_stride)),
            Step(1, evenly(OUT + warp * 32 * store_stride, store_stride)),
        ],
        blocks=128,
    )


def test_loads_and_stores_at_one_stride_have_one_cause() -> None:
    """One rule tells of both, so that its gain is that of the one change that mends both."""
    alike = both_strided(4096, 4096)
    found = advice("uncoalesced-loads", alike)
    assert found.text == (
        "Uncoalesced loads and stores: 32.0 sectors per request where 4.0 would do; lanes are 4096 bytes apart."
    )
    assert {line.line for line in found.lines} == {1, 2} and "swap the roles" in found.remedy
    assert not findings("uncoalesced-stores", alike)
    loads, stores = (advice(f"uncoalesced-{name}", both_strided(4096, 512)) for name in ("loads", "stores"))
    assert found.seconds_after < min(loads.seconds_after, stores.seconds_after)


def test_the_remedy_follows_the_stride() -> None:
    (fields,) = findings("uncoalesced-loads", both_strided(64, 4))
    assert "Keep each field in an array of its own" in fields.remedy


def test_rows_that_threads_walk_along_go_to_warps() -> None:
    """Each thread adds up a row: a warp for each row has lanes side by side, and there are more warps."""
    rows = (load(0), row("fp32", 1, destinations=(20,), sources=(20, 1)))
    work = kernel(
        rows,
        lambda warp: [
            step for k in range(64) for step in (Step(0, evenly(IN + warp * 32 * 256 + 4 * k, 256)), Step(1))
        ],
        blocks=2,
        warps=1,
    )
    found = advice("uncoalesced-loads", work)
    assert "Let a warp share them" in found.remedy
    assert "lanes are 256 bytes apart; 32 times as many warps would share the work." in found.text
    assert found.speedup > advice("too-few-blocks", work).speedup


def test_atomics_on_scattered_addresses_are_uncoalesced_too() -> None:
    rng = random.Random(1)
    rows = (
        load(0, register=9),
        row("atomic_global", 1, space="global", access_bytes=4, sources=(9, 1)),
    )
    order = list(range(1 << 16))
    rng.shuffle(order)  # no address twice

    def steps(warp: int) -> list[Step]:
        return [
            Step(0, evenly(IN + 128 * warp, 4)),
            Step(1, tuple(OUT + 32 * place for place in order[32 * warp : 32 * warp + 32])),
        ]

    (found,) = findings("uncoalesced-stores", kernel(rows, steps))
    assert found.text.startswith("Scattered atomics: 32.0 sectors per request where 4.0 would do")
    met = kernel(rows, lambda warp: [Step(0, evenly(IN + 128 * warp, 4)), Step(1, evenly(OUT, 64))])
    assert not findings("uncoalesced-stores", met)  # contended-atomics tells of those
