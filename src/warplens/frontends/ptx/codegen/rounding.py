"""Floating point beyond what LLVM's instructions give: directed rounding, flushing, saturation, small formats.

Results that must be rounded once are made in double precision rounded to odd
(the last bit says that something was lost), from which rounding again to a
format with less than half the digits is exact (Boldo and Melquiond 2008).
"""

from __future__ import annotations

from collections.abc import Callable

from .lanes import Lanes, Value, floats, integers

DIRECTED = ("rz", "rm", "rp")


def flush(g: Lanes, value: Value) -> Value:
    """Subnormal floats to zero, with their sign (.ftz; 32-bit only)."""
    bits = g.as_bits(value)
    small = g.builder.icmp_unsigned("==", g.builder.and_(bits, g.integer(32, 0x7F800000)), g.integer(32, 0))
    zero = g.builder.and_(bits, g.integer(32, 0x80000000))
    return g.as_float(g.builder.select(small, zero, bits))


def saturate(g: Lanes, value: Value) -> Value:
    """To [0, 1]; NaN becomes 0."""
    width = g.as_bits(value).type.element.width
    zero, one = g.real(width, 0.0), g.real(width, 1.0)
    above = g.builder.fcmp_ordered(">", value, zero)  # false for NaN
    kept = g.builder.select(above, value, zero)
    return g.builder.select(g.builder.fcmp_ordered(">", kept, one), one, kept)


def minimum(g: Lanes, a: Value, b: Value, *, largest: bool, keep_nan: bool) -> Value:
    """min or max: -0 is below +0; a NaN loses against a number, unless `keep_nan`."""
    builder = g.builder
    a_bits, b_bits = g.as_bits(a), g.as_bits(b)
    width = a_bits.type.element.width
    chosen = builder.select(builder.fcmp_ordered(">" if largest else "<", a, b), a_bits, b_bits)
    both = builder.and_(a_bits, b_bits) if largest else builder.or_(a_bits, b_bits)
    chosen = builder.select(builder.fcmp_ordered("==", a, b), both, chosen)
    a_nan, b_nan = builder.fcmp_unordered("uno", a, a), builder.fcmp_unordered("uno", b, b)
    if keep_nan:
        canonical = g.integer(width, {16: 0x7FFF, 32: 0x7FFFFFFF, 64: 0x7FF8 << 48}[width])
        return g.as_float(builder.select(builder.or_(a_nan, b_nan), canonical, chosen))
    chosen = builder.select(a_nan, b_bits, chosen)
    return g.as_float(builder.select(builder.and_(b_nan, builder.not_(a_nan)), a_bits, chosen))


# -- exact errors ---------------------------------------------------------------------------------------


def two_sum(g: Lanes, a: Value, b: Value) -> tuple[Value, Value]:
    """a + b rounded, and what was lost (Knuth)."""
    builder = g.builder
    total = builder.fadd(a, b)
    virtual = builder.fsub(total, a)
    lost = builder.fadd(builder.fsub(a, builder.fsub(total, virtual)), builder.fsub(b, virtual))
    return total, lost


def make_odd(g: Lanes, value: Value, lost: Value) -> Value:
    """A nearest-rounded double made odd where something was lost."""
    builder = g.builder
    bits = g.as_bits(value)
    width = bits.type.element.width
    zero, one = g.integer(width, 0), g.integer(width, 1)
    inexact = builder.fcmp_ordered("!=", lost, g.real(width, 0.0))  # false for NaN: infinities stay
    even = builder.icmp_unsigned("==", builder.and_(bits, one), zero)
    outward = builder.xor(
        builder.icmp_signed("<", bits, zero), builder.fcmp_ordered(">", lost, g.real(width, 0.0))
    )  # the exact value has a larger magnitude
    stepped = builder.select(outward, builder.add(bits, one), builder.sub(bits, one))
    finite = builder.fcmp_ordered("==", builder.fsub(value, value), g.real(width, 0.0))
    return g.as_float(builder.select(builder.and_(builder.and_(inexact, even), finite), stepped, bits))


def fused_odd(g: Lanes, a: Value, b: Value, c: Value) -> Value:
    """a·b + c of values whose product is exact in double precision, rounded to odd."""
    return make_odd(g, *two_sum(g, g.builder.fmul(a, b), c))


