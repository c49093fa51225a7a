"""Functions that a kernel calls: their machine code stands for each copy of their PTX."""

from __future__ import annotations

import numpy as np
import pytest

import warplens
from warplens.analysis.machine_form import machine_form
from warplens.traces import CLASS_NAMES
from warplens.traces.machine_code import code_of
from warplens.traces.rewrite import joined, lane_addresses

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")

CALLS = """
__device__ __noinline__ float inner(const float* x, int i) { return x[i] * x[i + 1]; }
__device__ __noinline__ float outer(const float* x, int i, int n)
{
    float sum = 0.0f;
    #pragma unroll 1
    for (int k = 0; k < n; ++k)
        sum += inner(x, i + 2 * k);
    return sum > 3.5f ? x[i + 99] : sum;
}
extern "C" __global__ void k(const float* x, float* y, int n)
{
    int i = threadIdx.x;
    float a = outer(x, i, n);
    if (threadIdx.x % 32 < 8)
        a += outer(x + 128, i, n + 2);
    y[i] = a + inner(x + 512, i);
}
"""
POWER = """
extern "C" __global__ void k(const double* x, double* y, int n)
{
    double sum = 0.0;
    for (int i = 0; i < n; ++i)
        sum += pow(x[threadIdx.x + i], 1.7);
    y[threadIdx.x] = sum;
}
"""
ITSELF = """
__device__ __noinline__ int sum(const int* x, int n) { return n < 1 ? 0 : x[n] + sum(x, n - 1) * 2; }
extern "C" __global__ void k(const int* x, int* y, int n) { y[threadIdx.x] = sum(x, threadIdx.x % 4); }
"""
POINTER = """
__device__ float one(float x) { return x * 2; }
__device__ float two(float x) { return x + 1; }
extern "C" __global__ void k(const float* x, float* y, int n)
{
    float (*f)(float) = n > 3 ? one : two;
    y[threadIdx.x] = f(x[threadIdx.x]);
}
"""


def run(source: str, kind: type = np.float32, n: int = 3):
    x, y = np.ones(1024, kind), np.zeros(1024, kind)
    return warplens.cuda(source).kernel("k").launch(1, 64, x, y, np.int32(n)).trace()


def loaded(group, static) -> list[tuple[int, ...]]:
    """(Warp, address) of every lane of loads from global memory, in order of addresses."""
    mine = static.class_id == CLASS_NAMES.index("load_global")
    found = lane_addresses(group, static, mine)
    return sorted(found.address.tolist())


def test_each_call_loads_what_its_own_copy_of_the_ptx_does() -> None:
    trace = run(CALLS)
    group = joined(list(trace.groups()))
    form = machine_form(group, trace)
    assert form is not None and form.share == 1.0
    assert loaded(form.group, form.static) == loaded(group, trace.static)


def test_functions_are_entered_and_left_as_often_as_the_ptx_calls_them() -> None:
    trace = run(CALLS)
    form = machine_form(joined(list(trace.groups())), trace)
    calls = [trace.static.opcode[row] for group in trace.groups() for row in group.static]
    executed = [form.static.opcode[row] for row in form.group.static]
    assert executed.count("CALL") == sum(name.startswith("call") for name in calls)
    assert "RET" not in executed


def test_branches_of_a_copy_stay_inside() -> None:
    code = code_of(run(CALLS).header)
    assert code is not None
    for at, target in enumerate(code.targets):
        if code.opcodes[at] == "BRA":
            assert 0 <= target < len(code.opcodes)
    starts = [at for at, opcode in enumerate(code.opcodes) if opcode == "CALL"]
    assert len(starts) == 5 and all(code.targets[at] == -1 for at in starts)  # two of outer, three of inner


def test_mathematics_in_double_precision_becomes_machine_code() -> None:
    trace = run(POWER, np.float64)
    group = joined(list(trace.groups()))
    form = machine_form(group, trace)
    assert form is not None and form.share == 1.0
    doubles = [CLASS_NAMES[each] for each in form.static.class_id[form.group.static]].count("fp64")
    assert doubles > 40 * 3 * len(group)


@pytest.mark.parametrize(("source", "kind"), [(ITSELF, np.int32), (POINTER, np.float32)])
def test_calls_through_pointers_and_of_functions_by_themselves_stay_ptx(source: str, kind: type) -> None:
    trace = run(source, kind)
    assert any(name.startswith("call") for name in trace.static.opcode)
    assert code_of(trace.header) is None
