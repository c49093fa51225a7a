"""Micro kernels, each with one behaviour and a parameter for it."""

from __future__ import annotations

from functools import partial

import numpy as np

from warplens.suite.inputs import generator, uniform, zeros
from warplens.suite.kernel import Array, Sized, SuiteKernel, SuiteLaunch, Tolerance

_THREADS = 256
_VALUES = 8  # that each thread of strided_square squares


def _plain(grid: int, *arguments: object, block: int = _THREADS) -> SuiteLaunch:
    return SuiteLaunch((grid, 1, 1), (block, 1, 1), arguments)


def _strided_square(stride: int, grid: int) -> SuiteLaunch:
    threads = grid * _THREADS
    values = uniform(generator(), stride * (threads - 1) + _VALUES)
    return _plain(grid, values, zeros((threads, _VALUES)), np.int32(stride))


def _strided_square_reference(launch: SuiteLaunch) -> dict[int, Array]:
    values, matrix, stride = launch.arguments
    index = int(stride) * np.arange(matrix.shape[0])[:, None] + np.arange(_VALUES)
    return {1: np.square(values[index])}


def _strided(stride: int) -> SuiteKernel:
    return SuiteKernel(
        name=f"strided_square_{stride}",
        source="strided_square.cu",
        entry="strided_square",
        group="divergent" if stride > 1 else "non-divergent",
        stands_for=f"Listing 1 of mdm-micro2020, grid stride {stride}: a warp's loads lie {4 * stride} bytes apart",
        prepare=Sized(partial(_strided_square, stride), (10,), (6144,), (16_384,)),
        reference=_strided_square_reference,
        parameters={"stride": stride},
    )


def _instruction_mix(grid: int, repetitions: int) -> SuiteLaunch:
    rng = generator()
    threads = grid * _THREADS
    factors, values = uniform(rng, threads, 0.3, 0.6), uniform(rng, threads, 0.5, 2)
    return _plain(grid, factors, values, np.float32(0.4), np.int32(repetitions))


def _instruction_mix_reference(beta: int, launch: SuiteLaunch) -> dict[int, Array]:
    factors, values, summand, repetitions = launch.arguments
    power = factors.astype(np.float64) ** beta
    constant = float(summand) * (1 - power) / (1 - factors.astype(np.float64))
    x = values.astype(np.float64)
    for _ in range(int(repetitions)):
        before, x = x, 1 / np.sqrt(power * x + constant)
        if np.allclose(x, before, rtol=1e-12, atol=0):  # a fixed point, which the rest would not leave
            break
    return {1: x.astype(values.dtype)}


def _mix(beta: int, medium_repetitions: int) -> SuiteKernel:
    return SuiteKernel(
        name=f"instruction_mix_{beta}",
        source="instruction_mix.cu",
        entry="instruction_mix",
        group="micro",
        stands_for=f"Volkov's instruction mix: chains of {beta} multiply-adds (β) and one reciprocal square root",
        prepare=Sized(_instruction_mix, (4, 64), (1056, medium_repetitions), (2112, 1024)),
        reference=partial(_instruction_mix_reference, beta),
        tolerance=Tolerance(
            relative=2e-6, because="rsqrtf within 2 ulps; the map contracts, so earlier errors fade by half or more"
        ),
        options=(f"-DBETA={beta}", "--ftz=true"),
        parameters={"beta": beta},
    )


def _iterative_barrier(grid: int, repetitions: int) -> SuiteLaunch:
    values = uniform(generator(), grid * _THREADS)
    return _plain(grid, values, np.float32(0.999), np.float32(0.001), np.int32(repetitions))


def _iterative_barrier_reference(launch: SuiteLaunch) -> dict[int, Array]:
    values, factor, summand, repetitions = launch.arguments
    power = float(factor) ** int(repetitions)
    limit = float(summand) / (1 - float(factor))
    return {0: (limit + power * (values - limit)).astype(values.dtype)}


def _pointer_chase(grid: int, block: int, nodes: int, hops: int) -> SuiteLaunch:
    """One cycle through all nodes in random order; nodes lie 128 bytes apart."""
    order = generator().permutation(nodes).astype(np.uint32) * np.uint32(32)
    following = zeros(32 * nodes, np.uint32)
    following[order] = np.roll(order, -1)
    place = order[np.linspace(0, nodes, grid * block, endpoint=False).astype(np.int64)]
    return _plain(grid, following, place, np.int32(hops), block=block)


def _pointer_chase_reference(launch: SuiteLaunch) -> dict[int, Array]:
    following, place, hops = launch.arguments
    for _ in range(int(hops)):
        place = following[place]
    return {1: place}


def _bandwidth(grid: int, vectors: int) -> SuiteLaunch:
    source = uniform(generator(), 4 * vectors)
    return _plain(grid, source, zeros(4 * vectors), np.int32(vectors))


def _bandwidth_reference(launch: SuiteLaunch) -> dict[int, Array]:
    return {1: launch.arguments[0]}


KERNELS = (
    *(_strided(stride) for stride in (1, 8, 32)),
    _mix(1, 320),
    _mix(4, 288),
    _mix(16, 128),
    SuiteKernel(
        name="iterative_barrier",
        source="iterative_barrier.cu",
        entry="iterative_barrier",
        group="micro",
        stands_for="the Pipeline model's iterative barrier: one multiply-add and one barrier in turn",
        prepare=Sized(_iterative_barrier, (8, 64), (1056, 288), (2112, 1024)),
        reference=_iterative_barrier_reference,
        tolerance=Tolerance(relative=1e-4, because="1024 roundings that do not cancel: at most 1024 · 6e-8"),
    ),
    SuiteKernel(
        name="pointer_chase",
        source="pointer_chase.cu",
        entry="pointer_chase",
        group="micro",
        stands_for="memory latency: chains of dependent loads, one warp per block, 32 lines for each load",
        prepare=Sized(_pointer_chase, (8, 32, 4096, 128), (132, 32, 1 << 17, 1024), (264, 32, 1 << 21, 512)),
        reference=_pointer_chase_reference,
    ),
    SuiteKernel(
        name="bandwidth",
        source="bandwidth.cu",
        entry="bandwidth",
        group="micro",
        stands_for="memory bandwidth: a copy with 16 bytes per load and store",
        prepare=Sized(_bandwidth, (8, 10_000), (1056, 4_000_000), (1056, 24_000_000)),
        reference=_bandwidth_reference,
    ),
)
