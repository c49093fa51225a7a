"""Conversions from and to 8-bit floats (e4m3, e5m2) and tf32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..flat import FlatInstruction
from ..program import TYPES, Type
from . import rounding
from .lanes import Lanes, Value, floats, integers
from .products import decoded_float

if TYPE_CHECKING:
    from .kernel import KernelBuilder

SMALL = ("e4m3", "e5m2")
#: Fraction bits, bias of the exponent and largest number.
_FORMATS = {"e4m3": (3, 7, 448.0), "e5m2": (2, 15, 57344.0)}
_NAN = 0x7F


def convert(g: KernelBuilder, item: FlatInstruction, target: Type, source: Type) -> None:
    """Two numbers at once: singles or a pair of halves to 8 bits each, or back to halves."""
    builder = g.builder
    if source.kind in SMALL:
        if target != TYPES["f16x2"]:
            raise g.not_covered(item)
        pair = g.read(g.operand(item, 1), source)
        found = [_part(g, pair, 8, half) for half in range(2)]
        numbers = [decoded_float(g, each, source.kind) for each in found]
        if item.instruction.has("relu"):
            numbers = [rounding.relu(g, each) for each in numbers]
        low, high = (g.resize(rounding.narrow(g, each, "f"), 32) for each in numbers)
        return g.write(item, builder.or_(low, builder.shl(high, g.integer(32, 16))))
    if not item.instruction.has("satfinite"):
        raise g.not_covered(item)
    if source == TYPES["f32"]:
        high, low = (g.as_float(g.read(g.operand(item, each), source)) for each in (1, 2))
    elif source == TYPES["f16x2"]:
        pair = g.read(g.operand(item, 1), source)
        low, high = (rounding.widen(g, _part(g, pair, 16, half), "f") for half in range(2))
    else:
        raise g.not_covered(item)
    if item.instruction.has("relu"):
        low, high = rounding.relu(g, low), rounding.relu(g, high)
    lower, upper = (g.resize(narrow(g, each, target.kind), 16) for each in (low, high))
    return g.write(item, builder.or_(lower, builder.shl(upper, g.integer(16, 8))))


def _part(g: Lanes, pair: Value, bits: int, half: int) -> Value:
    width = pair.type.element.width
    return g.resize(g.builder.lshr(pair, g.integer(width, bits * half)), bits)


def narrow(g: Lanes, value: Value, kind: str) -> Value:
    """Singles to 8 bits: to nearest even, too large ones to the largest."""
    fraction, bias, largest = _FORMATS[kind]
    builder = g.builder
    bits = g.as_bits(value)
    sign = builder.and_(builder.lshr(bits, g.integer(32, 24)), g.integer(32, 0x80))
    size = g.intrinsic("fabs", value)
    size = builder.select(builder.fcmp_ordered(">", size, g.real(32, largest)), g.real(32, largest), size)
    held = g.as_bits(size)
    shift = 23 - fraction
    odd = builder.and_(builder.lshr(held, g.integer(32, shift)), g.integer(32, 1))
    rounded = builder.add(builder.add(held, g.integer(32, (1 << (shift - 1)) - 1)), odd)
    normal = builder.sub(builder.lshr(rounded, g.integer(32, shift)), g.integer(32, (127 - bias) << fraction))
    steps = g.intrinsic("roundeven", builder.fmul(size, g.real(32, 2.0 ** (bias - 1 + fraction))))
    small = builder.fcmp_ordered("<", size, g.real(32, 2.0 ** (1 - bias)))
    zeroed = builder.select(small, steps, g.real(32, 0.0))
    code = builder.select(small, builder.fptoui(zeroed, integers(32)), normal)
    missing = builder.fcmp_unordered("uno", value, value)
    code = builder.select(missing, g.integer(32, _NAN), builder.or_(code, sign))
    return g.resize(code, 8)


def to_tf32(g: KernelBuilder, item: FlatInstruction) -> None:
    """A single with ten fraction bits: to nearest, ties away from zero (rna) or to even (rn), or towards zero."""
    builder = g.builder
    bits = g.read(g.operand(item, 1), TYPES["f32"])
    number = builder.bitcast(bits, floats(32))
    kept = g.integer(32, 0xFFFFE000)
    if item.instruction.has("rna"):
        result = builder.and_(builder.add(bits, g.integer(32, 0x1000)), kept)
    elif item.instruction.has("rn"):
        odd = builder.and_(builder.lshr(bits, g.integer(32, 13)), g.integer(32, 1))
        result = builder.and_(builder.add(builder.add(bits, g.integer(32, 0xFFF)), odd), kept)
    elif item.instruction.has("rz"):
        result = builder.and_(bits, kept)
    else:
        raise g.not_covered(item)
    exponent = builder.and_(bits, g.integer(32, 0x7F800000))
    special = builder.icmp_unsigned("==", exponent, g.integer(32, 0x7F800000))
    missing = builder.fcmp_unordered("uno", number, number)
    result = builder.select(special, bits, result)
    g.write(item, builder.select(missing, g.integer(32, 0x7FFFFFFF), result))
