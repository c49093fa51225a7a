"""Write-back and allocation in L1 and LLC, rule by rule."""

from __future__ import annotations

import dataclasses

import pytest

from reference.traces import Step, evenly
from warplens.analysis import MissProfile

from .comparing import SMALL_LLC, one_warp, simulate
from .strategies import small_gpu

LDG, STG, ATOM = 0, 3, 5
A, B, C = 128, 256, 384
BACK = {"write_policy": "back", "write_allocate": True}
BACK_AROUND = {"write_policy": "back", "write_allocate": False}
THROUGH_IN = {"write_policy": "through", "write_allocate": True}
WHOLE = evenly(A, 4)  # all of line A


def counter(found: MissProfile, row: int, name: str) -> int:
    return int(found.column(name.lower())[row])


# -- L1 -----------------------------------------------------------------------------------------


def test_absent_policies_are_those_of_the_papers():
    steps = [(LDG, A), (STG, A), (STG, B), (LDG, B), (STG, C), (LDG, C), (LDG, A), (ATOM, A)]
    plain = {"write_policy": None, "write_allocate": None}
    spelt = one_warp(*steps, l1={"write_policy": "through", "write_allocate": False}, write_policy="back")
    assert one_warp(*steps, l1=plain, **plain).counters.tolist() == spelt.counters.tolist()
    assert spelt.l1_dirty_left == 0


def test_a_store_that_hits_stays_in_a_write_back_l1():
    for policy in (BACK, BACK_AROUND):
        found = one_warp((LDG, A), (STG, A), (STG, A), l1=policy)
        assert (found.l1_misses, found.llc_accesses) == (1, 1)
        assert (found.l1_dirty_left, found.dirty_left) == (1, 0)
        assert counter(found, STG, "WORST_L1") == 2


def test_a_store_that_misses_enters_without_a_fetch():
    found = one_warp((STG, A), (STG, A), (STG, A + 4), l1=BACK)
    assert (found.l1_misses, found.llc_accesses, found.dram_read_bytes) == (1, 0, 0)
    assert found.l1_dirty_left == 1


def test_without_allocation_it_goes_on():
    found = one_warp((STG, A), (STG, A), l1=BACK_AROUND)
    assert (found.l1_misses, found.llc_accesses) == (2, 2)
    assert (found.l1_dirty_left, found.dirty_left) == (0, 1)


def test_without_allocation_sectors_that_are_there_stay_and_the_others_go_on():
    found = one_warp((LDG, A), (STG, (A, A + 32)), sector_bytes=32, l1=BACK_AROUND)
    assert (found.l1_misses, found.llc_accesses) == (2, 2)  # the load, and the second sector of the store
    assert (found.l1_dirty_left, found.dirty_left) == (1, 1)


@pytest.mark.parametrize("policy", [BACK, THROUGH_IN], ids=["back", "through"])
def test_a_load_of_a_sector_written_in_part_fetches_it_once(policy):
    found = one_warp((STG, A), (LDG, A), (LDG, A + 64), l1=policy)
    assert (found.l1_misses, found.dram_read_bytes) == (2, 128)  # the store and the first load
    assert found.l1_dirty_left == (policy is BACK)


@pytest.mark.parametrize("policy", [BACK, THROUGH_IN], ids=["back", "through"])
def test_a_load_of_what_was_written_as_a_whole_hits(policy):
    found = one_warp((STG, WHOLE), (LDG, A), l1=policy)
    assert (found.l1_misses, found.dram_read_bytes) == (1, 0)
    assert found.llc_accesses == (policy is THROUGH_IN)


def test_a_dirty_line_is_written_to_the_llc_when_it_leaves():
    """On account of the load that takes its place."""
    found = one_warp((STG, A), (LDG, B), (LDG, C), l1=BACK)
    assert counter(found, LDG, "WRITEBACK_MISSES") == 1
    assert counter(found, STG, "WRITEBACK_MISSES") == counter(found, STG, "LLC_MISSES") == 0
    assert (found.llc_accesses, found.llc_misses) == (3, 3)
    assert (found.l1_dirty_left, found.dirty_left) == (0, 1)
    assert found.writebacks_per_execution[LDG] == found.dram_requests_per_execution[LDG] - 1 == 0.5
    again = one_warp((STG, A), (LDG, B), (LDG, C), (STG, A), (LDG, B), (LDG, C), l1=BACK)
    assert counter(again, LDG, "WRITEBACK_HITS") == 1


def test_a_store_that_enters_writes_back_what_leaves():
    found = one_warp((STG, A), (STG, B), (STG, C), l1=BACK)
    assert counter(found, STG, "WRITEBACK_MISSES") == 1
    assert (found.l1_dirty_left, found.dirty_left) == (2, 1)
    assert found.levels[STG].tolist() == [1.0, 0.0, 0.0]  # nothing of its own left the SM


