"""Registry of the functions that generate code for opcodes, and their access to operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..flat import FlatInstruction
from ..program import Type
from .lanes import Value

if TYPE_CHECKING:
    from .kernel import KernelBuilder

Lowering = Callable[["KernelBuilder", FlatInstruction], None]
LOWERINGS: dict[str, Lowering] = {}


def lowers(*opcodes: str) -> Callable[[Lowering], Lowering]:
    """Register a function that generates code for these opcodes."""

    def register(function: Lowering) -> Lowering:
        for opcode in opcodes:
            LOWERINGS[opcode] = function
        return function

    return register


def type_of(g: KernelBuilder, item: FlatInstruction) -> Type:
    """The last type among an instruction's modifiers: that of its sources."""
    types = item.instruction.types
    if not types:
        raise g.not_covered(item)
    return types[-1]


def sources(g: KernelBuilder, item: FlatInstruction, kind: Type, count: int) -> list[Value]:
    """The operands after the destination, all of one type."""
    return [g.read(g.operand(item, position), kind) for position in range(1, count + 1)]
