"""Triton kernels: compiled for a GPU that need not be there, and run on the CPU."""

from .launch import TritonRun, launch_triton, stand_in

__all__ = ["TritonRun", "launch_triton", "stand_in"]
