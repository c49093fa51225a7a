"""What the kernels of each pair must compute, in NumPy.

A function per pair, named like it. It takes the kernel's arguments before the
launch and gives the expected content of the array that the kernel writes, the
last one. Where fault and cure lay out data differently, `fault` says which it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def expected(pair: str, kernel: str, arguments: Sequence[Any], constants: Mapping[str, Array]) -> Array:
    """The last argument after a launch of the pair's kernel `fault` or `cure`."""
    function = globals()[pair.replace("-", "_")]
    given = {"fault": kernel == "fault", **constants}
    return function(*arguments, **{name: given[name] for name in signature(function).parameters if name in given})


def largest_error(found: Array, wanted: Array) -> float:
    """The largest difference, relative to the largest magnitude that is wanted."""
    scale = float(abs(wanted).max()) or 1.0
    return float(abs(found.astype(np.float64) - wanted).max()) / scale


def transpose_loads(n, matrix, out):
    return matrix.T


transpose_stores = transpose_conflicts = transpose_loads


def structures_loads(count, particles, distance, *, fault):
    fields = (particles if fault else particles.T)[:, :3].astype(np.float64)
    return (fields**2).sum(axis=1) ** 0.5


def structures_stores(count, t, speed, records, *, fault):
    filled = (records if fault else records.T).astype(np.float64)
    speed = speed.astype(np.float64)
    filled[:, 0] = speed * t - 4.905 * t**2
    filled[:, 5] = speed - 9.81 * t
    filled[:, 10] = 0.5 * speed**2
    return filled if fault else filled.T


def row_sums(rows, columns, matrix, sums):
    return matrix.sum(axis=1, dtype=np.float64)


def index_order(width, height, depth, volume, most):
    return volume.max(axis=0)


def matmul_conflicts(n, inner, a, b, c):
    return a.astype(np.float64) @ b.T.astype(np.float64)


def private_counters(words, values, counts):
    halves = values[:, None] >> np.arange(0, 32, 4, dtype=values.dtype) & 15
    return _by_block(halves, None, counts)


def histogram_global(count, values, bins):
    return np.bincount(values, minlength=256)


def sum_atomics(count, values, total):
    return values.sum(dtype=np.float64).reshape(1)


def segment_sums(count, keys, values, sums):
    return np.bincount(keys, values, minlength=sums.size)


def histogram_shared(count, weights, values, bins):
    return _by_block(values[:, None], weights, bins)


def _by_block(values, weights, bins):
    """Sums by value for each block of 256 threads, which the grid's loop gives 256 rows at a time."""
    blocks = len(bins)
    block = np.arange(len(values)) // 256 % blocks
    return np.bincount((block[:, None] * 16 + values).ravel(), weights, minlength=16 * blocks).reshape(blocks, 16)


def few_blocks(columns, matrix, norms):
    return (matrix.astype(np.float64) ** 2).sum(axis=1)


def single_block(count, values, out):
    return np.exp(values.astype(np.float64) - float(values[0]))


def tail_wave(count, segment, passes, samples, out):
    made = samples.astype(np.float64)
    for first in range(0, int(count), int(segment)):
        part = made[first : first + int(segment)]
        for start in range(int(passes)):
            pairs = (part.size - start % 2) // 2
            both = part[start % 2 : start % 2 + 2 * pairs].reshape(pairs, 2)
            both[:] = 0.75 * both + 0.25 * both[:, ::-1]
    return made


def uneven_waves(count, piece, steps, start, out):
    x = start.astype(np.float64)
    for _ in range(int(steps)):
        x = 2.7 * x * (1.0 - x)
    return x


def triangle(n, matrix, x, y):
    return np.tril(matrix).astype(np.float64) @ x.astype(np.float64)


def occupancy_registers(threads, steps, coefficients, x, out):
    x, total = x.astype(np.float64), 0.0
    for coefficient in coefficients[::-1]:
        total = total * x + float(coefficient)
    return total


def occupancy_shared(count, table, index, out):
    return table[index]


def occupancy_block(threads, samples, values, out):
    state = np.full_like(out, 0x811C9DC5)
    running = np.ones_like(out, dtype=bool)
    for row in values:
        running &= row != 0
        mixed = (state ^ row) * row.dtype.type(0x01000193)
        state = np.where(running, mixed ^ (mixed >> 15), state)
    return state


def early_exit(threads, terms, series, sums):
    running = np.cumsum(series < 0.0, axis=0) == 0
    return (series * running).sum(axis=0, dtype=np.float64)


def dependent_gather(threads, steps, index, table, sums):
    return table[index].sum(axis=0, dtype=np.float64)


