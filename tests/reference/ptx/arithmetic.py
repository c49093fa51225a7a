"""What one thread's instruction computes, as bit patterns in and out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction

from warplens.frontends.ptx.program import Instruction, Type

from . import floats
from .floats import E4M3, E5M2, FORMATS, NAN, Format, Value, decode, encode
from .integers import OPERATIONS, NotCoveredError, clamp, compared, integer_order, limits, number, ones

#: Instructions whose results GPUs only approximate.
APPROXIMATE = ("ex2", "lg2", "sin", "cos", "tanh", "rsqrt")
_MODES = ("rn", "rz", "rm", "rp")


def is_approximate(item: Instruction) -> bool:
    return item.opcode in APPROXIMATE or item.has("approx", "full")


def form_of(kind: Type) -> Format:
    return FORMATS[kind.kind, kind.bits]


def _mode(item: Instruction) -> str:
    return next((each for each in item.modifiers if each in _MODES), "rn")


def _inputs(item: Instruction, kind: Type, values: Sequence[int]) -> list[Value]:
    form = form_of(kind)
    found = [decode(each, form) for each in values]
    return [floats.flush(each, form) for each in found] if item.has("ftz") else found


def _output(item: Instruction, kind: Type, value: Value, mode: str = "rn") -> int:
    form = form_of(kind)
    if item.has("sat"):
        value = floats.saturate(value)
    if item.has("relu") and value.kind != "nan" and (value.sign or value.is_zero):
        value = Value(0, "finite")
    if item.has("ftz") and kind.bits == 16:  # before it is rounded
        value = floats.flush(value, form)
    bits = encode(value, form, mode)
    if item.has("ftz"):
        bits = encode(floats.flush(decode(bits, form), form), form)
    return bits


def integer_result(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    if item.opcode[:-1] in PARTS and item.opcode[-1] in "24":
        return _parts_result(item, values)
    if item.opcode not in OPERATIONS:
        raise NotCoveredError(item.name)
    if kind.packed == 2:
        half = Type(kind.kind, kind.bits)
        low, high = (
            OPERATIONS[item.opcode](item, half, [each >> shift & ones(16) for each in values]) & ones(16)
            for shift in (0, 16)
        )
        return low | high << 16
    return OPERATIONS[item.opcode](item, kind, values)


#: SIMD video instructions on one part of each source.
PARTS: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
    "vset": lambda a, b: (a > b) - (a < b),
}


def _parts_result(item: Instruction, values: Sequence[int]) -> int:
    """Bytes or half-words one by one, then side by side or added to the third source."""
    count = int(item.opcode[-1])
    bits = 32 // count
    to, first, second = item.types if len(item.types) == 3 else (Type("u", 32), *item.types)
    found = []
    for place in range(count):
        a, b = (
            number(value >> bits * place & ones(bits), Type(kind.kind, bits))
            for value, kind in zip(values, (first, second), strict=False)
        )
        result = PARTS[item.opcode[:-1]](a, b)
        if item.opcode.startswith("vset"):
            name = next(each for each in item.modifiers if each in _COMPARISONS)
            result = int(compared(name, result))
        found.append(clamp(result, Type(to.kind, bits)) if item.has("sat") else result)
    if item.has("add"):
        return values[2] + sum(found) & ones(32)
    return sum((each & ones(bits)) << bits * place for place, each in enumerate(found))


def float_result(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    """Instructions on floats; packed ones do both halves."""
    if kind.packed == 2:
        half = Type(kind.kind, kind.bits)
        low = float_result(item, half, [each & ones(kind.bits) for each in values])
        return low | float_result(item, half, [each >> kind.bits for each in values]) << kind.bits
    form = form_of(kind)
    sign_bit = 1 << (kind.bits - 1)
    if item.opcode == "copysign":
        return (values[1] & ~sign_bit) | (values[0] & sign_bit)
    if item.opcode in ("neg", "abs"):
        (a,) = _inputs(item, kind, values)
        if a.kind == "nan":
            return form.nan
        return encode(Value(1 - a.sign if item.opcode == "neg" else 0, a.kind, a.size), form)
    mode = _mode(item)
    found = _inputs(item, kind, values)
    if item.opcode in ("min", "max"):
        if item.has("xorsign"):
            chosen = _least_or_most(item, [Value(0, each.kind, each.size) for each in found])
            sign = (values[0] ^ values[1]) >> (kind.bits - 1)
            return _output(item, kind, chosen if chosen.kind == "nan" else Value(sign, chosen.kind, chosen.size))
        return _output(item, kind, _least_or_most(item, found))
    return _output(item, kind, _exact(item, kind, found, mode), mode)


def _exact(item: Instruction, kind: Type, found: list[Value], mode: str) -> Value:
    """The result before rounding (approximate functions: in double precision)."""
    name = item.opcode
    if name == "add":
        return floats.add(found[0], found[1], mode)
    if name == "sub":
        return floats.add(found[0], floats.negate(found[1]), mode)
    if name == "mul":
        return floats.multiply(found[0], found[1])
    if name in ("fma", "mad"):
        return floats.add(floats.multiply(found[0], found[1]), found[2], mode)
    if name == "div":
        a, b = found
        if item.has("approx") and b.kind == "finite" and b.size > floats.power_of_two(126):
            # The manual's words: the reciprocal is flushed.
            return NAN if a.kind in ("inf", "nan") else Value(a.sign ^ b.sign, "finite")
        return floats.divide(a, b)
    if name == "rcp":
        return floats.divide(Value(0, "finite", Fraction(1)), found[0])
    if name == "sqrt":
        return floats.square_root(found[0])
    if name == "rsqrt":
        if found[0].is_zero:
            return Value(found[0].sign, "inf")
        return floats.divide(Value(0, "finite", Fraction(1)), floats.square_root(found[0]))
    if name in ("ex2", "lg2", "sin", "cos", "tanh"):
        return floats.from_float(_approximate(name, floats.to_float(found[0])))
    raise NotCoveredError(item.name)


def _approximate(name: str, x: float) -> float:
    if name == "ex2":
        if x != x or math.isinf(x):
            return x if x != x or x > 0 else 0.0
        return 0.0 if x < -1074 else math.inf if x > 1024 else 2.0**x
    if name == "lg2":
        return floats.binary_logarithm(x)
    if name == "tanh":
        return math.tanh(x)
    if math.isinf(x):
        return math.nan
    return math.sin(x) if name == "sin" else math.cos(x)


def _least_or_most(item: Instruction, found: list[Value]) -> Value:
    if item.has("NaN") and any(each.kind == "nan" for each in found):
        return NAN
    numbers = [each for each in found if each.kind != "nan"]
    if not numbers:
        return NAN
    result = numbers[0]
    for each in numbers[1:]:
        smaller = floats.smaller(result, each)
        result = smaller if item.opcode == "min" else (each if smaller is result else result)
    return result


# -- comparisons -----------------------------------------------------------------------------------

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")
_COMPARISONS += ("equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")


def comparison(item: Instruction, kind: Type, a: int, b: int) -> bool:
    name = next(each for each in item.modifiers if each in _COMPARISONS)
    if kind.is_float:
        return compared(name, floats.compare(*_inputs(item, kind, [a, b])))
    return compared(name, integer_order(name, a, b, kind))


def combined(item: Instruction, result: bool, other: bool | None) -> bool:
    """A comparison's result with the boolean operand, if the instruction has one."""
    if other is None:
        return result
    if item.has("and"):
        return result and other
    return result or other if item.has("or") else result != other


