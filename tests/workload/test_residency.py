"""Launches on machines: residents, active SMs, warps of the whole launch, and overrides of them."""

from __future__ import annotations

import numpy as np
import pytest

from making import gpu, with_mix
from warplens.errors import OverrideError, WorkloadError
from warplens.workload import Launch, launch_with_overrides, resident

MACHINE = gpu("hong-kim-example")  # 16 SMs, 24 warps and 8 blocks each, 8192 registers


def facts(residency):
    return (
        residency.warps_per_sm,
        residency.blocks_per_sm,
        residency.warps_per_block,
        residency.active_sms,
        residency.total_warps,
        residency.runs,
    )


# -- without a number of blocks: one run that fills the machine -----------------------------------------


def test_warps_alone():
    assert facts(resident(Launch(warps_per_sm=6), MACHINE)) == (6, 1, 6, 16, 96, 1)


def test_warps_and_the_size_of_a_block():
    assert facts(resident(Launch(warps_per_sm=6, threads_per_block=64), MACHINE)) == (6, 3, 2, 16, 96, 1)


def test_blocks_and_the_size_of_a_block():
    assert facts(resident(Launch(blocks_per_sm=3, threads_per_block=64), MACHINE)) == (6, 3, 2, 16, 96, 1)


def test_blocks_alone_are_of_one_warp():
    assert facts(resident(Launch(blocks_per_sm=3), MACHINE)) == (3, 3, 1, 16, 48, 1)


def test_warps_and_blocks_together():
    assert facts(resident(Launch(warps_per_sm=6, blocks_per_sm=2), MACHINE)) == (6, 2, 3, 16, 96, 1)


def test_the_size_of_a_block_alone_follows_occupancy():
    assert facts(resident(Launch(threads_per_block=96), MACHINE)) == (24, 8, 3, 16, 384, 1)
    by_registers = resident(Launch(threads_per_block=128, registers_per_thread=16), MACHINE)
    assert by_registers.blocks_per_sm == 4  # 8192 / (4 warps · 32 · 16)
    by_shared_memory = resident(Launch(threads_per_block=32, shared_memory_per_block_bytes=5000), MACHINE)
    assert by_shared_memory.blocks_per_sm == 3


def test_nothing_is_full_occupancy_with_a_note():
    found = resident(Launch(), MACHINE)
    assert facts(found) == (24, 1, 24, 16, 384, 1)
    assert found.notes == ("the workload gives no launch: full occupancy assumed",)


# -- with a number of blocks ------------------------------------------------------------------------------


def test_a_large_launch_runs_several_times():
    """H-21: 80 blocks, 5 on each of 16 SMs."""
    launch = Launch(blocks=80, threads_per_block=128, blocks_per_sm=5)
    assert facts(resident(launch, MACHINE)) == (20, 5, 4, 16, 320, 1)
    assert resident(Launch(blocks=200, threads_per_block=128, blocks_per_sm=5), MACHINE).runs == 2.5


def test_a_partial_warp_is_a_warp():
    """docs/conventions.md §0: warp instructions, not thread instructions over 32."""
    found = resident(Launch(blocks=10, threads_per_block=33, blocks_per_sm=1), MACHINE)
    assert (found.warps_per_block, found.total_warps) == (2, 20)


def test_fewer_blocks_than_sms_leave_sms_idle():
    assert facts(resident(Launch(blocks=5, threads_per_block=64), MACHINE)) == (2, 1, 2, 5, 10, 1)


def test_a_small_launch_does_not_fill_what_would_fit():
    """20 blocks on 16 SMs: at most 2 on one, though 8 would fit."""
    found = resident(Launch(blocks=20, threads_per_block=32), MACHINE)
    assert (found.blocks_per_sm, found.warps_per_sm, found.active_sms) == (2, 2, 16)
    assert found.runs == 20 / (2 * 16)


