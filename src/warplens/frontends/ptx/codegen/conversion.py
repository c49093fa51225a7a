"""Moves and conversions between types and address spaces."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..flat import FlatInstruction
from ..program import SMALL_FLOATS, TYPES, Type, Vector
from ..spaces import LOCAL_WINDOW, SHARED_WINDOW
from . import rounding, small_floats
from .lanes import Lanes, Value, floats, integers
from .layout import Context
from .lowering import lowers
from .runtime import i64

if TYPE_CHECKING:
    from .kernel import KernelBuilder

_TO_INTEGER = {"rni": "roundeven", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_KNOWN = {*_TO_INTEGER, "rn", "rz", "rm", "rp", "ftz", "sat", "satfinite", "relu", *TYPES}
#: Largest numbers of 16 bits.
_LARGEST = {"f": 65504.0, "bf": float.fromhex("0x1.fep127")}


@lowers("mov")
def _mov(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = item.instruction.types[-1] if item.instruction.types else TYPES["b32"]
    target, source = g.operand(item, 0), g.operand(item, 1)
    if isinstance(target, Vector) and isinstance(source, Vector):
        if len(target.items) != len(source.items):
            raise g.not_covered(item)
        values = [g.read(each, kind) for each in source.items]
        for each, value in zip(target.items, values, strict=True):
            g.write_operand(item, each, value)
        return None
    if isinstance(source, Vector):
        part = _part_type(g, item, kind, source)
        value = g.integer(kind.total_bits, 0)
        for position, each in enumerate(source.items):
            bits = g.resize(g.read(each, part), kind.total_bits)
            shift = g.integer(kind.total_bits, position * part.bits)
            value = g.builder.or_(value, g.builder.shl(bits, shift))
        return g.write(item, value)
    value = g.read(source, kind)
    if not isinstance(target, Vector):
        return g.write(item, value)
    part = _part_type(g, item, kind, target)
    for position, each in enumerate(target.items):
        shifted = g.builder.lshr(value, g.integer(kind.total_bits, position * part.bits))
        g.write_operand(item, each, g.resize(shifted, part.bits))
    return None


def _part_type(g: KernelBuilder, item: FlatInstruction, kind: Type, vector: Vector) -> Type:
    name = f"b{kind.total_bits // len(vector.items)}"
    if name not in TYPES or kind.kind == "pred":
        raise g.not_covered(item)
    return TYPES[name]


@lowers("cvta")
def _cvta(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = item.instruction.types[-1]
    value = g.read(g.operand(item, 1), kind)
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}
    name = next((each.split("::")[0] for each in item.instruction.modifiers if each.split("::")[0] in window), None)
    if name is not None:
        base = g.integer(64, window[name])
        wide = g.resize(value, 64)
        value = g.builder.sub(wide, base) if item.instruction.has("to") else g.builder.add(wide, base)
    elif item.instruction.has("param", "param::entry") and not item.instruction.has("to"):
        # An address of a parameter may come from 32 bits: parameters lie within 4 GiB, whose upper bits it has lost.
        low = g.builder.and_(g.resize(value, 64), g.integer(64, (1 << 32) - 1))
        start = g.builder.and_(g.get(Context.PARAMETER_ADDRESS), i64(-1 << 32))
        value = g.builder.or_(low, g.splat(start))
    g.write(item, g.resize(value, kind.bits))


@lowers("cvt")
def _cvt(g: KernelBuilder, item: FlatInstruction) -> None:
    types = item.instruction.types
    if item.instruction.has("pack"):
        return _pack_integers(g, item)
    unknown = [each for each in item.instruction.modifiers if each not in _KNOWN]
    if "tf32" in unknown and set(unknown) <= {"rna", "tf32"}:
        return small_floats.to_tf32(g, item)
    if len(types) == 2 and any(each.kind in SMALL_FLOATS for each in types):
        return small_floats.convert(g, item, *types)
    if len(types) != 2 or unknown:
        raise g.not_covered(item)
    target, source = types
    if item.instruction.has("satfinite") and (target.bits != 16 or source != TYPES["f32"]):
        raise g.not_covered(item)
    if target.packed == 2:
        return _pack(g, item, target, source)
    value = g.read(g.operand(item, 1), source)
    if source.is_float and target.is_float:
        result = _float_to_float(g, item, target, source, value)
    elif source.is_float:
        result = _float_to_integer(g, item, target, source, value)
    elif target.is_float:
        result = _integer_to_float(g, item, target, source, value)
    else:
        result = _integer_to_integer(g, item, target, source, value)
    return g.write_operand(item, g.operand(item, 0), result, signed=target.is_signed)


def _mode(item: FlatInstruction) -> str:
    return next((each for each in rounding.DIRECTED if item.instruction.has(each)), "rn")


def _single(g: KernelBuilder, item: FlatInstruction, value: Value, source: Type) -> Value:
    """A source of 16 or 32 bits as single."""
    if source.bits == 16:
        return rounding.widen(g, value, source.kind)
    number = g.as_float(value)
    return rounding.flush(g, number) if item.instruction.has("ftz") else number


def _pack(g: KernelBuilder, item: FlatInstruction, target: Type, source: Type) -> None:
    if source != TYPES["f32"] or item.instruction.has("sat"):
        raise g.not_covered(item)
    values = [_single(g, item, g.read(g.operand(item, each), source), source) for each in (1, 2)]
    if item.instruction.has("relu"):
        values = [rounding.relu(g, each) for each in values]
    if item.instruction.has("satfinite"):
        values = [small_floats.finite(g, each, _LARGEST[target.kind]) for each in values]
    high, low = (rounding.narrow(g, each, target.kind, _mode(item)) for each in values)
    both = g.builder.or_(g.resize(low, 32), g.builder.shl(g.resize(high, 32), g.integer(32, 16)))
    g.write(item, both)


def _pack_integers(g: KernelBuilder, item: FlatInstruction) -> None:
    """cvt.pack.sat: two integers, each clamped, above what the third source holds if there is one."""
    match = re.fullmatch(r"pack\.sat\.([us])(16|8|4|2)\.s32(\.b32)?", ".".join(item.instruction.modifiers))
    if match is None or (match[2] == "16") == bool(match[3]):
        raise g.not_covered(item)
    builder, bits = g.builder, int(match[2])
    kind = Type(match[1], bits)
    high, low = (_clamp(g, g.read(g.operand(item, each), TYPES["s32"]), kind, signed=True) for each in (1, 2))
    ones = g.integer(32, (1 << bits) - 1)
    both = builder.or_(builder.shl(builder.and_(high, ones), g.integer(32, bits)), builder.and_(low, ones))
    if match[3]:
        above = g.read(g.operand(item, 3), TYPES["b32"])
        both = builder.or_(builder.shl(above, g.integer(32, 2 * bits)), both)
    g.write(item, both)


def _float_to_float(g: KernelBuilder, item: FlatInstruction, target: Type, source: Type, value: Value) -> Value:
    builder = g.builder
    mode = _mode(item)
    number = g.as_float(value) if source.bits == 64 else _single(g, item, value, source)
    for name, function in _TO_INTEGER.items():
        if item.instruction.has(name):
            number = g.intrinsic(function, number)
    if item.instruction.has("sat"):
        number = rounding.saturate(g, number)
    if target.bits == 64:
        return g.as_bits(number if source.bits == 64 else builder.fpext(number, floats(64)))
    if source.bits == 64:
        if target.bits == 16:
            number = rounding.to_odd_single(g, number)
        else:
            number = rounding.in_mode(g, mode, "single", floats(32), _to_single, number)
    if target.bits == 16:
        if item.instruction.has("relu"):
            number = rounding.relu(g, number)
        if item.instruction.has("satfinite"):
            number = small_floats.finite(g, number, _LARGEST[target.kind])
        return rounding.narrow(g, number, target.kind, mode)
    if item.instruction.has("ftz"):
        number = rounding.flush(g, number)
    return rounding.result_bits(g, number)


def _float_to_integer(g: KernelBuilder, item: FlatInstruction, target: Type, source: Type, value: Value) -> Value:
    builder = g.builder
    number = g.as_float(value) if source.bits == 64 else _single(g, item, value, source)
    rounded = next((each for each in _TO_INTEGER if item.instruction.has(each)), None)
    if rounded is None:
        raise g.not_covered(item)
    nan = builder.fcmp_unordered("uno", number, number)
    number = g.intrinsic(_TO_INTEGER[rounded], number)
    width = max(target.bits, 32)
    name = "fptosi.sat" if target.is_signed else "fptoui.sat"
    result = g.convert(name, number, integers(width))
    if target.bits < 32:
        result = _clamp(g, result, target, signed=target.is_signed)
    special = 1 << (target.bits - 1) if source.bits == 64 or target.bits == 64 else 0
    result = builder.select(nan, g.integer(width, special), result)
    return g.resize(result, target.bits)


def _clamp(g: KernelBuilder, value: Value, target: Type, *, signed: bool) -> Value:
    """Clamp to the range of a narrower type; `signed` says how to read the value itself."""
    builder = g.builder
    width = value.type.element.width
    highest = (1 << (target.bits - target.is_signed)) - 1
    lowest = -(1 << (target.bits - 1)) if target.is_signed else 0
    compare = builder.icmp_signed if signed else builder.icmp_unsigned
    if highest < 1 << (width - signed):
        top = g.integer(width, highest)
        value = builder.select(compare(">", value, top), top, value)
    if signed:
        bottom = g.integer(width, lowest)
        value = builder.select(compare("<", value, bottom), bottom, value)
    return value


def _integer_to_integer(g: KernelBuilder, item: FlatInstruction, target: Type, source: Type, value: Value) -> Value:
    width = max(target.bits, source.bits)
    value = g.resize(value, width, signed=source.is_signed)
    if item.instruction.has("sat"):
        value = _clamp(g, value, target, signed=source.is_signed)
    return g.resize(value, target.bits)


def _integer_to_float(g: KernelBuilder, item: FlatInstruction, target: Type, source: Type, value: Value) -> Value:
    mode = _mode(item)
    name = "sitofp" if source.is_signed else "uitofp"
    width = max(target.bits, 32)

    def convert(inner: Lanes, given: Value) -> Value:
        return getattr(inner.builder, name)(given, floats(width))

    if target.bits == 16 and mode == "rn":
        value = _of_53_bits(g, value, signed=source.is_signed) if source.bits == 64 else value
        single = rounding.to_odd_single(g, getattr(g.builder, name)(value, floats(64)))
        if item.instruction.has("sat"):
            single = rounding.saturate(g, single)
        return rounding.narrow(g, single, target.kind)
    number = rounding.in_mode(g, mode, name, floats(width), convert, value)
    if item.instruction.has("sat"):
        number = rounding.saturate(g, number)
    return rounding.narrow(g, number, target.kind, mode) if target.bits == 16 else g.as_bits(number)


def _of_53_bits(g: KernelBuilder, value: Value, *, signed: bool) -> Value:
    """Integers that doubles hold: of large ones, the lowest bit that stays marks what is lost."""
    builder = g.builder
    shift = builder.ashr if signed else builder.lshr
    lost = builder.and_(value, g.integer(64, 0x7FF))
    inexact = g.resize(builder.icmp_unsigned("!=", lost, g.integer(64, 0)), 64)
    upper = builder.or_(shift(value, g.integer(64, 11)), inexact)
    beyond = shift(value, g.integer(64, 53))
    fits = builder.icmp_unsigned("==", beyond, g.integer(64, 0))
    if signed:
        fits = builder.or_(fits, builder.icmp_unsigned("==", beyond, g.integer(64, -1)))
    return builder.select(fits, value, builder.shl(upper, g.integer(64, 11)))


def _to_single(lanes: Lanes, number: Value) -> Value:
    return lanes.builder.fptrunc(number, floats(32))
