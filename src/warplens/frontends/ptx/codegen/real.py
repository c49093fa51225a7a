"""Arithmetic on floats, with rounding modes, flushing and saturation, and approximate functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..flat import FlatInstruction
from ..program import Type
from . import rounding
from .lanes import Lanes, Value, floats
from .lowering import lowers, sources, type_of

if TYPE_CHECKING:
    from .kernel import KernelBuilder


@lowers("fma")
def _fma(g: KernelBuilder, item: FlatInstruction) -> None:
    lower_float(g, item, type_of(g, item), "fma", 3)


def lower_float(g: KernelBuilder, item: FlatInstruction, kind: Type, operation: str, count: int) -> None:
    """add, sub, mul, div and fma, with .ftz, .sat and the rounding modes."""
    mode = next((each for each in rounding.DIRECTED if item.instruction.has(each)), "rn")
    values = sources(g, item, kind, count)
    if item.instruction.has("oob") or (kind.bits == 16 and (mode != "rn" or operation == "div")):
        raise g.not_covered(item)

    def small(*parts: Value) -> Value:
        flushing = item.instruction.has("ftz")
        if flushing:
            parts = tuple(rounding.flush_bits(g, each, kind.kind) for each in parts)
        wide = [rounding.widen(g, each, kind.kind) for each in parts]
        if operation == "fma":
            doubles = [g.builder.fpext(each, floats(64)) for each in wide]
            result = rounding.to_odd_single(g, rounding.fused_odd(g, *doubles))
        else:
            result = _nearest(g, operation, wide)
        if item.instruction.has("sat"):
            result = rounding.saturate(g, result)
        if item.instruction.has("relu"):
            result = rounding.relu(g, result)
        if flushing:  # before it is rounded
            result = rounding.flush_below(g, result, 32, 2.0 ** (-126 if kind.kind == "bf" else -14))
        return rounding.narrow(g, result, kind.kind)

    def large(*parts: Value) -> Value:
        numbers = [g.as_float(each) for each in parts]
        flushing = kind.bits == 32 and item.instruction.has("ftz")
        if flushing:
            numbers = [rounding.flush(g, each) for each in numbers]
        result = _rounded(g, operation, numbers, mode)
        if item.instruction.has("approx") and operation == "div" and kind.bits == 32:
            result = _without_large_divisors(g, result, *numbers)
        if flushing:
            result = rounding.flush(g, result)
        if item.instruction.has("sat"):
            result = rounding.saturate(g, result)
        return rounding.result_bits(g, result)

    return g.write(item, g.packed(kind, small if kind.bits == 16 else large, *values))


def _nearest(g: Lanes, operation: str, values: list[Value]) -> Value:
    if operation in ("fma", "sqrt"):
        return g.intrinsic(operation, *values)
    return getattr(g.builder, f"f{operation}")(*values)


def _rounded(g: Lanes, operation: str, values: list[Value], mode: str) -> Value:
    def compute(inner: Lanes, *given: Value) -> Value:
        return _nearest(inner, operation, list(given))

    return rounding.in_mode(g, mode, operation, values[0].type, compute, *values)


def _without_large_divisors(g: Lanes, result: Value, a: Value, b: Value) -> Value:
    """div.approx multiplies by the reciprocal, which is 0 for divisors above 2^126."""
    builder = g.builder
    large = builder.fcmp_ordered(">", g.intrinsic("fabs", b), g.real(32, 2.0**126))
    return builder.select(large, builder.fmul(a, g.intrinsic("copysign", g.real(32, 0.0), b)), result)


@lowers("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh")
def _function(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    if (kind.packed != 1 or kind.bits == 16) and item.opcode not in ("ex2", "tanh"):
        raise g.not_covered(item)
    (bits,) = sources(g, item, kind, 1)
    flushing = item.instruction.has("ftz")
    if kind.bits == 16:

        def small(part: Value) -> Value:
            found = rounding.narrow(g, _value(g, item, rounding.widen(g, part, kind.kind), 32), kind.kind)
            return rounding.flush_bits(g, found, kind.kind) if flushing else found

        return g.write(item, g.packed(kind, small, bits))

    def flush(value: Value) -> Value:
        # Of doubles, only approximate reciprocals flush.
        return rounding.flush(g, value) if kind.bits == 32 else rounding.flush_below(g, value, 64, 2.0**-1022)

    value = flush(g.as_float(bits)) if flushing else g.as_float(bits)
    result = _value(g, item, value, kind.bits)
    return g.write(item, rounding.result_bits(g, flush(result) if flushing else result))


def _value(g: KernelBuilder, item: FlatInstruction, value: Value, width: int) -> Value:
    """The function of numbers of 32 or 64 bits."""
    builder = g.builder
    mode = next((each for each in rounding.DIRECTED if item.instruction.has(each)), "rn")
    if item.opcode == "rcp":
        return _rounded(g, "div", [g.real(width, 1.0), value], mode)
    if item.opcode == "sqrt":
        return _rounded(g, "sqrt", [value], mode)
    if item.opcode == "rsqrt":
        wide = value if width == 64 else builder.fpext(value, floats(64))
        result = builder.fdiv(g.real(64, 1.0), g.intrinsic("sqrt", wide))
        return result if width == 64 else builder.fptrunc(result, floats(32))
    if item.opcode == "tanh":
        return _tanh(g, value)
    return g.per_lane({"ex2": "exp2", "lg2": "log2"}.get(item.opcode, item.opcode), value)


def _tanh(g: KernelBuilder, value: Value) -> Value:
    """1 - 2/(e^2x + 1) in double precision, x itself where that would cancel."""
    builder = g.builder
    wide = builder.fpext(value, floats(64))
    grown = g.per_lane("exp", builder.fmul(wide, g.real(64, 2.0)))
    share = builder.fdiv(g.real(64, 2.0), builder.fadd(grown, g.real(64, 1.0)))
    result = builder.fptrunc(builder.fsub(g.real(64, 1.0), share), floats(32))
    tiny = builder.fcmp_ordered("<", g.intrinsic("fabs", value), g.real(32, 1e-5))
    return builder.select(tiny, value, result)


@lowers("copysign")
def _copysign(g: KernelBuilder, item: FlatInstruction) -> None:
    a, b = sources(g, item, type_of(g, item), 2)  # the sign of a on b
    g.write(item, g.as_bits(g.intrinsic("copysign", g.as_float(b), g.as_float(a))))


@lowers("testp")
def _testp(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    (bits,) = sources(g, item, kind, 1)
    builder = g.builder
    width = kind.bits
    exponent = {32: 0x7F800000, 64: 0x7FF << 52}[width]
    mantissa = {32: 0x7FFFFF, 64: (1 << 52) - 1}[width]
    part = builder.and_(bits, g.integer(width, exponent))
    rest = builder.and_(bits, g.integer(width, mantissa))
    zero = g.integer(width, 0)
    all_ones = builder.icmp_unsigned("==", part, g.integer(width, exponent))
    no_exponent = builder.icmp_unsigned("==", part, zero)
    no_rest = builder.icmp_unsigned("==", rest, zero)
    some_rest = builder.icmp_unsigned("!=", rest, zero)
    tests = {
        "finite": lambda: builder.not_(all_ones),
        "infinite": lambda: builder.and_(all_ones, no_rest),
        "number": lambda: builder.not_(builder.and_(all_ones, some_rest)),
        "notanumber": lambda: builder.and_(all_ones, some_rest),
        "normal": lambda: builder.not_(builder.or_(all_ones, builder.and_(no_exponent, some_rest))),  # zero is
        "subnormal": lambda: builder.and_(no_exponent, some_rest),
    }
    for name, test in tests.items():
        if item.instruction.has(name):
            return g.write(item, test())
    raise g.not_covered(item)


def float_minimum(g: KernelBuilder, item: FlatInstruction, kind: Type, a: Value, b: Value, largest: bool) -> Value:
    signs = item.instruction.has("xorsign")
    if item.instruction.has("abs") and not signs:
        raise g.not_covered(item)

    def one(x: Value, y: Value) -> Value:
        builder, top = g.builder, g.integer(kind.bits, 1 << (kind.bits - 1))
        sign = builder.and_(builder.xor(x, y), top)
        if signs:  # of the sizes, with the product's sign
            x, y = (builder.and_(each, builder.not_(top)) for each in (x, y))
        if kind.bits == 16:
            if item.instruction.has("ftz"):
                x, y = rounding.flush_bits(g, x, kind.kind), rounding.flush_bits(g, y, kind.kind)
            x, y = rounding.widen(g, x, kind.kind), rounding.widen(g, y, kind.kind)
        else:
            x, y = g.as_float(x), g.as_float(y)
            if item.instruction.has("ftz"):
                x, y = rounding.flush(g, x), rounding.flush(g, y)
        result = rounding.minimum(g, x, y, largest=largest, keep_nan=item.instruction.has("NaN"))
        bits = rounding.narrow(g, result, kind.kind) if kind.bits == 16 else g.as_bits(result)
        if not signs:
            return bits
        missing = builder.fcmp_unordered("uno", result, result)
        return builder.select(missing, bits, builder.or_(bits, sign))

    return g.packed(kind, one, a, b)
