"""Producers and consumers: which arrivals and copies a wait at an mbarrier is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import warplens
from reference.traces import Step, evenly, memory_trace
from warplens.analysis.block_samples import sample_of_blocks
from warplens.analysis.mbarriers import AWAIT, SIGNAL, mbarrier_kinds
from warplens.analysis.short_samples import shortened
from warplens.traces import StaticInstruction
from warplens.workload import workload_of_trace

COPY_NAME = "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
ROWS = (
    StaticInstruction(0x00, "mbarrier.init.shared::cta.b64", "atomic_shared", "shared", 8),
    StaticInstruction(0x10, "mbarrier.arrive.shared::cta.b64", "atomic_shared", "shared", 8),
    StaticInstruction(0x20, "mbarrier.arrive.expect_tx.shared::cta.b64", "atomic_shared", "shared", 8),
    StaticInstruction(0x30, "mbarrier.try_wait.parity.shared::cta.b64", "atomic_shared", "shared", 8, (1,)),
    StaticInstruction(0x40, COPY_NAME, "async_copy", "global", 32),
    StaticInstruction(0x50, "add.f32", "fp32", "none", 0, (2,), (2,)),
    StaticInstruction(0x60, "ret", "control"),
    StaticInstruction(0x70, "mbarrier.expect_tx.relaxed.cta.shared::cta.b64", "atomic_shared", "shared", 8),
)
INIT, ARRIVE, EXPECT, WAIT, COPY, ADD, RET, EXPECT_ONLY = range(len(ROWS))
WINDOW = 0x7D00_0000_0000
FULL, EMPTY = WINDOW + 64, WINDOW + 128


def wait(barrier: int, parity: int, lanes: int = 32) -> Step:
    return Step(WAIT, (barrier + parity,) * lanes)


def copy(number: int) -> Step:
    return Step(COPY, evenly(0x7F00_0000_0000 + 1024 * number, 32))


def ring(steps: int, *, copies_first: bool = False) -> list[list[Step]]:
    """One buffer, a producer with two copies a step, and two consumers."""
    producer, consumer = [Step(INIT, (FULL,)), Step(INIT, (EMPTY,))], []
    for step in range(steps):
        producer.append(wait(EMPTY, 1 - step % 2, 1))
        expects, copies = [Step(EXPECT, (FULL,))], [copy(2 * step), copy(2 * step + 1)]
        producer += copies + expects if copies_first else expects + copies
        consumer += [wait(FULL, step % 2), Step(ADD), Step(ARRIVE, (EMPTY,) * 32)]
    return [[*each, Step(RET)] for each in (producer, consumer, consumer)]


def awaited(blocks: Sequence[Sequence[Sequence[Step]]]) -> list[list[set[tuple[int, str, int]]]]:
    """By warp: for each of its waits, (warp, what, how many of that it does before) of all that it is for."""
    trace = memory_trace(ROWS, blocks)
    sample = sample_of_blocks(trace.held[0], trace, 128, lambda name: 4.0)
    found = []
    for block in range(sample.blocks):
        for warp in range(sample.block_start[block], sample.block_start[block + 1]):
            waits = []
            for event in range(sample.event_start[warp], sample.event_start[warp + 1]):
                if sample.kind[event] != AWAIT:
                    continue
                pairs = sample.awaited.pairs[slice(*sample.awaited.start[event : event + 2])]
                seen = set()
                for who, what in pairs.tolist():
                    first = sample.event_start[sample.block_start[block] + who]
                    row = int(sample.static[first + what])
                    before = int((sample.static[first : first + what] == row).sum())
                    seen.add((who, ROWS[row].opcode.split(".")[1], before))
                waits.append(seen)
            found.append(waits)
    return found


@pytest.mark.parametrize("copies_first", [False, True])
def test_consumers_wait_for_copies_and_producers_for_consumers(copies_first: bool) -> None:
    producer, *consumers = awaited([ring(4, copies_first=copies_first)])
    # The buffer is free at first; later it is when both consumers have arrived once more.
    assert producer == [set(), *({(who, "arrive", step) for who in (1, 2)} for step in range(3))]
    of_step = [{(0, "arrive", step), (0, "async", 2 * step + 1)} for step in range(4)]
    assert consumers == [of_step, of_step]


def test_blocks_have_barriers_of_their_own() -> None:
    assert awaited([ring(3), ring(3)]) == awaited([ring(3)]) * 2


def test_a_phase_that_is_awaited_again_is_the_same_phase() -> None:
    warps = [[wait(FULL, 0), wait(FULL, 0), wait(FULL, 1), Step(RET)], [Step(ARRIVE, (FULL,))] * 2 + [Step(RET)]]
    once, again, following = awaited([warps])[0]
    assert once == again == {(1, "arrive", 0)}
    assert following == {(1, "arrive", 1)}


def test_bytes_may_be_expected_before_the_arrival() -> None:
    warps = [
        [Step(EXPECT_ONLY, (FULL,)), copy(0), Step(ARRIVE, (FULL,)), Step(RET)],
        [wait(FULL, 0), Step(RET)],
    ]
    assert awaited([warps])[1] == [{(0, "arrive", 0), (0, "async", 0)}]


def test_another_block_of_the_cluster_arrives_as_this_one_does_there() -> None:
    """Blocks are alike: what a block does to the barrier of another, another does to its own."""
    warps = [[Step(ARRIVE, (FULL + (2 << 24),)), wait(FULL, 0, 1), Step(RET)]]
    assert awaited([warps])[0] == [{(0, "arrive", 0)}]


def test_what_is_no_mbarrier_is_no_event() -> None:
    rows = (
        StaticInstruction(0, "SYNCS.ARRIVE.TRANS64", "atomic_shared", "shared", 8),
        StaticInstruction(16, "atom.shared.add.u32", "atomic_shared", "shared", 4),
        StaticInstruction(32, "mbarrier.arrive.shared::cta.b64", "atomic_shared", "shared", 0),
    )
    assert not mbarrier_kinds(memory_trace(rows, [[[Step(1, (0,))]]]).static).any()
    assert mbarrier_kinds(memory_trace(ROWS, [ring(1)]).static).tolist() == [
        0,
        SIGNAL,
        SIGNAL,
        AWAIT,
        0,
        0,
        0,
        SIGNAL,
    ]


def test_warps_that_wait_for_one_another_stay_whole() -> None:
    trace = memory_trace(ROWS, [ring(40)])
    sample = sample_of_blocks(trace.held[0], trace, 128, lambda name: 4.0)
    assert shortened(sample, 9) is sample


def test_a_consumer_is_as_slow_as_the_copies() -> None:
    """With a slower memory, warps wait longer at mbarriers; the last copy alone would take 900 cycles more."""

    def predicted(rows: Sequence[StaticInstruction], latency: int) -> tuple[float, float]:
        gpu = warplens.load_gpu("h200", {"dram.latency_cycles": latency})
        found = warplens.predict(workload_of_trace(memory_trace(rows, [ring(16) for _ in range(4)])), gpu)
        return float(found.cycles), float(found.stack["SYNC"] / found.cpi)

    (fast, little), (slow, much) = (predicted(ROWS, latency) for latency in (300, 1200))
    assert slow - fast > 4 * 900 and much > little > 0.1
    unaware = [replace(row, opcode="ld.shared.b64") if number == WAIT else row for number, row in enumerate(ROWS)]
    (fast, little), (slow, much) = (predicted(unaware, latency) for latency in (300, 1200))
    assert slow - fast < 1.5 * 900 and much == little == 0.0


def test_arrivals_of_a_warp_take_its_lanes_in_turn_but_a_wait_takes_all_at_once() -> None:
    from warplens.analysis.banks import conflict_degrees

    trace = memory_trace(ROWS, [[[Step(ARRIVE, (FULL,) * 32), wait(FULL, 1), Step(RET)]]])
    assert np.array_equal(conflict_degrees(trace.held[0], trace.static)[1], [32, 1])
