"""Addresses of lanes to host addresses, checked against what is allocated.

An inactive lane, like one whose access is invalid, gets the scratch area.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir

from ....traces import SHARED_BITS
from ..spaces import GLOBAL_WINDOW, GRANULE_BYTES, LOCAL_WINDOW, READ_ONLY, SHARED_WINDOW, WINDOW_BYTES
from .lanes import I1, I8, I16, I32, I64, LANES, POINTER, Value, integers
from .layout import Context, Fault, Frame
from .runtime import SEEN_GLOBAL, SEEN_LOCAL, SEEN_SHARED, Fields, helper, i32, i64


def translate(module: ir.Module, space: str, *, writes: bool = False) -> ir.Function:
    """(addresses, mask, bytes, instruction, hosts) → 1 if a lane's access is invalid, else 0."""

    def body(self: Fields, function: ir.Function) -> None:
        addresses, mask, size, instruction, hosts = function.args[2:]
        builder = self.builder
        size64 = builder.zext(size, I64)
        low = builder.sub(size64, i64(1))
        if space in _TOGETHER:
            lanes = _translate_together(self, _TOGETHER[space](self, writes), addresses, mask, size64, hosts)
        else:
            lanes, seen = _translate_in_turn(self, _WHERE[space](self, writes), addresses, mask, size64, hosts)
            if space.startswith("generic"):
                slot = self.at(self.get_pointer(Context.SPACES_SEEN), builder.zext(instruction, I64))
                builder.store(builder.or_(builder.load(slot, typ=I8), builder.trunc(seen, I8)), slot)
        with builder.if_then(builder.icmp_unsigned("!=", lanes, i64(0)), likely=False):
            first = builder.cttz(lanes, ir.Constant(I1, 0))
            address = self.load_lane(addresses, first, I64)
            skewed = builder.icmp_unsigned("!=", builder.and_(address, low), i64(0))
            kind = builder.select(skewed, i64(Fault.MISALIGNED), i64(Fault.OUT_OF_BOUNDS))
            self.fault(kind, instruction, builder.trunc(lanes, I32), address)
            builder.ret(i32(1))
        builder.ret(i32(0))

    return helper(
        module, f"translate_{space}{'_to_write' if writes else ''}", I32, [POINTER, I32, I32, I32, POINTER], body
    )


def _translate_in_turn(
    self: Fields, where: _Where, addresses: Value, mask: Value, size: Value, hosts: Value
) -> tuple[Value, Value]:
    """(Lanes whose access is invalid, spaces that were met), one lane after the other."""
    builder = self.builder
    scratch = self.get(Context.SCRATCH)
    mask64 = builder.zext(mask, I64)
    bad_lanes, seen = self.scratch(I64), self.scratch(I64)
    for place in (bad_lanes, seen):
        builder.store(i64(0), place)
    with self.lane_loop() as lane:
        address = self.load_lane(addresses, lane, I64)
        host, fits, met = where(address, lane, size)
        aligned = builder.icmp_unsigned("==", builder.and_(address, builder.sub(size, i64(1))), i64(0))
        on = builder.trunc(builder.and_(builder.lshr(mask64, lane), i64(1)), I1)
        good = builder.and_(fits, aligned)
        self.store_lane(hosts, lane, builder.select(builder.and_(on, good), host, scratch))
        wrong = builder.and_(on, builder.not_(good))
        lanes = builder.or_(builder.load(bad_lanes, typ=I64), builder.shl(builder.zext(wrong, I64), lane))
        builder.store(lanes, bad_lanes)
        if met is not None:
            noticed = builder.select(on, met, i64(0))
            builder.store(builder.or_(builder.load(seen, typ=I64), noticed), seen)
    return builder.load(bad_lanes, typ=I64), builder.load(seen, typ=I64)


