"""Comparisons, and choices by predicates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..flat import FlatInstruction
from ..program import TYPES, Pair, Type
from . import rounding
from .lanes import Value
from .lowering import lowers, sources, type_of

if TYPE_CHECKING:
    from .kernel import KernelBuilder

COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED_COMPARISONS = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}


def _compared(g: KernelBuilder, item: FlatInstruction, kind: Type) -> Value:
    """Flags of the comparison that the first modifier names; for packed floats, of the lower halves."""
    builder = g.builder
    a, b = sources(g, item, kind, 2)
    if kind.is_float:
        return _compared_floats(g, item, kind, a, b)
    comparison = item.instruction.modifiers[0]
    if comparison in _UNSIGNED_COMPARISONS:
        return builder.icmp_unsigned(_UNSIGNED_COMPARISONS[comparison], a, b)
    if comparison not in COMPARISONS:
        raise g.not_covered(item)
    compare = builder.icmp_signed if kind.is_signed else builder.icmp_unsigned
    return compare(COMPARISONS[comparison], a, b)


def _compared_floats(g: KernelBuilder, item: FlatInstruction, kind: Type, a: Value, b: Value) -> Value:
    builder = g.builder
    comparison = item.instruction.modifiers[0]
    if kind.bits == 16:
        halves = [g.resize(each, 16) for each in (a, b)]
        if item.instruction.has("ftz"):
            halves = [rounding.flush_bits(g, each, kind.kind) for each in halves]
        numbers = [rounding.widen(g, each, kind.kind) for each in halves]
    else:
        numbers = [g.as_float(each) for each in (a, b)]
        if item.instruction.has("ftz") and kind.bits == 32:
            numbers = [rounding.flush(g, each) for each in numbers]
    if comparison == "num":
        return builder.fcmp_ordered("ord", *numbers)
    if comparison == "nan":
        return builder.fcmp_unordered("uno", *numbers)
    name = comparison.removesuffix("u")  # equ, ltu, …: also true of NaN
    if name not in COMPARISONS:
        raise g.not_covered(item)
    compare = builder.fcmp_ordered if name == comparison else builder.fcmp_unordered
    return compare(COMPARISONS[name], *numbers)


def _combined(g: KernelBuilder, item: FlatInstruction, flags: Value) -> Value:
    """Combine flags with the predicate in the last operand, by .and, .or or .xor."""
    for name in ("and", "or", "xor"):
        if item.instruction.has(name):
            other = g.read(g.operand(item, 3), TYPES["pred"])
            builder = g.builder
            return {"and": builder.and_, "or": builder.or_, "xor": builder.xor}[name](flags, other)
    return flags


@lowers("setp")
def _setp(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    flags = _compared(g, item, kind)
    target = g.operand(item, 0)
    if not isinstance(target, Pair):
        return g.write(item, _combined(g, item, flags))
    if kind.packed == 2:
        upper = [g.builder.lshr(each, g.integer(32, 16)) for each in sources(g, item, kind, 2)]
        other = _compared_floats(g, item, kind, *upper)
    else:
        other = g.builder.not_(flags)
    # Compute both before writing either: a destination may also be a source.
    both = [_combined(g, item, each) for each in (flags, other)]
    g.write_operand(item, target.first, both[0])
    return g.write_operand(item, target.second, both[1])


@lowers("set")
def _set(g: KernelBuilder, item: FlatInstruction) -> None:
    target, kind = item.instruction.types[-2:]
    one = {"f": {16: 0x3C00, 32: 0x3F800000}, "bf": {16: 0x3F80}}.get(target.kind, {}).get(target.bits, -1)
    if kind.packed == 2:  # each half of the result tells of one half of the sources
        if target.total_bits != 32 or kind.bits != 16:
            raise g.not_covered(item)

        def compare(a: Value, b: Value) -> Value:
            flags = _combined(g, item, _compared_floats(g, item, kind, a, b))
            return g.builder.select(flags, g.integer(16, one), g.integer(16, 0))

        return g.write(item, g.packed(kind, compare, *sources(g, item, kind, 2)))
    flags = _combined(g, item, _compared(g, item, kind))
    bits = target.bits
    return g.write(item, g.builder.select(flags, g.integer(bits, one), g.integer(bits, 0)))


@lowers("selp")
def _selp(g: KernelBuilder, item: FlatInstruction) -> None:
    a, b = sources(g, item, type_of(g, item), 2)
    g.write(item, g.builder.select(g.read(g.operand(item, 3), TYPES["pred"]), a, b))


@lowers("slct")
def _slct(g: KernelBuilder, item: FlatInstruction) -> None:
    kind, deciding = item.instruction.types[-2:]
    a, b = sources(g, item, kind, 2)
    c = g.read(g.operand(item, 3), deciding)
    if deciding.is_float:
        number = rounding.flush(g, g.as_float(c)) if item.instruction.has("ftz") else g.as_float(c)
        flags = g.builder.fcmp_ordered(">=", number, g.real(deciding.bits, 0.0))
    else:
        flags = g.builder.icmp_signed(">=", c, g.integer(deciding.bits, 0))
    g.write(item, g.builder.select(flags, a, b))


@lowers("isspacep")
def _isspacep(g: KernelBuilder, item: FlatInstruction) -> None:
    address = g.read(g.operand(item, 1), TYPES["u64"])
    g.write(item, g.in_window(item, address))