def tested(item: Instruction, kind: Type, bits: int) -> bool:
    """testp."""
    form = form_of(kind)
    value = decode(bits, form)
    name = item.modifiers[0]
    normal = value.kind == "finite" and value.size >= form.smallest_normal
    results = {
        "finite": value.kind == "finite",
        "infinite": value.kind == "inf",
        "number": value.kind != "nan",
        "notanumber": value.kind == "nan",
        "normal": normal or value.is_zero,
        "subnormal": value.kind == "finite" and not normal and not value.is_zero,
    }
    return results[name]


# -- conversions -------------------------------------------------------------------------------------


def converted(item: Instruction, values: Sequence[int]) -> int:
    """cvt of one or (packing) two values, in the width of the destination's type."""
    if item.has("pack"):
        return _packed(item, values)
    if item.has("tf32"):
        return _to_tf32(item, values[0])
    to, source = item.types[-2], item.types[-1]
    if source.kind in _CODES:
        return _pair([decode(values[0] >> 8 * half & 255, _CODES[source.kind]) for half in (0, 1)], item, to)
    if to.kind in _CODES:
        if source.packed == 2:
            values = [values[0] >> 16, values[0] & ones(16)]
        return _pair([decode(each, form_of(source)) for each in reversed(values)], item, to)
    if to.packed == 2:
        half = Type(to.kind, to.bits)
        upper, lower = (_convert(item, half, source, each) for each in values)
        return upper << 16 | lower
    return _convert(item, to, source, values[0])


_CODES = {"e4m3": E4M3, "e5m2": E5M2}


