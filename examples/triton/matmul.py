"""Matrix product with fp32 accumulation, in the order that keeps blocks of A and B in the L2. Autotuned."""

from typing import Any

import numpy as np
import triton
import triton.language as tl
from example import Example, normal


@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, a_row, a_column, b_row, b_column, c_row, c_column,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    blocks_m, blocks_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first = program // (GROUP * blocks_n) * GROUP
    rows = min(blocks_m - first, GROUP)
    block_m = first + program % (GROUP * blocks_n) % rows
    block_n = program % (GROUP * blocks_n) // rows
    offsets_m = (block_m * BLOCK_M + tl.arange(0, BLOCK_M)) % M
    offsets_n = (block_n * BLOCK_N + tl.arange(0, BLOCK_N)) % N
    offsets_k = tl.arange(0, BLOCK_K)
    a_tile = a + offsets_m[:, None] * a_row + offsets_k[None, :] * a_column
    b_tile = b + offsets_k[:, None] * b_row + offsets_n[None, :] * b_column
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(tl.cdiv(K, BLOCK_K)):
        left = K - start * BLOCK_K
        a_part = tl.load(a_tile, mask=offsets_k[None, :] < left, other=0.0)
        b_part = tl.load(b_tile, mask=offsets_k[:, None] < left, other=0.0)
        total = tl.dot(a_part, b_part, total)
        a_tile += BLOCK_K * a_column
        b_tile += BLOCK_K * b_row
    offsets_m = block_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offsets_n = block_n * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (offsets_m[:, None] < M) & (offsets_n[None, :] < N)
    tl.store(c + offsets_m[:, None] * c_row + offsets_n[None, :] * c_column, total.to(tl.float16), mask=inside)


CONFIGS = [
    triton.Config({"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "GROUP": 8}, num_warps=8, num_stages=3),
    triton.Config({"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 32, "GROUP": 8}, num_warps=4, num_stages=4),
    triton.Config({"BLOCK_M": 32, "BLOCK_N": 32, "BLOCK_K": 32, "GROUP": 8}, num_warps=2, num_stages=2),
]
matmul = triton.autotune(configs=CONFIGS, key=["M", "N", "K"])(matmul_kernel)


def grid(meta: dict[str, Any]) -> tuple[int]:
    return (triton.cdiv(meta["M"], meta["BLOCK_M"]) * triton.cdiv(meta["N"], meta["BLOCK_N"]),)


def example(size: int = 512, dtype: Any = np.float16, config: int = 1) -> Example:
    a, b = normal((size, size), dtype, 1), normal((size, size), dtype, 2)
    arguments = (a, b, np.zeros((size, size), np.float16), size, size, size, size, 1, size, 1, size, 1)
    product = a.astype(np.float32).astype(float) @ b.astype(np.float32).astype(float)
    return Example(matmul_kernel, grid, arguments, CONFIGS[config].all_kwargs(), {2: product}, 2e-3)
