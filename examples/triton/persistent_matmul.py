"""A matrix product with as many programs as the GPU has SMs; each takes tile after tile."""

import numpy as np
import triton
import triton.language as tl
from example import Example, normal


@triton.jit
def persistent_kernel(
    a, b, c, M, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, PROGRAMS: tl.constexpr,
):  # fmt: skip
    blocks_n = tl.cdiv(N, BLOCK_N)
    tiles = tl.cdiv(M, BLOCK_M) * blocks_n
    inner = tl.arange(0, BLOCK_K)
    for tile in range(tl.program_id(0), tiles, PROGRAMS):
        rows = tile // blocks_n * BLOCK_M + tl.arange(0, BLOCK_M)
        columns = tile % blocks_n * BLOCK_N + tl.arange(0, BLOCK_N)
        total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
        for start in range(0, K, BLOCK_K):
            left = tl.load(a + rows[:, None] * K + (start + inner)[None, :])
            right = tl.load(b + (start + inner)[:, None] * N + columns[None, :])
            total = tl.dot(left, right, total)
        tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))


def example(size: int = 512, programs: int = 24) -> Example:
    a, b = normal((size, size), np.float16, 1), normal((size, size), np.float16, 2)
    arguments = (a, b, np.zeros_like(a), size, size, size)
    options = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "PROGRAMS": programs, "num_warps": 4, "num_stages": 3}
    return Example(persistent_kernel, (programs,), arguments, options, {2: a.astype(float) @ b.astype(float)}, 2e-3)
