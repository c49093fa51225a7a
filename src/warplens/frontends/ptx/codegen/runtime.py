"""Functions that generated kernels call, each generated once per module on first use.

They record accesses, and move data between lanes and host addresses that `translation`
has checked.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from ....traces._codes import IRREGULAR
from .lanes import I1, I32, I64, LANES, POINTER, Lanes, Value, integers
from .layout import Context, Fault, Frame

#: Bits for the spaces that a generic access reached.
SEEN_GLOBAL, SEEN_SHARED, SEEN_LOCAL = 1, 2, 4
#: Most words in the record of one access.
MOST_ACCESS_WORDS = 2 + LANES

_VOID = ir.VoidType()


def i32(value: int) -> ir.Constant:
    return ir.Constant(I32, value)


def i64(value: int) -> ir.Constant:
    return ir.Constant(I64, value)


class Fields(Lanes):
    """Lanes with access to the fields of a context and a frame."""

    context: Value
    frame: Value

    def field(self, name: Context | Frame) -> Value:
        base = self.context if isinstance(name, Context) else self.frame
        return self.at(base, 8 * int(name))

    def get(self, name: Context | Frame) -> Value:
        return self.builder.load(self.field(name), typ=I64)

    def get_pointer(self, name: Context | Frame) -> Value:
        return self.builder.load(self.field(name), typ=POINTER)

    def put(self, name: Context | Frame, value: Value | int) -> None:
        self.builder.store(i64(value) if isinstance(value, int) else value, self.field(name))

    def add_to(self, name: Context | Frame, value: Value) -> None:
        self.put(name, self.builder.add(self.get(name), value))

    def fault(self, kind: Value | int, instruction: Value, lanes: Value, address: Value | int = 0) -> None:
        """Note a fault; the caller returns."""
        self.put(Context.FAULT, kind)
        self.put(Context.FAULT_INSTRUCTION, self.builder.zext(instruction, I64))
        self.put(Context.FAULT_LANES, self.builder.zext(lanes, I64))
        self.put(Context.FAULT_ADDRESS, address)
        self.put(Context.FAULT_WARP, self.get(Frame.WARP))


def helper(
    module: ir.Module,
    name: str,
    result: ir.Type,
    arguments: list[ir.Type],
    body: Callable[[Fields, ir.Function], None],
) -> ir.Function:
    """A function of the module by name; `body` generates it on first use. Arguments 0 and 1: context and frame."""
    function = module.globals.get(name)
    if function is None:
        function = ir.Function(module, ir.FunctionType(result, [POINTER, POINTER, *arguments]), name)
        function.linkage = "internal"
        function.attributes.add("noinline")
        fields = Fields(module, ir.IRBuilder(function.append_basic_block()))
        fields.context, fields.frame = function.args[:2]
        body(fields, function)
    return function


# -- records -------------------------------------------------------------------------------------------


def grow(module: ir.Module) -> ir.Function:
    """(words, instruction): make room in the warp's record → 1 if there is none, else 0."""

    def body(self: Fields, function: ir.Function) -> None:
        words, instruction = function.args[2:]
        builder = self.builder
        room = self.get(Frame.RECORD_ROOM)
        wanted = builder.shl(builder.add(room, words), i64(1))
        more = builder.sub(wanted, room)

        def fail_if(condition: Value) -> None:
            with builder.if_then(condition, likely=False):
                self.fault(int(Fault.RECORD), instruction, builder.trunc(self.get(Frame.EXISTING), I32))
                builder.ret(i32(1))

        fail_if(builder.icmp_signed(">", more, self.get(Context.ROOM_LEFT)))
        realloc = self.declared("realloc", POINTER, [POINTER, I64])
        moved = builder.call(realloc, [self.get_pointer(Frame.RECORD), builder.shl(wanted, i64(3))])
        fail_if(builder.icmp_unsigned("==", builder.ptrtoint(moved, I64), i64(0)))
        builder.store(moved, self.field(Frame.RECORD))
        self.put(Frame.RECORD_ROOM, wanted)
        self.put(Context.ROOM_LEFT, builder.sub(self.get(Context.ROOM_LEFT), more))
        builder.ret(i32(0))

    return helper(module, "grow", I32, [I64, I32], body)


