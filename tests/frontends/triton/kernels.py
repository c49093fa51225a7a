"""Small Triton kernels with unusual arguments."""

import triton
import triton.language as tl


@triton.jit
def transpose(x, y, rows, columns, x_row, x_column, y_row, y_column, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)[:, None]
    j = tl.arange(0, BLOCK)[None, :]
    inside = (i < rows) & (j < columns)
    tl.store(y + j * y_row + i * y_column, tl.load(x + i * x_row + j * x_column, inside), inside)


@triton.jit
def scale(arrays, n, factors, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = arrays
    tl.store(y + i, tl.load(x + i, i < n) * factors[0] + factors[1], i < n)


@triton.jit
def copy_tile(source, target, BLOCK: tl.constexpr):
    place = [tl.program_id(0) * BLOCK, 0]
    target.store(place, source.load(place))


@triton.jit
def add_all(pointers, out, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for each in range(n):
        x = tl.load(pointers + each).to(tl.pointer_type(tl.float32))
        total += tl.load(x + i)
    tl.store(out + i, total)


@triton.jit
def refused(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) + tl.arange(0, 2 * BLOCK))


@triton.jit
def multiply(x, y, out, BLOCK: tl.constexpr):
    place = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    tl.store(out + place, tl.dot(tl.load(x + place), tl.load(y + place)))