def _translate_together(
    self: Fields, where: _Together, addresses: Value, mask: Value, size: Value, hosts: Value
) -> Value:
    """Lanes whose access is invalid, all lanes at once."""
    builder = self.builder
    address = builder.load(addresses, typ=integers(64))
    host, fits = where(address, size)
    skew = builder.and_(address, self.splat(builder.sub(size, i64(1))))
    good = builder.and_(fits, builder.icmp_unsigned("==", skew, self.integer(64, 0)))
    chosen = builder.and_(good, self.flags_of(mask))
    builder.store(builder.select(chosen, host, self.splat(self.get(Context.SCRATCH))), hosts)
    return builder.zext(builder.and_(mask, builder.not_(self.bits_of(good))), I64)


#: (Addresses, bytes) of all lanes → host addresses, and which accesses fit.
_Together = Callable[[Value, Value], tuple[Value, Value]]


def _together_in_window(self: Fields, base: Value, room: Value) -> _Together:
    builder = self.builder

    def where(offset: Value, size: Value) -> tuple[Value, Value]:
        inside = builder.icmp_unsigned("<", offset, self.splat(room))
        fits = builder.icmp_unsigned("<=", builder.add(offset, self.splat(size)), self.splat(room))
        return builder.add(offset, base), builder.and_(inside, fits)

    return where


def _together_shared(self: Fields, writes: bool) -> _Together:
    return _together_in_window(self, self.splat(self.get(Context.SHARED)), self.get(Context.SHARED_BYTES))


def _together_local(self: Fields, writes: bool) -> _Together:
    """Each lane has a window of its own."""
    room = self.get(Context.LOCAL_BYTES)
    lane = ir.Constant(integers(64), [i64(each) for each in range(LANES)])
    apart = self.builder.mul(lane, self.splat(room))
    return _together_in_window(self, self.builder.add(self.splat(self.get(Frame.LOCAL)), apart), room)


def _together_global(self: Fields, writes: bool) -> _Together:
    """Only the table of what is allocated is looked up lane by lane."""
    builder = self.builder
    arena, room, valid = self.get(Context.ARENA), self.get(Context.ARENA_BYTES), self.get_pointer(Context.VALID)
    granules, found = self.room(integers(64)), self.room(integers(16))

    def where(address: Value, size: Value) -> tuple[Value, Value]:
        offset = builder.sub(address, self.integer(64, GLOBAL_WINDOW))
        inside = builder.icmp_unsigned("<", offset, self.splat(room))
        safe = builder.select(inside, offset, self.integer(64, 0))
        builder.store(builder.lshr(safe, self.integer(64, GRANULE_BYTES.bit_length() - 1)), granules)
        with self.lane_loop() as lane:
            self.store_lane(found, lane, self.load_lane(valid, self.load_lane(granules, lane, I64), I16))
        allowed = builder.load(found, typ=integers(16))
        if writes:
            constant = builder.icmp_unsigned(">=", allowed, self.integer(16, READ_ONLY))
            allowed = builder.select(constant, self.integer(16, 0), allowed)
        else:
            allowed = builder.and_(allowed, self.integer(16, READ_ONLY - 1))
        start = self.resize(builder.and_(safe, self.integer(64, GRANULE_BYTES - 1)), 16)
        end = builder.add(start, self.splat(builder.trunc(size, I16)))
        fits = builder.and_(inside, builder.icmp_unsigned("<=", end, allowed))
        return builder.add(safe, self.splat(arena)), fits

    return where


_Where = Callable[[Value, Value, Value], tuple[Value, Value, Value | None]]


def _global(self: Fields, writes: bool) -> _Where:
    arena, size, valid = self.get(Context.ARENA), self.get(Context.ARENA_BYTES), self.get_pointer(Context.VALID)
    builder = self.builder

    def where(address: Value, lane: Value, width: Value) -> tuple[Value, Value, Value | None]:
        offset = builder.sub(address, i64(GLOBAL_WINDOW))
        inside = builder.icmp_unsigned("<", offset, size)
        safe = builder.select(inside, offset, i64(0))
        granule = builder.lshr(safe, i64(GRANULE_BYTES.bit_length() - 1))
        allowed = builder.zext(self.load_lane(valid, granule, I16), I64)
        if writes:
            constant = builder.icmp_unsigned(">=", allowed, i64(READ_ONLY))
            allowed = builder.select(constant, i64(0), allowed)
        else:
            allowed = builder.and_(allowed, i64(READ_ONLY - 1))
        end = builder.add(builder.and_(safe, i64(GRANULE_BYTES - 1)), width)
        fits = builder.and_(inside, builder.icmp_unsigned("<=", end, allowed))
        return builder.add(arena, safe), fits, None

    return where


