"""Instructions in which the lanes of a warp work together: shuffles, votes, matches, reductions, matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from ..flat import FlatInstruction
from ..program import TYPES, Operand, Pair, Vector
from . import rounding, runtime
from .lanes import I1, I32, I64, LANES, POINTER, Lanes, Value, floats, integers
from .lowering import lowers
from .runtime import Fields, i32, i64

if TYPE_CHECKING:
    from .kernel import KernelBuilder


@lowers("shfl")
def _shfl(g: KernelBuilder, item: FlatInstruction) -> None:
    """Lane i reads lane i ± b, i xor b or b within its segment; outside the segment it keeps its own value."""
    mode = next((each for each in ("up", "down", "bfly", "idx") if item.instruction.has(each)), None)
    if mode is None or not item.instruction.has("sync"):
        raise g.not_covered(item)
    builder = g.builder
    kind = TYPES["b32"]
    value, distance, bounds = (g.read(g.operand(item, each), kind) for each in (1, 2, 3))
    lane = runtime.lane_numbers()
    low5 = g.integer(32, 31)
    distance = builder.and_(distance, low5)
    clamp = builder.and_(bounds, low5)
    segment = builder.and_(builder.lshr(bounds, g.integer(32, 8)), low5)
    inverse = builder.xor(segment, low5)
    lowest = builder.and_(lane, segment)
    highest = builder.or_(lowest, builder.and_(clamp, inverse))
    if mode == "up":
        source = builder.sub(lane, distance)
        inside = builder.icmp_signed(">=", source, highest)
    elif mode == "down":
        source = builder.add(lane, distance)
        inside = builder.icmp_signed("<=", source, highest)
    elif mode == "bfly":
        source = builder.xor(lane, distance)
        inside = builder.icmp_signed("<=", source, highest)
    else:
        source = builder.or_(lowest, builder.and_(distance, inverse))
        inside = builder.icmp_signed("<=", source, highest)
    result = g.picked(value, builder.select(inside, source, lane))
    target = g.operand(item, 0)
    if isinstance(target, Pair):
        g.write_operand(item, target.first, result)
        g.write_operand(item, target.second, inside)
    else:
        g.write(item, result)


@lowers("vote")
def _vote(g: KernelBuilder, item: FlatInstruction) -> None:
    builder = g.builder
    mask = g.mask(item)
    flags = g.bits_of(g.read(g.operand(item, 1), TYPES["pred"]))
    holding = builder.and_(flags, mask)
    if item.instruction.has("ballot"):
        return g.write(item, g.splat(holding))
    some = builder.icmp_unsigned("!=", holding, i32(0))
    every = builder.icmp_unsigned("==", holding, mask)
    if item.instruction.has("any"):
        result = some
    elif item.instruction.has("all"):
        result = every
    elif item.instruction.has("uni"):
        result = builder.or_(every, builder.not_(some))
    else:
        raise g.not_covered(item)
    return g.write(item, g.splat(result))


@lowers("activemask")
def _activemask(g: KernelBuilder, item: FlatInstruction) -> None:
    g.write(item, g.splat(g.mask(item)))


@lowers("elect")
def _elect(g: KernelBuilder, item: FlatInstruction) -> None:
    builder = g.builder
    first = builder.cttz(g.mask(item), ir.Constant(I1, 0))
    target = g.operand(item, 0)
    if not isinstance(target, Pair):
        raise g.not_covered(item)
    g.write_operand(item, target.first, g.splat(first))
    g.write_operand(item, target.second, builder.icmp_unsigned("==", runtime.lane_numbers(), g.splat(first)))


@lowers("match")
def _match(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = item.instruction.types[-1]
    value = g.read(g.operand(item, 1), kind)
    builder = g.builder
    mask = g.mask(item)
    places = [g.buffer("values", integers(kind.bits)), g.buffer("matches", integers(32))]
    builder.store(value, places[0])
    builder.call(_matcher(g.module, kind.bits), [g.context, g.frame, places[0], mask, places[1]])
    found = builder.load(places[1], typ=integers(32))
    if item.instruction.has("any"):
        return g.write(item, found)
    same = builder.icmp_unsigned("==", found, g.splat(mask))
    result = builder.select(same, found, g.integer(32, 0))
    target = g.operand(item, 0)
    if isinstance(target, Pair):
        g.write_operand(item, target.first, result)
        return g.write_operand(item, target.second, same)
    return g.write(item, result)


def _matcher(module: ir.Module, bits: int) -> ir.Function:
    """(values, mask, results): which active lanes hold the same value as each lane."""

    def body(self: Fields, function: ir.Function) -> None:
        values, mask, results = function.args[2:]
        vector = self.builder.load(values, typ=integers(bits))
        with self.lane_loop() as lane:
            one = self.load_lane(values, lane, ir.IntType(bits))
            same = self.bits_of(self.builder.icmp_unsigned("==", vector, self.splat(one)))
            self.store_lane(results, lane, self.builder.and_(same, mask))
        self.builder.ret_void()

    return runtime.helper(module, f"match_{bits}", ir.VoidType(), [POINTER, I32, POINTER], body)


@lowers("redux")
def _redux(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = item.instruction.types[-1]
    name = next((each for each in ("add", "min", "max", "and", "or", "xor") if item.instruction.has(each)), None)
    if name is None or kind.is_float:
        raise g.not_covered(item)
    value = g.read(g.operand(item, 1), kind)
    place = g.buffer("values", integers(32))
    g.builder.store(value, place)
    function = _reducer(g.module, name, kind.is_signed)
    g.write(item, g.splat(g.builder.call(function, [g.context, g.frame, place, g.mask(item)])))


def _reducer(module: ir.Module, name: str, signed: bool) -> ir.Function:
    """(values, mask) → the reduction over the active lanes."""

    def body(self: Fields, function: ir.Function) -> None:
        values, mask = function.args[2:]
        builder = self.builder
        start = {"add": 0, "or": 0, "xor": 0, "and": -1}.get(name)
        if start is None:
            low, high = (-(1 << 31), (1 << 31) - 1) if signed else (0, -1)
            start = high if name == "min" else low
        total = self.scratch(I32)
        builder.store(i32(start), total)
        compare = builder.icmp_signed if signed else builder.icmp_unsigned
        with self.lane_loop() as lane:
            on = builder.trunc(builder.lshr(builder.zext(mask, I64), lane), I1)
            with builder.if_then(on):
                a, b = builder.load(total, typ=I32), self.load_lane(values, lane, I32)
                if name in ("min", "max"):
                    result = builder.select(compare("<" if name == "min" else ">", a, b), a, b)
                else:
                    operate = {"add": builder.add, "and": builder.and_, "or": builder.or_, "xor": builder.xor}
                    result = operate[name](a, b)
                builder.store(result, total)
        builder.ret(builder.load(total, typ=I32))

    return runtime.helper(module, f"reduce_{name}_{'s' if signed else 'u'}", I32, [POINTER, I32], body)


# -- matrix products ------------------------------------------------------------------------------------------

_ROWS, _COLUMNS = 16, 8


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


@lowers("mma")
def _mma(g: KernelBuilder, item: FlatInstruction) -> None:
    """mma.sync m16n8k16 and m16n8k8 of half-precision or bfloat16 matrices, summed in single precision."""
    modifiers = item.instruction.modifiers
    depth = 16 if "m16n8k16" in modifiers else 8 if "m16n8k8" in modifiers else 0
    types = item.instruction.types
    if not depth or len(types) != 4 or types[1] != types[2] or types[1].bits != 16:
        raise g.not_covered(item)
    if modifiers[:2] != ("sync", "aligned") or "row" not in modifiers or "col" not in modifiers:
        raise g.not_covered(item)
    result_type, kind, start_type = types[0], types[1], types[3]
    operands = [_items(g.operand(item, position)) for position in range(4)]
    a, b = (_halves(g, operands[position], kind.kind) for position in (1, 2))
    if len(a) != depth // 2 or len(b) != depth // 4:
        raise g.not_covered(item)
    if start_type.bits == 32:
        c = [g.as_float(g.read(each, TYPES["f32"])) for each in operands[3]]
    else:
        c = _halves(g, operands[3], "f")
    if len(c) != 4:
        raise g.not_covered(item)
    single = floats(32)
    places = [
        g.builder.inttoptr(g.builder.ptrtoint(g.buffer(name, ir.ArrayType(single, count)), I64), POINTER)
        for name, count in (("matrix_a", 8), ("matrix_b", 4), ("sums", 4))
    ]
    for place, values in zip(places, (a, b, c), strict=True):
        for position, value in enumerate(values):
            g.builder.store(value, g.at(place, position * 4 * LANES))
    g.builder.call(_multiplier(g.module, depth), [g.context, g.frame, *places])
    sums = [g.builder.load(g.at(places[2], position * 4 * LANES), typ=single) for position in range(4)]
    targets = operands[0]
    if result_type.bits == 32 and len(targets) == 4:
        for each, value in zip(targets, sums, strict=True):
            g.write_operand(item, each, g.as_bits(value))
    elif result_type.bits == 16 and len(targets) == 2:
        for position, each in enumerate(targets):
            low, high = (g.resize(rounding.narrow(g, sums[2 * position + k], "f"), 32) for k in (0, 1))
            g.write_operand(item, each, g.builder.or_(low, g.builder.shl(high, g.integer(32, 16))))
    else:
        raise g.not_covered(item)


def _halves(g: KernelBuilder, operands: tuple[Operand, ...], kind: str) -> list[Value]:
    """The two 16-bit floats in each register, as singles."""
    found = []
    for each in operands:
        bits = g.read(each, TYPES["b32"])
        for shift in (0, 16):
            half = g.resize(g.builder.lshr(bits, g.integer(32, shift)), 16)
            found.append(rounding.widen(g, half, kind))
    return found


def _multiplier(module: ir.Module, depth: int) -> ir.Function:
    """(a, b, sums): each lane's four sums, from the fragments of all lanes (layout of the PTX ISA)."""

    def fragment(self: Lanes, base: Value, element: Value, lane: Value) -> Value:
        index = self.builder.add(self.builder.mul(element, i64(LANES)), lane)
        return self.load_lane(base, index, floats(32).element)

    def body(self: Fields, function: ir.Function) -> None:
        a, b, sums = function.args[2:]
        builder = self.builder
        fma = self.declared("llvm.fma.f32", floats(32).element, [floats(32).element] * 3)
        with self.count_loop(i64(4 * LANES)) as index:
            # Lane l holds rows l/4 and l/4 + 8, columns 2(l mod 4) and the next.
            element, lane = builder.lshr(index, i64(5)), builder.and_(index, i64(31))
            row = builder.lshr(lane, i64(2))
            low_row = builder.lshr(element, i64(1))
            column = builder.add(builder.shl(builder.and_(lane, i64(3)), i64(1)), builder.and_(element, i64(1)))
            total = self.scratch(floats(32).element)
            builder.store(fragment(self, sums, element, lane), total)
            with self.count_loop(i64(depth)) as k:
                # Element k of a row: lane 4·row + (k mod 8)/2, register 2(k/8) + (row ≥ 8), half k mod 2.
                inner = builder.and_(k, i64(7))
                quarter, half = builder.lshr(inner, i64(1)), builder.and_(inner, i64(1))
                upper = builder.lshr(k, i64(3))
                a_register = builder.add(builder.shl(upper, i64(1)), low_row)
                a_element = builder.add(builder.shl(a_register, i64(1)), half)
                a_lane = builder.add(builder.shl(row, i64(2)), quarter)
                b_element = builder.add(builder.shl(upper, i64(1)), half)
                b_lane = builder.add(builder.shl(column, i64(2)), quarter)
                product = (fragment(self, a, a_element, a_lane), fragment(self, b, b_element, b_lane))
                builder.store(builder.call(fma, [*product, builder.load(total, typ=floats(32).element)]), total)
            self.store_lane(sums, index, builder.load(total, typ=floats(32).element))
        builder.ret_void()

    return runtime.helper(module, f"multiply_{depth}", ir.VoidType(), [POINTER, POINTER, POINTER], body)
