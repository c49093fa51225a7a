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
#: The same for a sparse A (mma.sp), of 16 rows each.
_SPARSE_DEPTHS = {
    **dict.fromkeys(("f16", "bf16"), (16, 32)),
    **dict.fromkeys(("s8", "u8"), (32, 64)),
    **dict.fromkeys(_FP8, (64,)),
    **dict.fromkeys(("s4", "u4"), (64, 128)),
    "tf32": (8, 16),
}
_SPARSE = ("sp", "sp::ordered_metadata")
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
    #: Whether half of A's elements are stored, and metadata tell which.
    sparse: bool = False

    @property
    def stored_depth(self) -> int:
        """Elements of a row of A that are stored."""
        return self.depth // 2 if self.sparse else self.depth

    @property
    def register_bits(self) -> int:
        return 64 if self.a == "f64" else 32

    @property
    def elements(self) -> int:
        """Elements of A or B in a register."""
        return self.register_bits // ELEMENT_BITS[self.a]

    @property
    def a_registers(self) -> int:
        return self.rows * self.stored_depth // (32 * self.elements)

    @property
    def b_registers(self) -> int:
        return self.columns * self.depth // (32 * self.elements)

    def sum_registers(self, kind: str) -> int:
        return self.rows * self.columns // 32 // (2 if kind == "f16" else 1)


def product_of(item: Instruction) -> Product | None:
    """The product of an mma.sync instruction; None for a form that PTX does not have or that is not covered."""
    sparse = item.modifiers[0] in _SPARSE
    modifiers = item.modifiers[sparse:]
    shape = next((match for each in modifiers if (match := _SHAPE.fullmatch(each))), None)
    kinds = [each for each in modifiers if each in ELEMENT_BITS or each in ("f32", "s32")]
    if shape is None or len(kinds) != 4 or modifiers[:2] != ("sync", "aligned"):
        return None
    if modifiers[3:5] != ("row", "col") or any("::" in each for each in modifiers):
        return None
    rows, columns, depth = (int(each) for each in shape.groups())
    result, a, b, start = kinds
    operation = next((each for each in ("and", "xor") if each in modifiers), "")
    depths = _DEPTHS.get((rows, a), ()) if not sparse else _SPARSE_DEPTHS.get(a, ()) if rows == 16 else ()
    fits = columns == 8 and depth in depths and (a == "b1") == bool(operation)
    if not fits or not multiplied(a, b) or not summed(a, result) or not summed(a, start):
        return None
    return Product(rows, columns, depth, a, b, start, result, "satfinite" in modifiers, operation, sparse)


def multiplied(a: str, b: str) -> bool:
    """Whether elements of two types can be multiplied: the same, two of fp8, or integers of one size."""
    same_size = ELEMENT_BITS[a] == ELEMENT_BITS[b]
    return a == b or (
        same_size and (a in _FP8) == (b in _FP8) and (a in _WHOLE) == (b in _WHOLE) and a not in SUM_TYPES
    )


def summed(a: str, total: str) -> bool:
    """Whether products of a type can be summed in another."""
    return total in SUM_TYPES.get(a, ("f16", "f32") if a in _FP8 else ("s32",))


# -- sparse products ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pick:
    """Which depth a stored element of A has: `first` + `step` times `bits` bits of the metadata of a lane."""

    lane: int
    """Within the four lanes of a row."""
    shift: int
    bits: int
    first: int
    step: int


def metadata_lanes(product: Product) -> int:
    """How many of four neighbouring lanes hold metadata; the selector says which."""
    return product.rows * product.stored_depth * _index_bits(product) // (8 * 32)


def _index_bits(product: Product) -> int:
    """Bits of metadata for a stored element: two of 4 bits share an index, tf32 has one for each half of it."""
    return {4: 1, 32: 4}.get(ELEMENT_BITS[product.a], 2)


def pick_of(product: Product, selector: int, half: int, element: int) -> Pick:
    """Where the metadata say which depth an element has that is stored in the rows 0 to 7 or 8 to 15 (`half`).

    16-bit types and tf32 keep the upper rows in the upper 16 bits, others in the next lane.
    """
    wide = ELEMENT_BITS[product.a] >= 16
    size = _index_bits(product)
    place = element * size if size > 1 else element // 2 * 2
    lane, bit = divmod(place, 16 if wide else 32)
    lane, bit = (lane, bit + 16 * half) if wide else (2 * lane + half, bit)
    lane += selector * metadata_lanes(product)
    if size == 1:  # of 4 bits: which of four pairs
        return Pick(lane, bit, 2, element // 4 * 8 + element % 2, 2)
    if size == 4:  # of tf32: the first of the two indices is 0 or 2
        return Pick(lane, bit + 1, 1, 2 * element, 1)
    return Pick(lane, bit, 2, element // 2 * 4, 1)


# -- products of a warpgroup --------------------------------------------------------------------------------

#: Bytes of A along the depth, in every wgmma; of B twice as many where A is sparse.
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
    sparse = item.has("sp")
    head = ("mma_async", *(["sp"] if sparse else []), "sync", "aligned")
    if shape is None or len(kinds) != 3 or item.modifiers[: len(head)] != head:
        return None
    rows, columns, depth = (int(each) for each in shape.groups())
    total, a, b = kinds
    operation = "and" if a == "b1" else ""
    fits = rows == 64 and columns % 8 == 0 and 8 <= columns <= 256 and a in _WARPGROUP_TYPES
    product = Product(16, columns, depth, a, b, total, total, item.has("satfinite"), operation, sparse)
    if not fits or product.stored_depth * ELEMENT_BITS[a] != 8 * DEPTH_BYTES or not multiplied(a, b):
        return None
    if not summed(a, total) or (operation and (sparse or not item.has("and"))):
        return None
    in_registers = len(item.operands) > 1 and isinstance(item.operands[1], Vector)
    further = item.operands[6 if sparse else 4 :]
    numbers = [each.value for each in further if isinstance(each, Immediate)]
    scales = numbers[:2] if a not in ("s8", "u8", "b1") else []
    flags = [bool(each) for each in numbers[2:]] if a in ("f16", "bf16") else []
    if in_registers and flags:
        flags.insert(0, False)
    if any(each not in (1, -1) for each in scales) or len(numbers) != len(further) or len(flags) not in (0, 2):
        return None
    sides = (flags[0], flags[1]) if flags else (False, False)
    return WarpgroupProduct(product, in_registers, sides, scales.count(-1) == 1)
