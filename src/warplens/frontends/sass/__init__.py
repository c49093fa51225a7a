"""Traces of unmodified CUDA programs on a real GPU: records of patched instructions, the rest found on the SASS."""
