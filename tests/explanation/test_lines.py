"""Lines of an answer: shares of the time with the counts of their instructions."""

from __future__ import annotations

import json

import numpy as np
import pytest

from warplens.api import load_workloads, place
from warplens.explanation import explain
from warplens.explanation.scene import scene_of
from warplens.frontends.cuda.module import cuda
from warplens.suite.execution import run_on_cpu
from warplens.traces import TraceWriter, read_trace
from warplens.workload import workload_of_trace


@pytest.fixture(scope="module")
def spmv():
    return explain(*place(load_workloads("spmv", gpu="h200")[0], "h200"), rules=[])


def test_lines_and_the_rest_are_all_of_the_time(spmv):
    assert sum(line.share for line in spmv.lines) + sum(spmv.rest.values()) == pytest.approx(1.0)
    assert spmv.rest["launch"] > 0.0
    assert [line.share for line in spmv.lines] == sorted((line.share for line in spmv.lines), reverse=True)


def test_the_hottest_line_says_what_its_accesses_do(spmv):
    worst = spmv.lines[0]
    assert (worst.line, worst.text) == (18, "sum += values[i] * x[columns[i]];")
    counts = worst.counts
    assert counts.sectors_per_request > counts.least_sectors >= 1.0
    assert 0.0 < counts.l1_hit_ratio < 1.0 and counts.conflict_ways is None and counts.dram_bytes > 0.0


def test_json_has_the_lines(spmv):
    document = json.loads(json.dumps(spmv.to_dict(), allow_nan=False))
    assert document["rest"] == spmv.rest
    assert document["lines"][0]["line"] == 18
    assert document["lines"][0]["sectors_per_request"] == spmv.lines[0].counts.sectors_per_request


def test_conflicts_are_those_of_shared_memory():
    trace = run_on_cpu("transpose_tiled", record=True).trace
    scene = scene_of(*place(workload_of_trace(trace), "h200"))
    answer = explain(scene.workload, scene.gpu, rules=[])
    ways = {line.counts.conflict_ways for line in answer.lines} - {None}
    assert ways == {1.0}


def test_instructions_without_a_line_are_the_rest():
    trace = run_on_cpu("vector_add", record=True).trace
    trace.static.line[:] = 0
    answer = explain(*place(workload_of_trace(trace), "h200"), rules=[])
    assert answer.lines == ()
    assert sum(answer.rest.values()) == pytest.approx(1.0) and answer.rest["no line"] > 0.0


HEADERS = {
    "inner.cuh": "__device__ __forceinline__ float inner(float a) {\n  return sqrtf(a) / (a + 3.0f);\n}\n",
    "outer.cuh": '#include "inner.cuh"\n'
    "__device__ __forceinline__ float outer(const float* p) {\n  return inner(p[0]) + inner(p[32]);\n}\n"
    "__device__ __noinline__ float called(float x) {\n  return inner(x);\n}\n",
}
KERNEL = """#include "outer.cuh"
extern "C" __global__ void k(const float* in, float* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float value = outer(in + i);
  out[i] = called(value);
}
"""


def test_code_from_headers_counts_where_the_user_calls_it(tmp_path):
    for name, text in {**HEADERS, "k.cu": KERNEL}.items():
        (tmp_path / name).write_text(text)
    data = np.ones(64 * 256 + 32, dtype=np.float32)
    recorded = cuda(tmp_path / "k.cu").kernel("k").launch(64, 256, data, data.copy(), record=True).execution.trace
    with TraceWriter(tmp_path / "k.wlt") as writer:
        for group in recorded.groups():
            writer.write(group)
        writer.end_launch(recorded.header, recorded.static)
    (stored,) = read_trace(tmp_path / "k.wlt")
    for trace in (recorded, stored):
        answer = explain(*place(workload_of_trace(trace), "h200"), rules=[])
        lines = {line.line: line for line in answer.lines}
        assert {line.file for line in answer.lines} == {"k.cu"} and set(lines) <= {2, 3, 4, 5, 6}
        inner = {(each.file, each.line) for each in lines[4].inner}
        assert inner == {("outer.cuh", 3), ("inner.cuh", 2)}
        # Functions that are called instead of inlined count there too.
        assert ("inner.cuh", 2) in {(each.file, each.line) for each in lines[5].inner}
        assert lines[3].inner == ()
        assert 0.9 * lines[4].share < sum(each.share for each in lines[4].inner) <= lines[4].share
        assert lines[5].to_dict()["inner"][0]["file"].endswith(".cuh")
        assert str(tmp_path) not in json.dumps(answer.to_dict())
