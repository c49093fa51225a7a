"""The bundled workloads of Hong & Kim's Tables 4 and 5 say what the tables say."""

from __future__ import annotations

import math

import pytest

from warplens.api import load_workload
from warplens.machine import load_gpu
from warplens.workload import resident
from warplens_studies.reproduce.hong_kim import GPUS
from warplens_studies.reproduce.hong_kim_merge import BENCHMARKS, TILED, tiled_matrix_product

TABLE4 = {1: (0, 23), 2: (1, 17), 3: (1, 29), 4: (2, 27), 5: (2, 35), 6: (4, 47), 7: (6, 59)}
#: Computation and memory instructions, uncoalesced or not, registers, shared memory.
TABLE5 = {
    "Sepia": (71, 6, True, 7, 52),
    "Linear": (111, 30, True, 15, 60),
    "SVM": (10871, 819, False, 9, 44),
    "Mat.(naive)": (12043, 4001, True, 10, 88),
    "Blackscholes": (137, 7, True, 11, 36),
}


@pytest.mark.parametrize("number", TABLE4)
@pytest.mark.parametrize("access", ["coalesced", "uncoalesced"])
def test_micro_benchmark(number, access):
    mix = load_workload(f"mb{number}-{access}").mix
    loads, computations = TABLE4[number]
    assert (mix.memory_count, mix.compute_count) == (loads * 1000, computations * 1000)
    assert mix.uncoalesced_count == (loads * 1000 if access == "uncoalesced" else 0)


@pytest.mark.parametrize("gpu", GPUS)
def test_micro_benchmarks_fill_each_gpu_a_whole_number_of_times(gpu):
    machine = load_gpu(gpu)
    residency = resident(load_workload("mb2-coalesced").launch, machine)
    assert residency.warps_per_sm == machine.max_warps
    assert residency.runs == int(residency.runs)


@pytest.mark.parametrize("name", TABLE5)
def test_merge_benchmark(name):
    file, elements = BENCHMARKS[name]
    workload = load_workload(file)
    computations, memory, uncoalesced, registers, shared = TABLE5[name]
    assert (workload.mix.compute_count, workload.mix.memory_count) == (computations, memory)
    assert workload.mix.uncoalesced_count == (memory if uncoalesced else 0)
    assert workload.launch.registers_per_thread == registers
    assert workload.launch.shared_memory_per_block_bytes == shared
    assert workload.launch.threads_per_block == 128
    assert workload.launch.blocks == math.ceil(elements / 128)


def test_tiled_counts_meet_both_ends_of_the_printed_ranges():
    ends = [tiled_matrix_product(side).mix for side in (20, 4)]
    assert [mix.memory_count for mix in ends] == [201, 1001]
    assert [mix.compute_count for mix in ends] == [9780, 24580]
    assert round(ends[0].compute_count / ends[0].memory_count, 1) == 48.7  # printed arithmetic intensity


def test_tiled_file_is_the_side_of_16():
    file, made = load_workload(BENCHMARKS[TILED][0]), tiled_matrix_product(16)
    assert made.mix == file.mix
    assert made.launch == file.launch
    assert (file.launch.registers_per_thread, file.launch.shared_memory_per_block_bytes) == (18, 3960)
