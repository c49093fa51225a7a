"""Bulk copies (TMA), bulk stores and tensor maps: handed to `BulkCopies`, which moves whole boxes at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llvmlite import ir

from ..flat import FlatInstruction
from ..program import Address, Immediate, Operand, Register, Vector
from .lanes import I32, LANES, POINTER, Value, integers
from .layout import BulkAction, Context
from .lowering import lowers
from .runtime import i32, i64

if TYPE_CHECKING:
    from .kernel import KernelBuilder

#: Most operands of a bulk copy, coordinates included.
MOST_OPERANDS = 16
#: (context, frame, instruction, action, lanes, operands) → 1 if a fault was noted.
SIGNATURE = ir.FunctionType(I32, [POINTER, POINTER, I32, I32, I32, POINTER])


def call_bulk(g: KernelBuilder, item: FlatInstruction, action: BulkAction, operands: list[Value]) -> None:
    """Call `BulkCopies` with the operands of all lanes; leave if it notes a fault."""
    builder = g.builder
    if len(operands) > MOST_OPERANDS:
        raise g.not_covered(item)
    mask = g.mask(item)
    some = builder.icmp_unsigned("!=", mask, i32(0))
    if action != BulkAction.START:  # only copies under way can be finished
        some = builder.and_(some, builder.icmp_unsigned("!=", g.get(Context.BULK_PENDING), i64(0)))
    with builder.if_then(some):
        _call(g, item, action, mask, operands)


def _call(g: KernelBuilder, item: FlatInstruction, action: BulkAction, mask: Value, operands: list[Value]) -> None:
    builder = g.builder
    buffer = g.untyped(g.buffer("bulk_operands", ir.ArrayType(integers(64), MOST_OPERANDS)))
    for position, value in enumerate(operands):
        builder.store(value, g.at(buffer, position * 8 * LANES))
    function = builder.inttoptr(g.get(Context.BULK), SIGNATURE.as_pointer())
    arguments = [g.context, g.frame, i32(item.index), i32(action), mask, buffer]
    failed = builder.call(function, arguments)
    g.leave_if(builder.icmp_unsigned("!=", failed, i32(0)))


def _values(g: KernelBuilder, item: FlatInstruction, operand: Operand) -> list[Value]:
    """The lanes' values of an operand as 64-bit integers: an address, and the coordinates that follow it."""
    if isinstance(operand, Address):
        base = operand.base
        start = g.integer(64, int(base.value)) if isinstance(base, Immediate) else _register(g, base)
        found = [g.builder.add(start, g.integer(64, operand.offset))]
        return found + [value for each in operand.coordinates for value in _values(g, item, each)]
    if isinstance(operand, Vector):
        return [value for each in operand.items for value in _values(g, item, each)]
    if isinstance(operand, Immediate):
        return [g.integer(64, int(operand.value))]
    return [_register(g, operand)]


def _register(g: KernelBuilder, operand: Operand) -> Value:
    """A register of any width; coordinates are signed."""
    assert isinstance(operand, Register)
    return g.resize(g.read_register(operand.name), 64, signed=True)


@lowers("tensormap")
def _tensor_map(g: KernelBuilder, item: FlatInstruction) -> None:
    operands = [value for each in item.instruction.operands for value in _values(g, item, each)]
    call_bulk(g, item, BulkAction.START, operands)


def copy_in_bulk(g: KernelBuilder, item: FlatInstruction) -> None:
    """cp.async.bulk and cp.reduce.async.bulk."""
    modifiers = item.instruction.modifiers
    if "prefetch" in modifiers:
        return None
    if "commit_group" in modifiers:
        return call_bulk(g, item, BulkAction.COMMIT, [])
    if "wait_group" in modifiers:
        count = _values(g, item, g.operand(item, 0))
        return call_bulk(g, item, BulkAction.WAIT, count)
    other = any(each.startswith(("im2col::", "tile::", "cp_mask")) for each in modifiers)
    spaces = copy_spaces(modifiers)
    if other or spaces not in (["shared", "global"], ["global", "shared"], ["shared", "shared"]):
        raise g.not_covered(item)
    operands = [value for each in item.instruction.operands for value in _values(g, item, each)]
    return call_bulk(g, item, BulkAction.START, operands)


def clear_in_bulk(g: KernelBuilder, item: FlatInstruction) -> None:
    """st.bulk, whose only value is 0."""
    modifiers, operands = item.instruction.modifiers, item.instruction.operands
    others = set(modifiers) - {"bulk", "weak", "shared::cta", "shared"}
    if others or len(operands) != 3 or operands[2] != Immediate(0):
        raise g.not_covered(item)
    call_bulk(g, item, BulkAction.START, [value for each in operands for value in _values(g, item, each)])


def copy_spaces(modifiers: Sequence[str]) -> list[str]:
    """To which address space a bulk copy goes, and from which."""
    names = [each.partition("::")[0] for each in modifiers]
    return [each for each in names if each in ("shared", "global")]


def finish_copies(g: KernelBuilder, item: FlatInstruction, barrier: Operand) -> None:
    """Let copies arrive that an mbarrier counts."""
    call_bulk(g, item, BulkAction.ARRIVE, _values(g, item, barrier))
