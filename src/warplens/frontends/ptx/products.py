"""Matrix products of the PTX ISA: shapes, element types, and which lane holds which element.

All shapes of `mma.sync` and `wgmma` share one layout of fragments. Lane l has
row (of A and D) or column (of B) l / 4, and within that the elements of place
l mod 4. A register holds `elements` consecutive ones along the depth.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .program import Immediate, Instruction, Vector

#: Bits of each type that a product can multiply.
ELEMENT_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "f64": 64,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
}
SUM_TYPES = {"f16": ("f16", "f32"), "bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",)}
_WHOLE, _FP8 = ("s8", "u8", "s4", "u4", "b1"), ("e4m3", "e5m2")
#: Depths (k) of mma.sync by rows and multiplied type.
_DEPTHS = {
    **{(16, each): (8, 16) for each in ("f16", "bf16")},
    **{(8, each): (16,) for each in ("f16", "bf16")},  # as a part of wmma's m8n32k16
    **{(16, each): (16, 32) for each in ("s8", "u8", "e4m3", "e5m2")},
    **{(16, each): (32, 64) for each in ("s4", "u4")},
    **{(8, each): (16,) for each in ("s8", "u8")},
    **{(8, each): (32,) for each in ("s4", "u4")},
    (16, "tf32"): (4, 8),
    (16, "f64"): (4, 8, 16),
    (8, "f64"): (4,),
    (16, "b1"): (128, 256),
    (8, "b1"): (128,),
}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


@dataclass(frozen=True)
class Product:
    """One warp's part of a product: D = A·B + C with `rows` × `columns` sums, each over `depth` products."""

    rows: int
    columns: int
    depth: int
    a: str
    b: str
    sum_type: str
    """Type of C; D's is `result_type`."""
    result_type: str
    saturates: bool = False
    #: For b1: "and" or "xor", whose ones are counted.
    bit_operation: str = ""

    @property
    def register_bits(self) -> int:
        return 64 if self.a == "f64" else 32

    @property
    def elements(self) -> int:
        """Elements of A or B in a register."""
        return self.register_bits // ELEMENT_BITS[self.a]

    @property
    def a_registers(self) -> int:
        return self.rows * self.depth // (32 * self.elements)

    @property
    def b_registers(self) -> int:
        return self.columns * self.depth // (32 * self.elements)

    def sum_registers(self, kind: str) -> int:
        return self.rows * self.columns // 32 // (2 if kind == "f16" else 1)


def product_of(item: Instruction) -> Product | None:
    """The product of an mma.sync instruction; None for a form that PTX does not have or that is not covered."""
    shape = next((match for each in item.modifiers if (match := _SHAPE.fullmatch(each))), None)
    kinds = [each for each in item.modifiers if each in ELEMENT_BITS or each in ("f32", "s32")]
    if shape is None or len(kinds) != 4 or item.modifiers[:2] != ("sync", "aligned"):
        return None
    if item.modifiers[3:5] != ("row", "col") or any("::" in each for each in item.modifiers):
        return None
    rows, columns, depth = (int(each) for each in shape.groups())
    result, a, b, start = kinds
    operation = next((each for each in ("and", "xor") if each in item.modifiers), "")
    fits = columns == 8 and depth in _DEPTHS.get((rows, a), ()) and (a == "b1") == bool(operation)
    if not fits or not multiplied(a, b) or not summed(a, result) or not summed(a, start):
        return None
    return Product(rows, columns, depth, a, b, start, result, "satfinite" in item.modifiers, operation)


def multiplied(a: str, b: str) -> bool:
    """Whether elements of two types can be multiplied: the same, two of fp8, or integers of one size."""
    same_size = ELEMENT_BITS[a] == ELEMENT_BITS[b]
    return a == b or (
        same_size and (a in _FP8) == (b in _FP8) and (a in _WHOLE) == (b in _WHOLE) and a not in SUM_TYPES
    )


def summed(a: str, total: str) -> bool:
    """Whether products of a type can be summed in another."""
    return total in SUM_TYPES.get(a, ("f16", "f32") if a in _FP8 else ("s32",))


# -- products of a warpgroup --------------------------------------------------------------------------------

#: Bytes of A and B along the depth, in every wgmma.
DEPTH_BYTES = 32
_WARPGROUP_TYPES = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "b1")


@dataclass(frozen=True)
class WarpgroupProduct:
    """wgmma: four warps multiply 64 rows, 16 each; B, and A unless it is in registers, lie in shared memory."""

    product: Product
    a_in_registers: bool
    #: Whether A and B are stored along their rows (M or N) instead of the depth.
    transposed: tuple[bool, bool]
    negated: bool


def warpgroup_product_of(item: Instruction) -> WarpgroupProduct | None:
    """The product of a wgmma.mma_async; None for a form that PTX does not have."""
    shape = next((match for each in item.modifiers if (match := _SHAPE.fullmatch(each))), None)
    kinds = [each for each in item.modifiers if each in ELEMENT_BITS or each in ("f32", "s32")]
    if shape is None or len(kinds) != 3 or item.modifiers[:3] != ("mma_async", "sync", "aligned"):
        return None
    rows, columns, depth = (int(each) for each in shape.groups())
    total, a, b = kinds
    operation = "and" if a == "b1" else ""
    fits = rows == 64 and columns % 8 == 0 and 8 <= columns <= 256 and a in _WARPGROUP_TYPES
    if not fits or depth * ELEMENT_BITS[a] != 8 * DEPTH_BYTES or not multiplied(a, b) or not summed(a, total):
        return None
    if operation and not item.has("and"):
        return None
    in_registers = len(item.operands) > 1 and isinstance(item.operands[1], Vector)
    numbers = [each.value for each in item.operands[4:] if isinstance(each, Immediate)]
    scales = numbers[:2] if a not in ("s8", "u8", "b1") else []
    flags = [bool(each) for each in numbers[2:]] if a in ("f16", "bf16") else []
    if in_registers and flags:
        flags.insert(0, False)
    if (
        any(each not in (1, -1) for each in scales)
        or len(numbers) != len(item.operands[4:])
        or len(flags) not in (0, 2)
    ):
        return None
    product = Product(16, columns, depth, a, b, total, total, item.has("satfinite"), operation)
    sides = (flags[0], flags[1]) if flags else (False, False)
    return WarpgroupProduct(product, in_registers, sides, scales.count(-1) == 1)
