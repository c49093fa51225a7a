"""Rules about the launch: its grid, its blocks, and what an SM has room for."""

from __future__ import annotations

import dataclasses

import pytest

from making import gpu
from reference.traces import Step, evenly
from warplens.explanation import RULES
from warplens.explanation.scene import scene_of
from warplens.workload import Workload

from ..small import advice, findings, kernel, load, row, scene, silent

IN = 1 << 20
#: Cycles of a load that goes to DRAM, and those to launch a kernel and to start a block.
DRAM, LAUNCH, START = 282 + 375, 4144, 383
CLOCK = 1.98e9


def walking(turns: int, *, blocks: int, warps: int = 1, **launch: int) -> Workload:
    """Warps that load line after line, one at a time."""
    rows = (load(0), row("fp32", 1, destinations=(2,), sources=(1, 2)))

    def steps(warp: int) -> list[Step]:
        return [each for k in range(turns) for each in (Step(0, evenly(IN + ((warp * turns + k) << 7), 4)), Step(1))]

    made = kernel(rows, steps, blocks=blocks, warps=warps)
    return dataclasses.replace(made, launch=dataclasses.replace(made.launch, **launch))


def computing(lengths: list[int]) -> Workload:
    """Blocks of 32 warps, two of which fill an SM, with so many dependent instructions each."""
    rows = (row("fp32", 0, destinations=(1,), sources=(1,)),)
    return kernel(rows, lambda warp: [Step(0)] * lengths[warp // 32], blocks=len(lengths), warps=32)


def test_a_short_kernel_is_all_launch() -> None:
    """Launches come together until running takes longer than launching: 4, side by side in part."""
    made = walking(1, blocks=2)
    found = advice("launch-overhead", made)
    assert found.text.startswith("Launch overhead: ")
    assert "the work of 4 launches in one would take " in found.text
    together, half = (
        scene(dataclasses.replace(made, launch=dataclasses.replace(made.launch, blocks=blocks))).prediction
        for blocks in (8.0, 4.0)
    )
    assert found.seconds_after == pytest.approx(together.seconds / 4)
    assert together.seconds > half.seconds
    assert found.speedup_low < found.speedup < found.speedup_high
    assert not found.lines


def test_a_kernel_that_runs_longer_is_not() -> None:
    assert not findings("launch-overhead", walking(8, blocks=2))


def test_one_block_on_two_sms() -> None:
    """The loop's 64 loads are cut into 64 parts, for which there are 64 places."""
    found = advice("too-few-blocks", walking(64, blocks=1))
    assert found.text == (
        "Too few thread blocks: 1 block for 2 SMs leaves 1 of them idle, while a warp runs its longest loop, as "
        "compiled, 64 times."
    )
    assert found.speedup == pytest.approx((64 * DRAM + START + LAUNCH) / (DRAM + START + LAUNCH), rel=0.2)


def sweeping(apart: int) -> Workload:
    """One warp makes rows of shared memory, each of the row that lies so many before it."""
    rows = (
        row("load_shared", 0, space="shared", access_bytes=4, destinations=(1,), sources=(2,)),
        row("fp32", 1, destinations=(3,), sources=(1,)),
        row("store_shared", 2, space="shared", access_bytes=4, sources=(2, 3)),
    )

    def steps(warp: int) -> list[Step]:
        each = lambda k: evenly(8192 + 128 * (k + 1), 4)  # noqa: E731
        return [step for k in range(64) for step in (Step(0, each(k - apart)), Step(1), Step(2, each(k)))]

    return kernel(rows, steps, blocks=1, warps=1)


@pytest.mark.parametrize("apart", [1, 8])
def test_turns_that_need_each_other_stay_together(apart: int) -> None:
    """A loop has as many parts as turns that lie between making a value and reading it."""
    assert scene(sweeping(apart)).loop_trips == apart
    assert bool(findings("too-few-blocks", sweeping(apart))) == (apart > 1)


def test_turns_that_read_what_they_do_not_make_are_free() -> None:
    assert scene(sweeping(64)).loop_trips == 64


def test_places_that_stay_empty() -> None:
    (found,) = findings("too-few-blocks", walking(64, blocks=16))
    assert "16 blocks fill 25 % of the 64 places on 2 SMs" in found.text


def test_places_matter_more_than_a_few_idle_sms() -> None:
    (found,) = RULES["too-few-blocks"].look(scene_of(walking(64, blocks=2), gpu("h200", sms=3)))
    assert "2 blocks fill 2 % of the 96 places on 3 SMs" in found.text


def test_a_full_grid_and_a_thread_without_a_loop() -> None:
    assert not findings("too-few-blocks", walking(2, blocks=64))
    assert not findings("too-few-blocks", walking(1, blocks=1))


def test_a_last_wave_of_one_block() -> None:
    """One of two SMs has three of five blocks. Each could have the work of two and a half, or some pieces more."""
    found = advice("tail-wave", computing([4000] * 5))
    assert found.text == "Tail wave: 5 blocks run in 1.25 waves of 4; the last one fills 25 % of the places."
    assert "threads" in found.remedy
    slots = 32 * 4000 / 4
    best, pieces = ((3.0 * slots + LAUNCH + START) / (each * slots + LAUNCH + START) for each in (2.5, 2.5 + 4 / 16))
    assert pieces <= found.speedup <= 1.03 * best


def test_whole_waves() -> None:
    assert not findings("tail-wave", computing([100] * 4))
    assert not findings("tail-wave", computing([100] * 8))


def test_a_block_that_takes_longer() -> None:
    found = advice("block-imbalance", computing([500, 500, 500, 4000]))
    assert found.text == (
        "Uneven thread blocks: the longest of 4 sampled ones executes 128,032 warp instructions, 8.0 times the "
        "median of 16,032; its SM works on when others are done."
    )
    # The SM with the long block issues 32 times 4500 instructions in four slots; then half of 5500.
    assert found.speedup == pytest.approx((36000 + LAUNCH + START) / (22000 + LAUNCH + START), rel=0.25)


def test_equal_blocks() -> None:
    assert not findings("block-imbalance", computing([500] * 4))


def test_registers_limit_an_sm() -> None:
    found = advice("low-occupancy", walking(16, blocks=64, warps=8, registers_per_thread=128))
    assert found.text == (
        "Low occupancy: 16 of 64 warps are resident on an SM, limited by 128 registers a thread; 80 would allow 24."
    )
    assert "__launch_bounds__" in found.remedy
    assert found.speedup == pytest.approx(24 / 16, rel=0.2)


def test_too_few_registers_are_no_offer() -> None:
    """Blocks of 12 warps: five fit by warps, and no fewer registers make it six."""
    assert not findings("low-occupancy", walking(4, blocks=64, warps=12, registers_per_thread=24))[1:]


def test_shared_memory_for_more_threads() -> None:
    found = advice("low-occupancy", walking(32, blocks=8, warps=4, shared_memory_per_block_bytes=48 << 10))
    assert found.text == (
        "Low occupancy: 16 of 64 warps are resident on an SM, limited by 49152 bytes of shared memory for 128 "
        "threads; 512 threads that share it make 64 warps."
    )
    assert 2.0 < found.speedup < 4.0


def test_less_shared_memory() -> None:
    texts = [
        found.text
        for found in findings("low-occupancy", walking(1, blocks=64, warps=4, shared_memory_per_block_bytes=48 << 10))
    ]
    assert texts == [
        "Low occupancy: 16 of 64 warps are resident on an SM, limited by 49152 bytes of shared memory a block; "
        "45568 would allow 20."
    ]


def test_blocks_of_one_warp() -> None:
    found = advice("low-occupancy", walking(16, blocks=512, warps=1))
    assert found.text == (
        "Low occupancy: 32 of 64 warps are resident on an SM, limited to 32 blocks of 32 threads; blocks of 64 "
        "threads would allow 64."
    )


def test_blocks_of_a_size_that_leaves_room() -> None:
    """Blocks of 24 warps: two fit, and 16 warps have no place. Those of 12 leave room for four."""
    (found,) = findings("low-occupancy", walking(4, blocks=64, warps=24))
    assert found.text == (
        "Low occupancy: 48 of 64 warps are resident on an SM: no further block of 768 threads fits; blocks of 384 "
        "would allow 60."
    )


def test_a_full_sm_and_a_small_grid() -> None:
    assert not findings("low-occupancy", walking(1, blocks=64, warps=8))
    assert not findings("low-occupancy", walking(1, blocks=2, warps=8, registers_per_thread=128))


def test_given_residents_are_taken_as_they_are() -> None:
    made = walking(4, blocks=64, warps=8, registers_per_thread=128).with_overrides({"launch.blocks_per_sm": 1})
    for rule in ("low-occupancy", "too-few-blocks", "tail-wave"):
        assert silent(rule, made)
