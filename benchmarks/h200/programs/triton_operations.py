"""Kernels of Triton: a product through tensor descriptors (TMA), and a softmax."""

import torch
import triton
import triton.language as tl


@triton.jit
def product(a, b, c, n: tl.constexpr, side: tl.constexpr, step: tl.constexpr):
    first = tl.make_tensor_descriptor(a, [n, n], [n, 1], [side, step])
    second = tl.make_tensor_descriptor(b, [n, n], [n, 1], [step, side])
    third = tl.make_tensor_descriptor(c, [n, n], [n, 1], [side, side])
    row, column = tl.program_id(0) * side, tl.program_id(1) * side
    sums = tl.zeros((side, side), dtype=tl.float32)
    for k in range(0, n, step):
        sums = tl.dot(first.load([row, k]), second.load([k, column]), sums)
    third.store([row, column], sums.to(tl.float16))


@triton.jit
def softmax(out, values, width: tl.constexpr, room: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, room)
    held = tl.load(values + row * width + columns, mask=columns < width, other=-float("inf"))
    exponentials = tl.exp(held - tl.max(held, axis=0))
    tl.store(out + row * width + columns, exponentials / tl.sum(exponentials, axis=0), mask=columns < width)


triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device="cuda", dtype=torch.int8))
n = 512
a, b = (torch.randn(n, n, device="cuda", dtype=torch.float16) for _ in range(2))
c = torch.empty(n, n, device="cuda", dtype=torch.float16)
product[(n // 128, n // 128)](a, b, c, n, 128, 64)
print("product is off by", float((c - a @ b).abs().max()))
values = torch.randn(1024, 781, device="cuda")
result = torch.empty_like(values)
softmax[(1024,)](result, values, 781, 1024)
print("softmax is off by", float((result - torch.softmax(values, 1)).abs().max()))
