"""`run_blocks`: runs the warps of thread blocks in turn, with barriers, interruptions and deadlock detection."""

from __future__ import annotations

from llvmlite import ir

from .bulk import SIGNATURE
from .lanes import I32, I64, LANES, POINTER, Value
from .layout import BARRIERS, CLUSTER_BARRIER, BulkAction, Context, Fault, Frame, State, Status
from .runtime import Fields, i32, i64

#: Bytes of memory that take about as long to clear as an instruction of a warp takes.
CLEARED_BYTES = 256


def build_scheduler(module: ir.Module, run_warp: ir.Function) -> None:
    """run_blocks(context, first block, blocks) → DONE, INTERRUPTED (call again to go on) or FAULT.

    It begins with the block in the context and stops there, between two warps or two
    blocks, whenever the allowance is spent.
    """
    function = ir.Function(module, ir.FunctionType(I32, [POINTER, I64, I64]), "run_blocks")
    _Scheduler(module, function, run_warp).build()


class _Scheduler(Fields):
    def __init__(self, module: ir.Module, function: ir.Function, run_warp: ir.Function) -> None:
        super().__init__(module, ir.IRBuilder(function.append_basic_block("entry")))
        self.context, self.first, self.count = function.args
        self.run_warp = run_warp

    def build(self) -> None:
        builder = self.builder
        names = (
            "next_block",
            "set_up",
            "new_round",
            "rounds",
            "visit",
            "pause",
            "round_done",
            "block_done",
            "finished",
        )
        blocks = {name: builder.append_basic_block(name) for name in names}
        started = builder.icmp_unsigned("!=", self.get(Context.STARTED), i64(0))
        builder.cbranch(started, blocks["rounds"], blocks["next_block"])

        builder.position_at_end(blocks["next_block"])
        end = builder.add(self.first, self.count)
        over = builder.icmp_unsigned(">=", self.get(Context.BLOCK), end)
        with builder.if_then(over, likely=False):
            builder.branch(blocks["finished"])
        self._branch_if_spent(blocks["pause"], blocks["set_up"])

        builder.position_at_end(blocks["finished"])
        builder.ret(i32(Status.DONE))

        # The caller may stop, report progress or take the record; a call with a new allowance goes on from here.
        builder.position_at_end(blocks["pause"])
        builder.ret(i32(Status.INTERRUPTED))

        builder.position_at_end(blocks["set_up"])
        self._set_up()
        builder.branch(blocks["new_round"])

        builder.position_at_end(blocks["new_round"])
        self._begin_round()
        builder.branch(blocks["rounds"])

        builder.position_at_end(blocks["rounds"])
        warp = self.get(Context.NEXT_WARP)
        with builder.if_then(builder.icmp_unsigned(">=", warp, self.get(Context.WARPS)), likely=False):
            builder.branch(blocks["round_done"])
        self._branch_if_spent(blocks["pause"], blocks["visit"])

        builder.position_at_end(blocks["visit"])
        self._visit(warp)
        self.add_to(Context.NEXT_WARP, i64(1))
        builder.branch(blocks["rounds"])

        builder.position_at_end(blocks["round_done"])
        # A change of memory may be what a warp at an mbarrier waits for.
        waiting = builder.icmp_unsigned("!=", self.get(Context.SOME_WAIT), i64(0))
        changed = builder.icmp_unsigned("!=", self.get(Context.ROUND_CHANGES), self.get(Context.CHANGES))
        ran = builder.icmp_unsigned("!=", self.get(Context.SOME_RAN), i64(0))
        builder.cbranch(builder.or_(ran, builder.and_(waiting, changed)), blocks["new_round"], blocks["block_done"])

        # No warp is ready: all have ended, or they wait at barriers.
        builder.position_at_end(blocks["block_done"])
        waiting = builder.icmp_unsigned("!=", self.get(Context.SOME_WAIT), i64(0))
        with builder.if_then(waiting):
            released = self._release()
            with builder.if_then(builder.icmp_unsigned("==", released, i64(0)), likely=False):
                with builder.if_then(builder.icmp_unsigned("!=", self.get(Context.TEAM), i64(0))):
                    self._begin_round()
                    builder.ret(i32(Status.STUCK))
                self.put(Context.FAULT, int(Fault.DEADLOCK))
                builder.ret(i32(Status.FAULT))
            builder.branch(blocks["new_round"])
        self._end_copies()
        full = self._note_lengths()
        self.put(Context.STARTED, 0)
        self.add_to(Context.BLOCK, i64(1))
        builder.cbranch(full, blocks["pause"], blocks["next_block"])

    def _begin_round(self) -> None:
        for name in (Context.NEXT_WARP, Context.SOME_RAN, Context.SOME_WAIT):
            self.put(name, 0)
        self.put(Context.ROUND_CHANGES, self.get(Context.CHANGES))

    def _branch_if_spent(self, pause: ir.Block, go_on: ir.Block) -> None:
        spent = self.builder.icmp_signed("<=", self.get(Context.ALLOWANCE), i64(0))
        self.builder.cbranch(spent, pause, go_on)

    def _spend(self, instructions: Value) -> None:
        self.put(Context.ALLOWANCE, self.builder.sub(self.get(Context.ALLOWANCE), instructions))

    def _frame_of(self, warp: Value) -> Value:
        offset = self.builder.mul(warp, self.get(Context.FRAME_BYTES))
        return self.at(self.get_pointer(Context.FRAMES), offset)

    def _set_up(self) -> None:
        builder = self.builder
        block = self.get(Context.BLOCK)
        width, height = self.get(Context.GRID_X), self.get(Context.GRID_Y)
        rest = builder.udiv(block, width)
        self.put(Context.BLOCK_ID_X, builder.urem(block, width))
        self.put(Context.BLOCK_ID_Y, builder.urem(rest, height))
        self.put(Context.BLOCK_ID_Z, builder.udiv(rest, height))
        shared = self.get_pointer(Context.SHARED)
        clear = self.declared("memset", POINTER, [POINTER, I32, I64])
        builder.call(clear, [shared, i32(0), self.get(Context.SHARED_BYTES)])
        for start in (Context.BARRIER_ARRIVED, Context.BARRIER_COUNT, Context.BARRIER_LANES):
            for number in range(BARRIERS):
                builder.store(i64(0), self.at(self.context, 8 * (start + number)))
        with self.count_loop(self.get(Context.WARPS)) as warp:
            self.frame = self._frame_of(warp)
            existing = self.get(Frame.EXISTING)
            for name in (
                Frame.RESUME,
                Frame.DEPTH,
                Frame.STATE,
                Frame.INSTRUCTIONS,
                Frame.COPIES_LENGTH,
                Frame.CLUSTER,
            ):
                self.put(name, 0)
            self.put(Frame.ACTIVE, existing)
            self.put(Frame.ALIVE, existing)
            self.put(Frame.MEETING, -1)
            self.put(Frame.SLICE_LEFT, self.get(Context.SLICE))
            self.put(Frame.SNAPSHOT_CHANGES, -1)
            local = builder.mul(self.get(Context.LOCAL_BYTES), i64(LANES))
            builder.call(clear, [self.get_pointer(Frame.LOCAL), i32(0), local])
            self._spend(builder.add(builder.udiv(local, i64(CLEARED_BYTES)), i64(1)))
        self._spend(builder.udiv(self.get(Context.SHARED_BYTES), i64(CLEARED_BYTES)))
        self.put(Context.STARTED, 1)

    def _visit(self, warp: Value) -> None:
        """Run a warp that is ready until it ends, waits or is interrupted."""
        builder = self.builder
        self.frame = self._frame_of(warp)
        state = self.get(Frame.STATE)
        with builder.if_then(builder.icmp_unsigned("==", state, i64(State.WAITING))):
            self.put(Context.SOME_WAIT, 1)
        polls = builder.icmp_unsigned("==", state, i64(State.POLLING))
        ready = builder.icmp_unsigned("==", state, i64(State.READY))
        with builder.if_then(builder.or_(ready, polls)):
            before = self.get(Frame.INSTRUCTIONS)
            status = builder.call(self.run_warp, [self.context, self.frame])
            executed = builder.sub(self.get(Frame.INSTRUCTIONS), before)
            self.add_to(Frame.INSTRUCTIONS_TOTAL, executed)
            self._spend(executed)
            with builder.if_then(builder.icmp_unsigned("==", status, i32(Status.FAULT)), likely=False):
                builder.ret(i32(Status.FAULT))
            with builder.if_then(builder.icmp_unsigned("==", status, i32(Status.DONE))):
                self.put(Frame.STATE, int(State.FINISHED))
            with builder.if_then(builder.icmp_unsigned("==", status, i32(Status.BARRIER))):
                self.put(Frame.STATE, int(State.WAITING))
                self.put(Context.SOME_WAIT, 1)
            with builder.if_then(builder.icmp_unsigned("==", status, i32(Status.POLLING))):
                self.put(Frame.STATE, int(State.POLLING))
                self.put(Context.SOME_WAIT, 1)
            with builder.if_then(builder.icmp_unsigned("==", status, i32(Status.INTERRUPTED)), likely=False):
                self.put(Frame.STATE, int(State.READY))
                self.put(Context.SOME_RAN, 1)
                self._interrupted()

    def _interrupted(self) -> None:
        """Detect an endless loop: the warp's state and memory are the same as at its last interruption."""
        builder = self.builder
        changes = self.get(Context.CHANGES)
        size = builder.sub(self.get(Context.FRAME_BYTES), i64(8 * Frame.THREAD_X))
        snapshot = self.get_pointer(Frame.SNAPSHOT)
        registers = self.at(self.frame, 8 * Frame.THREAD_X)
        unchanged = builder.icmp_unsigned("==", self.get(Frame.SNAPSHOT_CHANGES), changes)
        with builder.if_then(unchanged):
            compare = self.declared("memcmp", I32, [POINTER, POINTER, I64])
            same_registers = builder.icmp_unsigned("==", builder.call(compare, [snapshot, registers, size]), i32(0))
            kept = self.at(snapshot, size)
            same_lanes = builder.icmp_unsigned(
                "==", builder.call(compare, [kept, self.frame, i64(8 * (Frame.DEPTH + 1))]), i32(0)
            )
            with builder.if_then(builder.and_(same_registers, same_lanes), likely=False):
                self.put(Context.FAULT, int(Fault.ENDLESS))
                self.put(Context.FAULT_INSTRUCTION, -1)
                self.put(Context.FAULT_LANES, self.get(Frame.ACTIVE))
                self.put(Context.FAULT_WARP, self.get(Frame.WARP))
                builder.ret(i32(Status.FAULT))
        copy = self.declared("memcpy", POINTER, [POINTER, POINTER, I64])
        builder.call(copy, [snapshot, registers, size])
        builder.call(copy, [self.at(snapshot, size), self.frame, i64(8 * (Frame.DEPTH + 1))])
        self.put(Frame.SNAPSHOT_CHANGES, changes)
        self.put(Frame.SLICE_LEFT, builder.add(self.get(Frame.INSTRUCTIONS), self.get(Context.SLICE)))

    def _release(self) -> Value:
        """Release the warps at complete barriers; returns their number."""
        builder = self.builder
        released_at = self.scratch(I64)
        builder.store(i64(0), released_at)
        here_at, others_at, wanted_at = (self.scratch(I64) for _ in range(3))
        with self.count_loop(i64(BARRIERS)) as number:
            for place in (here_at, others_at, wanted_at):
                builder.store(i64(0), place)
            with self.count_loop(self.get(Context.WARPS)) as warp:
                self.frame = self._frame_of(warp)
                waits = builder.icmp_unsigned("==", self.get(Frame.STATE), i64(State.WAITING))
                at_this = builder.icmp_unsigned("==", self.get(Frame.BARRIER), number)
                here = builder.and_(waits, at_this)
                # Warps that a barrier with a lower number has just released are ready, and not here.
                runs = builder.icmp_unsigned("!=", self.get(Frame.STATE), i64(State.FINISHED))
                with builder.if_then(here):
                    builder.store(builder.add(builder.load(here_at, typ=I64), i64(LANES)), here_at)
                    builder.store(self.get(Frame.BARRIER_THREADS), wanted_at)
                with builder.if_then(builder.and_(runs, builder.not_(here))):
                    builder.store(builder.add(builder.load(others_at, typ=I64), i64(1)), others_at)
            here, wanted = builder.load(here_at, typ=I64), builder.load(wanted_at, typ=I64)
            arrived_place = builder.gep(
                self.at(self.context, 8 * Context.BARRIER_ARRIVED), [number], source_etype=I64
            )
            arrived = builder.load(arrived_place, typ=I64)
            everyone = builder.and_(
                builder.icmp_unsigned("==", wanted, i64(0)),
                builder.icmp_unsigned("==", builder.load(others_at, typ=I64), i64(0)),
            )
            enough = builder.and_(
                builder.icmp_unsigned("!=", wanted, i64(0)),
                builder.icmp_unsigned(">=", builder.add(here, arrived), wanted),
            )
            # The barrier of a cluster of several blocks opens when the others have arrived.
            apart = builder.icmp_unsigned("!=", number, i64(CLUSTER_BARRIER))
            own = builder.or_(apart, builder.icmp_unsigned("==", self.get(Context.TEAM), i64(0)))
            some = builder.and_(own, builder.icmp_unsigned("!=", here, i64(0)))
            with builder.if_then(builder.and_(some, builder.or_(everyone, enough))):
                builder.store(i64(0), arrived_place)
                self._publish(number)
                with self.count_loop(self.get(Context.WARPS)) as warp:
                    self.frame = self._frame_of(warp)
                    waits = builder.icmp_unsigned("==", self.get(Frame.STATE), i64(State.WAITING))
                    at_this = builder.icmp_unsigned("==", self.get(Frame.BARRIER), number)
                    with builder.if_then(builder.and_(waits, at_this)):
                        self.put(Frame.STATE, int(State.READY))
                        builder.store(builder.add(builder.load(released_at, typ=I64), i64(1)), released_at)
        return builder.load(released_at, typ=I64)

    def _publish(self, number: Value) -> None:
        """Publish the counts of bar.red for the released warps, and reset them."""
        for source, target in (
            (Context.BARRIER_COUNT, Context.BARRIER_RESULT_COUNT),
            (Context.BARRIER_LANES, Context.BARRIER_RESULT_LANES),
        ):
            places = [
                self.builder.gep(self.at(self.context, 8 * each), [number], source_etype=I64)
                for each in (source, target)
            ]
            self.builder.store(self.builder.load(places[0], typ=I64), places[1])
            self.builder.store(i64(0), places[0])

    def _end_copies(self) -> None:
        """Let the block's bulk copies finish, or find that nobody waited for them."""
        builder = self.builder
        pending = builder.icmp_unsigned("!=", self.get(Context.BULK_PENDING), i64(0))
        with builder.if_then(pending, likely=False):
            function = builder.inttoptr(self.get(Context.BULK), SIGNATURE.as_pointer())
            nothing = [i32(-1), i32(BulkAction.END), i32(0), self.context]
            failed = builder.call(function, [self.context, self.context, *nothing])
            with builder.if_then(builder.icmp_unsigned("!=", failed, i32(0)), likely=False):
                builder.ret(i32(Status.FAULT))

    def _note_lengths(self) -> Value:
        """Store the number of words that each warp of the block has recorded so far; whether the record is full."""
        builder = self.builder
        table = self.get_pointer(Context.LENGTHS)
        total_at = self.scratch(I64)
        builder.store(i64(0), total_at)
        with builder.if_then(builder.icmp_unsigned("!=", builder.ptrtoint(table, I64), i64(0))):
            row = builder.mul(builder.sub(self.get(Context.BLOCK), self.first), self.get(Context.WARPS))
            with self.count_loop(self.get(Context.WARPS)) as warp:
                self.frame = self._frame_of(warp)
                length = self.get(Frame.RECORD_LENGTH)
                self.store_lane(table, builder.add(row, warp), length)
                builder.store(builder.add(builder.load(total_at, typ=I64), length), total_at)
        return builder.icmp_unsigned(">", builder.load(total_at, typ=I64), self.get(Context.RECORD_FULL))
