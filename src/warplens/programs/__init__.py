"""Whole CUDA programs without a GPU: they run with their kernels on the CPU, and every launch is predicted."""

from .result import GpuTotal, KernelTotal, ProgramResult
from .run import run_program
from .timeline import Slice

__all__ = ["GpuTotal", "KernelTotal", "ProgramResult", "Slice", "run_program"]
