"""Conversions from and to floats of 4, 6 and 8 bits, and tf32."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..flat import FlatInstruction
from ..program import SMALL_FLOATS, TYPES, Type
from . import rounding
from .lanes import Lanes, Value, floats, integers
from .products import decoded_float

if TYPE_CHECKING:
    from .kernel import KernelBuilder

#: Bits, fraction bits, bias of the exponent and largest number. e4m3 and e5m2 have NaNs.
_FORMATS = {
    "e4m3": (8, 3, 7, 448.0),
    "e5m2": (8, 2, 15, 57344.0),
    "e3m2": (6, 2, 3, 28.0),
    "e2m3": (6, 3, 1, 7.5),
    "e2m1": (4, 1, 1, 6.0),
}


def convert(g: KernelBuilder, item: FlatInstruction, target: Type, source: Type) -> None:
    """Two numbers at once: singles or a pair of halves to 4 to 8 bits each, or back to halves."""
    builder = g.builder
    halves = (TYPES["f16x2"], TYPES["bf16x2"])
    if source.kind in SMALL_FLOATS:
        if target not in halves:
            raise g.not_covered(item)
        pair = g.read(g.operand(item, 1), source)
        found = [_part(g, pair, source.bits, half) for half in range(2)]
        numbers = [widen(g, each, source.kind) for each in found]
        if item.instruction.has("relu"):
            numbers = [rounding.relu(g, each) for each in numbers]
        low, high = (g.resize(rounding.narrow(g, each, target.kind), 32) for each in numbers)
        return g.write(item, builder.or_(low, builder.shl(high, g.integer(32, 16))))
    if source == TYPES["f32"]:
        high, low = (g.as_float(g.read(g.operand(item, each), source)) for each in (1, 2))
    elif source in halves:
        pair = g.read(g.operand(item, 1), source)
        low, high = (rounding.widen(g, _part(g, pair, 16, half), source.kind) for half in range(2))
    else:
        raise g.not_covered(item)
    if item.instruction.has("relu"):
        low, high = rounding.relu(g, low), rounding.relu(g, high)
    if target.kind == "ue8m0":
        codes = [_exponent(g, item, each) for each in (low, high)]
    else:
        truncates = item.instruction.has("rz")
        if not item.instruction.has("satfinite") or not (truncates or item.instruction.has("rn")):
            raise g.not_covered(item)
        codes = [narrow(g, each, target.kind, truncates) for each in (low, high)]
    lower, upper = (g.resize(each, 2 * target.bits) for each in codes)
    return g.write(item, builder.or_(lower, builder.shl(upper, g.integer(2 * target.bits, target.bits))))


def widen(g: KernelBuilder, code: Value, kind: str) -> Value:
    """Small floats as singles."""
    if kind in ("e4m3", "e5m2"):
        return decoded_float(g, code, kind)
    builder = g.builder
    if kind == "ue8m0":  # a power of two, of which the least is no normal single
        wide = g.resize(code, 32)
        power = builder.shl(wide, g.integer(32, 23))
        power = builder.select(builder.icmp_unsigned("==", wide, g.integer(32, 0)), g.integer(32, 1 << 22), power)
        missing = builder.icmp_unsigned("==", wide, g.integer(32, 255))
        return g.as_float(builder.select(missing, g.integer(32, rounding.CANONICAL_NAN[32]), power))
    bits, fraction, bias, _ = _FORMATS[kind]
    wide = g.resize(code, 16)
    size = builder.and_(wide, g.integer(16, (1 << (bits - 1)) - 1))
    sign = builder.shl(builder.and_(wide, g.integer(16, 1 << (bits - 1))), g.integer(16, 16 - bits))
    half = builder.or_(builder.shl(size, g.integer(16, 10 - fraction)), sign)
    return builder.fmul(rounding.widen(g, half, "f"), g.real(32, 2.0 ** (15 - bias)))


def _exponent(g: KernelBuilder, item: FlatInstruction, value: Value) -> Value:
    """The power of two at or below a number's size (rz), or at or above it (rp); 255 is NaN."""
    builder = g.builder
    if not item.instruction.has("rz", "rp"):
        raise g.not_covered(item)
    size = builder.and_(g.as_bits(value), g.integer(32, 0x7FFFFFFF))
    code = builder.lshr(size, g.integer(32, 23))
    if item.instruction.has("rp"):
        rest = builder.and_(size, g.integer(32, 0x7FFFFF))
        least = builder.select(
            builder.icmp_unsigned("==", code, g.integer(32, 0)), g.integer(32, 1 << 22), g.integer(32, 0)
        )
        code = builder.add(code, g.resize(builder.icmp_unsigned(">", rest, least), 32))
    if item.instruction.has("satfinite"):
        code = builder.select(builder.icmp_unsigned(">", code, g.integer(32, 254)), g.integer(32, 254), code)
    missing = builder.icmp_unsigned(">", size, g.integer(32, 0x7F800000))
    return g.resize(builder.select(missing, g.integer(32, 255), code), 8)


