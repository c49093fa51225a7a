"""Arithmetic on integers, and what integers and floats share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..flat import CARRY, FlatInstruction
from ..program import TYPES, Type
from . import rounding
from .lanes import Value
from .lowering import lowers, sources, type_of
from .real import float_minimum, lower_float

if TYPE_CHECKING:
    from .kernel import KernelBuilder


@lowers("add", "sub", "mul")
def _add(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    if kind.is_float:
        return lower_float(g, item, kind, item.opcode, 2)
    a, b = sources(g, item, kind, 2)
    if kind.packed != 1 and (item.opcode != "add" or len(item.instruction.modifiers) != 1):
        raise g.not_covered(item)
    if item.opcode == "mul":
        return g.write(item, _product(g, item, kind, a, b))
    if item.instruction.has("cc"):
        return _with_carry(g, item, kind, a, b, subtract=item.opcode == "sub", carry_in=False)
    if item.instruction.has("sat"):
        return g.write(item, g.intrinsic(f"s{item.opcode}.sat", a, b))
    return g.write(item, g.packed(kind, getattr(g.builder, item.opcode), a, b))


@lowers("addc", "subc")
def _addc(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    a, b = sources(g, item, kind, 2)
    _with_carry(g, item, kind, a, b, subtract=item.opcode == "subc", carry_in=True)


def _with_carry(
    g: KernelBuilder, item: FlatInstruction, kind: Type, a: Value, b: Value, *, subtract: bool, carry_in: bool
) -> None:
    """Sums with carry. A difference is a + ~b + 1 as on hardware, which sets the carry where nothing is borrowed."""
    builder = g.builder
    first = builder.add(a, builder.not_(b) if subtract else b)
    carry = g.resize(g.read_register(CARRY), kind.bits) if carry_in else g.integer(kind.bits, int(subtract))
    result = builder.add(first, carry)
    g.write(item, result)
    if item.instruction.has("cc"):
        overflows = [builder.icmp_unsigned("<", *each) for each in ((first, a), (result, first))]
        g.write_register(item, CARRY, builder.or_(*overflows))


def _product(g: KernelBuilder, item: FlatInstruction, kind: Type, a: Value, b: Value) -> Value:
    """mul.lo, .hi or .wide."""
    if item.instruction.has("lo"):
        return g.builder.mul(a, b)
    wide = 2 * kind.bits
    both = [g.resize(each, wide, signed=kind.is_signed) for each in (a, b)]
    product = g.builder.mul(*both)
    if item.instruction.has("wide"):
        return product
    if not item.instruction.has("hi"):
        raise g.not_covered(item)
    return g.resize(g.builder.lshr(product, g.integer(wide, kind.bits)), kind.bits)


@lowers("mad", "madc")
def _mad(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    if kind.is_float:
        return lower_float(g, item, kind, "fma", 3)
    a, b = sources(g, item, kind, 2)
    product = _product(g, item, kind, a, b)
    added = TYPES[f"{kind.kind}{2 * kind.bits}"] if item.instruction.has("wide") else kind
    c = g.read(g.operand(item, 3), added)
    if item.instruction.has("cc") or item.opcode == "madc":
        return _with_carry(g, item, added, product, c, subtract=False, carry_in=item.opcode == "madc")
    if item.instruction.has("sat"):
        return g.write(item, g.intrinsic("sadd.sat", product, c))
    return g.write(item, g.builder.add(product, c))


@lowers("mul24", "mad24")
def _mul24(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    builder = g.builder
    shift = builder.ashr if kind.is_signed else builder.lshr
    eight = g.integer(32, 8)
    a, b = (shift(builder.shl(each, eight), eight) for each in sources(g, item, kind, 2))
    product = builder.mul(g.resize(a, 64, signed=kind.is_signed), g.resize(b, 64, signed=kind.is_signed))
    if item.instruction.has("hi"):
        product = builder.lshr(product, g.integer(64, 16))
    result = g.resize(product, 32)
    if item.opcode == "mad24":
        c = g.read(g.operand(item, 3), kind)
        result = g.intrinsic("sadd.sat", result, c) if item.instruction.has("sat") else builder.add(result, c)
    g.write(item, result)


@lowers("div", "rem")
def _div(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    if kind.is_float:
        return lower_float(g, item, kind, "div", 2)
    a, b = sources(g, item, kind, 2)
    builder = g.builder
    zero, one = g.integer(kind.bits, 0), g.integer(kind.bits, 1)
    by_zero = builder.icmp_unsigned("==", b, zero)
    unsafe = by_zero
    if kind.is_signed:  # the smallest number divided by -1 overflows: the processor would trap
        minus = builder.icmp_unsigned("==", b, g.integer(kind.bits, -1))
        smallest = builder.icmp_unsigned("==", a, g.integer(kind.bits, 1 << (kind.bits - 1)))
        unsafe = builder.or_(unsafe, builder.and_(minus, smallest))
    divisor = builder.select(unsafe, one, b)
    if item.opcode == "div":
        result = (builder.sdiv if kind.is_signed else builder.udiv)(a, divisor)
        return g.write(item, builder.select(by_zero, g.integer(kind.bits, -1), result))
    result = (builder.srem if kind.is_signed else builder.urem)(a, divisor)
    return g.write(item, builder.select(by_zero, g.integer(kind.bits, -1), result))


@lowers("abs", "neg")
def _sign(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    (a,) = sources(g, item, kind, 1)
    builder = g.builder
    if kind.is_float:
        return g.write(item, g.packed(kind, lambda part: _float_sign(g, item, kind, part), a))
    negated = builder.sub(g.integer(kind.bits, 0), a)
    if item.opcode == "abs":
        negated = builder.select(builder.icmp_signed("<", a, g.integer(kind.bits, 0)), negated, a)
    return g.write(item, negated)


def _float_sign(g: KernelBuilder, item: FlatInstruction, kind: Type, bits: Value) -> Value:
    """abs or neg of numbers; NaNs narrower than double precision become the one that instructions return."""
    builder = g.builder
    if kind.bits == 32 and item.instruction.has("ftz"):
        bits = g.as_bits(rounding.flush(g, g.as_float(bits)))
    if kind.bits == 16 and item.instruction.has("ftz"):
        bits = rounding.flush_bits(g, bits, kind.kind)
    sign = g.integer(kind.bits, 1 << (kind.bits - 1))
    size = builder.and_(bits, builder.not_(sign))
    changed = builder.xor(bits, sign) if item.opcode == "neg" else size
    if kind.bits == 64:
        return changed
    infinity = {"f16": 0x7C00, "bf16": 0x7F80, "f32": 0x7F800000}[f"{kind.kind}{kind.bits}"]
    missing = builder.icmp_unsigned(">", size, g.integer(kind.bits, infinity))
    return builder.select(missing, g.integer(kind.bits, rounding.CANONICAL_NAN[kind.bits]), changed)


@lowers("min", "max")
def _min(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    largest = item.opcode == "max"
    count = len(item.instruction.operands) - 1
    values = sources(g, item, kind, max(count, 2))
    result = values[0]
    for other in values[1:]:
        if kind.is_float:
            result = float_minimum(g, item, kind, result, other, largest)
        else:
            result = g.packed(kind, lambda x, y: _chosen(g, kind, x, y, largest), result, other)
    if item.instruction.has("relu"):
        if kind.kind != "s":
            raise g.not_covered(item)
        result = g.packed(kind, lambda x: _chosen(g, kind, x, g.integer(kind.bits, 0), True), result)
    g.write(item, result)


def _chosen(g: KernelBuilder, kind: Type, a: Value, b: Value, largest: bool) -> Value:
    compare = g.builder.icmp_signed if kind.is_signed else g.builder.icmp_unsigned
    return g.builder.select(compare(">" if largest else "<", a, b), a, b)
