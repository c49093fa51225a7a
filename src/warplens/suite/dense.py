"""Dense arrays: vectors, sums, matrix products, transposition, option prices."""

from __future__ import annotations

import numpy as np

from warplens.suite.inputs import blocks, generator, launch_1d, launch_2d, uniform, zeros
from warplens.suite.kernel import Array, Sized, SuiteKernel, SuiteLaunch, Tolerance


def _vector_add(n: int) -> SuiteLaunch:
    rng = generator()
    return launch_1d(n, uniform(rng, n), uniform(rng, n), zeros(n), np.int32(n))


def _vector_add_reference(launch: SuiteLaunch) -> dict[int, Array]:
    a, b = launch.arguments[:2]
    return {2: a + b}


def _reduction(n: int, grid: int) -> SuiteLaunch:
    return SuiteLaunch((grid, 1, 1), (256, 1, 1), (uniform(generator(), n), zeros(grid), np.int32(n)))


def _reduction_reference(launch: SuiteLaunch) -> dict[int, Array]:
    values = launch.arguments[0]
    grid, block = launch.grid[0], launch.block[0]
    rounds = blocks(len(values), grid * block)
    padded = np.zeros(rounds * grid * block, np.float32)
    padded[: len(values)] = values
    sums = padded.reshape(rounds, grid, block).sum(axis=(0, 2), dtype=np.float64)
    return {1: sums.astype(np.float32)}


def _matmul(rows: int, columns: int, inner: int) -> SuiteLaunch:
    rng = generator()
    a, b = uniform(rng, (rows, inner), -1, 1), uniform(rng, (inner, columns), -1, 1)
    sizes = (np.int32(v) for v in (rows, columns, inner))
    return launch_2d(columns, rows, a, b, zeros((rows, columns)), *sizes, block=(16, 16))


def _matmul_reference(launch: SuiteLaunch) -> dict[int, Array]:
    a, b = launch.arguments[:2]
    return {2: (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32)}


_MATMUL_SIZES = Sized(_matmul, (60, 50, 36), (512, 512, 256), (1024, 1024, 1024))
_MATMUL_TOLERANCE = Tolerance(
    absolute=1.5e-4,
    because="1024 products below 1 of either sign added one by one: roundings at partial sums of about 10 are a "
    "random walk of 1024 steps with a deviation of 1e-5, of which fifteen are allowed",
)


