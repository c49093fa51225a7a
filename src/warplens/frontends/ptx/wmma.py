"""`wmma`: fragments whose layout PTX leaves open. warplens keeps them as `mma.sync` has them, as GPUs do.

A product of 16×16 sums then is two products of 16×8, and so `wmma.mma` becomes
that many `mma.sync`. Fragments of half-precision A and B have eight registers;
those that the layout does not need stay unused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from .products import ELEMENT_BITS, Product
from .program import Instruction, Operand, Vector

_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_SHAPES = {
    **dict.fromkeys(("f16", "bf16", "s8", "u8"), ((16, 16, 16), (32, 8, 16), (8, 32, 16))),
    **dict.fromkeys(("s4", "u4"), ((8, 8, 32),)),
    "tf32": ((16, 16, 8),),
    "f64": ((8, 8, 4),),
    "b1": ((8, 8, 128),),
}
_SUM_BITS = {"f16": 16, "f32": 32, "s32": 32, "f64": 64}
#: Registers of half-precision A and B, whatever the shape.
_HALF_REGISTERS = 8


def _shape(item: Instruction) -> tuple[int, int, int] | None:
    found = next((match for each in item.modifiers if (match := _SHAPE.fullmatch(each))), None)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def products(item: Instruction) -> list[Instruction] | None:
    """The `mma.sync` that make up a `wmma.mma`; None for a form that PTX does not have."""
    shape = _shape(item)
    kinds = [each for each in item.modifiers if each in ELEMENT_BITS or each in _SUM_BITS]
    if len(kinds) == 2:  # half precision: D and C only
        kinds = [kinds[0], "f16", "f16", kinds[1]]
    if shape is None or len(kinds) != 4 or shape not in _SHAPES.get(kinds[1], ()) or len(item.operands) != 4:
        return None
    if item.has("satfinite") and kinds[0] != "s32":
        return None
    rows, columns, depth = shape
    part = Product(min(rows, 16), 8, depth, kinds[1], kinds[2], kinds[3], kinds[0])
    middle = ("satfinite",) if item.has("satfinite") else ()
    ending = tuple(each for each in ("and", "xor") if item.has(each))
    modifiers = ("sync", "aligned", f"m{part.rows}n8k{depth}", "row", "col", *middle, *kinds, *ending)
    d, a, b, c = (each.items if isinstance(each, Vector) else (each,) for each in item.operands)
    found = []
    for i in range(rows // part.rows):
        for j in range(columns // 8):
            block = i * (columns // 8) + j
            pieces = (
                _slice(d, block, part.sum_registers(kinds[0])),
                _slice(a, i, part.a_registers),
                _slice(b, j, part.b_registers),
                _slice(c, block, part.sum_registers(kinds[3])),
            )
            found.append(replace(item, opcode="mma", modifiers=modifiers, operands=tuple(Vector(p) for p in pieces)))
    return found


def _slice(registers: tuple[Operand, ...], block: int, count: int) -> tuple[Operand, ...]:
    return registers[block * count : (block + 1) * count]


@dataclass(frozen=True)
class Fragment:
    """A matrix in memory and the registers that hold it."""

    what: str
    """a, b, c or d."""
    kind: str
    rows: int
    columns: int
    by_rows: bool
    """Whether rows are contiguous in memory."""
    registers: int

    @property
    def bits(self) -> int:
        return ELEMENT_BITS.get(self.kind) or _SUM_BITS[self.kind]

    @property
    def register_bits(self) -> int:
        return 64 if self.kind == "f64" else 32

    @property
    def elements(self) -> int:
        """Elements in a register: halves are packed in pairs."""
        return self.register_bits // self.bits

    @property
    def lane_bytes(self) -> int:
        """Bytes that each lane accesses if the lanes share the matrix evenly."""
        return self.rows * self.columns * self.bits // 8 // 32

    @property
    def held_registers(self) -> int:
        """Registers that hold something."""
        return self.rows * self.columns // 32 // self.elements

    def places(self, register: int, element: int) -> list[tuple[int, int]]:
        """Row and column of an element in each lane."""
        return [self._place(lane, register, element) for lane in range(32)]

    def _place(self, lane: int, register: int, element: int) -> tuple[int, int]:
        group, within = divmod(lane, 4)
        if self.what == "a":
            per_block = (min(self.rows, 16) * self.columns) // 32 // self.elements
            block, register = divmod(register, per_block)
            halves = min(self.rows, 16) // 8
            depth = within * self.elements + element + 4 * self.elements * (register // halves)
            return 16 * block + group + 8 * (register % halves), depth
        if self.what == "b":
            per_block = 8 * self.rows // 32 // self.elements
            block, register = divmod(register, per_block)
            return within * self.elements + element + 4 * self.elements * register, 8 * block + group
        # Blocks of up to 16×8 sums, those of a row of blocks one after the other.
        height = min(self.rows, 16)
        index = register * self.elements + element
        block, index = divmod(index, height * 8 // 32)
        across = self.columns // 8
        half, column = divmod(index, 2)
        return height * (block // across) + group + 8 * half, 8 * (block % across) + 2 * within + column


def fragment_of(item: Instruction) -> Fragment | None:
    """What a `wmma.load` or `wmma.store` moves; None for a form that PTX does not have."""
    shape = _shape(item)
    what = next((each for each in item.modifiers if each in ("a", "b", "c", "d")), "")
    kind = item.modifiers[-1]
    layout = next((each for each in item.modifiers if each in ("row", "col")), "")
    if shape is None or not what or not layout or kind not in (_SUM_BITS if what in "cd" else _SHAPES):
        return None
    if what in "ab" and shape not in _SHAPES[kind]:
        return None
    m, n, k = shape
    rows, columns = {"a": (m, k), "b": (k, n)}.get(what, (m, n))
    found = Fragment(what, kind, rows, columns, layout == "row", 0)
    if found.bits < 8 and found.by_rows != (what == "a"):
        return None
    count = _HALF_REGISTERS if what in "ab" and kind == "f16" else found.held_registers
    return replace(found, registers=count)
