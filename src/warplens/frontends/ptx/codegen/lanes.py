"""Vectors of 32 lanes in LLVM IR: types, constants and intrinsics."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

LANES = 32
#: An LLVM value; the library that makes them is not typed.
Value = Any

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
POINTER = ir.PointerType()
_FLOATS = {16: ir.HalfType(), 32: ir.FloatType(), 64: ir.DoubleType()}


@functools.cache
def integers(bits: int) -> ir.VectorType:
    """32 lanes of integers."""
    return ir.VectorType(ir.IntType(bits), LANES)


@functools.cache
def floats(bits: int) -> ir.VectorType:
    """32 lanes of floats."""
    return ir.VectorType(_FLOATS[bits], LANES)


def splat_constant(kind: ir.VectorType, value: float) -> ir.Constant:
    return ir.Constant(kind, [ir.Constant(kind.element, value)] * LANES)


@functools.lru_cache(4096)
def _integer_constant(bits: int, value: int) -> ir.Constant:
    """Kernels repeat few constants, and writing one out takes 32 lanes."""
    return splat_constant(integers(bits), value)


class Lanes:
    """An IR builder with helpers for 32-lane code."""

    def __init__(self, module: ir.Module, builder: ir.IRBuilder) -> None:
        self.module, self.builder = module, builder

    # -- constants and shapes -----------------------------------------------------------------

    def integer(self, bits: int, value: int) -> ir.Constant:
        """The same integer in all lanes."""
        mask = (1 << bits) - 1
        value &= mask
        return _integer_constant(bits, value - (mask + 1) if bits > 1 and value >> (bits - 1) else value)

    def real(self, bits: int, value: float) -> ir.Constant:
        return splat_constant(floats(bits), value)

    def splat(self, scalar: Value) -> Value:
        """A scalar in all lanes."""
        kind = ir.VectorType(scalar.type, LANES)
        first = self.builder.insert_element(ir.Constant(kind, ir.Undefined), scalar, ir.Constant(I32, 0))
        zeros = ir.Constant(ir.VectorType(I32, LANES), [ir.Constant(I32, 0)] * LANES)
        return self.builder.shuffle_vector(first, ir.Constant(kind, ir.Undefined), zeros)

    def as_float(self, value: Value) -> Value:
        return self.builder.bitcast(value, floats(value.type.element.width))

    def as_bits(self, value: Value) -> Value:
        bits = next(width for width, kind in _FLOATS.items() if kind == value.type.element)
        return self.builder.bitcast(value, integers(bits))

    def resize(self, value: Value, bits: int, *, signed: bool = False) -> Value:
        """Integers of another width."""
        width = value.type.element.width
        if width == bits:
            return value
        if width > bits:
            return self.builder.trunc(value, integers(bits))
        return (self.builder.sext if signed else self.builder.zext)(value, integers(bits))

    def bits_of(self, flags: Value) -> Value:
        """32 flags as the bits of one integer, lane 0 lowest."""
        return self.builder.bitcast(flags, I32)

    def flags_of(self, bits: Value) -> Value:
        return self.builder.bitcast(bits, integers(1))

    # -- calls ------------------------------------------------------------------------------------

    def declared(self, name: str, result: ir.Type, arguments: Sequence[ir.Type]) -> ir.Function:
        """A function of the module, declared on first use."""
        found = self.module.globals.get(name)
        return found or ir.Function(self.module, ir.FunctionType(result, arguments), name)

    def intrinsic(self, name: str, *arguments: Value, extra: Sequence[Value] = ()) -> Value:
        """llvm.NAME on vectors, all of the first argument's type."""
        kind = arguments[0].type
        element = kind.element
        suffix = f"i{element.width}" if isinstance(element, ir.IntType) else f"f{_width(element)}"
        types = [each.type for each in (*arguments, *extra)]
        function = self.declared(f"llvm.{name}.v{LANES}{suffix}", kind, types)
        return self.builder.call(function, [*arguments, *extra])

    def convert(self, name: str, value: Value, target: ir.VectorType) -> Value:
        """llvm.NAME from one vector type to another (saturating conversions)."""
        source = f"f{_width(value.type.element)}"
        full = f"llvm.{name}.v{LANES}i{target.element.width}.v{LANES}{source}"
        return self.builder.call(self.declared(full, target, [value.type]), [value])

    def per_lane(self, name: str, value: Value) -> Value:
        """Apply a scalar intrinsic lane by lane in a loop, in its own function to keep the code small."""
        kind = value.type
        element = kind.element
        helper = f"lanes_{name}_{_width(element)}"
        function = self.module.globals.get(helper)
        if function is None:
            function = ir.Function(self.module, ir.FunctionType(ir.VoidType(), [POINTER, POINTER]), helper)
            function.linkage = "internal"
            inner = Lanes(self.module, ir.IRBuilder(function.append_basic_block()))
            scalar = inner.declared(f"llvm.{name}.f{_width(element)}", element, [element])
            with inner.lane_loop() as lane:
                given = inner.load_lane(function.args[0], lane, element)
                inner.store_lane(function.args[1], lane, inner.builder.call(scalar, [given]))
            inner.builder.ret_void()
        source, target = self.scratch(kind), self.scratch(kind)
        self.builder.store(value, source)
        self.builder.call(function, [source, target])
        return self.builder.load(target, typ=kind)

    # -- memory -----------------------------------------------------------------------------------

    def scratch(self, kind: ir.Type) -> Value:
        """A stack slot for one use, allocated at the function's entry."""
        entry = self.builder.function.entry_basic_block
        with self.builder.goto_block(entry):
            if entry.instructions:
                self.builder.position_before(entry.instructions[0])
            place = self.builder.alloca(kind)
            place.align = 256
        return place

    def room(self, kind: ir.Type) -> Value:
        """A stack slot whose content can be of any type."""
        return self.untyped(self.scratch(kind))

    def untyped(self, place: Value) -> Value:
        """The same place, for values of any type."""
        return self.builder.inttoptr(self.builder.ptrtoint(place, I64), POINTER)

    def at(self, base: Value, offset: int | Value) -> Value:
        """base + offset bytes."""
        if isinstance(offset, int):
            offset = ir.Constant(I64, offset)
        return self.builder.gep(base, [offset], source_etype=I8)

    def load_lane(self, base: Value, lane: Value, kind: ir.Type) -> Value:
        return self.builder.load(self.builder.gep(base, [lane], source_etype=kind), typ=kind)

    def store_lane(self, base: Value, lane: Value, value: Value) -> None:
        self.builder.store(value, self.builder.gep(base, [lane], source_etype=value.type))

    @contextmanager
    def count_loop(self, count: Value) -> Iterator[Value]:
        """for index in range(count), with a 64-bit index."""
        builder = self.builder
        before = builder.block
        head = builder.append_basic_block("loop")
        body = builder.append_basic_block("body")
        after = builder.append_basic_block("after")
        builder.branch(head)
        builder.position_at_end(head)
        index = builder.phi(I64)
        index.add_incoming(ir.Constant(I64, 0), before)
        builder.cbranch(builder.icmp_unsigned("<", index, count), body, after)
        builder.position_at_end(body)
        yield index
        index.add_incoming(builder.add(index, ir.Constant(I64, 1)), builder.block)
        builder.branch(head)
        builder.position_at_end(after)

    def lane_loop(self) -> Any:
        return self.count_loop(ir.Constant(I64, LANES))


def _width(element: ir.Type) -> int:
    if isinstance(element, ir.IntType):
        return int(element.width)
    return next(width for width, kind in _FLOATS.items() if kind == element)
