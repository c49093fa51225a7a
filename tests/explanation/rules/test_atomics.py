"""Atomics on global memory that meet at few addresses."""

from __future__ import annotations

import numpy as np
import pytest

from making import gpu
from reference.traces import Step, evenly
from warplens.workload import Workload

from ..small import advice, findings, kernel, load, row, scene, silent

IN, SUM = 1 << 20, 1 << 30


def adding(addresses: tuple[int, ...] | None) -> Workload:
    """Each warp loads a line and adds it to some addresses; None: to a line of its own."""
    rows = (load(0), row("atomic_global", 1, space="global", access_bytes=4, sources=(9, 1)))
    return kernel(
        rows,
        lambda warp: [Step(0, evenly(IN + warp * 128, 4)), Step(1, addresses or evenly(SUM + warp * 128, 4))],
        blocks=64,
    )


def test_one_address_takes_one_lane_at_a_time() -> None:
    found = advice("contended-atomics", adding(evenly(SUM, 0)), gpu("h200"))
    assert found.text == (
        "Contended atomics: 32.0 lanes of a request and 256 of a block share an address, "
        "and the L2 does them one after the other."
    )
    assert [line.line for line in found.lines] == [2]
    # A word takes 1.448 cycles for each of 64 x 256 lanes, or for each of 64 blocks.
    before, after = (seconds * 1.98e9 for seconds in (found.seconds, found.seconds_after))
    assert before - after == pytest.approx(1.448 * 64 * 256, rel=0.2)


def test_counters_of_a_block_share_addresses_across_requests() -> None:
    (found,) = findings("contended-atomics", adding(evenly(SUM, 4)))
    assert "1.0 lanes of a request and 8 of a block share an address" in found.text
    assert not found.remedy  # the rule's own: a copy in shared memory


def test_addresses_of_their_own_are_fine() -> None:
    assert silent("contended-atomics", adding(None))


def shared_adding(addresses: tuple[int, ...]) -> Workload:
    rows = (row("atomic_shared", 0, space="shared", access_bytes=4, sources=(9, 1)),)
    return kernel(rows, lambda warp: [Step(0, addresses)] * 64)


def test_a_shared_word_takes_one_lane_at_a_time() -> None:
    found = advice("shared-atomics", shared_adding(evenly(1024, 0)))
    assert found.text == (
        "Atomics on shared memory meet: 32.0 lanes of a request share a word, and its bank takes 32.0 cycles "
        "where 1 would do."
    )
    # 64 requests of 8 warps in 16 blocks on each SM.
    before, after = (seconds * 1.98e9 for seconds in (found.seconds, found.seconds_after))
    assert before - after == pytest.approx(64 * 8 * 16 * 31, rel=0.1)


def test_lanes_in_banks_of_their_own_are_fine() -> None:
    assert not findings("shared-atomics", shared_adding(evenly(1024, 4)))


def test_warps_add_up_where_data_tell_the_address() -> None:
    """Half of the warps have one key: each leaves its sum to a lane, the others stay as they are."""
    keys = row("load_global", 0, space="global", access_bytes=4, destinations=(9,))
    rows = (keys, row("atomic_global", 1, space="global", access_bytes=4, sources=(9, 1)))
    seen = scene(
        kernel(
            rows,
            lambda warp: [Step(0, evenly(IN + warp * 128, 4)), Step(1, evenly(SUM, 0 if warp % 2 else 4))],
            blocks=64,
        )
    )
    found, copied = findings("contended-atomics", seen.workload)
    assert "where its lanes have one address" in found.remedy
    assert not copied.remedy  # the rule's own: a copy in shared memory
    (group,) = found.removal(seen).trace.groups()
    atomics = found.removal(seen).addresses(np.arange(5) == 1)
    lanes = [int((each > 0).sum()) for each in np.split(atomics.address, atomics.start[1:-1])]
    assert sorted(set(lanes)) == [1, 32]
    assert np.bincount(group.static).tolist() == [512, 512, 512, 5 * 512, 5 * 512]


def adding_once(apart: int) -> Workload:
    """Each of many blocks adds a line to the same line, or to its own."""
    rows = (load(0), row("atomic_global", 1, space="global", access_bytes=4, sources=(9, 1)))
    return kernel(
        rows,
        lambda warp: [Step(0, evenly(IN + warp * 128, 4)), Step(1, evenly(SUM + warp * apart, 4))],
        blocks=512,
        warps=1,
    )


def test_blocks_that_all_add_to_the_same_addresses_can_be_fewer() -> None:
    found = advice("contended-atomics", adding_once(0))
    assert found.text == (
        "Contended atomics: the 512 blocks add to the same addresses, and the L2 does them one after the other; "
        "64 blocks run at a time."
    )
    assert "Let each block do the work of several in turn" in found.remedy
    assert [line.line for line in found.lines] == [2]
    assert not findings("contended-atomics", adding_once(128))
