"""Occupancy: NVIDIA's own calculator where it exists, hand-made arithmetic for the older rules."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.errors import WorkloadError
from warplens.machine import carve_out, compute_capabilities, gpu_names, load_gpu, occupancy

CARVE_OUTS = Path(__file__).parents[2] / "benchmarks" / "h200" / "carve_outs.csv"
GOLDEN = Path(__file__).parent / "data" / "occupancy_golden.csv"


def golden_rows() -> list[tuple[str, int, int, int, int]]:
    with GOLDEN.open(encoding="utf-8") as file:
        lines = (line for line in file if not line.startswith("#"))
        return [(row["machine"], *(int(v) for v in list(row.values())[1:])) for row in csv.DictReader(lines)]


GOLDEN_MACHINES = "gtx650ti k620 gtx1060 v100 rtx2070 a100-40gb rtx3090 rtx4090 h200 b200 rtx5090"


@pytest.mark.parametrize("machine", GOLDEN_MACHINES.split())
def test_blocks_per_sm_equal_those_of_cuda_occupancy_h(machine):
    rows = [row for row in golden_rows() if row[0] == machine]
    assert len(rows) == 80
    gpu = load_gpu(machine)
    for _, threads, registers, shared, blocks in rows:
        if blocks == 0:
            with pytest.raises(WorkloadError, match=machine):
                occupancy(gpu, threads, registers, shared)
        else:
            result = occupancy(gpu, threads, registers, shared)
            assert result.blocks_per_sm == blocks, (threads, registers, shared)
            assert result.warps_per_sm == blocks * -(-threads // 32)


@pytest.mark.parametrize(
    ("machine", "threads", "registers", "shared", "blocks", "limiter"),
    [
        # compute capability 1.0: 8192 registers, 24 warps, 8 blocks, 16 KiB
        # 8 warps × 32 × 10 = 2560 registers, a multiple of 256; 8192 / 2560 = 3.2; 24 / 8 = 3
        ("fx5600", 256, 10, 0, 3, "warps, registers"),
        # 2816 registers; 8192 / 2816 = 2.9
        ("fx5600", 256, 11, 0, 2, "registers"),
        # 3 warps count as 4 for registers: 4 × 32 × 17 = 2176, rounded up to 2304; 8192 / 2304 = 3.6
        ("fx5600", 96, 17, 0, 3, "registers"),
        # 1 warp counts as 2: 2 × 32 × 20 = 1280; 8192 / 1280 = 6.4 (a warp on its own would give 12)
        ("8800gt", 32, 20, 0, 6, "registers"),
        # 1537 B are rounded up to 2048; 16384 / 2048 = 8
        ("8800gtx", 64, 0, 1537, 8, "blocks, shared memory"),
        # 2049 B are rounded up to 2560; 16384 / 2560 = 6.4
        ("8800gtx", 64, 0, 2049, 6, "shared memory"),
        # 512 threads: 16 warps of 24
        ("fx5600", 512, 8, 0, 1, "warps"),
        # compute capability 1.3: 16384 registers in units of 512, 32 warps
        # 8 warps × 32 × 10 = 2560 = 5 × 512; 16384 / 2560 = 6.4; 32 / 8 = 4
        ("gtx280", 256, 10, 0, 4, "warps"),
        # 6 warps × 32 × 18 = 3456, rounded up to 3584; 16384 / 3584 = 4.57; 32 / 6 = 5.3
        ("gtx280", 192, 18, 0, 4, "registers"),
        # compute capability 2.0: 32768 registers given out per warp in units of 64 on two schedulers' halves
        # 21 × 32 = 672, rounded up to 704; 16384 / 704 = 23.3 → 2 × 23 = 46 warps; 46 / 6 = 7.7; 48 / 6 = 8
        ("tesla-c2050", 192, 21, 0, 7, "registers"),
        # 20 × 32 = 640; 16384 / 640 = 25.6 → 50 warps; 50 / 6 = 8.3; 48 / 6 = 8; at most 8 blocks
        ("tesla-c2050", 192, 20, 0, 8, "warps, blocks, registers"),
        # 63 × 32 = 2016, rounded up to 2048; 8 a half, 16 warps; one block of 16
        ("tesla-c2050", 512, 63, 0, 1, "registers"),
        # 6145 B are rounded up to 6272 = 49 × 128; 49152 / 6272 = 7.8
        ("tesla-c2050", 64, 0, 6145, 7, "shared memory"),
        # Tonga: 25 vector registers take 28 of a lane's 256; 9 waves on each of four SIMDs; 36 / 4
        ("r9-380", 256, 25, 0, 9, "registers"),
        # 24 registers: 10 waves a SIMD, the limit of 40 waves
        ("r9-380", 256, 24, 0, 10, "warps, registers"),
        # the simulator rounds registers up to four a thread: 65536 / (64 × 256)
        ("accelsim-mdm", 64, 255, 0, 4, "registers"),
        ("accelsim-mdm", 256, 32, 2048, 8, "warps, registers"),
        # no rule but the number of warps
        ("mdm2020", 256, 200, 99999, 8, "warps"),
        ("gpumech2014", 1, 0, 0, 32, "warps"),
    ],
)
def test_published_rules_by_hand(machine, threads, registers, shared, blocks, limiter):
    result = occupancy(load_gpu(machine), threads, registers, shared)
    assert (result.blocks_per_sm, result.limiter) == (blocks, limiter)


def test_the_reserved_kilobyte_of_hopper_counts_even_without_shared_memory():
    limits = occupancy(load_gpu("h200"), 32, 0, 0).limits
    assert limits == {"warps": 64, "blocks": 32, "shared memory": 228}
    assert occupancy(load_gpu("h200"), 32, 0, 227 * 1024).blocks_per_sm == 1


@pytest.mark.parametrize(
    ("machine", "block", "why"),
    [
        ("h200", (1025, 32, 0), "1025 threads exceeds the 1024"),
        ("fx5600", (513, 0, 0), "513 threads exceeds the 512"),
        ("h200", (32, 256, 0), "256 registers a thread exceed the 255"),
        ("gtx650ti", (32, 64, 0), "64 registers a thread exceed the 63"),
        ("h200", (1024, 65, 0), "too little room for registers"),
        ("h200", (32, 0, 227 * 1024 + 1), "too little room for shared memory"),
        ("gtx1060", (32, 0, 48 * 1024 + 1), "too little room for shared memory"),
        ("mdm2020", (2049, 0, 0), "too little room for warps"),
        ("h200", (0, 0, 0), "at least one thread"),
        ("h200", (-32, 0, 0), "at least one thread"),
        ("h200", (32, -1, 0), "negative"),
        ("h200", (32, 0, -1), "negative"),
    ],
)
def test_a_block_that_cannot_run_is_refused_with_the_reason(machine, block, why):
    with pytest.raises(WorkloadError, match=why):
        occupancy(load_gpu(machine), *block)


def test_a_batch_of_machines_gives_the_occupancy_of_each():
    warps, shared = np.array([16, 32, 64]), np.array([64, 128, 228]) * 1024
    batch = occupancy(load_gpu("h200", {"max_warps": warps, "shared_memory": shared}), 256, 40, 8192)
    for i in range(3):
        overrides = {"max_warps": int(warps[i]), "shared_memory": int(shared[i])}
        one = occupancy(load_gpu("h200", overrides), 256, 40, 8192)
        assert batch.blocks_per_sm[i] == one.blocks_per_sm
        assert batch.warps_per_sm[i] == one.warps_per_sm
    with pytest.raises(WorkloadError, match="too little room for warps"):
        occupancy(load_gpu("h200", {"max_warps": np.array([64, 4])}), 256)


machines = st.sampled_from(["fx5600", "gtx280", "tesla-c2050", "gtx650ti", "gtx1060", "rtx2070", "h200", "r9-380"])


@given(machines, st.integers(1, 512), st.integers(0, 63), st.integers(0, 16384))
def test_more_of_anything_never_gives_more_blocks(machine, threads, registers, shared):
    gpu = load_gpu(machine)

    def blocks(*block: int) -> int:
        try:
            result = occupancy(gpu, *block)
        except WorkloadError:
            return 0
        assert result.blocks_per_sm == min(result.limits.values())
        assert result.warps_per_sm <= gpu.max_warps
        return result.blocks_per_sm

    here = blocks(threads, registers, shared)
    assert blocks(threads + 1, registers, shared) <= here
    assert blocks(threads, registers + 1, shared) <= here
    assert blocks(threads, registers, shared + 1) <= here


class TestCarveOut:
    def test_an_h200_sets_aside_what_was_measured(self):
        """All but a few kernels that hardly use shared memory, for which the driver leaves the L1 more or less."""
        gpu = load_gpu("h200")
        lines = CARVE_OUTS.read_text("utf-8").splitlines()[1:]
        off = []
        for row in csv.DictReader(lines):
            threads, shared, registers, measured = (int(value) for value in row.values())
            fitting = occupancy(gpu, threads, registers, shared).blocks_per_sm
            if carve_out(gpu, fitting, threads, shared) != measured:
                off.append(shared)
        assert len(off) <= 4 and max(off) <= 16

    @pytest.mark.parametrize("name", compute_capabilities())
    def test_every_compute_capability_has_its_sizes(self, name):
        gpu = next(each for each in map(load_gpu, gpu_names()) if each.compute_capability == name)
        most = int(gpu.shared_memory_bytes)
        assert carve_out(gpu, 1, 128, most - gpu.with_defaults.occupancy.shared_memory_reserved_bytes) == most

    def test_without_sizes_it_is_what_blocks_take(self):
        assert carve_out(load_gpu("gtx1060"), 3, 128, 1000) == 3 * 1000 + 3 * 24
