"""Traces of unmodified CUDA programs on a real GPU: records of patched instructions, the rest found on the SASS.

A library that is preloaded into the program (`injection/`, built by `build`)
has NVIDIA's Compute Sanitizer patch memory accesses, barriers, calls and exits.
Each leaves a record per warp (`raw`). The instructions between records are
replayed on the control flow of the disassembled kernel (`disassembly`, `flow`,
`reconstruct`); executions counted by Nsight Compute (`profile`, `counts`)
decide what records leave open, and tell how exact the result is.
"""

from .trace import BUFFER_BYTES, TracedLaunch, TraceSummary, trace_program

__all__ = ["BUFFER_BYTES", "TraceSummary", "TracedLaunch", "trace_program"]
