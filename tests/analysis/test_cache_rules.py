"""Rules of the cache simulation, each worked out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from reference.traces import Step, evenly
from warplens.analysis._cache_kernels import find_l1_sets
from warplens.traces import StaticInstruction

from .comparing import SMALL_LLC, one_warp, simulate
from .strategies import small_gpu

LDG, STG, ATOM = 0, 3, 5


def test_lru_evicts_the_least_recently_used():
    a, b, c = 128, 256, 384
    assert one_warp((LDG, a), (LDG, b), (LDG, a), (LDG, c), (LDG, a)).l1_misses == 3
    assert one_warp((LDG, a), (LDG, b), (LDG, a), (LDG, c), (LDG, b)).l1_misses == 4


def test_a_store_that_hits_makes_its_line_recent_and_goes_on():
    a, b, c = 128, 256, 384
    found = one_warp((LDG, a), (LDG, b), (STG, a), (LDG, c), (LDG, a))
    assert found.l1_misses == 3
    assert found.llc_accesses == 4


def test_a_store_that_misses_leaves_the_l1_as_it_was():
    found = one_warp((STG, 128), (LDG, 128))
    assert found.l1_misses == 2


def test_an_atomic_frees_a_place_in_the_l1():
    """The line that enters next takes that place: the other one stays."""
    a, b, c = 128, 256, 384
    found = one_warp((LDG, a), (LDG, b), (ATOM, b), (LDG, c), (LDG, a))
    assert found.l1_misses == 4  # a, b, the atomic, c
    assert one_warp((LDG, a), (ATOM, a), (LDG, a)).l1_misses == 3


def test_a_store_allocates_in_the_llc_without_fetching():
    found = one_warp((STG, 128), (STG, 132), (ATOM, 128))
    assert found.dram_read_bytes == 0
    assert found.llc_misses == 1


def test_a_load_of_a_partly_written_line_fetches_it():
    assert one_warp((STG, 128), (LDG, 128)).dram_read_bytes == 128


def test_a_load_of_a_line_written_as_a_whole_does_not():
    gpu = small_gpu(1, {"size_bytes": None}, SMALL_LLC)
    steps = [Step(STG, evenly(128, 4)), Step(LDG, (128,))]
    for policy in ("back", "through"):
        changed = dataclasses.replace(gpu, llc=dataclasses.replace(gpu.llc, write_policy=policy))
        found = simulate([[steps]], changed)
        assert (found.llc_misses, found.dram_read_bytes) == (1, 0)


def test_an_atomic_on_other_words_of_a_written_line_fetches_it():
    assert one_warp((STG, 128), (ATOM, 132)).dram_read_bytes == 128


def test_dirty_lines_are_written_when_they_leave():
    stores = [(STG, 128 * number) for number in range(1, 20)]
    found = one_warp(*stores)
    assert found.dram_write_bytes == 3 * 128
    assert found.dirty_left == 16


def test_clean_lines_are_not():
    loads = [(LDG, 128 * number) for number in range(1, 20)]
    found = one_warp(*loads)
    assert (found.dram_write_bytes, found.dirty_left) == (0, 0)


def test_a_write_through_llc_writes_every_store_and_holds_nothing_dirty():
    stores = [(STG, 128), (STG, 132), (STG, 128), *((LDG, 128 * number) for number in range(2, 30))]
    found = one_warp(*stores, write_policy="through")
    assert found.dram_write_bytes == 3 * 128
    assert found.dirty_left == 0


def test_without_an_llc_everything_that_leaves_goes_to_dram():
    found = one_warp((LDG, 128), (LDG, 128), (STG, 128), (ATOM, 128), (LDG, 128), size_bytes=None)
    assert (found.llc_accesses, found.llc_misses) == (4, 4)
    assert found.dram_read_bytes == 3 * 128
    assert found.dram_write_bytes == 2 * 128
    assert [int(found.column("dram_writes")[row]) for row in (LDG, STG, ATOM)] == [0, 1, 1]


def test_sectors_are_fetched_and_missed_one_by_one():
    """Two sectors of a line were loaded; a load of all four misses the other two, in both caches."""
    wide = StaticInstruction(0, "LDG.E", "load_global", "global", 4, (1,), ())
    gpu = small_gpu(2, {"sector_bytes": 32}, SMALL_LLC)
    some, whole = Step(0, (128, 160)), Step(0, evenly(128, 4))
    found = simulate([[[some, whole]]], gpu, rows=[wide])
    assert (found.l1_accesses, found.l1_misses) == (6, 4)
    assert (found.llc_accesses, found.llc_misses) == (4, 4)
    # On another SM all four leave the L1, and the LLC has them by then (its SM comes second in each round).
    found = simulate([[[some, whole]], [[whole]]], gpu, 1, rows=[wide])
    assert (found.l1_accesses, found.l1_misses) == (10, 8)
    assert found.llc_misses == 4
    assert found.dram_read_bytes == 4 * 32


def test_dirty_sectors_are_written_and_not_whole_lines():
    stores = [(STG, 128), (STG, 128 + 64), *((STG, 128 * number) for number in range(2, 18))]
    found = one_warp(*stores, sector_bytes=32)
    assert found.dram_write_bytes == 2 * 32
    assert found.dirty_left == 16
    through = one_warp((STG, 128), (STG, 160), sector_bytes=32, write_policy="through")
    assert through.dram_write_bytes == 2 * 32


def test_line_i_lies_in_bank_i_mod_banks():
    """Four lines of one bank do not fit its two ways; four lines of four banks do."""
    gpu = small_gpu(1, {"size_bytes": None}, {"size_bytes": 128 * 8, "ways": 2, "banks": 4})
    same, spread = [4, 8, 12, 16] * 2, [4, 5, 6, 7] * 2
    assert simulate([[[Step(LDG, (128 * line,)) for line in same]]], gpu).llc_misses == 8
    assert simulate([[[Step(LDG, (128 * line,)) for line in spread]]], gpu).llc_misses == 4


def test_an_llc_with_fewer_sets_than_banks_has_one_bank():
    """Two lines fit, whatever the number of banks."""
    gpu = small_gpu(1, {"size_bytes": None}, {"size_bytes": 128 * 2, "ways": 2, "banks": 4})
    assert simulate([[[Step(LDG, (128 * line,)) for line in (3, 5, 3, 5)]]], gpu).llc_misses == 2


def test_sms_have_their_own_l1_and_share_the_llc():
    warp = [Step(LDG, (128,))]
    found = simulate([[warp], [warp]], small_gpu(2), 1)
    assert (found.l1_misses, found.llc_misses) == (2, 1)
    assert simulate([[warp], [warp]], small_gpu(1), 2).l1_misses == 1


def test_no_address_is_taken_for_an_empty_place():
    """The last line of the address space is no line before it was accessed."""
    assert one_warp((STG, 2**64 - 128)).llc_misses == 1
    assert one_warp((LDG, 2**64 - 128), (LDG, 2**64 - 128)).l1_misses == 1


@pytest.mark.parametrize("bits", range(16))
def test_hashed_sets_spread_every_power_of_two(bits):
    """As many lines as an H200's L1 holds: modulo its 108 sets, strides of four lines and more use a quarter."""
    found = np.empty(1728, dtype=np.int64)
    find_l1_sets((1 << 40) + (np.arange(1728) << bits), 108, True, found)
    assert np.bincount(found, minlength=108).max() <= 24
    found = np.empty(108, dtype=np.int64)
    find_l1_sets(np.arange(108), 108, True, found)
    assert found.tolist() == list(range(108))


