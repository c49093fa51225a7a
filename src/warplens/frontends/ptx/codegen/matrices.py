"""Loads and stores of 8×8 matrices of 16-bit elements: `ldmatrix` and `stmatrix`.

Lane i gives the address of row i mod 8 of matrix i / 8. Of each matrix, lane l
holds two neighbours in row l / 4, or, transposed, in column l / 4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..flat import FlatInstruction
from ..opcodes import memory_use
from ..program import TYPES, Operand, Vector
from . import runtime
from .accesses import address_of, gathered, scattered, translated
from .lanes import Value, integers
from .lowering import lowers
from .runtime import i32

if TYPE_CHECKING:
    from .kernel import KernelBuilder


@lowers("ldmatrix")
def _load_matrices(g: KernelBuilder, item: FlatInstruction) -> None:
    builder = g.builder
    parts = _registers(g, item, g.operand(item, 0))
    rows = _row_hosts(g, item, g.operand(item, 1), len(parts))
    for number, each in enumerate(parts):
        found = [
            g.resize(gathered(g, _place(g, rows, number, half, item), 0, bits), 32) for half, bits in _pieces(item)
        ]
        value = found[0] if len(found) == 1 else builder.or_(found[0], builder.shl(found[1], g.integer(32, 16)))
        g.write_operand(item, each, value)


@lowers("stmatrix")
def _store_matrices(g: KernelBuilder, item: FlatInstruction) -> None:
    parts = _registers(g, item, g.operand(item, 1))
    values = [g.read(each, TYPES["b32"]) for each in parts]
    rows = _row_hosts(g, item, g.operand(item, 0), len(parts))
    for number, value in enumerate(values):
        for half, bits in _pieces(item):
            piece = g.resize(g.builder.lshr(value, g.integer(32, 16 * half)), bits)
            scattered(g, _place(g, rows, number, half, item), 0, piece)


@lowers("movmatrix")
def _transpose(g: KernelBuilder, item: FlatInstruction) -> None:
    """A matrix in registers: element (r, c) comes from lane 4c + r / 2, half r mod 2."""
    if not {"m8n8", "trans", "b16"} <= set(item.instruction.modifiers):
        raise g.not_covered(item)
    builder = g.builder
    value = g.read(g.operand(item, 1), TYPES["b32"])
    lanes = runtime.lane_numbers()
    row, column = builder.lshr(lanes, g.integer(32, 2)), builder.and_(lanes, g.integer(32, 3))
    total: Value = g.integer(32, 0)
    for half in range(2):
        # This lane's element is (row, 2 column + half); transposed, it stands in row 2 column + half.
        other = builder.add(builder.shl(column, g.integer(32, 1)), g.integer(32, half))
        source = builder.add(builder.shl(other, g.integer(32, 2)), builder.lshr(row, g.integer(32, 1)))
        found = g.picked(value, source)
        odd = builder.icmp_unsigned("!=", builder.and_(row, g.integer(32, 1)), g.integer(32, 0))
        piece = builder.select(
            odd, builder.lshr(found, g.integer(32, 16)), builder.and_(found, g.integer(32, 0xFFFF))
        )
        total = builder.or_(total, builder.shl(piece, g.integer(32, 16 * half)))
    g.write(item, total)


def _registers(g: KernelBuilder, item: FlatInstruction, operand: Operand) -> tuple[Operand, ...]:
    parts = operand.items if isinstance(operand, Vector) else (operand,)
    if not {"m8n8", "b16", f"x{len(parts)}"} <= set(item.instruction.modifiers):
        raise g.not_covered(item)
    return parts


def _pieces(item: FlatInstruction) -> list[tuple[int, int]]:
    """(Half, bits) of what a lane moves: a pair within a row, or two elements of two rows."""
    return [(0, 16), (1, 16)] if item.instruction.has("trans") else [(0, 32)]


def _row_hosts(g: KernelBuilder, item: FlatInstruction, operand: Operand, count: int) -> Value:
    """Check and record the rows; host addresses by lane."""
    use = memory_use(item.instruction)
    assert use is not None
    mask = g.builder.and_(g.mask(item), i32((1 << (8 * count)) - 1))
    hosts = translated(g, item, address_of(g, item, operand), mask, 16, use.space)
    return g.builder.load(hosts, typ=integers(64))


def _place(g: KernelBuilder, rows: Value, number: int, half: int, item: FlatInstruction) -> Value:
    """Where the lanes' elements of a matrix lie: a pointer to their host addresses."""
    builder = g.builder
    lanes = runtime.lane_numbers()
    row, column = builder.lshr(lanes, g.integer(32, 2)), builder.and_(lanes, g.integer(32, 3))
    size = 4
    if item.instruction.has("trans"):
        row, column = builder.add(builder.shl(column, g.integer(32, 1)), g.integer(32, half)), row
        size = 2
    base = g.picked(rows, builder.add(row, g.integer(32, 8 * number)))
    offset = g.resize(builder.mul(column, g.integer(32, size)), 64)
    place = g.buffer("matrix_hosts", integers(64))
    builder.store(builder.add(base, offset), place)
    return place
