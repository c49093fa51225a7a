"""An adaptive L1 has what a launch's shared memory leaves of the storage that they share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from contract.recorded import ARRAY, FFMA, LDG, ROWS
from making import gpu
from reference.traces import Step, evenly, memory_trace
from warplens import load_gpu, predict, simulate
from warplens.workload import Launch, adapted, workload_of_trace
from warplens.workload.traced import cache_misses

MACHINE = gpu("mdm2020", sms=1, max_blocks=2)


def launch(shared_bytes):
    """Two blocks; every warp reads the same 8 KiB twice, which only an L1 of that size keeps."""
    turns = [step for line in range(64) for step in (Step(LDG, evenly(ARRAY + 128 * line, 4)), Step(FFMA))]
    blocks = [[turns * 2] for _ in range(2)]
    trace = memory_trace(ROWS, blocks)
    header = replace(trace.header, shared_memory_per_block_bytes=shared_bytes)
    return workload_of_trace(replace(trace, header=header))


def size(machine, **given):
    return adapted(machine, Launch(blocks=100, threads_per_block=64, **given)).l1.size_bytes


def test_without_common_storage_the_l1_keeps_its_size():
    assert adapted(MACHINE, launch(1024).launch) is MACHINE


@pytest.mark.parametrize(("shared", "left"), [(None, 65536), (8192, 65536 - 2 * 8192), (32768, 0), (49000, 0)])
def test_resident_blocks_take_their_part(shared, left):
    machine = gpu("mdm2020", sms=1, l1__unified=65536, max_blocks=2)
    assert size(machine, shared_memory_per_block_bytes=shared, blocks_per_sm=2.0) == left


@pytest.mark.parametrize(
    ("name", "shared", "left"),
    [("h200", 0, 216), ("h200", 8192, 92), ("h200", 49152, 60), ("rtx3090", 8192, 28), ("rtx2080ti", 0, 60)],
)
def test_a_driver_sets_shared_memory_aside(name, shared, left):
    """128 threads: 16 of such blocks fit on an SM of the H200, 4 with 48 KiB each."""
    found = adapted(load_gpu(name), Launch(threads_per_block=128, shared_memory_per_block_bytes=shared))
    assert found.l1.size_bytes == left * 1024


def test_a_size_that_is_asked_for_is_that_without_shared_memory():
    machine = load_gpu("h200", {"l1.size": np.array([216, 316, 64]) * 1024})
    assert size(machine).tolist() == [216 * 1024, 316 * 1024, 64 * 1024]
    assert size(machine, shared_memory_per_block_bytes=49152).tolist() == [60 * 1024, 160 * 1024, 0]


def test_a_batch_adapts_each_machine():
    machine = gpu("mdm2020", sms=1, l1__unified=np.array([16384, 65536]))
    assert size(machine, shared_memory_per_block_bytes=4096, blocks_per_sm=2.0).tolist() == [8192, 57344]


def test_caches_and_simulator_follow():
    machine = gpu("mdm2020", sms=1, max_blocks=2, l1__unified=16384, l1__streaming="true", noc__queue=64)
    fits, does_not = launch(2048), launch(7168)
    assert cache_misses(fits, machine).l1_miss_ratio < 0.7 * cache_misses(does_not, machine).l1_miss_ratio
    ratios = [simulate(each, machine, "detailed").l1_miss_ratio for each in (fits, does_not)]
    assert ratios[0] < 0.7 * ratios[1]
    for model in ("warplens", "mdm"):
        assert predict(fits, machine, model).cycles < predict(does_not, machine, model).cycles


def test_an_l1_of_the_same_size_is_the_same():
    own = gpu("mdm2020", sms=1, max_blocks=2, l1__unified=16384)
    given = gpu("mdm2020", sms=1, max_blocks=2, l1__size=16384 - 2 * 2048)
    for model in ("warplens", "mdm", "roofline"):
        assert predict(launch(2048), own, model).cycles == predict(launch(2048), given, model).cycles


@pytest.mark.parametrize("key", ["clock", "launch.warps_per_sm"])
def test_a_batch_is_like_its_machines(key):
    """Of machines, or of residents that leave an L1 of different sizes."""
    values = np.array([1.2e9, 1.7e9]) if key == "clock" else np.array([1.0, 2.0, 8.0])
    for name in ("h200", "v100"):
        together = predict(launch(7168), name, overrides={key: values})
        alone = [predict(launch(7168), name, overrides={key: value}).cycles for value in values.tolist()]
        assert np.broadcast_to(together.cycles, len(values)).tolist() == pytest.approx(alone, rel=1e-12)
