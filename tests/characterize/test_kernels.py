"""The micro-benchmarks compile without a GPU, and do what they are for where the CPU can run them."""

from __future__ import annotations

import numpy as np
import pytest

import warplens
from warplens.characterize import instructions, memory, products
from warplens.characterize.device import RECORD, compile_cubin, kernel_source, span_of
from warplens.errors import WarplensError
from warplens.machine.classes import PRODUCT_COLUMNS


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
def test_memory_kernels_compile(architecture):
    code, names = compile_cubin(kernel_source("memory"), memory.kernel_names(), architecture)
    assert code[:4] == b"\x7fELF"
    assert set(names) == set(memory.kernel_names())


def test_one_kernel_of_each_operation_compiles():
    """All 224 take ten seconds; each operation once, and each pair once, covers every line of the source."""
    names = [
        *(
            instructions.chain_name(operation, 2, lengths[0])
            for operation, (_, lengths) in instructions.OPERATIONS.items()
        ),
        *(instructions.mix_name(first, second, 32) for first, second in instructions.MIXES),
        "barriers<16>",
    ]
    assert set(names) < {*instructions.kernel_names(), *names}
    code, lowered = compile_cubin(kernel_source("instructions"), names, "sm_90")
    assert code[:4] == b"\x7fELF" and len(set(lowered.values())) == len(names)


def test_products_of_warpgroups_compile():
    source = kernel_source("instructions") + products.source()
    code, lowered = compile_cubin(source, products.kernel_names(), products.ARCHITECTURE + products.FEATURES)
    assert code[:4] == b"\x7fELF" and len(set(lowered.values())) == len(PRODUCT_COLUMNS) * len(products.LENGTHS)


@pytest.mark.slow
def test_every_kernel_compiles():
    _, lowered = compile_cubin(kernel_source("instructions"), instructions.kernel_names(), "sm_90")
    assert len(lowered) == len(instructions.kernel_names()) == len(set(instructions.kernel_names()))


def test_a_source_that_does_not_compile_says_so():
    with pytest.raises(WarplensError, match=r"do not compile.*undefined"):
        compile_cubin("__global__ void k() { x = 1; }", ["k"], "sm_90")


def test_a_ring_passes_every_line_once():
    generator = np.random.default_rng(0)
    places, following = memory.ring(64 << 10, generator)
    step = dict(zip(places.tolist(), following.tolist(), strict=True))
    at, seen = int(places[0]), []
    for _ in range(len(places)):
        seen.append(at)
        at = step[at]
    assert at == places[0]
    assert sorted(seen) == list(range(0, 64 << 10, 128))


def test_a_paired_ring_visits_the_neighbour_next():
    places, following = memory.paired_ring(40, 16, 4096, np.random.default_rng(0))
    assert np.array_equal(following[0::2], places[0::2] + 40)
    assert sorted(places[0::2].tolist()) == [n * 4096 for n in range(16)]
    assert np.array_equal(following[1::2], np.roll(places[0::2], -1))


def test_link_writes_the_ring():
    """The kernel that lays out the ring, run on the CPU: every line points to the one that follows."""
    base = np.zeros(16 << 10, np.uint8)
    places, following = memory.ring(base.nbytes, np.random.default_rng(3))
    kernel = warplens.cuda(kernel_source("memory")).kernel("link")
    kernel.launch(2, 32, base, places, following, np.int32(len(places)))
    pointers = base.view(np.uint64)[places // 8]
    assert np.array_equal(np.diff(pointers.astype(np.int64)), np.diff(following.astype(np.int64)))


def test_a_span_runs_from_the_first_start_to_the_last_end_of_each_sm():
    records = np.zeros(4, RECORD)
    records["sm"] = [3, 3, 7, 7]
    records["start_cycle"], records["end_cycle"] = [10, 12, 500, 490], [100, 130, 600, 610]
    records["start_ns"], records["end_ns"] = [1000, 1000, 990, 1001], [1050, 1064, 1055, 1060]
    span = span_of(records)
    assert span.cycles.tolist() == [120, 120]
    assert span.seconds == pytest.approx(74e-9)
    assert span.clock_hz == pytest.approx(100 / 65e-9)
