"""Instructions in which the lanes of a warp work together: shuffles, votes, matches, reductions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from ....traces import SHARED_BITS
from ..flat import FlatInstruction
from ..program import TYPES, Pair
from . import runtime
from .lanes import I1, I32, I64, LANES, POINTER, Value, integers
from .layout import Context
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


def _members(g: KernelBuilder, item: FlatInstruction, position: int) -> Value:
    """The lanes that take part with each lane, as bits: the groups of a warp may run an instruction at once."""
    active = g.splat(g.mask(item))
    if position >= len(item.instruction.operands):  # before .sync there was no member mask
        return active
    return g.builder.and_(active, g.read(g.operand(item, position), TYPES["b32"]))


@lowers("vote")
def _vote(g: KernelBuilder, item: FlatInstruction) -> None:
    builder = g.builder
    members = _members(g, item, 2)
    flags = g.bits_of(g.read(g.operand(item, 1), TYPES["pred"]))
    holding = builder.and_(g.splat(flags), members)
    if item.instruction.has("ballot"):
        return g.write(item, holding)
    some = builder.icmp_unsigned("!=", holding, g.integer(32, 0))
    every = builder.icmp_unsigned("==", holding, members)
    if item.instruction.has("any"):
        result = some
    elif item.instruction.has("all"):
        result = every
    elif item.instruction.has("uni"):
        result = builder.or_(every, builder.not_(some))
    else:
        raise g.not_covered(item)
    return g.write(item, result)


@lowers("activemask")
def _activemask(g: KernelBuilder, item: FlatInstruction) -> None:
    g.write(item, g.splat(g.mask(item)))


@lowers("elect")
def _elect(g: KernelBuilder, item: FlatInstruction) -> None:
    builder = g.builder
    first = g.intrinsic("cttz", _members(g, item, 1), extra=[ir.Constant(I1, 0)])
    target = g.operand(item, 0)
    if not isinstance(target, Pair):
        raise g.not_covered(item)
    g.write_operand(item, target.first, first)
    g.write_operand(item, target.second, builder.icmp_unsigned("==", runtime.lane_numbers(), first))


@lowers("mapa", "getctarank")
def _in_cluster(g: KernelBuilder, item: FlatInstruction) -> None:
    """mapa: an address of shared memory in another block of the cluster; getctarank: the block of an address."""
    kind = item.instruction.types[-1]
    builder = g.builder
    address = g.read(g.operand(item, 1), kind)
    number = g.integer(kind.bits, (1 << 5) - 1 << SHARED_BITS)
    if g.kernel.cluster_blocks == 1:
        return g.write(item, address if item.opcode == "mapa" else g.integer(32, 0))
    if item.opcode == "mapa":
        rank = g.resize(g.read(g.operand(item, 2), TYPES["u32"]), kind.bits)
        above = builder.shl(builder.add(rank, g.integer(kind.bits, 1)), g.integer(kind.bits, SHARED_BITS))
        return g.write(item, builder.or_(builder.and_(address, builder.not_(number)), builder.and_(above, number)))
    found = builder.lshr(builder.and_(address, number), g.integer(kind.bits, SHARED_BITS))
    other = builder.sub(g.resize(found, 32), g.integer(32, 1))
    own = g.splat(builder.trunc(g.get(Context.CLUSTER_RANK), I32))
    is_own = builder.icmp_unsigned("==", found, g.integer(kind.bits, 0))
    return g.write(item, builder.select(is_own, own, other))


@lowers("match")
def _match(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = item.instruction.types[-1]
    value = g.read(g.operand(item, 1), kind)
    builder = g.builder
    members = _members(g, item, 2)
    places = [g.buffer("values", integers(kind.bits)), g.buffer("matches", integers(32))]
    builder.store(value, places[0])
    builder.call(_matcher(g.module, kind.bits), [g.context, g.frame, *places])
    found = builder.and_(builder.load(places[1], typ=integers(32)), members)
    if item.instruction.has("any"):
        return g.write(item, found)
    same = builder.icmp_unsigned("==", found, members)
    result = builder.select(same, found, g.integer(32, 0))
    target = g.operand(item, 0)
    if isinstance(target, Pair):
        g.write_operand(item, target.first, result)
        return g.write_operand(item, target.second, same)
    return g.write(item, result)


def _matcher(module: ir.Module, bits: int) -> ir.Function:
    """(values, results): which lanes hold the same value as each lane."""

    def body(self: Fields, function: ir.Function) -> None:
        values, results = function.args[2:]
        vector = self.builder.load(values, typ=integers(bits))
        with self.lane_loop() as lane:
            one = self.load_lane(values, lane, ir.IntType(bits))
            same = self.bits_of(self.builder.icmp_unsigned("==", vector, self.splat(one)))
            self.store_lane(results, lane, same)
        self.builder.ret_void()

    return runtime.helper(module, f"match_{bits}", ir.VoidType(), [POINTER, POINTER], body)


@lowers("redux")
def _redux(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = item.instruction.types[-1]
    name = next((each for each in ("add", "min", "max", "and", "or", "xor") if item.instruction.has(each)), None)
    if name is None or kind.is_float:
        raise g.not_covered(item)
    value = g.read(g.operand(item, 1), kind)
    places = [g.buffer(each, integers(32)) for each in ("values", "members", "results")]
    g.builder.store(value, places[0])
    g.builder.store(_members(g, item, 2), places[1])
    function = _reducer(g.module, name, kind.is_signed)
    g.builder.call(function, [g.context, g.frame, *places])
    g.write(item, g.builder.load(places[2], typ=integers(32)))


def _reducer(module: ir.Module, name: str, signed: bool) -> ir.Function:
    """(values, members, results): the reduction over the members of each lane; the first of them computes it."""

    def body(self: Fields, function: ir.Function) -> None:
        values, members, results = function.args[2:]
        builder = self.builder
        start = {"add": 0, "or": 0, "xor": 0, "and": -1}.get(name)
        if start is None:
            low, high = (-(1 << 31), (1 << 31) - 1) if signed else (0, -1)
            start = high if name == "min" else low
        total = self.scratch(I32)
        compare = builder.icmp_signed if signed else builder.icmp_unsigned
        with self.lane_loop() as lane:
            group = builder.zext(self.load_lane(members, lane, I32), I64)
            first = builder.and_(builder.cttz(group, ir.Constant(I1, 0)), i64(LANES - 1))
            with builder.if_then(builder.icmp_unsigned("==", first, lane)):
                builder.store(i32(start), total)
                with self.lane_loop() as other, builder.if_then(builder.trunc(builder.lshr(group, other), I1)):
                    a, b = builder.load(total, typ=I32), self.load_lane(values, other, I32)
                    if name in ("min", "max"):
                        result = builder.select(compare("<" if name == "min" else ">", a, b), a, b)
                    else:
                        operate = {"add": builder.add, "and": builder.and_, "or": builder.or_, "xor": builder.xor}
                        result = operate[name](a, b)
                    builder.store(result, total)
                self.store_lane(results, lane, builder.load(total, typ=I32))
            self.store_lane(results, lane, self.load_lane(results, first, I32))
        builder.ret_void()

    return runtime.helper(module, f"reduce_{name}_{'s' if signed else 'u'}", ir.VoidType(), [POINTER] * 3, body)
