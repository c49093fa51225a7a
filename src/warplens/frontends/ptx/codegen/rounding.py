"""Floating point that LLVM lacks: directed rounding, flushing, saturation, small formats.

Sums of products in 16-bit formats are computed in double precision and rounded to
odd: the last bit marks an inexact result. A second rounding, to a format with less
than half the digits, is then correct (Boldo and Melquiond 2008).
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

from llvmlite import ir

from .lanes import I32, POINTER, Lanes, Value, floats, integers

DIRECTED = ("rz", "rm", "rp")
#: The NaN that instructions return, by width; those in double precision may return others.
CANONICAL_NAN = {16: 0x7FFF, 32: 0x7FFFFFFF, 64: 0x7FF8 << 48}


def flush(g: Lanes, value: Value) -> Value:
    """Subnormal floats to zero, with their sign (.ftz; 32-bit only)."""
    bits = g.as_bits(value)
    small = g.builder.icmp_unsigned("==", g.builder.and_(bits, g.integer(32, 0x7F800000)), g.integer(32, 0))
    zero = g.builder.and_(bits, g.integer(32, 0x80000000))
    return g.as_float(g.builder.select(small, zero, bits))


def flush_bits(g: Lanes, bits: Value, kind: str) -> Value:
    """The same for 16-bit floats, as bits: half precision (f) or bfloat16 (bf)."""
    exponent = g.integer(16, 0x7F80 if kind == "bf" else 0x7C00)
    small = g.builder.icmp_unsigned("==", g.builder.and_(bits, exponent), g.integer(16, 0))
    return g.builder.select(small, g.builder.and_(bits, g.integer(16, 0x8000)), bits)


def flush_below(g: Lanes, value: Value, bits: int, least: float) -> Value:
    """Numbers below `least` to zero, with their sign."""
    small = g.builder.fcmp_ordered("<", g.intrinsic("fabs", value), g.real(bits, least))
    return g.builder.select(small, g.intrinsic("copysign", g.real(bits, 0.0), value), value)


def result_bits(g: Lanes, value: Value) -> Value:
    """A result as bits: single-precision instructions return one NaN only, whatever those of their operands."""
    bits = g.as_bits(value)
    if bits.type.element.width != 32:
        return bits
    return g.builder.select(g.builder.fcmp_unordered("uno", value, value), g.integer(32, CANONICAL_NAN[32]), bits)


def saturate(g: Lanes, value: Value) -> Value:
    """To [0, 1]; NaN becomes 0."""
    width = g.as_bits(value).type.element.width
    zero, one = g.real(width, 0.0), g.real(width, 1.0)
    above = g.builder.fcmp_ordered(">", value, zero)  # false for NaN
    kept = g.builder.select(above, value, zero)
    return g.builder.select(g.builder.fcmp_ordered(">", kept, one), one, kept)


def minimum(g: Lanes, a: Value, b: Value, *, largest: bool, keep_nan: bool) -> Value:
    """min or max: -0 is below +0; a NaN loses against a number, unless `keep_nan`, and two give one."""
    builder = g.builder
    a_bits, b_bits = g.as_bits(a), g.as_bits(b)
    width = a_bits.type.element.width
    chosen = builder.select(builder.fcmp_ordered(">" if largest else "<", a, b), a_bits, b_bits)
    both = builder.and_(a_bits, b_bits) if largest else builder.or_(a_bits, b_bits)
    chosen = builder.select(builder.fcmp_ordered("==", a, b), both, chosen)
    a_nan, b_nan = builder.fcmp_unordered("uno", a, a), builder.fcmp_unordered("uno", b, b)
    canonical = g.integer(width, CANONICAL_NAN[width])
    if not keep_nan:
        chosen = builder.select(b_nan, a_bits, builder.select(a_nan, b_bits, chosen))
    missing = (builder.or_ if keep_nan else builder.and_)(a_nan, b_nan)
    return g.as_float(builder.select(missing, canonical, chosen))


# -- exact errors ---------------------------------------------------------------------------------------


def two_sum(g: Lanes, a: Value, b: Value) -> tuple[Value, Value]:
    """a + b rounded, and the rounding error (Knuth)."""
    builder = g.builder
    total = builder.fadd(a, b)
    virtual = builder.fsub(total, a)
    lost = builder.fadd(builder.fsub(a, builder.fsub(total, virtual)), builder.fsub(b, virtual))
    return total, lost


def make_odd(g: Lanes, value: Value, lost: Value) -> Value:
    """A nearest-rounded double, made odd if it is inexact."""
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
    """a·b + c, rounded to odd, for values whose product is exact in double precision."""
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


# -- directed rounding -----------------------------------------------------------------------------------


def _mode_numbers() -> dict[str, int]:
    """The values of fesetround's argument on this platform."""
    if sys.platform == "win32":
        return {"rn": 0, "rm": 0x100, "rp": 0x200, "rz": 0x300}
    if platform.machine().lower() in ("arm64", "aarch64"):
        return {"rn": 0, "rp": 0x400000, "rm": 0x800000, "rz": 0xC00000}
    return {"rn": 0, "rm": 0x400, "rp": 0x800, "rz": 0xC00}