def _window(base: Value, size: Value, self: Fields) -> _Where:
    builder = self.builder

    def where(offset: Value, lane: Value, width: Value) -> tuple[Value, Value, Value | None]:
        end = builder.add(offset, width)
        fits = builder.and_(builder.icmp_unsigned("<", offset, size), builder.icmp_unsigned("<=", end, size))
        return builder.add(base, offset), fits, None

    return where


def _shared(self: Fields, writes: bool) -> _Where:
    return _window(self.get(Context.SHARED), self.get(Context.SHARED_BYTES), self)


def _cluster(self: Fields, writes: bool) -> _Where:
    """Shared memory of any block of the cluster: high bits of the address say which, 0 for the own one."""
    builder = self.builder
    size, own = self.get(Context.SHARED_BYTES), self.get(Context.SHARED)
    blocks = self.get(Context.CLUSTER_X)
    for axis in (Context.CLUSTER_Y, Context.CLUSTER_Z):
        blocks = builder.mul(blocks, self.get(axis))
    table = self.at(self.context, 8 * Context.CLUSTER_SHARED)

    def where(address: Value, lane: Value, width: Value) -> tuple[Value, Value, Value | None]:
        number = builder.lshr(address, i64(SHARED_BITS))
        offset = builder.and_(address, i64((1 << SHARED_BITS) - 1))
        known = builder.icmp_unsigned("<=", number, blocks)
        mine = builder.or_(builder.icmp_unsigned("==", number, i64(0)), builder.not_(known))
        rank = builder.select(mine, i64(0), builder.sub(number, i64(1)))
        base = builder.select(mine, own, self.load_lane(table, rank, I64))
        host, fits, _ = _window(base, size, self)(offset, lane, width)
        return host, builder.and_(fits, known), None

    return where


def _local(self: Fields, writes: bool) -> _Where:
    size = self.get(Context.LOCAL_BYTES)
    inner = _window(self.get(Frame.LOCAL), size, self)

    def where(offset: Value, lane: Value, width: Value) -> tuple[Value, Value, Value | None]:
        host, fits, _ = inner(offset, lane, width)
        return self.builder.add(host, self.builder.mul(lane, size)), fits, None

    return where


def _generic(self: Fields, writes: bool, *, cluster: bool = False) -> _Where:
    shared = (_cluster if cluster else _shared)(self, writes)
    parts = (
        (GLOBAL_WINDOW, _global(self, writes), SEEN_GLOBAL),
        (SHARED_WINDOW, shared, SEEN_SHARED),
        (LOCAL_WINDOW, _local(self, writes), SEEN_LOCAL),
    )
    builder = self.builder

    def where(address: Value, lane: Value, width: Value) -> tuple[Value, Value, Value | None]:
        host, fits, _ = parts[0][1](address, lane, width)
        met = i64(SEEN_GLOBAL)
        for window, inner, seen in parts[1:]:
            offset = builder.sub(address, i64(window))
            here = builder.icmp_unsigned("<", offset, i64(WINDOW_BYTES))
            other, allowed, _ = inner(offset, lane, width)
            host = builder.select(here, other, host)
            fits = builder.select(here, allowed, fits)
            met = builder.select(here, i64(seen), met)
        return host, fits, met

    return where


#: Spaces whose addresses are translated for all lanes at once, and those that need a look at each.
_TOGETHER: dict[str, Callable[[Fields, bool], _Together]] = {
    "global": _together_global,
    "shared": _together_shared,
    "local": _together_local,
}
_WHERE: dict[str, Callable[[Fields, bool], _Where]] = {
    "generic": _generic,
    # Of kernels whose clusters have several blocks:
    "cluster": _cluster,
    "generic_of_cluster": partial(_generic, cluster=True),
}