def test_given_residents_are_not_second_guessed():
    found = resident(Launch(blocks=20, threads_per_block=32, blocks_per_sm=8), MACHINE)
    assert (found.blocks_per_sm, found.runs) == (8, 20 / (8 * 16))


@pytest.mark.parametrize("launch", [Launch(warps_per_sm=25), Launch(blocks_per_sm=9, threads_per_block=96)])
def test_more_warps_than_fit_are_refused(launch):
    with pytest.raises(WorkloadError, match=r"2\d resident warps exceed the 24 of 'hong-kim-example'; .*max_warps"):
        resident(launch, MACHINE)


def test_a_block_that_does_not_fit_is_refused():
    with pytest.raises(WorkloadError, match=r"no block of this kernel fits .* registers"):
        resident(Launch(threads_per_block=512, registers_per_thread=100), MACHINE)


# -- batches ----------------------------------------------------------------------------------------------


def test_residents_may_be_arrays():
    found = resident(Launch(warps_per_sm=np.array([1.0, 6.0]), threads_per_block=64), MACHINE)
    assert found.blocks_per_sm.tolist() == [0.5, 3]
    assert found.total_warps.tolist() == [16, 96]


def test_machines_may_be_arrays():
    launch = Launch(blocks=20, threads_per_block=32)
    found = resident(launch, gpu("hong-kim-example", sms=np.array([4.0, 16.0, 40.0])))
    for index, sms in enumerate((4, 16, 40)):
        single = facts(resident(launch, gpu("hong-kim-example", sms=sms)))
        assert tuple(np.broadcast_to(value, 3)[index] for value in facts(found)) == single


def test_the_first_machine_that_is_too_small_is_refused():
    with pytest.raises(WorkloadError, match="exceed the 8 of"):
        resident(Launch(warps_per_sm=12), gpu("hong-kim-example", max_warps=np.array([24.0, 8.0])))


# -- overrides --------------------------------------------------------------------------------------------


def test_an_override_replaces_both_residents():
    launch = Launch(blocks=10, threads_per_block=64, warps_per_sm=6, blocks_per_sm=3)
    assert launch_with_overrides(launch, {"launch.warps_per_sm": 8}) == Launch(10, 64, warps_per_sm=8)
    assert launch_with_overrides(launch, {"launch.blocks_per_sm": "2"}) == Launch(10, 64, blocks_per_sm=2)
    both = launch_with_overrides(launch, {"launch.blocks_per_sm": 2, "launch.warps_per_sm": 4})
    assert both == Launch(10, 64, blocks_per_sm=2, warps_per_sm=4)
    assert launch_with_overrides(launch, {}) is launch


@pytest.mark.parametrize(
    "value",
    [0, -1, "0", "-3", "nan", "inf", "", "four", "4 warps", True, None, float("nan"), float("inf"), 1e19, "1e19",
     np.array([]), np.array([1.0, 0.0]), np.array([[1.0]]), np.array([1.0, np.nan]), {}],
)  # fmt: skip
def test_bad_residents_are_refused(value):
    with pytest.raises(OverrideError, match=r"^launch\.warps_per_sm: "):
        launch_with_overrides(Launch(), {"launch.warps_per_sm": value})


def test_a_mistyped_launch_key_is_answered_with_the_nearest():
    with pytest.raises(OverrideError, match=r"unknown parameter 'launch.warps'; did you mean 'launch.warps_per_sm'"):
        launch_with_overrides(Launch(), {"launch.warps": 4})


def test_a_workload_with_overrides_is_a_copy():
    workload = with_mix({"comp": 4}, {"warps_per_sm": 4})
    changed = workload.with_overrides({"launch.warps_per_sm": 8})
    assert (workload.launch.warps_per_sm, changed.launch.warps_per_sm) == (4, 8)
    assert changed.launch_overrides == {"launch.warps_per_sm": 8}
    again = changed.with_overrides({"launch.blocks_per_sm": 2})
    assert set(again.launch_overrides) == {"launch.warps_per_sm", "launch.blocks_per_sm"}
    assert again.launch.warps_per_sm is None
