"""Whole CUDA programs without a GPU: they run with their kernels on the CPU, and every launch is predicted."""

from .result import KernelTotal, ProgramResult
from .run import run_program

__all__ = ["KernelTotal", "ProgramResult", "run_program"]
