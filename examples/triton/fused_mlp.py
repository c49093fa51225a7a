"""A gated MLP's first half in one kernel: silu(x @ gate) * (x @ up)."""

import numpy as np
import triton
import triton.language as tl
from example import Example, normal


@triton.jit
def mlp_kernel(x, gate, up, out, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    gated = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    lifted = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        part = tl.load(x + rows[:, None] * K + (start + inner)[None, :])
        weights = (start + inner)[:, None] * N + columns[None, :]
        gated = tl.dot(part, tl.load(gate + weights), gated)
        lifted = tl.dot(part, tl.load(up + weights), lifted)
    result = gated * tl.sigmoid(gated) * lifted
    tl.store(out + rows[:, None] * N + columns[None, :], result.to(tl.float16))


def example(rows: int = 256, hidden: int = 512, inner: int = 256) -> Example:
    x = normal((rows, inner), np.float16, 1)
    gate, up = (normal((inner, hidden), np.float16, seed) / np.float16(16) for seed in (2, 3))
    gated, lifted = x.astype(float) @ gate.astype(float), x.astype(float) @ up.astype(float)
    arguments = (x, gate, up, np.zeros((rows, hidden), np.float16), rows, hidden, inner)
    options = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 3}
    expected = {3: gated / (1 + np.exp(-gated)) * lifted}
    return Example(mlp_kernel, (rows // 64, hidden // 64), arguments, options, expected, 2e-3)
