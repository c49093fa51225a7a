"""SIMD video instructions: two or four parts of 32 bits at once (`vadd4`, `vabsdiff2`, …)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..flat import FlatInstruction
from ..program import TYPES, Type
from .bits import part_of
from .choices import COMPARISONS
from .lanes import Value
from .lowering import lowers, sources

if TYPE_CHECKING:
    from .kernel import KernelBuilder

_NAMES = ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset")


@lowers(*(f"{name}{count}" for name in _NAMES for count in (2, 4)))
def _video(g: KernelBuilder, item: FlatInstruction) -> None:
    """The parts replace those of the result, or are added to the third source."""
    name, count = item.opcode[:-1], int(item.opcode[-1])
    *target, a_type, b_type = item.instruction.types
    a, b, total = sources(g, item, TYPES["b32"], 3)
    builder, bits = g.builder, 32 // count
    found = [
        _of_parts(
            g, item, name, part_of(g, a, each, bits, a_type.is_signed), part_of(g, b, each, bits, b_type.is_signed)
        )
        for each in range(count)
    ]
    if item.instruction.has("sat"):
        found = [_clamped(g, each, bits, target[0]) for each in found]
    if item.instruction.has("add"):
        for each in found:
            total = builder.add(total, each)
        return g.write(item, total)
    result: Value = g.integer(32, 0)
    for place, each in enumerate(found):
        kept = builder.and_(each, g.integer(32, (1 << bits) - 1))
        result = builder.or_(result, builder.shl(kept, g.integer(32, bits * place)))
    return g.write(item, result)


def _of_parts(g: KernelBuilder, item: FlatInstruction, name: str, a: Value, b: Value) -> Value:
    builder = g.builder
    less = builder.icmp_signed("<", a, b)
    if name == "vadd":
        return builder.add(a, b)
    if name == "vsub":
        return builder.sub(a, b)
    if name == "vabsdiff":
        return builder.select(less, builder.sub(b, a), builder.sub(a, b))
    if name in ("vmin", "vmax"):
        low, high = builder.select(less, a, b), builder.select(less, b, a)
        return low if name == "vmin" else high
    if name == "vavrg":  # halves go away from zero
        both = builder.add(a, b)
        up = builder.select(builder.icmp_signed("<", both, g.integer(32, 0)), g.integer(32, 0), g.integer(32, 1))
        return builder.ashr(builder.add(both, up), g.integer(32, 1))
    comparison = next((each for each in item.instruction.modifiers if each in COMPARISONS), None)
    if comparison is None:
        raise g.not_covered(item)
    return g.resize(builder.icmp_signed(COMPARISONS[comparison], a, b), 32)


def _clamped(g: KernelBuilder, value: Value, bits: int, kind: Type) -> Value:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind.is_signed else (0, (1 << bits) - 1)
    builder = g.builder
    value = builder.select(builder.icmp_signed("<", value, g.integer(32, low)), g.integer(32, low), value)
    return builder.select(builder.icmp_signed(">", value, g.integer(32, high)), g.integer(32, high), value)