def _part(g: Lanes, pair: Value, bits: int, half: int) -> Value:
    width = pair.type.element.width
    return g.resize(g.builder.lshr(pair, g.integer(width, bits * half)), bits)


def narrow(g: Lanes, value: Value, kind: str, truncates: bool = False) -> Value:
    """Singles to the nearest code, even ones where two are, or towards zero; too large ones to the largest."""
    width, fraction, bias, largest = _FORMATS[kind]
    builder = g.builder
    bits = g.as_bits(value)
    sign = builder.and_(builder.lshr(bits, g.integer(32, 32 - width)), g.integer(32, 1 << (width - 1)))
    size = g.intrinsic("fabs", value)
    size = builder.select(builder.fcmp_ordered(">", size, g.real(32, largest)), g.real(32, largest), size)
    held = g.as_bits(size)
    shift = 23 - fraction
    rounded = held
    if not truncates:
        odd = builder.and_(builder.lshr(held, g.integer(32, shift)), g.integer(32, 1))
        rounded = builder.add(builder.add(held, g.integer(32, (1 << (shift - 1)) - 1)), odd)
    normal = builder.sub(builder.lshr(rounded, g.integer(32, shift)), g.integer(32, (127 - bias) << fraction))
    scaled = builder.fmul(size, g.real(32, 2.0 ** (bias - 1 + fraction)))
    steps = g.intrinsic("trunc" if truncates else "roundeven", scaled)
    small = builder.fcmp_ordered("<", size, g.real(32, 2.0 ** (1 - bias)))
    zeroed = builder.select(small, steps, g.real(32, 0.0))
    code = builder.select(small, builder.fptoui(zeroed, integers(32)), normal)
    # All ones: NaN, or the largest number of a format that has none.
    missing = builder.fcmp_unordered("uno", value, value)
    code = builder.select(missing, g.integer(32, (1 << (width - 1)) - 1), builder.or_(code, sign))
    return g.resize(code, 8 if width > 4 else 4)


def finite(g: Lanes, value: Value, largest: float) -> Value:
    """Numbers beyond the largest of a format become that; NaN stays."""
    builder, most = g.builder, g.real(32, largest)
    beyond = builder.fcmp_ordered(">", g.intrinsic("fabs", value), most)
    return builder.select(beyond, g.intrinsic("copysign", most, value), value)


def to_tf32(g: KernelBuilder, item: FlatInstruction) -> None:
    """A single with ten fraction bits: to nearest, ties away from zero (rna) or to even (rn), or towards zero."""
    builder = g.builder
    bits = g.read(g.operand(item, 1), TYPES["f32"])
    number = builder.bitcast(bits, floats(32))
    if item.instruction.has("relu"):
        number = rounding.relu(g, number)
    if item.instruction.has("satfinite"):
        number = finite(g, number, float.fromhex("0x1.ffcp127"))
    bits = g.as_bits(number)
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
