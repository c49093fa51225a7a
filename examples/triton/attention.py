"""Forward pass of attention with an online softmax (FlashAttention-2)."""

import numpy as np
import triton
import triton.language as tl
from example import Example, normal


@triton.jit
def attention_kernel(
    q, k, v, out, scale, length, head_stride,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1) * head_stride
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns, depth = tl.arange(0, BLOCK_N), tl.arange(0, D)
    query = tl.load(q + head + rows[:, None] * D + depth[None, :])
    largest = tl.full([BLOCK_M], -float("inf"), tl.float32)
    weight = tl.zeros([BLOCK_M], tl.float32)
    total = tl.zeros([BLOCK_M, D], tl.float32)
    for start in range(0, length, BLOCK_N):
        key = tl.load(k + head + (start + columns)[None, :] * D + depth[:, None])
        scores = tl.dot(query, key) * scale
        reached = tl.maximum(largest, tl.max(scores, 1))
        share = tl.exp2(scores - reached[:, None])
        decay = tl.exp2(largest - reached)
        weight = weight * decay + tl.sum(share, 1)
        value = tl.load(v + head + (start + columns)[:, None] * D + depth[None, :])
        total = tl.dot(share.to(tl.float16), value, total * decay[:, None])
        largest = reached
    tl.store(out + head + rows[:, None] * D + depth[None, :], (total / weight[:, None]).to(tl.float16))


def example(heads: int = 4, length: int = 512, depth: int = 64) -> Example:
    q, k, v = (normal((heads, length, depth), np.float16, seed) for seed in (1, 2, 3))
    scores = np.einsum("hid,hjd->hij", q.astype(float), k.astype(float)) / np.sqrt(depth)
    share = np.exp(scores - scores.max(axis=2, keepdims=True))
    expected = np.einsum("hij,hjd->hid", share / share.sum(axis=2, keepdims=True), v.astype(float))
    scale = float(np.log2(np.e) / np.sqrt(depth))  # exp2 in place of exp
    arguments = (q, k, v, np.zeros_like(q), scale, length, length * depth)
    options = {"BLOCK_M": 64, "BLOCK_N": 64, "D": depth, "num_warps": 4, "num_stages": 3}
    return Example(attention_kernel, (length // 64, heads), arguments, options, {3: expected}, 3e-3)
