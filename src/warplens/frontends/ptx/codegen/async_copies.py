"""Asynchronous copies of a few bytes per lane (`cp.async`): queued per warp, done at the waits of their lanes.

The queue holds copies and the ends of groups, each with the lanes that it
concerns. A wait walks it from the newest entry: a lane's copies are due once more
groups of that lane have ended after them than may stay under way. A full queue
is emptied, since a copy may arrive at any time before its wait.
"""

from __future__ import annotations

from llvmlite import ir

from . import runtime
from .lanes import I1, I32, I64, POINTER, Value, integers
from .layout import COPY_ENTRIES, COPY_ENTRY_BYTES, Context, Frame
from .runtime import Fields, i32, i64

_VOID = ir.VoidType()
#: Offsets in an entry: lanes, bytes per lane (0: the end of a group), addresses, and bytes that are read.
_LANES, _SIZE, _TARGETS, _SOURCES, _GIVEN = 0, 8, 16, 272, 528
#: As the number of groups that may stay under way: not even those that have not ended.
NONE = -1


def _entry(self: Fields, number: Value) -> Value:
    return self.at(self.get_pointer(Frame.COPIES), self.builder.mul(number, i64(COPY_ENTRY_BYTES)))


def start(module: ir.Module) -> ir.Function:
    """(targets, sources, bytes read, lanes, bytes): queue the copies of a warp; 0 bytes end a group."""

    def body(self: Fields, function: ir.Function) -> None:
        targets, sources, given, lanes, size = function.args[2:]
        builder = self.builder
        full = builder.icmp_unsigned(">=", self.get(Frame.COPIES_LENGTH), i64(COPY_ENTRIES))
        with builder.if_then(full, likely=False):
            builder.call(finish(module), [self.context, self.frame, i32(-1), i32(NONE)])
        length = self.get(Frame.COPIES_LENGTH)
        entry = _entry(self, length)
        builder.store(builder.zext(lanes, I64), self.at(entry, _LANES))
        builder.store(builder.zext(size, I64), self.at(entry, _SIZE))
        with builder.if_then(builder.icmp_unsigned("!=", size, i32(0))):
            for place, offset, bits in ((targets, _TARGETS, 64), (sources, _SOURCES, 64), (given, _GIVEN, 32)):
                value = builder.load(place, typ=integers(bits))
                builder.store(value, self.at(entry, offset), align=8)
        self.put(Frame.COPIES_LENGTH, builder.add(length, i64(1)))
        builder.ret_void()

    return runtime.helper(module, "start_copies", _VOID, [POINTER, POINTER, POINTER, I32, I32], body)


def finish(module: ir.Module) -> ir.Function:
    """(lanes, groups that may stay under way): do the copies that are due."""

    def body(self: Fields, function: ir.Function) -> None:
        lanes, staying = function.args[2:]
        builder = self.builder
        length = self.get(Frame.COPIES_LENGTH)
        ended_at, kept_at = self.scratch(integers(32)), self.scratch(I64)
        builder.store(self.integer(32, 0), ended_at)
        builder.store(length, kept_at)
        with self.count_loop(length) as step:
            number = builder.sub(builder.sub(length, i64(1)), step)
            entry = _entry(self, number)
            own = builder.trunc(builder.load(self.at(entry, _LANES), typ=I64), I32)
            size = builder.load(self.at(entry, _SIZE), typ=I64)
            ended = builder.load(ended_at, typ=integers(32))
            with builder.if_else(builder.icmp_unsigned("==", size, i64(0))) as (is_end, is_copy):
                with is_end:
                    more = builder.zext(self.flags_of(own), integers(32))
                    builder.store(builder.add(ended, more), ended_at)
                with is_copy:
                    past = self.bits_of(builder.icmp_signed(">", ended, self.splat(staying)))
                    due = builder.and_(builder.and_(own, lanes), past)
                    with builder.if_then(builder.icmp_unsigned("!=", due, i32(0))):
                        _copy(self, entry, size, due)
                    rest = builder.and_(own, builder.not_(due))
                    builder.store(builder.zext(rest, I64), self.at(entry, _LANES))
                    with builder.if_then(builder.icmp_unsigned("!=", rest, i32(0))):
                        builder.store(number, kept_at)  # the oldest copy that is still under way
        _drop_oldest(self, length, builder.load(kept_at, typ=I64))
        builder.ret_void()

    return runtime.helper(module, "finish_copies", _VOID, [I32, I32], body)


def _drop_oldest(self: Fields, length: Value, kept: Value) -> None:
    """Entries before the oldest copy under way count no more."""
    builder = self.builder
    count = builder.sub(length, kept)
    with builder.if_then(builder.icmp_unsigned("!=", kept, i64(0))):
        move = self.declared("memmove", POINTER, [POINTER, POINTER, I64])
        size = builder.mul(count, i64(COPY_ENTRY_BYTES))
        builder.call(move, [_entry(self, i64(0)), _entry(self, kept), size])
    self.put(Frame.COPIES_LENGTH, count)


def _copy(self: Fields, entry: Value, size: Value, due: Value) -> None:
    """Copy 4 bytes at a time; what is beyond the bytes given is zero."""
    builder = self.builder
    with self.lane_loop() as lane:
        on = builder.trunc(builder.lshr(builder.zext(due, I64), lane), I1)
        with builder.if_then(on):
            target, source = (self.load_lane(self.at(entry, each), lane, I64) for each in (_TARGETS, _SOURCES))
            given = builder.zext(self.load_lane(self.at(entry, _GIVEN), lane, I32), I64)
            with self.count_loop(builder.lshr(size, i64(2))) as word:
                offset = builder.shl(word, i64(2))
                read, written = (builder.inttoptr(builder.add(each, offset), POINTER) for each in (source, target))
                inside = builder.icmp_unsigned(">", given, offset)
                value = builder.load(builder.select(inside, read, written), typ=I32, align=1)
                builder.store(builder.select(inside, value, i32(0)), written, align=1)
    self.add_to(Context.CHANGES, i64(1))
