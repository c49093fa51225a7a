"""Layer normalisation of rows, with mean and reciprocal standard deviation for the backward pass."""

import numpy as np
import triton
import triton.language as tl
from example import Example, normal


@triton.jit
def layer_norm_kernel(x, y, weight, bias, mean, rstd, stride, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    x += row * stride
    y += row * stride
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x + offsets, offsets < columns, other=0.0).to(tl.float32)
    average = tl.sum(total, axis=0) / columns
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        value = tl.load(x + offsets, offsets < columns, other=0.0).to(tl.float32)
        difference = tl.where(offsets < columns, value - average, 0.0)
        squares += difference * difference
    scale = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns + eps)
    tl.store(mean + row, average)
    tl.store(rstd + row, scale)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        inside = offsets < columns
        value = (tl.load(x + offsets, inside, other=0.0).to(tl.float32) - average) * scale
        tl.store(y + offsets, value * tl.load(weight + offsets, inside) + tl.load(bias + offsets, inside), inside)


def example(rows: int = 256, columns: int = 2048) -> Example:
    x = normal((rows, columns), np.float16)
    weight, bias = normal((columns,), seed=1), normal((columns,), seed=2)
    wide = x.astype(float)
    average, scale = wide.mean(axis=1), 1 / np.sqrt(wide.var(axis=1) + 1e-5)
    means = np.zeros(rows, np.float32)
    arguments = (x, np.zeros_like(x), weight, bias, means, means.copy(), columns, columns, 1e-5)
    expected = {1: (wide - average[:, None]) * scale[:, None] * weight + bias, 5: scale}
    return Example(layer_norm_kernel, (rows,), arguments, {"BLOCK": 1024, "num_warps": 8}, expected, 1e-3)
