"""Images: filters over pixels of three bytes, and a small ray tracer."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from warplens.suite.inputs import generator, launch_1d, launch_2d, uniform, zeros
from warplens.suite.kernel import Array, Sized, SuiteKernel, SuiteLaunch, Tolerance


def _photograph(width: int, height: int) -> NDArray[np.uint8]:
    return generator().integers(0, 256, (height, width, 3), dtype=np.uint8)


def _sepia(width: int, height: int) -> SuiteLaunch:
    image = _photograph(width, height)
    return launch_1d(width * height, image, zeros(image.shape, np.uint8), np.int32(width * height))


def _sepia_reference(launch: SuiteLaunch) -> dict[int, Array]:
    image = launch.arguments[0]
    red, green, blue = (image[..., channel].astype(np.int32) for channel in range(3))
    expected = np.empty_like(image)
    for channel, weights in enumerate(((393, 769, 189), (349, 686, 168), (272, 534, 131))):
        toned = (weights[0] * red + weights[1] * green + weights[2] * blue) // 1000
        expected[..., channel] = np.minimum(toned, 255)
    return {1: expected}


def _linear_filter(width: int, height: int) -> SuiteLaunch:
    image = _photograph(width, height)
    return launch_2d(width, height, image, zeros(image.shape, np.uint8), np.int32(width), np.int32(height))


def _linear_filter_reference(launch: SuiteLaunch) -> dict[int, Array]:
    image = launch.arguments[0]
    height, width, _ = image.shape
    total = np.zeros((height - 2, width - 2, 3), np.uint16)
    for dy in range(3):
        for dx in range(3):
            total += image[dy : height - 2 + dy, dx : width - 2 + dx]
    expected = image.copy()
    expected[1:-1, 1:-1] = total // 9
    return {1: expected}


def _ray_tracing(width: int, height: int, spheres: int) -> SuiteLaunch:
    rng = generator()
    scene = np.empty((spheres, 6), np.float32)
    scene[:, :3] = uniform(rng, (spheres, 3), -2.0, 2.0)
    scene[:, 2] += 2.0  # in front of the eye
    scene[:, 3] = uniform(rng, spheres, 0.3, 1.0)
    scene[:, 4:] = uniform(rng, (spheres, 2), 0.3, 0.9)
    image = zeros((height, width))
    return launch_2d(width, height, scene, np.int32(spheres), image, np.int32(width), np.int32(height), block=(16, 8))


def _dot(a: Array, b: Array) -> Array:
    return np.einsum("...i,...i->...", a, b)


def _ray_tracing_reference(launch: SuiteLaunch) -> dict[int, Array]:
    scene, _, image = launch.arguments[:3]
    height, width = image.shape
    light = np.array([0.48, 0.8, -0.36], np.float32)
    y, x = np.mgrid[0:height, 0:width].astype(np.float32).reshape(2, -1)
    direction = np.stack([(x + 0.5 - width / 2) / height, (height / 2 - y - 0.5) / height, np.ones_like(x)], axis=1)
    direction /= np.sqrt(_dot(direction, direction))[:, None]
    origin = np.tile(np.array([0, 0, -4], np.float32), (x.size, 1))
    colour, weight, pixel = zeros(x.size), np.ones(x.size, np.float32), np.arange(x.size)
    for _ in range(3):
        distance, hit = _nearest_sphere(scene, origin, direction)
        colour[pixel[hit < 0]] += weight[hit < 0] * np.float32(0.1)
        going = hit >= 0
        pixel, sphere, direction = pixel[going], scene[hit[going]], direction[going]
        origin = origin[going] + distance[going, None] * direction
        normal = (origin - sphere[:, :3]) / sphere[:, 3:4]
        diffuse = np.maximum(normal @ light, 0)
        colour[pixel] += weight[going] * sphere[:, 4] * (np.float32(0.2) + np.float32(0.8) * diffuse)
        weight = weight[going] * sphere[:, 5]
        direction = direction - 2 * _dot(direction, normal)[:, None] * normal
    return {2: colour.reshape(image.shape)}


def _nearest_sphere(scene: Array, origin: Array, direction: Array) -> tuple[Array, NDArray[np.int64]]:
    """Distance and index of the first sphere along each ray; index -1 where there is none."""
    nearest = np.full(len(origin), 1e30, np.float32)
    hit = np.full(len(origin), -1)
    for index, sphere in enumerate(scene):
        offset = origin - sphere[:3]
        b = _dot(offset, direction)
        discriminant = b * b - (_dot(offset, offset) - sphere[3] * sphere[3])
        distance = -b - np.sqrt(np.maximum(discriminant, 0))
        closer = (discriminant > 0) & (distance > 1e-3) & (distance < nearest)
        nearest[closer] = distance[closer]
        hit[closer] = index
    return nearest, hit


KERNELS = (
    SuiteKernel(
        name="sepia",
        source="sepia.cu",
        entry="sepia",
        group="non-divergent",
        stands_for="Merge Sepia of mwp-cwp-isca2009: three byte loads and three byte stores a pixel, 3 bytes apart",
        prepare=Sized(_sepia, (100, 70), (2700, 2700), (7000, 7000)),
        reference=_sepia_reference,
    ),
    SuiteKernel(
        name="linear_filter",
        source="linear_filter.cu",
        entry="linear_filter",
        group="non-divergent",
        stands_for="Merge Linear of mwp-cwp-isca2009: average of 9 pixels, 27 byte loads and three byte stores",
        prepare=Sized(_linear_filter, (75, 50), (2100, 1500), (6000, 6000)),
        reference=_linear_filter_reference,
    ),
    SuiteKernel(
        name="ray_tracing",
        source="ray_tracing.cu",
        entry="ray_tracing",
        group="non-divergent",
        stands_for="GPGPU-Sim's RAY: spheres with reflections, square roots and branches that split warps",
        prepare=Sized(_ray_tracing, (40, 30, 12), (1100, 800, 16), (2560, 1440, 16)),
        reference=_ray_tracing_reference,
        tolerance=Tolerance(
            relative=1e-2,
            absolute=2e-3,
            outlier_share=1e-4,
            because="a reflection multiplies the error of a ray by about its distance over the radius, twice; "
            "rays that graze a sphere hit or miss by their last bits",
        ),
    ),
)
