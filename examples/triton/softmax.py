"""Softmax of rows, one row a program."""

import numpy as np
import triton
import triton.language as tl
from example import Example, normal


@triton.jit
def softmax_kernel(out, x, x_stride, out_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    values = tl.load(x + row * x_stride + offsets, inside, other=-float("inf"))
    numerator = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * out_stride + offsets, numerator / tl.sum(numerator, axis=0), inside)


def example(rows: int = 256, columns: int = 781) -> Example:
    x = normal((rows, columns))
    exponential = np.exp(x.astype(float) - x.max(axis=1, keepdims=True))
    options = {"BLOCK": triton.next_power_of_2(columns), "num_warps": 8}
    arguments = (np.zeros_like(x), x, columns, columns, columns)
    expected = {0: exponential / exponential.sum(axis=1, keepdims=True)}
    return Example(softmax_kernel, (rows,), arguments, options, expected)
