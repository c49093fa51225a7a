"""Calls: through pointers to functions that were inlined, and of functions that CUDA provides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from ..flat import FlatInstruction
from ..program import Register, Symbol
from .bulk import SIGNATURE
from .lanes import LANES, integers
from .layout import Context
from .runtime import i32

if TYPE_CHECKING:
    from .kernel import KernelBuilder

#: Most arguments of such a function.
MOST_ARGUMENTS = 8


def call_device_function(g: KernelBuilder, item: FlatInstruction) -> None:
    """Hand the arguments of all lanes to `DeviceCalls`, and take the results from it."""
    builder = g.builder
    operands = list(item.instruction.operands)
    result = operands.pop(0) if item.has_destination else None
    buffer = g.untyped(g.buffer("call_arguments", ir.ArrayType(integers(64), MOST_ARGUMENTS)))
    mask = g.mask(item)
    with builder.if_then(builder.icmp_unsigned("!=", mask, i32(0))):
        arguments = [each for each in operands if not isinstance(each, Symbol)]
        for position, each in enumerate(arguments):
            assert isinstance(each, Register)
            builder.store(g.resize(g.read_register(each.name), 64), g.at(buffer, position * 8 * LANES))
        function = builder.inttoptr(g.get(Context.DEVICE_CALL), SIGNATURE.as_pointer())
        failed = builder.call(function, [g.context, g.frame, i32(item.index), i32(0), mask, buffer])
        g.leave_if(builder.icmp_unsigned("!=", failed, i32(0)))
    if isinstance(result, Register):
        found = builder.load(buffer, typ=integers(64), align=8)
        g.write_register(item, result.name, g.resize(found, g.register_type(result).total_bits))