def synchronous_tiles(columns, inner, a, b, c):
    return a.astype(np.float64) @ b.astype(np.float64)


def column_filter(quads, height, image, out, *, taps):
    image = image.astype(np.float64)
    return sum(float(tap) * image[k : k + int(height)] for k, tap in enumerate(taps))


def row_normalise(quads, rows, out):
    rows = rows.astype(np.float64)
    centred = rows - rows.mean(axis=1, keepdims=True)
    return centred / (centred**2).mean(axis=1, keepdims=True) ** 0.5


def matmul_naive(n, inner, a, b, c):
    return a.astype(np.float64) @ b.astype(np.float64)


def blur(width, height, image, out, *, weights):
    image, (width, height) = image.astype(np.float64), (int(width), int(height))
    return sum(
        float(weight) * image[j : j + height, i : i + width]
        for j, row in enumerate(weights)
        for i, weight in enumerate(row)
    )


def byte_image(count, image, out):
    return 255 - image


def saxpy(count, a, x, y):
    return float(a) * x.astype(np.float64) + y


def local_array(threads, values, samples, least):
    return np.sort(samples, axis=0)[:8]


def spills(threads, samples, values, out):
    values = values.reshape(int(samples), 12, int(threads)).astype(np.float64)
    return np.stack([(values[:, i] * values[:, j]).sum(axis=0) for i in range(12) for j in range(i + 1)])


def lane_parity(steps, samples, out):
    even, odd = samples[::2].astype(np.float64), samples[1::2].astype(np.float64)
    relaxed, position, speed = np.ones_like(even), odd, np.zeros_like(odd)
    for _ in range(int(steps)):
        relaxed = 0.5 * relaxed + 0.25 * even * (3.0 - relaxed**2)
        speed = 0.98 * speed - 0.05 * position
        position = position + 0.05 * speed
    return np.stack([relaxed, position], axis=1).reshape(-1)


def uneven_loops(points, samples, out):
    degree = 2 * (np.arange(samples.size) % 32) + 1
    return sum(np.cos(degree * np.arccos(samples.astype(np.float64) / (k + 1))) for k in range(int(points)))


def serial_sum(chunks, samples, out):
    return samples - samples.mean(axis=1, keepdims=True, dtype=np.float64)


def double_literals(steps, start, end):
    position, speed = start.astype(np.float64), 0.0
    for _ in range(int(steps)):
        speed = 0.99 * speed - 0.02 * position
        position = position + 0.02 * speed
    return position


def permute(channels, height, width, count, values, out):
    return values.transpose(0, 2, 1, 3)


def ring_buffer(length, taps, stride, ring, values, out):
    made = values.astype(np.float64)
    place = np.arange(values.size)
    for tap in range(int(taps)):
        made = 0.75 * made + ring[(place + tap * int(stride)) % int(length)]
    return made


def softplus(rounds, values, out):
    x = values.astype(np.float64)
    for _ in range(int(rounds)):
        e = np.exp(-x)
        x = np.log(1.0 + e) + x / (1.0 + e)
    return x


def oscillators(partials, phase, gain, out):
    angle = phase.astype(np.float64)
    return sum(float(g) * np.sin(angle * float(g)) + 0.5 * np.cos(angle * float(g)) for g in gain)


def power(shifts, values, out):
    return sum((values.astype(np.float64) + 0.125 * k) ** 1.5 for k in range(int(shifts)))


def integer_counter(points, step, values, out):
    a, stride, step = values.astype(np.float64), np.arange(values.size) & 7, float(step)
    total = 0.0
    for point in range(int(points)):
        place = stride * (point * step)
        total = total + place * (a - place)
    return total * step


def missed_fma(terms, coefficients, values, out):
    x, total = values.astype(np.float64), 0.0
    for start in (1.0, 2.0, 3.0, 4.0):
        chain = start
        for coefficient in coefficients:
            chain = chain * x + float(coefficient)
        total = total + chain
    return total


def half_product(columns, inner, a, b, c):
    return a.astype(np.float64) @ b.T.astype(np.float64)


def constant_table(count, values, out, *, curve):
    return curve[values]


def tiny_launch(count, batch, bias, values, *, fault):
    made = values.astype(np.float64)
    made[batch if fault else slice(None)] += bias
    return made


def border_checks(width, height, image, out, *, weights):
    padded = np.pad(image.astype(np.float64), 3, mode="edge")
    width, height = int(width), int(height)
    return sum(
        float(weight) * padded[j : j + height, i : i + width]
        for j, row in enumerate(weights)
        for i, weight in enumerate(row)
    )


def generic_table(entries, steps, table, start, end):
    state = start
    for step in range(int(steps)):
        state = table[(state + step) & (int(entries) - 1)]
    return state
