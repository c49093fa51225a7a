"""The kernels that ship with warplens, by name."""

from __future__ import annotations

from warplens.suite import dense, elimination, images, irregular, learning, micro, stencils, text
from warplens.suite.checking import ArgumentComparison, check, compare
from warplens.suite.kernel import SIZES, SuiteKernel, SuiteLaunch, Tolerance, unknown_kernel

__all__ = [
    "SIZES",
    "SUITE",
    "ArgumentComparison",
    "SuiteKernel",
    "SuiteLaunch",
    "Tolerance",
    "check",
    "compare",
    "get_kernel",
]

_MODULES = (stencils, images, dense, learning, irregular, text, elimination, micro)

SUITE: dict[str, SuiteKernel] = {kernel.name: kernel for module in _MODULES for kernel in module.KERNELS}


def get_kernel(name: str) -> SuiteKernel:
    """The suite's kernel with the given name."""
    if name not in SUITE:
        raise unknown_kernel(name, SUITE)
    return SUITE[name]
