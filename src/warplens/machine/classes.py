"""Instruction classes: the vocabulary that machines, workloads and traces share.

Classes form a tree. A class without timing on a machine takes its parent's, so a
description with only `comp` and `mem` serves every kernel.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class InstructionClass:
    """`kind` is compute, memory (global and local space), shared or barrier."""

    name: str
    kind: str
    parent: str | None
    doc: str
    #: Number of parent instructions that time one of these if the machine gives the class no timing.
    of_parent: int = 1


#: Widths (columns) of warpgroup products (64 rows, 32 bytes deep) with a class; other widths count as the nearest.
PRODUCT_COLUMNS = (8, 16, 32, 64, 96, 128, 192, 256)


def product_class(columns: int) -> str:
    """The class of a warpgroup's product with `columns` columns."""
    return f"tensor_n{min(PRODUCT_COLUMNS, key=lambda each: (abs(each - columns), -each))}"


def _tree(*rows: tuple[str, str, str | None, str]) -> dict[str, InstructionClass]:
    return {name: InstructionClass(name, kind, parent, doc) for name, kind, parent, doc in rows}


def _products() -> dict[str, InstructionClass]:
    """A warp computes 16 rows of a warpgroup's product: one m16n8k16 product per 8 columns."""
    found = {}
    for columns in PRODUCT_COLUMNS:
        doc = f"a warp's part of a warpgroup's matrix product with {columns} columns"
        name = product_class(columns)
        found[name] = InstructionClass(name, "compute", "tensor", doc, columns // 8)
    return found


#: Profiles that are kept name a class by its place: new ones come last.
INSTRUCTION_CLASSES = (
    _tree(
        ("comp", "compute", None, "any instruction that is not a memory access"),
        ("int32", "compute", "comp", "32-bit integer arithmetic and logic (multiplication where it differs)"),
        ("int32_div", "compute", "int32", "32-bit integer division sequence"),
        ("fp32", "compute", "comp", "single-precision add, multiply, multiply-add"),
        ("fp32_div", "compute", "fp32", "single-precision division sequence"),
        ("fp64", "compute", "comp", "double-precision add, multiply, multiply-add"),
        ("fp64_div", "compute", "fp64", "double-precision division sequence"),
        ("fp16", "compute", "comp", "half-precision arithmetic"),
        ("sfu", "compute", "comp", "special functions: reciprocal, square root, sine, exponential"),
        ("tensor", "compute", "comp", "matrix multiply-accumulate"),
        ("conversion", "compute", "comp", "conversion between types"),
        ("move", "compute", "comp", "register moves, selects and special-register reads"),
        ("control", "compute", "comp", "branches, calls, exit"),
        ("other", "compute", "comp", "opcodes that no class covers"),
        ("barrier", "barrier", "comp", "thread-block barrier"),
        ("shared", "shared", "comp", "any access to shared memory"),
        ("load_shared", "shared", "shared", "load from shared memory"),
        ("store_shared", "shared", "shared", "store to shared memory"),
        ("atomic_shared", "shared", "shared", "atomic on shared memory"),
        ("mem", "memory", None, "any access to global or local memory"),
        ("load_global", "memory", "mem", "load from global memory"),
        ("store_global", "memory", "mem", "store to global memory"),
        ("atomic_global", "memory", "mem", "atomic or reduction on global memory"),
        ("load_local", "memory", "mem", "load from local memory (spills)"),
        ("store_local", "memory", "mem", "store to local memory (spills)"),
        ("async_copy", "memory", "mem", "asynchronous copy from global to shared memory"),
        ("load_constant", "shared", "comp", "load through the constant cache"),
    )
    | _products()
    | _tree(("conversion_fp64", "compute", "conversion", "conversion of floating point from or to 64 bits"))
)

#: Default pipeline of a class.
DEFAULT_SUBSYSTEM = {"compute": "compute", "barrier": "compute", "shared": "shared", "memory": "memory"}


def lineage(name: str) -> list[str]:
    """The class and its ancestors, nearest first."""
    chain: list[str] = []
    current: str | None = name
    while current is not None:
        chain.append(current)
        current = INSTRUCTION_CLASSES[current].parent
    return chain
