"""Native code for a kernel: LLVM IR over vectors of 32 lanes."""

from .kernel import build_module

__all__ = ["build_module"]