def _matmul_tensor(rows: int, columns: int, inner: int) -> SuiteLaunch:
    rng = generator()
    a, b = (uniform(rng, (n, inner), -1, 1).astype(np.float16) for n in (rows, columns))
    arguments = (a, b, zeros((rows, columns)), np.int32(columns), np.int32(inner))
    return SuiteLaunch((columns // 64, rows // 64, 1), (128, 1, 1), arguments)


def _matmul_tensor_reference(launch: SuiteLaunch) -> dict[int, Array]:
    a, b = (m.astype(np.float64) for m in launch.arguments[:2])
    return {2: (a @ b.T).astype(np.float32)}


def _transpose_arguments(rows: int, columns: int) -> tuple[Array, Array, np.int32, np.int32]:
    return uniform(generator(), (rows, columns)), zeros((columns, rows)), np.int32(rows), np.int32(columns)


def _transpose_naive(rows: int, columns: int) -> SuiteLaunch:
    return launch_2d(rows, columns, *_transpose_arguments(rows, columns))


def _transpose_tiled(rows: int, columns: int) -> SuiteLaunch:
    grid = (blocks(columns, 32), blocks(rows, 32), 1)
    return SuiteLaunch(grid, (32, 8, 1), _transpose_arguments(rows, columns))


def _transpose_reference(launch: SuiteLaunch) -> dict[int, Array]:
    return {1: np.ascontiguousarray(launch.arguments[0].T)}


_TRANSPOSE_SIZES = ((130, 70), (4096, 1664), (8192, 4096))


def _black_scholes(n: int) -> SuiteLaunch:
    rng = generator()
    stock, strike, years = uniform(rng, n, 5, 30), uniform(rng, n, 1, 100), uniform(rng, n, 0.25, 10)
    return launch_1d(
        n, stock, strike, years, zeros(n), zeros(n), np.float32(0.02), np.float32(0.3), np.int32(n), block=128
    )


def normal_distribution(d: Array) -> Array:
    """Abramowitz and Stegun 26.2.17, within 7.5e-8."""
    k = 1 / (1 + 0.2316419 * np.abs(d))
    powers = (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.319381530, 0.0)
    tail = np.exp(-0.5 * d * d) / np.sqrt(2 * np.pi) * np.polyval(powers, k)
    return np.where(d > 0, 1 - tail, tail)


def _black_scholes_reference(launch: SuiteLaunch) -> dict[int, Array]:
    stock, strike, years = (a.astype(np.float64) for a in launch.arguments[:3])
    rate, volatility = (float(a) for a in launch.arguments[5:7])
    deviation = volatility * np.sqrt(years)
    d1 = (np.log(stock / strike) + (rate + volatility**2 / 2) * years) / deviation
    n1, n2 = normal_distribution(d1), normal_distribution(d1 - deviation)
    discounted = strike * np.exp(-rate * years)
    call = stock * n1 - discounted * n2
    put = discounted * (1 - n2) - stock * (1 - n1)
    return {3: call.astype(np.float32), 4: put.astype(np.float32)}


KERNELS = (
    SuiteKernel(
        name="vector_add",
        source="vector_add.cu",
        entry="vector_add",
        group="non-divergent",
        stands_for="the simplest streaming kernel: two coalesced loads, one addition, one store",
        prepare=Sized(_vector_add, (20_000,), (6_400_000,), (32_000_000,)),
        reference=_vector_add_reference,
    ),
    SuiteKernel(
        name="reduction",
        source="reduction.cu",
        entry="reduction",
        group="non-divergent",
        stands_for="sum of an array: grid-stride loads, shuffles within warps, shared memory between them",
        prepare=Sized(_reduction, (30_000, 8), (19_000_000, 2112), (64_000_000, 2112)),
        reference=_reduction_reference,
        tolerance=Tolerance(
            relative=1e-5,
            because="up to 120 positive terms a thread, then a tree: at most about 130 roundings of 6e-8",
        ),
    ),
    SuiteKernel(
        name="matmul_naive",
        source="matmul.cu",
        entry="matmul_naive",
        group="non-divergent",
        stands_for="Merge matrix product (naive) of mwp-cwp-isca2009: every operand from global memory",
        prepare=_MATMUL_SIZES,
        reference=_matmul_reference,
        tolerance=_MATMUL_TOLERANCE,
    ),
    SuiteKernel(
        name="matmul_tiled",
        source="matmul.cu",
        entry="matmul_tiled",
        group="non-divergent",
        stands_for="Merge matrix product (tiled) of mwp-cwp-isca2009: 16×16 tiles in shared memory, barriers",
        prepare=_MATMUL_SIZES,
        reference=_matmul_reference,
        tolerance=_MATMUL_TOLERANCE,
    ),
    SuiteKernel(
        name="matmul_tensor",
        source="matmul_tensor.cu",
        entry="matmul_tensor",
        group="non-divergent",
        stands_for="a matrix product of today: half precision on tensor cores, asynchronous copies, two buffers",
        prepare=Sized(_matmul_tensor, (128, 128, 96), (2048, 2048, 512), (4096, 2048, 1024)),
        reference=_matmul_tensor_reference,
        tolerance=Tolerance(
            absolute=5e-4,
            because="1024 exact products below 1 of either sign; tensor cores add 16 of them to a sum at a time and "
            "cut off what lies below its last bits, at sums up to 64",
        ),
    ),
    SuiteKernel(
        name="transpose_naive",
        source="transpose.cu",
        entry="transpose_naive",
        group="divergent",
        stands_for="transposition without shared memory: every load of a warp goes to 32 rows",
        prepare=Sized(_transpose_naive, *_TRANSPOSE_SIZES),
        reference=_transpose_reference,
    ),
    SuiteKernel(
        name="transpose_tiled",
        source="transpose.cu",
        entry="transpose_tiled",
        group="non-divergent",
        stands_for="the remedy for transpose_naive: a padded tile of shared memory makes both sides coalesced",
        prepare=Sized(_transpose_tiled, *_TRANSPOSE_SIZES),
        reference=_transpose_reference,
    ),
    SuiteKernel(
        name="black_scholes",
        source="black_scholes.cu",
        entry="black_scholes",
        group="non-divergent",
        stands_for="Merge Blackscholes of mwp-cwp-isca2009: exponentials, logarithm, square root and divisions",
        prepare=Sized(_black_scholes, (3000,), (2_800_000,), (8_000_000,)),
        reference=_black_scholes_reference,
        tolerance=Tolerance(
            relative=1e-5,
            absolute=5e-5,
            because="prices are differences of terms up to 100, of which 1 - N loses another few units of 6e-8",
        ),
    ),
)