def to_odd_single(g: Lanes, value: Value) -> Value:
    """Doubles to singles, rounded to odd."""
    builder = g.builder
    single = builder.fptrunc(value, floats(32))
    back = builder.fpext(single, floats(64))
    bits = g.as_bits(single)
    even = builder.icmp_unsigned("==", builder.and_(bits, g.integer(32, 1)), g.integer(32, 0))
    inexact = builder.fcmp_ordered("!=", back, value)
    magnitude = g.intrinsic("fabs", value)
    outward = builder.fcmp_ordered("<", g.intrinsic("fabs", back), magnitude)
    stepped = builder.select(outward, builder.add(bits, g.integer(32, 1)), builder.sub(bits, g.integer(32, 1)))
    return g.as_float(builder.select(builder.and_(even, inexact), stepped, bits))


def _step(g: Lanes, bits: Value, too_high: Value, too_low: Value, mode: str) -> Value:
    """Nearest-rounded floats, as bits, moved to the neighbour that the mode asks for."""
    builder = g.builder
    width = bits.type.element.width
    one, sign = g.integer(width, 1), g.integer(width, 1 << (width - 1))
    negative = builder.icmp_signed("<", bits, g.integer(width, 0))
    is_zero = builder.icmp_unsigned("==", builder.and_(bits, builder.not_(sign)), g.integer(width, 0))
    up = builder.select(negative, builder.sub(bits, one), builder.add(bits, one))
    down = builder.select(negative, builder.add(bits, one), builder.sub(bits, one))
    if mode != "rm":
        moves = too_low if mode == "rp" else builder.and_(too_low, negative)
        bits = builder.select(moves, builder.select(is_zero, one, up), bits)
    if mode != "rp":
        moves = too_high if mode == "rm" else builder.and_(too_high, builder.not_(negative))
        bits = builder.select(moves, builder.select(is_zero, builder.or_(sign, one), down), bits)
    return g.as_float(bits)


def directed(g: Lanes, nearest: Value, lost: Value, mode: str) -> Value:
    """Doubles in a directed mode from the nearest ones and the sign of what they lack; overflow stays infinite."""
    zero = g.real(64, 0.0)
    too_high, too_low = g.builder.fcmp_ordered("<", lost, zero), g.builder.fcmp_ordered(">", lost, zero)
    return _step(g, g.as_bits(nearest), too_high, too_low, mode)


def narrow_directed(g: Lanes, value: Value, mode: str) -> Value:
    """Doubles (rounded to odd, or exact) to singles in a directed mode."""
    single = g.builder.fptrunc(value, floats(32))
    back = g.builder.fpext(single, floats(64))
    too_high, too_low = g.builder.fcmp_ordered(">", back, value), g.builder.fcmp_ordered("<", back, value)
    return _step(g, g.as_bits(single), too_high, too_low, mode)


# -- half precision and bfloat16 --------------------------------------------------------------------------


def widen(g: Lanes, bits: Value, kind: str) -> Value:
    """16-bit floats to singles: half precision (f) or bfloat16 (bf)."""
    if kind == "bf":
        return g.as_float(g.builder.shl(g.resize(bits, 32), g.integer(32, 16)))
    return g.builder.fpext(g.builder.bitcast(bits, floats(16)), floats(32))


def narrow(g: Lanes, value: Value, kind: str, mode: str = "rn") -> Value:
    """Singles to 16 bits, to nearest even (`rz`: towards zero)."""
    builder = g.builder
    if kind == "f":
        if mode == "rz":
            return _half_towards_zero(g, value)
        return builder.bitcast(builder.fptrunc(value, floats(16)), integers(16))
    bits = g.as_bits(value)
    upper = builder.lshr(bits, g.integer(32, 16))
    rounded = upper
    if mode == "rn":
        bias = builder.add(g.integer(32, 0x7FFF), builder.and_(upper, g.integer(32, 1)))
        rounded = builder.lshr(builder.add(bits, bias), g.integer(32, 16))
    nan = builder.fcmp_unordered("uno", value, value)
    return g.resize(builder.select(nan, g.integer(32, 0x7FFF), rounded), 16)


def _half_towards_zero(g: Lanes, value: Value) -> Value:
    builder = g.builder
    half = builder.fptrunc(value, floats(16))
    bits = builder.bitcast(half, integers(16))
    back = g.intrinsic("fabs", builder.fpext(half, floats(32)))
    too_far = builder.fcmp_ordered(">", back, g.intrinsic("fabs", value))
    return builder.select(too_far, builder.sub(bits, g.integer(16, 1)), bits)


def in_double(g: Lanes, compute: Callable[..., Value], *values: Value) -> Value:
    """Singles computed in double precision."""
    return compute(*(g.builder.fpext(each, floats(64)) for each in values))
