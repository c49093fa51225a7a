"""Stencils: a result from the neighbours in a plane or a volume."""

from __future__ import annotations

import numpy as np

from warplens.suite.inputs import blocks, generator, launch_2d, uniform, zeros
from warplens.suite.kernel import Array, Sized, SuiteKernel, SuiteLaunch, Tolerance

_ROUNDING = Tolerance(
    relative=2e-6,
    absolute=2e-6,
    because="about ten additions of terms of size 1, contracted to multiply-adds in an order NumPy does not follow",
)


def _hotspot(width: int, height: int) -> SuiteLaunch:
    rng = generator()
    power = uniform(rng, (height, width), 0.0, 0.01)
    temperature = uniform(rng, (height, width), 320.0, 340.0)
    coefficients = (np.float32(v) for v in (0.5, 0.1, 0.2, 0.01, 80.0))
    output = 12  # a tile of 16 less two rings
    return SuiteLaunch(
        (blocks(width, output), blocks(height, output), 1),
        (16, 16, 1),
        (power, temperature, zeros((height, width)), np.int32(width), np.int32(height), *coefficients),
    )


def _hotspot_reference(launch: SuiteLaunch) -> dict[int, Array]:
    power, temperature, _, _, _, step, inverse_rx, inverse_ry, inverse_rz, ambient = launch.arguments
    now = temperature
    for _ in range(2):
        around = np.pad(now, 1, mode="edge")
        vertical = around[2:, 1:-1] + around[:-2, 1:-1] - 2 * now
        horizontal = around[1:-1, 2:] + around[1:-1, :-2] - 2 * now
        flow = power + vertical * inverse_ry + horizontal * inverse_rx + (ambient - now) * inverse_rz
        now = now + step * flow
    return {2: now}


def _image(width: int, height: int) -> Array:
    """A speckled image without values near zero, which the equations divide by."""
    return np.exp(uniform(generator(), (height, width)))


def _srad_step1(width: int, height: int) -> SuiteLaunch:
    image = _image(width, height)
    outputs = (zeros((height, width)) for _ in range(5))
    return launch_2d(
        width, height, image, *outputs, np.int32(width), np.int32(height), np.float32(0.05), block=(16, 16)
    )


def _srad_step1_reference(launch: SuiteLaunch) -> dict[int, Array]:
    image, q0_squared = launch.arguments[0], launch.arguments[8]
    around = np.pad(image, 1, mode="edge")
    north, south = around[:-2, 1:-1] - image, around[2:, 1:-1] - image
    west, east = around[1:-1, :-2] - image, around[1:-1, 2:] - image
    one = np.float32(1)
    gradient = (north * north + south * south + west * west + east * east) / (image * image)
    laplacian = (north + south + west + east) / image
    q_squared = (gradient / 2 - laplacian * laplacian / 16) / np.square(one + laplacian / 4)
    coefficient = one / (one + (q_squared - q0_squared) / (q0_squared * (one + q0_squared)))
    return {1: north, 2: south, 3: west, 4: east, 5: np.clip(coefficient, 0, 1)}


def _srad_step2(width: int, height: int) -> SuiteLaunch:
    step1 = _srad_step1(width, height)
    after = _srad_step1_reference(step1)
    differences = (after[i] for i in range(1, 6))
    return launch_2d(
        width,
        height,
        *differences,
        step1.arguments[0],
        np.int32(width),
        np.int32(height),
        np.float32(0.5),
        block=(16, 16),
    )


def _srad_step2_reference(launch: SuiteLaunch) -> dict[int, Array]:
    north, south, west, east, coefficient, image, _, _, rate = launch.arguments
    around = np.pad(coefficient, ((0, 1), (0, 1)), mode="edge")
    divergence = coefficient * (north + west) + around[1:, :-1] * south + around[:-1, 1:] * east
    return {5: image + rate / 4 * divergence}


