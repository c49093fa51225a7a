"""Constant memory at several indices, and generic loads of shared memory."""

from __future__ import annotations

import pytest

from reference.traces import Step, evenly
from warplens.traces import StaticInstruction
from warplens.workload import Workload

from ..small import advice, findings, kernel, row, silent


def looking_up(stride: int) -> Workload:
    constant = row("load_constant", 0, space="constant", access_bytes=4, destinations=(1,), sources=(2,))
    return kernel((constant,), lambda warp: [Step(0, evenly(1024, stride))] * 64)


def test_indices_are_served_one_at_a_time() -> None:
    found = advice("divergent-constants", looking_up(4))
    assert found.text == (
        "Constant memory is read at 32.0 different words per request; the constant cache serves one at a time."
    )
    # 31 further words of 64 requests of 8 warps in 16 blocks take 2 cycles each; shared memory takes one per request.
    before, after = (seconds * 1.98e9 for seconds in (found.seconds, found.seconds_after))
    assert before - after == pytest.approx(64 * 8 * 16 * (2 * 31 - 1), rel=0.1)


def test_one_index_for_all_lanes_is_fine() -> None:
    assert not findings("divergent-constants", looking_up(0))


def test_a_table_that_is_only_copied_stays() -> None:
    """Each warp reads words of its own once: a copy in shared memory would be made in the same way."""
    constant = row("load_constant", 0, space="constant", access_bytes=4, destinations=(1,), sources=(2,))
    copying = kernel((constant,), lambda warp: [Step(0, evenly(1024 + 128 * (warp % 8), 4))])
    assert findings("divergent-constants", copying)
    assert silent("divergent-constants", copying)


def chasing(opcode: str) -> Workload:
    """One warp per SM follows an index from load to load."""
    rows = (
        StaticInstruction(
            0, opcode, "load_shared", "shared", access_bytes=4, destinations=(1,), sources=(1,), line=1
        ),
    )
    return kernel(rows, lambda warp: [Step(0, evenly(1024, 4))] * 1024, blocks=2, warps=1)


def test_generic_loads_take_longer() -> None:
    found = advice("generic-loads", chasing("ld.u32"))
    assert found.text == (
        "Generic loads reach shared memory: 100 % of the instructions, and each takes 7 cycles more than a load that "
        "names it."
    )
    before, after = (seconds * 1.98e9 for seconds in (found.seconds, found.seconds_after))
    assert before - after == pytest.approx(1024 * 6.9, rel=0.1)


@pytest.mark.parametrize("opcode", ["ld.shared.u32", "LDS"])
def test_loads_by_name_are_fine(opcode: str) -> None:
    assert not findings("generic-loads", chasing(opcode))
