"""Matrix products and matrices in shared memory, element by element as the PTX manual's tables have them."""

from __future__ import annotations

from ctypes import c_float
from fractions import Fraction
from typing import TYPE_CHECKING

from warplens.frontends.ptx.products import ELEMENT_BITS, Product, product_of
from warplens.frontends.ptx.program import Instruction, Operand, Type, Vector

from . import floats
from .floats import E4M3, E5M2, FORMATS, Format, Value, decode, encode
from .integers import NotCoveredError, ones, signed

if TYPE_CHECKING:
    from .machine import _Warp

#: Doubles are exact values, as Python's floats cannot fuse them; other floats are Python's.
Number = Value | float | int
WORD = Type("b", 32)
_FORMATS: dict[str, Format] = {
    "f16": FORMATS["f", 16],
    "bf16": FORMATS["bf", 16],
    "f32": FORMATS["f", 32],
    "f64": FORMATS["f", 64],
    "tf32": FORMATS["f", 32],
    "e4m3": E4M3,
    "e5m2": E5M2,
}


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _elements(warp: _Warp, operand: Operand, register_bits: int, bits: int) -> list[list[int]]:
    """Per lane, the bit patterns of a fragment's elements in order."""
    found = []
    for lane in range(32):
        parts = []
        for each in _items(operand):
            held = warp.value(lane, each, Type("b", register_bits))
            parts += [held >> bits * place & ones(bits) for place in range(register_bits // bits)]
        found.append(parts)
    return found


def stored_depths(warp: _Warp, product: Product, metadata: Operand, selector: int, row: int) -> list[int]:
    """The depth of each element that a sparse A stores of a row: 4 bits of metadata per chunk of the row.

    They are two indices in the chunk: of elements (2 of 4), of pairs of elements (4 bits, 4 of 8), or of the two
    halves of one element (tf32, 1 of 2).
    """
    held = [warp.value(4 * (row % 8) + each, metadata, WORD) for each in range(4)]
    low, high = (2 * selector, 2 * selector + 1)
    wide = ELEMENT_BITS[product.a] >= 16
    chunk = {4: 8, 32: 2}.get(ELEMENT_BITS[product.a], 4)
    bits = product.depth // chunk * 4
    if wide:  # 16 bits of a lane for rows 0 to 7, the others for rows 8 to 15
        lanes = [held[selector]] if bits == 16 else [held[low], held[high]]
        found = sum((each >> 16 * (row // 8) & ones(16)) << 16 * place for place, each in enumerate(lanes))
    elif bits == 32:  # a lane for the one, the next for the other
        found = held[high if row >= 8 else low]
    else:
        found = held[row // 8] | held[2 + row // 8] << 32
    depths = []
    for place in range(product.depth // chunk):
        first, second = found >> 4 * place & 3, found >> 4 * place + 2 & 3
        if chunk == 2:
            inside = [first // 2]
        elif chunk == 8:
            inside = [2 * first, 2 * first + 1, 2 * second, 2 * second + 1]
        else:
            inside = [first, second]
        depths += [chunk * place + each for each in inside]
    return depths


def a_place(product: Product, lane: int, element: int) -> tuple[int, int]:
    """Row and depth of element a_i."""
    register, within = divmod(element, product.elements)
    row = lane // 4 + (8 * (register % 2) if product.rows == 16 else 0)
    step = register // 2 if product.rows == 16 else register
    return row, (lane % 4) * product.elements + within + 4 * product.elements * step


def b_place(product: Product, lane: int, element: int) -> tuple[int, int]:
    """Depth and column of element b_i."""
    register, within = divmod(element, product.elements)
    return (lane % 4) * product.elements + within + 4 * product.elements * register, lane // 4


def c_place(lane: int, element: int) -> tuple[int, int]:
    """Row and column of element c_i."""
    return lane // 4 + 8 * (element // 2), (lane % 4) * 2 + element % 2


def number(kind: str, bits: int) -> Number:
    """An element's value."""
    if kind in _FORMATS:
        found = decode(bits & ~0x1FFF if kind == "tf32" else bits, _FORMATS[kind])
        return found if kind == "f64" else floats.to_float(found)
    return signed(bits, ELEMENT_BITS.get(kind, 32)) if kind.startswith("s") else bits


def fused(total: float, a: float, b: float) -> float:
    """total + a·b as a single, rounded once: exact in double precision, or as fractions."""
    product = a * b  # of two numbers with at most 24 digits: exact
    result = product + total
    virtual = result - product
    lost = (product - (result - virtual)) + (total - virtual)
    if lost == 0 or lost != lost:  # exact, or not finite
        return c_float(result).value
    exact = Fraction(total) + Fraction(product)
    bits = encode(Value(int(exact < 0), "finite", abs(exact)), FORMATS["f", 32])
    return floats.to_float(decode(bits, FORMATS["f", 32]))


def added(product: Product, total: Number, a: Number, b: Number) -> Number:
    """total + a·b, rounded once to the precision of the sums."""
    if isinstance(total, float):
        return fused(total, a, b)
    if isinstance(total, int):
        assert isinstance(a, int) and isinstance(b, int)
        if product.bit_operation:
            return total + (a & b if product.bit_operation == "and" else a ^ b)
        return total + a * b
    assert isinstance(a, Value) and isinstance(b, Value)
    form = FORMATS["f", 64]
    return decode(encode(floats.add(floats.multiply(a, b), total), form), form)


def result_bits(product: Product, total: Number) -> int:
    if isinstance(total, float):
        return encode(floats.from_float(total), _FORMATS[product.result_type])
    if isinstance(total, Value):
        return encode(total, _FORMATS[product.result_type])
    if product.saturates:
        total = min(max(total, -(1 << 31)), (1 << 31) - 1)
    return total & ones(32)


def multiply(warp: _Warp, item: Instruction, on: list[int]) -> None:
    product = product_of(item)
    if product is None:
        raise NotCoveredError(item.name)
    wide = product.register_bits
    a, b = {}, {}
    for place, into, operand, kind in (
        (a_place, a, item.operands[1], product.a),
        (b_place, b, item.operands[2], product.b),
    ):
        for lane, found in enumerate(_elements(warp, operand, wide, ELEMENT_BITS[kind])):
            for element, bits in enumerate(found):
                into[place(product, lane, element)] = number(kind, bits)
    bits = {"f16": 16, "f64": 64}
    sums = {}
    for lane, found in enumerate(_elements(warp, item.operands[3], wide, bits.get(product.sum_type, 32))):
        for element, held in enumerate(found):
            sums[c_place(lane, element)] = number(product.sum_type, held)
    depths = {
        row: stored_depths(warp, product, item.operands[4], item.operands[5].value, row)  # type: ignore[union-attr]
        if product.sparse
        else range(product.depth)
        for row in range(product.rows)
    }
    for row, column in sums:
        for stored, k in enumerate(depths[row]):
            sums[row, column] = added(product, sums[row, column], a[row, stored], b[k, column])
    size = bits.get(product.result_type, 32)
    per_register = wide // size
    for lane in on:
        for position, target in enumerate(_items(item.operands[0])):
            parts = [
                result_bits(product, sums[c_place(lane, position * per_register + each)])
                for each in range(per_register)
            ]
            warp.write(lane, target, sum(part << size * place for place, part in enumerate(parts)))


def move_matrices(warp: _Warp, item: Instruction, on: list[int]) -> dict[int, int]:
    """ldmatrix and stmatrix: lane 8m + r gives the address of row r of matrix m."""
    load = item.opcode == "ldmatrix"
    registers, place = (item.operands[0], item.operands[1]) if load else (item.operands[1], item.operands[0])
    parts = _items(registers)
    addressed = [lane for lane in on if lane < 8 * len(parts)]
    rows = {}
    recorded = {}
    for lane in addressed:
        space, address = warp.place(lane, place, "shared")
        space.find(address, 16)
        rows[lane] = space, address
        recorded[lane] = address + warp.window("shared")
    for matrix, part in enumerate(parts):
        for lane in on:
            held = warp.value(lane, part, WORD) if not load else 0
            for half in range(2):
                row, column = lane // 4, 2 * (lane % 4) + half
                if item.has("trans"):
                    row, column = column, row
                space, start = rows[8 * matrix + row]
                if load:
                    held |= space.read(start + 2 * column, 2) << 16 * half
                else:
                    space.write(start + 2 * column, 2, held >> 16 * half & ones(16))
            if load:
                warp.write(lane, part, held)
    return recorded


def transpose(warp: _Warp, item: Instruction, on: list[int]) -> None:
    """movmatrix: an 8×8 matrix in registers."""
    matrix = {}
    for lane in range(32):
        held = warp.value(lane, item.operands[1], WORD)
        for half in range(2):
            matrix[lane // 4, 2 * (lane % 4) + half] = held >> 16 * half & ones(16)
    for lane in on:
        row, column = lane // 4, 2 * (lane % 4)
        warp.write(lane, item.operands[0], matrix[column, row] | matrix[column + 1, row] << 16)
