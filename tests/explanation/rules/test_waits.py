"""Rules about warps that wait: for loads, at barriers, or with lanes that a branch leaves idle."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from reference.traces import Step, evenly, memory_trace
from warplens.analysis.def_use import chased_loads
from warplens.explanation.limits import limiter_of
from warplens.traces import MemoryTrace
from warplens.workload import Workload, workload_of_trace

from ..small import advice, findings, kernel, load, row, scene

IN = 1 << 20
#: Cycles of a load that goes to DRAM, and those to launch a kernel and start its blocks.
DRAM, OVERHEAD = 282 + 375, 4144 + 383


def walking(in_flight: int, *, chased: bool = False, turns: int = 64) -> Workload:
    """One warp per SM loads line after line, some at a time, and adds up what they hold."""
    registers = range(1, in_flight + 1)
    rows = (
        *(load(n, register=n + 1, sources=(n + 1,) if chased else ()) for n in range(in_flight)),
        *(row("fp32", in_flight + n, destinations=(20,), sources=(20, n + 1)) for n in range(in_flight)),
    )

    def steps(warp: int) -> list[Step]:
        return [
            step
            for turn in range(turns // in_flight)
            for step in (
                *(Step(n - 1, evenly(IN + ((warp * turns + turn * in_flight + n) << 12), 4)) for n in registers),
                *(Step(in_flight + n - 1) for n in registers),
            )
        ]

    return kernel(rows, steps, blocks=2, warps=1)


def test_a_load_at_a_time() -> None:
    found = advice("exposed-latency", walking(1))
    assert found.text.startswith("Exposed latency: warps wait for loads for ")
    assert found.text.endswith("a loop issues 1.0 loads before it uses the first.")
    assert [line.line for line in found.lines] == [1]
    # 64 latencies one after the other become 16.
    assert found.speedup == pytest.approx((64 * DRAM + OVERHEAD) / (16 * DRAM + OVERHEAD), rel=0.1)


def test_enough_loads_in_flight() -> None:
    assert not findings("exposed-latency", walking(4))


def test_two_loads_in_flight_become_four() -> None:
    found = advice("exposed-latency", walking(2))
    assert found.speedup == pytest.approx((32 * DRAM + OVERHEAD) / (16 * DRAM + OVERHEAD), rel=0.1)


def test_pointers_that_are_chased_come_no_earlier() -> None:
    made = walking(1, chased=True)
    seen = scene(made)
    assert chased_loads(seen.flow, seen.static).tolist()[:1] == [True]
    assert not findings("exposed-latency", made)
    assert not findings("too-few-blocks", made)
    assert limiter_of(seen).waits.endswith(", chasing pointers")
    assert seen.with_option(ahead=3).prediction.seconds == seen.prediction.seconds


def test_what_follows_a_chased_pointer_waits_with_it() -> None:
    """Entries whose address is the pointer, beside entries of an array."""
    rows = (load(0, sources=(1,)), load(1, register=2, sources=(1,)), load(2, register=3))
    made = kernel(
        rows, lambda warp: [Step(n, evenly(IN + (turn << 12), 4)) for turn in range(4) for n in range(3)], blocks=2
    )
    seen = scene(made)
    assert chased_loads(seen.flow, seen.static).tolist()[:3] == [True, True, False]


def summing(busy: Callable[[int], int], turns: int = 20) -> Workload:
    """Warps of a block meet at a barrier in turns; before it each executes as many instructions as `busy` says."""
    rows = (row("fp32", 0, destinations=(1,), sources=(1,)), row("barrier", 1))
    return kernel(rows, lambda warp: [*[Step(0)] * busy(warp % 8), Step(1)] * turns, blocks=16)


def test_seven_warps_that_wait_for_one() -> None:
    found = advice("barrier-waits", summing(lambda warp: 400 if warp == 0 else 0))
    assert found.text.endswith("between them the busiest warp of a block executes 7.9 times the mean.")
    assert [line.line for line in found.lines] == [2]
    # 400 dependent instructions of four cycles become 50.
    assert found.speedup == pytest.approx((20 * 1600 + OVERHEAD) / (20 * 200 + OVERHEAD), rel=0.2)


def test_barriers_every_few_instructions() -> None:
    (found,) = findings("barrier-waits", summing(lambda warp: 4, turns=200))
    assert found.text.endswith("there is one every 5 instructions.")


def test_warps_that_arrive_together() -> None:
    assert not findings("barrier-waits", summing(lambda warp: 400))


def branching(masks: Sequence[int]) -> Workload:
    """Each warp executes 200 instructions for each of some groups of its lanes."""
    rows = tuple(row("fp32", n, destinations=(n + 1,), sources=(n + 1,)) for n in range(len(masks)))
    made = kernel(rows, lambda warp: [Step(n) for n in range(len(masks)) for _ in range(200)], blocks=64)
    trace = made.trace
    assert isinstance(trace, MemoryTrace)
    (group,) = trace.held
    table = np.array([*masks, 0xFFFFFFFF], dtype=np.uint32)
    held = dataclasses.replace(group, mask=table[group.static])
    held.mask[group.start[:-1]] = 0xFFFFFFFF  # all lanes begin
    return workload_of_trace(dataclasses.replace(trace, held=(held,)))


def test_two_sides_of_a_branch() -> None:
    found = advice("divergent-branches", branching((0x55555555, 0xAAAAAAAA)))
    assert found.text == (
        "Divergent branches: 16.1 of 32 lanes are active on average; the others wait while a branch or a loop runs "
        "without them."
    )
    assert {line.line for line in found.lines} == {1, 2}
    # Each SM issues 256 times 400 instructions in four slots; then half of them.
    assert found.speedup == pytest.approx((25600 + OVERHEAD) / (12800 + OVERHEAD), rel=0.1)


def test_whole_warps_are_fine() -> None:
    assert not findings("divergent-branches", branching((0xFFFFFFFF,)))


def test_blocks_of_half_a_warp_diverge_nowhere() -> None:
    rows = (load(0),)
    made = workload_of_trace(memory_trace(rows, [[[Step(0, evenly(IN, 4, 16))] * 4]] * 4))
    assert not findings("divergent-branches", made)


def test_a_barrier_in_another_loop_asks_for_no_second_buffer() -> None:
    """Loads in a loop of their own, and a tree of barriers after it; or a barrier after some loads."""

    def made(tile: int) -> Workload:
        rows = (load(0), row("fp32", 1, destinations=(20,), sources=(20, 1)), row("barrier", 2))

        def steps(warp: int) -> list[Step]:
            turns = [(Step(0, evenly(IN + ((warp * 64 + turn) << 12), 4)), Step(1)) for turn in range(64)]
            tiles = [turns[begin : begin + tile] for begin in range(0, 64, tile)]
            return [step for each in tiles for step in (*(s for turn in each for s in turn), Step(2))] + [Step(2)] * 8

        return kernel(rows, steps, blocks=2, warps=1)

    assert "Unroll the loop" in advice("exposed-latency", made(64)).remedy
    assert "two buffers in shared memory" in advice("exposed-latency", made(1)).remedy
    assert "two buffers in shared memory" in advice("exposed-latency", made(4)).remedy
