"""Advice for Triton kernels is in Triton's words."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

import warplens
from warplens.explanation.rules import RULES
from warplens.traces import MemoryTrace

#: What only CUDA C++ has.
CUDA = re.compile(r"threadIdx|blockIdx|__\w|#pragma|template|-maxrregcount|--fmad|--use_fast|cuda::|cp\.async|float4")
#: Causes that Triton's compiler does not make: it names shared memory, and has no constant arrays.
ONLY_CUDA = {"generic-loads", "divergent-constants"}


def test_no_rule_speaks_of_cuda() -> None:
    for name in RULES.keys() - ONLY_CUDA:
        rule = RULES[name]
        said = rule.in_triton or rule
        assert not CUDA.search(said.remedy + said.cost), name


def test_advice_is_in_the_words_of_the_language() -> None:
    source = """extern "C" __global__ void k(const float* x, float* y, int n) {
        int i = blockIdx.x * 256 + threadIdx.x;
        float s = 0; for (int j = 0; j < 16; ++j) s += x[(i % 4096) * 1024 + j * 32]; y[i] = logf(s); }"""
    x, y = np.ones(4096 * 1024, np.float32), np.zeros(1 << 16, np.float32)
    trace = warplens.cuda(source).kernel("k").launch(256, 256, x, y, np.int32(0)).trace()
    header = replace(trace.header, extra={**trace.header.extra, "language": "triton"})
    answers = [
        warplens.explain(each, "h200") for each in (trace, MemoryTrace(header, trace.static, tuple(trace.groups())))
    ]
    told = [{each.rule: each for each in answer.advice} for answer in answers]
    assert told[0].keys() == told[1].keys() >= {"uncoalesced-loads"}
    assert "tl.constexpr" in told[1]["uncoalesced-loads"].remedy and answers[0].seconds == answers[1].seconds
    assert told[0]["uncoalesced-loads"].remedy != told[1]["uncoalesced-loads"].remedy