def _pair(values: list[Value], item: Instruction, to: Type) -> int:
    """Two numbers, the first one in the lower half."""
    if item.has("relu"):
        values = [Value(0, "finite") if each.kind != "nan" and each.sign else each for each in values]
    if to.kind in _CODES:
        low, high = (_nearest_code(each, _CODES[to.kind]) for each in values)
        return low | high << 8
    low, high = (encode(each, form_of(to)) for each in values)
    return low | high << 16


def _nearest_code(value: Value, form: Format) -> int:
    """By search among all finite numbers; of two equally near, the even code."""
    if value.kind == "nan":
        return form.nan
    found = [(code, decode(code, form)) for code in range(form.nan)]
    known = [(code, each.size) for code, each in found if each.kind == "finite"]
    size = known[-1][1] if value.kind == "inf" else value.size
    return min(known, key=lambda each: (abs(each[1] - size), each[0] % 2))[0] | value.sign << 7


def _packed(item: Instruction, values: Sequence[int]) -> int:
    """cvt.pack.sat: the second source lowest, the third, if there is one, above both."""
    name = item.modifiers[2]
    kind = Type(name[0], int(name[1:]))
    a, b = (clamp(number(each, Type("s", 32)), kind) & ones(kind.bits) for each in values[:2])
    rest = values[2] if len(values) > 2 else 0
    return (rest << 2 * kind.bits | a << kind.bits | b) & ones(32)


def _to_tf32(item: Instruction, bits: int) -> int:
    """A single whose lowest 13 bits are 0."""
    found = decode(bits, FORMATS["f", 32])
    if found.kind == "nan":
        return 0x7FFFFFFF
    if item.has("relu") and found.sign:
        return 0
    sign, size = bits & 1 << 31, bits & ones(31)
    if item.has("satfinite") and size > 0x7F7FE000:
        size = 0x7F7FE000
    if size < 0x7F800000:
        lost = size & ones(13)
        size -= lost
        up = lost >= 0x1000 if item.has("rna") else lost > 0x1000 or (lost == 0x1000 and size >> 13 & 1)
        size += 0x2000 if up and not item.has("rz") else 0
    return sign | size


def _convert(item: Instruction, to: Type, source: Type, bits: int) -> int:
    whole = next((each[:2] for each in item.modifiers if each in ("rni", "rzi", "rmi", "rpi")), "")
    if not source.is_float:
        value = number(bits, source)
        if not to.is_float:
            return (clamp(value, to) if item.has("sat") else value) & ones(to.bits)
        exact = Value(int(value < 0), "finite", Fraction(abs(value)))
        return _output(item, to, exact, _mode(item))
    found = decode(bits, form_of(source))
    if item.has("ftz") and source.bits == 32:
        found = floats.flush(found, form_of(source))
    if to.is_float:
        if whole and found.kind == "finite":
            found = Value(found.sign, "finite", Fraction(floats.round_to_whole(found.size, found.sign, whole)))
        form = form_of(to)
        if item.has("sat"):
            found = floats.saturate(found)
        if item.has("relu") and found.kind != "nan" and found.sign:
            found = Value(0, "finite")
        largest = decode(form.infinity - 1, form)
        if item.has("satfinite") and (found.kind == "inf" or (found.kind == "finite" and found.size > largest.size)):
            found = Value(found.sign, "finite", largest.size)
        result = encode(found, form, _mode(item))
        if item.has("ftz") and to.bits == 32:
            result = encode(floats.flush(decode(result, form), form), form)
        return result
    if found.kind == "nan":
        return 1 << (to.bits - 1) if source.bits == 64 or to.bits == 64 else 0
    low, high = limits(to)
    if found.kind == "inf":
        return (low if found.sign else high) & ones(to.bits)
    size = floats.round_to_whole(found.size, found.sign, whole or "rz")
    return clamp(-size if found.sign else size, to) & ones(to.bits)


def float_atomic(item: Instruction, kind: Type, old: int, added: int, *, shared: bool = False) -> int:
    """atom.add, .min and .max on floats; sums of singles flush subnormal numbers outside shared memory."""
    if kind.packed == 2:
        half = Type(kind.kind, kind.bits)
        low = float_atomic(item, half, old & ones(16), added & ones(16))
        return low | float_atomic(item, half, old >> 16, added >> 16) << 16
    form = form_of(kind)
    if not item.has("add"):
        named = replace(item, opcode="min" if item.has("min") else "max")
        return encode(_least_or_most(named, [decode(old, form), decode(added, form)]), form)
    if kind.bits == 32 and not shared:
        flushing = replace(item, modifiers=(*item.modifiers, "ftz"))
        return _output(flushing, kind, floats.add(*_inputs(flushing, kind, (old, added))))
    return encode(floats.add(decode(old, form), decode(added, form)), form)
