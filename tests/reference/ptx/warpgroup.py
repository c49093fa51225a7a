"""Products of a warpgroup, element by element: where a descriptor puts each one in shared memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from warplens.frontends.ptx.products import ELEMENT_BITS, Product, warpgroup_product_of
from warplens.frontends.ptx.program import Immediate, Instruction, Operand, Type

from .integers import NotCoveredError, ones
from .products import Number, _elements, _items, a_place, added, c_place, number, result_bits, stored_depths

if TYPE_CHECKING:
    from .machine import _Warp


def element_address(descriptor: int, bits: int, transposed: bool, row: int, depth: int) -> tuple[int, int]:
    """Byte and bit of an element: CUTLASS's canonical layouts, in units of 16 bytes, then the swizzle."""
    start, leading, stride = ((descriptor >> low & 0x3FFF) * 16 for low in (0, 16, 32))
    mode = descriptor >> 62
    width = {0: 1, 1: 8, 2: 4, 3: 2}[mode]
    per_chunk = 128 // bits
    if not transposed:
        chunk, within = divmod(depth, per_chunk)
        beside = chunk % width * 16 + chunk // width * leading
        offset = row % 8 * 16 * width + row // 8 * stride + beside
    else:
        chunk, within = divmod(row, per_chunk)
        if mode:
            offset = chunk % width * 16 + chunk // width * leading + depth % 8 * 16 * width + depth // 8 * stride
        else:
            offset = chunk * stride + depth % 8 * 16 + depth // 8 * leading
    address = start + offset
    swizzled = address ^ ((address >> 7) % width) << 4
    return swizzled + within * bits // 8, within * bits % 8


def _shared(warp: _Warp, descriptor: int, kind: str, transposed: bool, row: int, depth: int) -> Number:
    bits = ELEMENT_BITS[kind]
    address, shift = element_address(descriptor, bits, transposed, row, depth)
    content = warp.block.shared.allocations[0].content
    held = int.from_bytes(content[address : address + max(bits // 8, 1)], "little")
    return number(kind, held >> shift & ones(bits))


def multiply(warp: _Warp, item: Instruction, on: list[int]) -> None:
    if item.modifiers[0] in ("fence", "commit_group", "wait_group"):
        return
    form = warpgroup_product_of(item)
    if form is None:
        raise NotCoveredError(item.name)
    product = form.product
    a = _a(warp, item, product, form.a_in_registers, form.transposed[0])
    descriptor = warp.value(0, item.operands[2], Type("b", 64))
    b = {
        (k, column): _shared(warp, descriptor, product.b, form.transposed[1], column, k)
        for k in range(product.depth)
        for column in range(product.columns)
    }
    keeps = _keeps(warp, item.operands[5 if product.sparse else 3], on)
    depths = {row: range(product.depth) for row in range(16)}
    if product.sparse:
        metadata, selector = item.operands[3], item.operands[4].value  # type: ignore[union-attr]
        depths = {row: stored_depths(warp, product, metadata, selector, row) for row in range(16)}
    size = 16 if product.sum_type == "f16" else 32
    held = _elements(warp, item.operands[0], 32, size)
    for lane in on:
        found = []
        for element, bits in enumerate(held[lane]):
            block, within = divmod(element, 4)
            row, column = c_place(lane, within)
            total = number(product.sum_type, bits if keeps else 0)
            for stored, k in enumerate(depths[row]):
                factor = a[row, stored]
                if form.negated:
                    factor = -factor
                total = added(product, total, factor, b[k, 8 * block + column])
            found.append(result_bits(product, total))
        per_register = 32 // size
        for position, target in enumerate(_items(item.operands[0])):
            parts = found[position * per_register : (position + 1) * per_register]
            warp.write(lane, target, sum(part << size * place for place, part in enumerate(parts)))


def _a(
    warp: _Warp, item: Instruction, product: Product, in_registers: bool, transposed: bool
) -> dict[tuple[int, int], Number]:
    """This warp's rows of A."""
    if in_registers:
        found = _elements(warp, item.operands[1], 32, ELEMENT_BITS[product.a])
        return {
            a_place(product, lane, element): number(product.a, bits)
            for lane, parts in enumerate(found)
            for element, bits in enumerate(parts)
        }
    descriptor = warp.value(0, item.operands[1], Type("b", 64))
    first = warp.number % 4 * 16
    return {
        (row, k): _shared(warp, descriptor, product.a, transposed, first + row, k)
        for row in range(16)
        for k in range(product.stored_depth)
    }


def _keeps(warp: _Warp, operand: Operand, on: list[int]) -> bool:
    if isinstance(operand, Immediate):
        return bool(operand.value)
    return any(warp.value(lane, operand, Type("pred", 1)) for lane in on)