def in_mode(g: Lanes, mode: str, name: str, result: ir.Type, compute: Callable[..., Value], *values: Value) -> Value:
    """`compute(lanes, *values)` with the processor in a rounding mode (`rn`: as it is).

    A separate function reads the operands from memory after it sets the mode, and
    writes the result before it restores the mode, so that no optimisation can move
    the arithmetic out.
    """
    if mode == "rn":
        return compute(g, *values)
    full = f"{name}_{mode}_{'_'.join(str(each.type) for each in values)}_{result}"
    function = g.module.globals.get(full)
    if function is None:
        function = ir.Function(g.module, ir.FunctionType(ir.VoidType(), [POINTER] * (len(values) + 1)), full)
        function.linkage = "internal"
        function.attributes.add("noinline")
        inner = Lanes(g.module, ir.IRBuilder(function.append_basic_block()))
        numbers = _mode_numbers()
        setter = inner.declared("fesetround", I32, [I32])
        inner.builder.call(setter, [ir.Constant(I32, numbers[mode])])
        given = [inner.builder.load(place, typ=each.type) for place, each in zip(function.args, values, strict=False)]
        inner.builder.store(compute(inner, *given), function.args[-1])
        inner.builder.call(setter, [ir.Constant(I32, numbers["rn"])])
        inner.builder.ret_void()
    places = [g.scratch(each.type) for each in values]
    for place, each in zip(places, values, strict=True):
        g.builder.store(each, place)
    target = g.scratch(result)
    g.builder.call(function, [*places, target])
    return g.builder.load(target, typ=result)


# -- half precision and bfloat16 --------------------------------------------------------------------------


def widen(g: Lanes, bits: Value, kind: str) -> Value:
    """16-bit floats to singles: half precision (f) or bfloat16 (bf)."""
    if kind == "bf":
        return g.as_float(g.builder.shl(g.resize(bits, 32), g.integer(32, 16)))
    return g.builder.fpext(g.builder.bitcast(bits, floats(16)), floats(32))


def narrow(g: Lanes, value: Value, kind: str, mode: str = "rn") -> Value:
    """Singles to 16 bits."""
    builder = g.builder
    nan = builder.fcmp_unordered("uno", value, value)
    canonical = g.integer(16, CANONICAL_NAN[16])
    if kind == "f":

        def half(inner: Lanes, single: Value) -> Value:
            return inner.builder.bitcast(inner.builder.fptrunc(single, floats(16)), integers(16))

        return builder.select(nan, canonical, in_mode(g, mode, "half", integers(16), half, value))
    bits = g.as_bits(value)
    upper = builder.lshr(bits, g.integer(32, 16))
    rounded = upper
    if mode == "rn":
        bias = builder.add(g.integer(32, 0x7FFF), builder.and_(upper, g.integer(32, 1)))
        rounded = builder.lshr(builder.add(bits, bias), g.integer(32, 16))
    elif mode in ("rm", "rp"):  # away from zero if the sign is that of the mode; infinities have no lower bits
        away = builder.icmp_signed("<" if mode == "rm" else ">=", bits, g.integer(32, 0))
        ones = builder.select(away, g.integer(32, 0xFFFF), g.integer(32, 0))
        rounded = builder.lshr(builder.add(bits, ones), g.integer(32, 16))
    return builder.select(nan, canonical, g.resize(rounded, 16))


def relu(g: Lanes, value: Value) -> Value:
    """Negative singles to 0; NaN stays."""
    return minimum(g, value, g.real(32, 0.0), largest=True, keep_nan=True)
