"""How often divisions and roots take the path that machine code keeps for rare operands.

A division, reciprocal or root with the rounding of IEEE 754 is a few instructions for ordinary operands. For zeros,
infinities, and numbers so small or large that an intermediate result is not normal, it is a call of some dozens, and
a warp makes it if one of its lanes has to. The tests here are those of the machine code that ptxas makes; for single
precision the test is one instruction (FCHK) without a published definition: this is what its fast path needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..flat import FlatInstruction
from ..program import Type
from .lanes import Lanes, Value
from .layout import Context
from .lowering import sources, type_of
from .runtime import i64

if TYPE_CHECKING:
    from .kernel import KernelBuilder

_DIVISIONS, _FUNCTIONS = ("div", "rem"), ("rcp", "sqrt")
#: The remainder of a division has 24 bits less than its numerator.
_REMAINDER_BITS = 24
_FIELD_BYTES = 8


def count_rare_paths(g: KernelBuilder, item: FlatInstruction) -> None:
    """Count an execution, and whether a lane takes the rare path; the result must not be written before."""
    if not has_rare_path(item):
        return
    kind = type_of(g, item)
    values = sources(g, item, kind, 2 if item.opcode in _DIVISIONS else 1)
    builder = g.builder
    mask = g.mask(item)
    lanes = builder.and_(g.bits_of(_rare(g, item, kind, values)), mask)
    counts = g.at(g.get_pointer(Context.RARE_PATHS), 2 * _FIELD_BYTES * item.index)
    for place, some in ((counts, mask), (g.at(counts, _FIELD_BYTES), lanes)):
        one = builder.zext(builder.icmp_unsigned("!=", some, some.type(0)), i64(0).type)
        builder.atomic_rmw("add", place, one, "monotonic")


def has_rare_path(item: FlatInstruction) -> bool:
    """Whether an instruction becomes machine code with a call for rare operands."""
    instruction = item.instruction
    kind = instruction.types[-1] if instruction.types else None
    if kind is None or item.opcode not in (*_DIVISIONS, *_FUNCTIONS) or kind.packed != 1:
        return False
    if kind.is_float:
        return kind.bits >= 32 and not instruction.has("approx", "full")
    return kind.bits == 64


def _rare(g: Lanes, item: FlatInstruction, kind: Type, values: list[Value]) -> Value:
    """Lanes that take the rare path."""
    if not kind.is_float:  # numbers of 32 bits take another path
        high = _shifted(g, g.builder.or_(*values), 32)
        return g.builder.icmp_unsigned("!=", high, g.integer(64, 0))
    if item.opcode == "div":
        return _rare_quotient(g, *values) if kind.bits == 32 else _rare_double_quotient(g, *values)
    if kind.bits == 64:
        values = [g.resize(_shifted(g, values[0], 32), 32)]
    if item.opcode == "sqrt":
        first, count = (0x0D000000, 0x72800000) if kind.bits == 32 else (0x03500000, 0x7CA00000)
        return _outside(g, values[0], first, count)
    size = _size(g, values[0])
    return _outside(g, size, 0x00800000, 0x7E000000) if kind.bits == 32 else _outside(g, size, 0x00100000, 0x7FBFFBFE)


def _rare_quotient(g: Lanes, numerator: Value, divisor: Value) -> Value:
    """Whether a number of single precision, the reciprocal, the quotient or the remainder is not normal."""
    builder = g.builder
    above, below = (_shifted(g, _size(g, each), 23) for each in (numerator, divisor))
    difference = builder.sub(above, below)
    found = builder.or_(_outside(g, above, _REMAINDER_BITS + 1, 254 - _REMAINDER_BITS), _outside(g, below, 1, 252))
    return builder.or_(found, _outside(g, builder.add(difference, g.integer(32, 125)), 0, 251))


def _rare_double_quotient(g: Lanes, numerator: Value, divisor: Value) -> Value:
    """The machine code looks at the upper halves of the numerator and the quotient as at single precision."""
    builder = g.builder
    quotient = g.as_bits(builder.fdiv(g.as_float(numerator), g.as_float(divisor)))
    above, below, result = (_size(g, g.resize(_shifted(g, each, 32), 32)) for each in (numerator, divisor, quotient))
    small = builder.icmp_unsigned("<", above, g.integer(32, 0x03600000))
    endless = builder.icmp_unsigned(">=", below, g.integer(32, 0x7F800000))
    return builder.or_(builder.or_(small, endless), _outside(g, result, 0x00100001, 0x7F700000))


def _size(g: Lanes, bits: Value) -> Value:
    """Without the sign."""
    return g.builder.and_(bits, g.integer(32, 0x7FFFFFFF))


def _shifted(g: Lanes, value: Value, bits: int) -> Value:
    return g.builder.lshr(value, g.integer(value.type.element.width, bits))


def _outside(g: Lanes, value: Value, first: int, count: int) -> Value:
    """Whether it is none of `count` numbers from `first` on."""
    return g.builder.icmp_unsigned(">=", g.builder.sub(value, g.integer(32, first)), g.integer(32, count))
