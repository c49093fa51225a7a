"""Device memory of a program: what kernels may touch, and which PTX of several is taken."""

import pytest

from warplens.frontends.ptx.spaces import GLOBAL_WINDOW
from warplens.frontends.runtime.arena import MAPPED_BYTES, OWN_BYTES, create_arena
from warplens.frontends.runtime.fatbin import FatEntry
from warplens.frontends.runtime.modules import _best_ptx


@pytest.fixture
def arena():
    made = create_arena(OWN_BYTES + (64 << 20))
    yield made
    made.close()


def may_touch(arena, address):
    granule = arena.size_bytes // len(arena.valid)
    return bool(arena.valid[(address - GLOBAL_WINDOW) // granule])


def test_a_page_is_mapped_while_anything_lies_in_it(arena):
    first = arena.allocate(3 * MAPPED_BYTES, "large")
    inside = first + 3 * MAPPED_BYTES - 8
    assert may_touch(arena, first) and may_touch(arena, inside)
    beside = arena.allocate(64, "small")
    assert may_touch(arena, beside)
    assert arena.release(first) and not may_touch(arena, first) and not may_touch(arena, inside)
    assert may_touch(arena, beside) and arena.release(beside) and not arena.release(beside)


def test_the_newest_ptx_that_fits_is_taken():
    images = [FatEntry(True, number, b"") for number in (70, 80, 90)] + [FatEntry(False, 90, b"")]
    assert _best_ptx(images, 90) == ([images[2]], 90) and _best_ptx(images, 89) == ([images[1]], 80)
    assert _best_ptx(images, 60) == ([images[0]], 70) and _best_ptx(images[3:], 90) == ([], 0)


def test_ptx_for_one_gpu_alone_goes_before_ptx_for_all_and_runs_on_no_other():
    texts = [f".version 9.0\n.target sm_{each}\n".encode() for each in ("80", "90", "90a", "100f")]
    images = [FatEntry(True, number, text) for number, text in zip((80, 90, 90, 100), texts, strict=True)]
    assert _best_ptx(images, 90) == ([images[2]], 90) and _best_ptx(images[:2], 90) == ([images[1]], 90)
    assert _best_ptx(images[:3], 100) == ([images[1]], 90) and _best_ptx(images, 103) == ([images[3]], 100)
    assert _best_ptx(images[2:3], 80) == ([images[2]], 90)