@pytest.mark.parametrize("sets", [46, 62, 92, 108])
def test_hashed_sets_spread_every_short_stride(sets):
    """An L1 as large as a carve-out leaves it, three quarters full, keeps lines at nearly any short stride."""
    crowded = []
    for stride in range(1, 64):
        found = np.empty(12 * sets, dtype=np.int64)
        find_l1_sets((1 << 33) + np.arange(12 * sets) * stride, sets, True, found)
        counts = np.bincount(found, minlength=sets)
        crowded.append(counts[counts > 16].sum() / len(found))
    assert np.mean(crowded) < 0.1


def test_stores_merge_only_while_they_wait():
    """A line that a slow network has not taken takes what comes later; a fast one has sent it."""
    blocks = [[[Step(STG, evenly(0, 4, 32))] * 50]]
    leaving = {}
    for speed in (1e9, 1e15):
        gpu = small_gpu(1, {"sector_bytes": 32, "merge_lines": 4}, SMALL_LLC)
        noc = dataclasses.replace(gpu.noc, bandwidth_bytes_per_s=speed, sm_bandwidth_bytes_per_s=speed)
        found = simulate(blocks, dataclasses.replace(gpu, noc=noc), 1, "progress")
        leaving[speed] = found.llc_accesses
        assert found.dirty_left == 4
    assert leaving[1e15] == 200 > 3 * leaving[1e9]
