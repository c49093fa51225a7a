"""Advice for kernels of which the machine code is known, or that wait for others."""

from __future__ import annotations

import numpy as np
import pytest

import warplens
from warplens.explanation import RULES, Finding, Scene, explain
from warplens.explanation.scene import scene_of
from warplens.machine import load_gpu, with_overrides
from warplens.workload import Workload, workload_of_trace

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")


def launched(code: str, grid: int, block: int, *arguments: object) -> Workload:
    return workload_of_trace(warplens.cuda(code).kernel("k").launch(grid, block, *arguments).trace())


def looked(rule: str, seen: Scene) -> list[Finding]:
    return list(RULES[rule].look(seen))


def test_bf16_becomes_f32_without_a_conversion() -> None:
    """A compiler makes a shift of it; from integers it makes a conversion."""
    code = """#include <cuda_bf16.h>
    extern "C" __global__ void k(const {type} *in, float *out) {{
        float sum = 0;
        for (int i = 0; i < 64; ++i) sum += float(in[i * 256 + threadIdx.x]);
        out[threadIdx.x] = sum;
    }}"""
    out = np.zeros(256, np.float32)
    for kind, found in (("__nv_bfloat16", 0), ("int", 1)):
        work = launched(code.format(type=kind), 1, 256, np.zeros(64 * 256, np.int32), out)
        seen = scene_of(work, load_gpu("h200"))
        seen.__dict__["most_gain"] = lambda chosen: float(chosen.any())
        assert len(looked("conversions", seen)) == found


def test_a_barrier_of_the_grid_is_no_cause_that_a_block_can_remove() -> None:
    code = """#include <cooperative_groups.h>
    extern "C" __global__ void k(float *x) {
        for (int turn = 0; turn < 2; ++turn) {
            x[blockIdx.x * 256 + threadIdx.x] += turn;
            cooperative_groups::this_grid().sync();
        }
    }"""
    seen = scene_of(launched(code, 16, 256, np.zeros(16 * 256, np.float32)), load_gpu("h200"))
    for rule in ("divergent-branches", "barrier-waits", "redundant-loads"):
        assert not looked(rule, seen)


def test_no_gain_takes_less_time_than_the_machine_code_fills() -> None:
    """PTX has fewer instructions than the machine code here; once all issue slots are full, that would show."""
    code = """extern "C" __global__ void k(const float4 *in, float4 *out) {
        __shared__ float4 tile[128];
        float4 me = in[blockIdx.x * 128 + threadIdx.x];
        float3 sum = {};
        for (int base = 0; base < 1024; base += 128) {
            tile[threadIdx.x] = in[base + threadIdx.x];
            __syncthreads();
            for (int j = 0; j < 128; ++j) {
                float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
                float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f);
                float s = tile[j].w * inverse * inverse * inverse;
                sum.x += dx * s; sum.y += dy * s; sum.z += dz * s;
            }
            __syncthreads();
        }
        out[blockIdx.x * 128 + threadIdx.x] = make_float4(sum.x, sum.y, sum.z, 0);
    }"""
    work = launched(code, 8, 128, np.ones((1024, 4), np.float32), np.zeros((1024, 4), np.float32))
    on = with_overrides(load_gpu("h200"), {"sms": 16})
    answer = explain(work, on, [RULES["too-few-blocks"]])
    (found,) = answer.advice
    busy = float(answer.prediction.terms["busy_issue"])
    assert found.seconds_after >= 0.999 * answer.prediction.seconds * busy * 8 / 16
    assert found.speedup_low < found.speedup < found.speedup_high
