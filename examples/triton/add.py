"""Vector addition."""

import numpy as np
import triton
import triton.language as tl
from example import Example, normal


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, inside) + tl.load(y + offsets, inside), inside)


def example(n: int = 98432) -> Example:
    x, y = normal((n,), seed=1), normal((n,), seed=2)
    grid = lambda meta: (triton.cdiv(n, meta["BLOCK"]),)  # noqa: E731 (as Triton users write it)
    return Example(add_kernel, grid, (x, y, np.zeros_like(x), n), {"BLOCK": 1024}, {2: x.astype(float) + y})
