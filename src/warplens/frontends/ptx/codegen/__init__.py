"""Native code for a kernel: LLVM IR over vectors of 32 lanes. The modules of instructions register themselves."""

from . import (
    accesses,
    arithmetic,
    bits,
    choices,
    collective,
    conversion,
    matrices,
    mbarriers,
    products,
    real,
    textures,
    video,
    warpgroup,
    wmma,
)
from .kernel import build_module

__all__ = [
    "accesses",
    "arithmetic",
    "bits",
    "build_module",
    "choices",
    "collective",
    "conversion",
    "matrices",
    "mbarriers",
    "products",
    "real",
    "textures",
    "video",
    "warpgroup",
    "wmma",
]
