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
    of_parent: float = 1


#: Widths (columns) of warpgroup products (64 rows, 32 bytes deep) with a class; other widths count as the nearest.
PRODUCT_COLUMNS = (8, 16, 32, 64, 96, 128, 192, 256)


#: Sums of a warp's product -> its class with 16 rows, 8 columns and a depth of 32 bytes; fp64: m8n8k4.
_BY_SUMS = {"f32": "tensor", "f16": "tensor_fp16", "s32": "tensor_int", "f64": "tensor_fp64"}
#: Part of that product -> suffix of its class.
_PARTS = {1.0: "", 0.5: "_half", 0.25: "_quarter", 2.0: "_double", 4.0: "_fourfold", 8.0: "_eightfold"}


def warp_product_class(rows: int, columns: int, depth: int, bits: int, sums: str) -> str:
    """The class of a warp's product (mma.sync) of elements with some bits, by the type of its sums.

    Tensor cores take as long for the same bytes of every type; classes without a size count as the nearest.
    """
    whole = 8 * 8 * 4 * 64 if sums == "f64" else 16 * 8 * 256
    base = _BY_SUMS[sums]
    sizes = [size for size, suffix in _PARTS.items() if base + suffix in INSTRUCTION_CLASSES]
    part = rows * columns * depth * bits / whole
    return base + _PARTS[min(sizes, key=lambda size: abs(size - part))]


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


def _warp_products() -> dict[str, InstructionClass]:
    rows = (
        ("tensor_half", "tensor", 0.5, "a warp's matrix product of half the depth (m16n8k8 of fp16)"),
        ("tensor_fp16", "tensor", 1, "a warp's matrix product with sums in half precision"),
        ("tensor_fp16_half", "tensor_fp16", 0.5, "the same of half the depth"),
        ("tensor_int", "tensor", 1, "a warp's matrix product of integers (m16n8k32 of int8)"),
        ("tensor_int_half", "tensor_int", 0.5, "the same of half the depth"),
        ("tensor_int_quarter", "tensor_int", 0.25, "the same of half the rows and half the depth"),
        ("tensor_fp64", "tensor", 2, "a warp's matrix product in double precision (m8n8k4)"),
        ("tensor_fp64_double", "tensor_fp64", 2, "m16n8k4 in double precision"),
        ("tensor_fp64_fourfold", "tensor_fp64", 4, "m16n8k8 in double precision"),
        ("tensor_fp64_eightfold", "tensor_fp64", 8, "m16n8k16 in double precision"),
    )
    return {name: InstructionClass(name, "compute", parent, doc, times) for name, parent, times, doc in rows}


#: Profiles that are kept name a class by its place: new ones come last.
INSTRUCTION_CLASSES = (
    _tree(
        ("comp", "compute", None, "any instruction that is not a memory access"),
        ("int32", "compute", "comp", "32-bit integer arithmetic and logic"),
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
    | _warp_products()
    | _tree(
        ("barrier_cluster", "barrier", "barrier", "barrier of a cluster of thread blocks"),
        ("int32_mad", "compute", "int32", "32-bit integer multiplication and multiply-add (IMAD)"),
        ("uniform", "compute", "int32", "integer arithmetic and moves that a warp does once for all its lanes"),
    )
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
