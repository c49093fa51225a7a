"""Lines of an answer: shares of the time with the counts of their instructions."""

from __future__ import annotations

import json

import pytest

from warplens.api import load_workloads, place
from warplens.explanation import explain
from warplens.explanation.scene import scene_of
from warplens.suite.execution import run_on_cpu
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