def _fdtd3d(width: int, height: int, depth: int, planes_per_block: int) -> SuiteLaunch:
    radius = 4
    volume = uniform(generator(), (depth + 2 * radius, height + 2 * radius, width + 2 * radius))
    coefficients = np.array([0.5, 0.04, 0.02, 0.01, 0.005], np.float32)
    sizes = (np.int32(v) for v in (width, height, depth, planes_per_block))
    return SuiteLaunch(
        (width // 32, height // 8, blocks(depth, planes_per_block)),
        (32, 8, 1),
        (volume, zeros(volume.shape), coefficients, *sizes),
    )


def _fdtd3d_reference(launch: SuiteLaunch) -> dict[int, Array]:
    volume, output, coefficients = launch.arguments[:3]
    radius = len(coefficients) - 1
    inner = tuple(slice(radius, n - radius) for n in volume.shape)
    result = coefficients[0] * volume[inner]
    for distance in range(1, radius + 1):
        for axis in range(3):
            for offset in (-distance, distance):
                moved = list(inner)
                moved[axis] = slice(radius + offset, volume.shape[axis] - radius + offset)
                result += coefficients[distance] * volume[tuple(moved)]
    expected = output.copy()
    expected[inner] = result
    return {1: expected}


def _convolution_2d(width: int, height: int) -> SuiteLaunch:
    plane = uniform(generator(), (height, width))
    return launch_2d(width, height, plane, zeros(plane.shape), np.int32(width), np.int32(height))


def _convolution_2d_reference(launch: SuiteLaunch) -> dict[int, Array]:
    plane, output = launch.arguments[:2]
    weights = ((0.2, 0.5, -0.8), (-0.3, 0.6, -0.9), (0.4, 0.7, 0.1))
    height, width = plane.shape
    expected = output.copy()
    for dy, row in enumerate(weights):
        for dx, weight in enumerate(row):
            expected[1:-1, 1:-1] += np.float32(weight) * plane[dy : height - 2 + dy, dx : width - 2 + dx]
    return {1: expected}


def _stencil_3d(width: int, height: int, depth: int) -> SuiteLaunch:
    volume = uniform(generator(), (depth, height, width))
    block = (32, 4, 2)
    return SuiteLaunch(
        (blocks(width, block[0]), blocks(height, block[1]), blocks(depth, block[2])),
        block,
        (
            volume,
            zeros(volume.shape),
            *(np.int32(v) for v in (width, height, depth)),
            np.float32(0.6),
            np.float32(0.1),
        ),
    )


def _stencil_3d_reference(launch: SuiteLaunch) -> dict[int, Array]:
    volume, output, _, _, _, centre_weight, neighbour_weight = launch.arguments
    neighbours = (
        volume[1:-1, 1:-1, :-2]
        + volume[1:-1, 1:-1, 2:]
        + volume[1:-1, :-2, 1:-1]
        + volume[1:-1, 2:, 1:-1]
        + volume[:-2, 1:-1, 1:-1]
        + volume[2:, 1:-1, 1:-1]
    )
    expected = output.copy()
    expected[1:-1, 1:-1, 1:-1] = neighbour_weight * neighbours - centre_weight * volume[1:-1, 1:-1, 1:-1]
    return {1: expected}


KERNELS = (
    SuiteKernel(
        name="hotspot",
        source="hotspot.cu",
        entry="hotspot",
        group="non-divergent",
        stands_for="Rodinia Hotspot: 2-D thermal stencil, two time steps in a shrinking tile of shared memory",
        prepare=Sized(_hotspot, (50, 40), (1600, 1400), (4096, 4096)),
        reference=_hotspot_reference,
        tolerance=Tolerance(
            relative=2e-6, because="two steps of about ten additions of terms near 330, contracted to multiply-adds"
        ),
    ),
    SuiteKernel(
        name="srad_step1",
        source="srad.cu",
        entry="srad_step1",
        group="non-divergent",
        stands_for="Rodinia SRAD, first kernel: gradients and diffusion coefficient, divisions, five stores",
        prepare=Sized(_srad_step1, (90, 60), (1700, 1600), (4096, 3072)),
        reference=_srad_step1_reference,
        tolerance=Tolerance(
            relative=2e-6,
            absolute=4e-6,
            because="q² is a difference of terms up to 1, and dividing by q0² = 0.05 makes its error larger",
        ),
    ),
    SuiteKernel(
        name="srad_step2",
        source="srad.cu",
        entry="srad_step2",
        group="non-divergent",
        stands_for="Rodinia SRAD, second kernel: divergence and update, seven loads for each store",
        prepare=Sized(_srad_step2, (90, 60), (1700, 1600), (4096, 3072)),
        reference=_srad_step2_reference,
        tolerance=_ROUNDING,
    ),
    SuiteKernel(
        name="fdtd3d",
        source="fdtd3d.cu",
        entry="fdtd3d",
        group="non-divergent",
        stands_for="CUDA samples' FDTD3d: radius-4 stencil marching along z with registers and shared memory",
        prepare=Sized(_fdtd3d, (32, 16, 10, 5), (256, 256, 64, 16), (512, 512, 128, 32)),
        reference=_fdtd3d_reference,
        tolerance=_ROUNDING,
    ),
    SuiteKernel(
        name="convolution_2d",
        source="convolution_2d.cu",
        entry="convolution_2d",
        group="non-divergent",
        stands_for="Polybench 2DCONV: 3×3 convolution of a plane straight from global memory",
        prepare=Sized(_convolution_2d, (130, 90), (2600, 2400), (8192, 6144)),
        reference=_convolution_2d_reference,
        tolerance=_ROUNDING,
    ),
    SuiteKernel(
        name="stencil_3d",
        source="stencil_3d.cu",
        entry="stencil_3d",
        group="non-divergent",
        stands_for="Parboil stencil: 7-point Jacobi step on a volume, one cell per thread",
        prepare=Sized(_stencil_3d, (40, 20, 14), (256, 256, 96), (512, 512, 128)),
        reference=_stencil_3d_reference,
        tolerance=_ROUNDING,
    ),
)