def record_access(module: ir.Module) -> ir.Function:
    """(addresses, mask): append base and stride of the active lanes, or all their addresses, to the record."""

    def body(self: Fields, function: ir.Function) -> None:
        addresses, mask = function.args[2:]
        builder = self.builder
        length = self.get(Frame.RECORD_LENGTH)
        words = builder.gep(self.get_pointer(Frame.RECORD), [length], source_etype=I64)

        def finish(base: Value, stride: Value, more: Value) -> None:
            self.store_lane(words, i64(0), base)
            self.store_lane(words, i64(1), stride)
            self.put(Frame.RECORD_LENGTH, builder.add(length, builder.add(more, i64(2))))
            builder.ret_void()

        with builder.if_then(builder.icmp_unsigned("==", mask, i32(0))):
            finish(i64(0), i64(0), i64(0))
        mask64 = builder.zext(mask, I64)
        never = ir.Constant(I1, 0)
        first = builder.cttz(mask64, never)
        base = self.load_lane(addresses, first, I64)
        rest = builder.and_(mask64, builder.sub(mask64, i64(1)))
        single = builder.icmp_unsigned("==", rest, i64(0))
        second = builder.select(single, first, builder.cttz(rest, never))
        stride = builder.sub(self.load_lane(addresses, second, I64), base)
        with builder.if_then(builder.icmp_signed("==", mask, i32(-1))):
            vector = integers(64)
            steps = ir.Constant(vector, [i64(lane) for lane in range(LANES)])
            expected = builder.add(self.splat(base), builder.mul(steps, self.splat(stride)))
            found = builder.load(addresses, typ=vector)
            even = self.bits_of(builder.icmp_unsigned("==", found, expected))
            with builder.if_then(builder.icmp_signed("==", even, i32(-1))):
                finish(base, stride, i64(0))
            builder.store(found, builder.gep(words, [i64(2)], source_etype=I64), align=8)
            finish(i64(0), i64(IRREGULAR), i64(LANES))
        expected_at, even_at, count_at = self.scratch(I64), self.scratch(I1), self.scratch(I64)
        builder.store(base, expected_at)
        builder.store(ir.Constant(I1, 1), even_at)
        builder.store(i64(0), count_at)
        with self.lane_loop() as lane:
            on = builder.trunc(builder.lshr(mask64, lane), I1)
            with builder.if_then(on):
                address = self.load_lane(addresses, lane, I64)
                count = builder.load(count_at, typ=I64)
                self.store_lane(words, builder.add(count, i64(2)), address)
                builder.store(builder.add(count, i64(1)), count_at)
                expected = builder.load(expected_at, typ=I64)
                fits = builder.icmp_unsigned("==", address, expected)
                builder.store(builder.and_(builder.load(even_at, typ=I1), fits), even_at)
                builder.store(builder.add(expected, stride), expected_at)
        with builder.if_then(builder.load(even_at, typ=I1)):
            finish(base, stride, i64(0))
        finish(i64(0), i64(IRREGULAR), builder.load(count_at, typ=I64))

    return helper(module, "record_access", _VOID, [POINTER, I32], body)


# -- lanes' memory --------------------------------------------------------------------------------------


def gather(module: ir.Module, bits: int) -> ir.Function:
    """(hosts, byte offset, values): load one value per lane."""

    def body(self: Fields, function: ir.Function) -> None:
        hosts, offset, values = function.args[2:]
        kind = ir.IntType(bits)
        with self.lane_loop() as lane:
            host = self.builder.inttoptr(self.builder.add(self.load_lane(hosts, lane, I64), offset), POINTER)
            self.store_lane(values, lane, self.builder.load(host, typ=kind, align=1))
        self.builder.ret_void()

    return helper(module, f"gather_{bits}", _VOID, [POINTER, I64, POINTER], body)


def scatter(module: ir.Module, bits: int) -> ir.Function:
    """(hosts, byte offset, values): store one value per lane, the highest lane last."""

    def body(self: Fields, function: ir.Function) -> None:
        hosts, offset, values = function.args[2:]
        with self.lane_loop() as lane:
            host = self.builder.inttoptr(self.builder.add(self.load_lane(hosts, lane, I64), offset), POINTER)
            self.builder.store(self.load_lane(values, lane, ir.IntType(bits)), host, align=1)
        self.add_to(Context.CHANGES, i64(1))
        self.builder.ret_void()

    return helper(module, f"scatter_{bits}", _VOID, [POINTER, I64, POINTER], body)


def pick(module: ir.Module, bits: int) -> ir.Function:
    """(values, lanes, results): each lane takes the value of the lane it selects."""

    def body(self: Fields, function: ir.Function) -> None:
        values, lanes, results = function.args[2:]
        with self.lane_loop() as lane:
            source = self.builder.and_(self.builder.zext(self.load_lane(lanes, lane, I32), I64), i64(LANES - 1))
            self.store_lane(results, lane, self.load_lane(values, source, ir.IntType(bits)))
        self.builder.ret_void()

    return helper(module, f"pick_{bits}", _VOID, [POINTER, POINTER, POINTER], body)


_Update = Callable[[Fields, Value, Value, Value], Value]


def atomic(module: ir.Module, name: str, bits: int, update: _Update) -> ir.Function:
    """(hosts, mask, operands, second operands, results): lanes one after the other.

    The update is atomic for other workers too: a compare-and-swap loop around
    `update(old, operand, second)`. One of 128 bits returns its value, so no other
    worker runs.
    """

    def body(self: Fields, function: ir.Function) -> None:
        hosts, mask, operands, seconds, results = function.args[2:]
        builder = self.builder
        kind = ir.IntType(bits)
        mask64 = builder.zext(mask, I64)
        with self.lane_loop() as lane:
            on = builder.trunc(builder.lshr(mask64, lane), I1)
            with builder.if_then(on):
                host = builder.inttoptr(self.load_lane(hosts, lane, I64), POINTER)
                operand, second = (self.load_lane(each, lane, kind) for each in (operands, seconds))
                if bits > 64:
                    old = builder.load(host, typ=kind, align=1)
                    new = update(self, old, operand, second)
                    builder.store(new, host, align=1)
                else:
                    again = builder.append_basic_block("again")
                    after = builder.append_basic_block("after")
                    builder.branch(again)
                    builder.position_at_end(again)
                    old = builder.load_atomic(host, "monotonic", bits // 8, typ=kind)
                    new = update(self, old, operand, second)
                    swapped = builder.cmpxchg(host, old, new, "monotonic", "monotonic")
                    builder.cbranch(builder.extract_value(swapped, 1), after, again)
                    builder.position_at_end(after)
                self.store_lane(results, lane, old)
                changed = builder.zext(builder.icmp_unsigned("!=", old, new), I64)
                self.add_to(Context.CHANGES, changed)
        builder.ret_void()

    return helper(module, f"atomic_{name}_{bits}", _VOID, [POINTER, I32, POINTER, POINTER, POINTER], body)


def lane_numbers() -> ir.Constant:
    return ir.Constant(integers(32), [i32(lane) for lane in range(LANES)])
