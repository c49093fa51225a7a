"""Calls out of generated code: of functions that CUDA provides, and of others that Python does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from llvmlite import ir

from ..flat import FlatInstruction
from ..program import Register
from .bulk import SIGNATURE
from .lanes import LANES, Value, integers
from .layout import Context
from .runtime import i32

if TYPE_CHECKING:
    from .kernel import KernelBuilder

#: Most arguments of a function that CUDA provides.
MOST_ARGUMENTS = 8


def call_python(
    g: KernelBuilder, item: FlatInstruction, function_at: Context, rows: Mapping[int, Value], count: int
) -> Callable[[int], Value]:
    """Call a function with rows of 32 values of 64 bits; returns what reads a row of results. Leave at a fault."""
    builder = g.builder
    buffer = g.untyped(g.buffer(f"rows_{count}", ir.ArrayType(integers(64), count)))
    mask = g.mask(item)
    with builder.if_then(builder.icmp_unsigned("!=", mask, i32(0))):
        for position, value in rows.items():
            builder.store(value, g.at(buffer, position * 8 * LANES))
        function = builder.inttoptr(g.get(function_at), SIGNATURE.as_pointer())
        failed = builder.call(function, [g.context, g.frame, i32(item.index), i32(0), mask, buffer])
        g.leave_if(builder.icmp_unsigned("!=", failed, i32(0)))
    return lambda row: builder.load(g.at(buffer, row * 8 * LANES), typ=integers(64), align=8)


def call_device_function(g: KernelBuilder, item: FlatInstruction) -> None:
    """Hand the arguments of all lanes to `DeviceCalls`, and take the results from it."""
    operands = list(item.instruction.operands)
    result = operands.pop(0) if item.has_destination else None
    names = [each.name for each in operands if isinstance(each, Register)]
    rows = {number: g.resize(g.read_register(name), 64) for number, name in enumerate(names)}
    results = call_python(g, item, Context.DEVICE_CALL, rows, MOST_ARGUMENTS)
    if isinstance(result, Register):
        g.write_register(item, result.name, g.resize(results(0), g.register_type(result).total_bits))