def test_clean_lines_are_dropped():
    for policy in (BACK, THROUGH_IN):
        found = one_warp((LDG, A), (LDG, B), (LDG, C), l1=policy)
        assert (found.llc_accesses, found.l1_dirty_left) == (3, 0)
    assert one_warp((STG, A), (LDG, B), (LDG, C), l1=THROUGH_IN).llc_accesses == 3


def test_only_dirty_sectors_are_written_back():
    found = one_warp((LDG, WHOLE), (STG, (A, A + 96)), (LDG, B), (LDG, C), sector_bytes=32, l1=BACK)
    assert counter(found, LDG, "WRITEBACK_HITS") == 2
    assert found.dirty_left == 2


def test_an_atomic_writes_a_dirty_copy_back_first():
    """All it touches is then written in the LLC: nothing is fetched. No copy stays."""
    found = one_warp((STG, A), (ATOM, A), (LDG, A), l1=BACK)
    assert counter(found, ATOM, "WRITEBACK_MISSES") == 1
    assert counter(found, ATOM, "LLC_HITS") == 1
    assert counter(found, LDG, "L1_HITS") == 0
    assert (found.l1_dirty_left, found.dirty_left) == (0, 1)
    other = one_warp((STG, A), (ATOM, A + 4), l1=BACK)
    assert (other.dram_read_bytes, counter(other, ATOM, "LLC_MISSES")) == (128, 1)


def test_without_an_l1_its_policy_means_nothing():
    found = one_warp((STG, A), (STG, A), l1=BACK | {"size_bytes": None})
    assert (found.llc_accesses, found.l1_dirty_left) == (2, 0)


def test_without_an_llc_dirty_lines_go_to_dram():
    found = one_warp((STG, A), (LDG, B), (LDG, C), l1=BACK, size_bytes=None)
    assert found.dram_write_bytes == 128


def test_what_is_written_back_holds_up_dram():
    """In the estimate of `progress`: loads that evict dirty lines share the channel with what these write to DRAM."""
    steps = [Step(row, (128 * line,)) for row in (STG, LDG) for line in range(1 + 8 * row, 9 + 8 * row)]
    gpu = small_gpu(1, {"size_bytes": 128 * 8, "ways": 8} | BACK, SMALL_LLC | {"write_allocate": False})
    slow = dataclasses.replace(gpu, dram=dataclasses.replace(gpu.dram, bandwidth_bytes_per_s=1e9))
    through = dataclasses.replace(slow, l1=dataclasses.replace(slow.l1, write_policy="through", write_allocate=None))
    back = simulate([[steps]], slow, 1, "progress")
    assert back.writebacks_per_execution[LDG] == 1.0
    loads = [[step for step in steps if step.row == LDG]]
    assert back.estimated_cycles > 1.5 * simulate([loads], slow, 1, "progress").estimated_cycles
    assert back.llc_accesses == simulate([[steps]], through, 1, "progress").llc_accesses == 16


# -- LLC ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["back", "through"])
def test_a_store_that_misses_a_no_allocate_llc_goes_to_dram(policy):
    found = one_warp((STG, A), (STG, A), write_policy=policy, write_allocate=False)
    assert (found.llc_misses, found.dram_write_bytes, found.dirty_left) == (2, 2 * 128, 0)
    assert one_warp((STG, A), (LDG, A), write_policy=policy, write_allocate=False).dram_read_bytes == 128


def test_a_store_that_hits_a_no_allocate_llc_stays():
    found = one_warp((LDG, A), (STG, A), write_allocate=False)
    assert (found.llc_misses, found.dram_write_bytes, found.dirty_left) == (1, 0, 1)
    through = one_warp((LDG, A), (STG, A), write_policy="through", write_allocate=False)
    assert (through.llc_misses, through.dram_write_bytes, through.dirty_left) == (1, 128, 0)


def test_a_no_allocate_llc_takes_only_the_sectors_it_has():
    found = one_warp((LDG, A), (STG, (A, A + 32)), sector_bytes=32, write_allocate=False)
    assert (found.dram_write_bytes, found.dirty_left) == (32, 1)


def test_atomics_enter_a_no_allocate_llc():
    found = one_warp((ATOM, A), (STG, A), write_allocate=False)
    assert (found.llc_misses, found.dram_read_bytes, found.dram_write_bytes, found.dirty_left) == (1, 128, 0, 1)


def test_what_an_l1_writes_back_passes_a_no_allocate_llc():
    found = one_warp((STG, A), (LDG, B), (LDG, C), l1=BACK, write_allocate=False)
    assert (found.dram_write_bytes, found.dirty_left) == (128, 0)
