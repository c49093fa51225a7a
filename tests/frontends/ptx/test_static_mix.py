"""Counts from the PTX alone: against execution for generated kernels, and rule by rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens.errors import PtxError, WorkloadError
from warplens.frontends.cuda.compile import compile_cuda
from warplens.frontends.ptx import execute, parse_ptx
from warplens.frontends.ptx.static_counts import first_iteration
from warplens.frontends.ptx.static_mix import Buffer, StaticMix, static_mix
from warplens_studies.validate.static_counts import counted_of_mix, counted_of_trace


def _module(code: str):
    return parse_ptx(compile_cuda(code, name="test.cu").ptx, "test.cu")


def _static(code: str, grid, block, arguments, **options) -> StaticMix:
    module = _module(code)
    return static_mix(module, next(iter(module.entries)), grid, block, arguments, **options)


def _both(code: str, grid, block, arguments) -> tuple[StaticMix, object]:
    module = _module(code)
    entry = next(iter(module.entries))
    run = execute(module, entry, grid, block, arguments, workers=1)
    return static_mix(module, entry, grid, block, arguments), run.trace


GRID_STRIDE = """
extern "C" __global__ void grid_stride(float* x, int n, int first, int step) {
  for (int i = first + blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step * gridDim.x * blockDim.x) x[i] += 1.0f;
}
"""

TRIANGLE = """
extern "C" __global__ void triangle(float* x, int n) {
  int t = threadIdx.x;
  if (t >= n) return;
  float sum = 0;
  #pragma unroll 1
  for (int i = 0; i < n; ++i)
    #pragma unroll 1
    for (int j = i; j < n; ++j) sum += x[j * 3];
  for (int s = blockDim.x / 2; s > 0; s >>= 1) {
    __syncthreads();
    if (t < s) x[t] += sum;
  }
}
"""


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 5), st.integers(1, 200), st.integers(0, 1500), st.integers(0, 40), st.integers(1, 3))
def test_a_counted_loop_is_counted_as_executed(grid: int, block: int, n: int, first: int, step: int) -> None:
    array = np.zeros(2048, np.float32)
    mix, trace = _both(GRID_STRIDE, (grid,), (block,), [array, np.int32(n), np.int32(first), np.int32(step)])
    executed, counted = counted_of_trace(trace), counted_of_mix(mix)
    assert counted.kinds["memory"] == pytest.approx(executed.kinds["memory"], rel=1e-9)
    assert (counted.lines or 0) == pytest.approx(executed.lines or 0, rel=1e-9)
    # Where some lanes never enter a loop, a warp may run the way around it as well.
    assert counted.total == pytest.approx(executed.total, rel=0.05)


@pytest.mark.parametrize("n", [1, 7, 32])
def test_nested_bounds_and_halving_steps_are_derived(n: int) -> None:
    mix, trace = _both(TRIANGLE, (2,), (32,), [np.zeros(128, np.float32), np.int32(n)])
    executed, counted = counted_of_trace(trace), counted_of_mix(mix)
    assert {loop.origin for loop in mix.loops} == {"derived"}
    assert counted.total == pytest.approx(executed.total, rel=0.02)
    assert counted.kinds["memory"] == pytest.approx(executed.kinds["memory"])
    assert mix.barriers == executed.kinds["barrier"] == 5


@pytest.mark.parametrize(
    ("index", "pattern", "stride", "lines"),
    [
        ("t", "coalesced", 4, 1.0),
        ("t + 1", "coalesced", 4, 2.0),
        ("t * 2", "strided", 8, 2.0),
        ("t * 64", "strided", 256, 32.0),
        ("7", "uniform", 0, 1.0),
        ("t / 4 * 32", "pattern", None, 8.0),
        ("y[t]", "irregular", None, 32.0),
        ("y[0] * 32 + t", "coalesced", 4, 1.0),
    ],
)
def test_patterns_of_accesses(index: str, pattern: str, stride: int | None, lines: float) -> None:
    code = f"""extern "C" __global__ void k(float* x, const int* y) {{ int t = threadIdx.x; x[{index}] = 1.0f; }}"""
    mix = _static(code, (1,), (32,), [Buffer(), Buffer()])
    store = mix.accesses[-1]
    assert (store.pattern, store.stride_bytes, store.lines) == (pattern, stride, lines)
    assert store.uncoalesced == (lines > 1)


def test_an_unknown_address_touches_no_more_lines_than_the_array_has() -> None:
    code = """extern "C" __global__ void k(float* x, const int* y) { x[y[threadIdx.x]] = 1.0f; }"""
    lines = [
        _static(code, (1,), (32,), [Buffer(size), Buffer()]).accesses[-1].lines for size in (128, 256, 1 << 20, 0)
    ]
    assert lines == pytest.approx([1.0, 2.0, 32.0, 32.0], rel=2e-3)


DATA_LOOP = """
extern "C" __global__ void rows(float* x, const int* offsets) {
  int t = threadIdx.x;
  float sum = 0;
  for (int i = offsets[t]; i < offsets[t + 1]; ++i)
    sum += x[i];
  x[t] = sum;
}
"""


def test_loops_that_data_decide_are_named_and_can_be_given() -> None:
    with pytest.raises(PtxError, match=r'#1 at source line 5 .*trip_counts = \{ "5" = 100 \}'):
        _static(DATA_LOOP, (1,), (32,), [Buffer(), Buffer()])
    few, many = (
        _static(DATA_LOOP, (1,), (32,), [Buffer(), Buffer()], trip_counts={"5": n}).counts["load_global"]
        for n in (10, 110)
    )
    assert many - few == pytest.approx(100 * (2 if many - few > 150 else 1), rel=0.3)
    by_number = _static(DATA_LOOP, (1,), (32,), [Buffer(), Buffer()], trip_counts={f"#{n}": 5 for n in (1, 2)})
    assert {(loop.trips, loop.origin) for loop in by_number.loops} == {(5.0, "given")}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trip_counts": {"99": 3}}, "no such loop; it has #1 at source line 5"),
        ({"trip_counts": {"x": 3}}, "by its source line"),
        ({"trip_counts": {"5": -1}}, "at least 0"),
        ({"branch_weight": 2.0}, "from 0 to 1"),
    ],
)
def test_options_that_make_no_sense(options: dict, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        _static(DATA_LOOP, (1,), (32,), [Buffer(), Buffer()], **options)


def test_branches_that_data_decide_count_with_their_weight() -> None:
    code = """extern "C" __global__ void k(int* x) {
      int t = threadIdx.x;
      if (x[t] > 3) { atomicAdd(x + 100, 1); }
      if (x[100] > 3) { atomicAdd(x + 200 + t, 1); __syncthreads(); }
    }"""
    for weight in (1.0, 0.25):
        mix = _static(code, (1,), (64,), [Buffer()], branch_weight=weight)
        assert [each.executions for each in mix.accesses if "global.add" in each.opcode] == [weight, 0.5]
        assert mix.barriers == 0.5
        assert [each.weight for each in mix.branches] == [weight, 0.5]


@given(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), st.integers(-60, 60), st.integers(-7, 7))
def test_the_first_iteration_is_the_one_that_counting_finds(how: str, start: int, step: int) -> None:
    import operator

    found = first_iteration(how, np.array([[start]]), np.array([[step]]))
    assert found is not None
    holds = (k for k in range(200) if getattr(operator, how)(start + k * step, 0))
    assert int(found[0, 0]) == next(holds, np.iinfo(np.int64).max)


def test_a_loop_without_an_end_is_named_too() -> None:
    code = """extern "C" __global__ void k(volatile int* x) { while (true) x[threadIdx.x] += 1; }"""
    with pytest.raises(PtxError, match="source line 1"):
        _static(code, (1,), (32,), [Buffer()])
    mix = _static(code, (1,), (32,), [Buffer()], trip_counts={"1": 7})
    assert mix.counts["store_global"] == 7


def test_nobody_has_to_know_the_arguments() -> None:
    code = """extern "C" __global__ void k(float* x, int n) { for (int i = 0; i < n; ++i) x[threadIdx.x + i] = 1; }"""
    with pytest.raises(PtxError, match="source line 1"):
        _static(code, (1,), (32,), [Buffer(), None])
    assert _static(code, (1,), (32,), [Buffer(), np.int32(6)]).counts["store_global"] == 6
