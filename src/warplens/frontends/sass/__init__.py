"""Traces of unmodified CUDA programs on a real GPU: patched instructions leave records, a replay fills the gaps.

A library preloaded into the program (`injection/`, built by `build`) makes NVIDIA's
Compute Sanitizer patch memory accesses, barriers, calls and exits. Each leaves a
record per warp (`raw`). The replay follows the control flow of the disassembled
kernel between the records (`disassembly`, `flow`, `reconstruct`). Executions
counted by Nsight Compute (`nsight_counts`, `counts`) decide branches that the
records leave open, and show how exact the result is.
"""

from .trace import BUFFER_BYTES, TracedLaunch, TraceSummary, trace_program

__all__ = ["BUFFER_BYTES", "TraceSummary", "TracedLaunch", "trace_program"]
