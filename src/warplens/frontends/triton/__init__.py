"""Triton kernels: compiled for a GPU that need not be there, and run on the CPU."""

from .arguments import Kept, stand_in, tensor
from .launch import TritonRun, launch_triton

__all__ = ["Kept", "TritonRun", "launch_triton", "stand_in", "tensor"]
