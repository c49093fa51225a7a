"""Divergence and reconvergence of a warp: branches, a stack of waiting lanes, and lanes that exit."""

from __future__ import annotations

from llvmlite import ir

from ..flat import BasicBlock, FlatInstruction
from ..flow import END
from ..program import TYPES
from .lanes import I32, I64, POINTER, Value
from .layout import MOST_DEPTH, Fault, Frame, Status
from .runtime import Fields, helper, i32, i64
from .values import WarpValues

#: In place of a reconvergence block: these lanes wait at a barrier until all others of the warp have come or gone.
AT_BARRIER = -2


class DivergentLanes(WarpValues):
    """Control flow within a warp. The blocks it leads to are made by `KernelBuilder`."""

    alive_at: Value
    meeting_at: Value
    depth_at: Value
    target_at: Value
    labels: list[ir.Block]
    bodies: list[ir.Block]
    next_lanes: ir.Block
    dispatch: ir.Block
    failed: ir.Block
    #: Per reconvergence block, the branch sides whose lanes may be waiting.
    pending: dict[int, set[int]]
    meetings: set[int]
    barriers: set[int]

    def leave_if(self, condition: Value) -> None:
        """Return if a fault was noted."""
        following = self.builder.append_basic_block("good")
        self.builder.cbranch(condition, self.failed, following)
        self.builder.position_at_end(following)

    def fail_if(self, condition: Value, fault: Fault, item: FlatInstruction, lanes: Value) -> None:
        with self.builder.if_then(condition, likely=False):
            self.fault(int(fault), i32(item.index), lanes)
            self.builder.branch(self.failed)

    def branch(self, item: FlatInstruction) -> None:
        builder = self.builder
        active = self.active()
        if item.opcode == "brx":
            return self._branch_table(item, active)
        if item.opcode == "call" and item.guard is None:
            return self._branch_to_function(item, active)
        target = item.targets[0]
        if item.guard is None:
            builder.branch(self.labels[target])
            return None
        following = self.current.successors[-1]
        if target == following:
            builder.branch(self.labels[target])
            return None
        taken = self.mask(item)
        other = builder.and_(active, builder.not_(taken))
        some = builder.append_basic_block("some")
        parting = builder.append_basic_block("parting")
        builder.cbranch(builder.icmp_unsigned("==", taken, i32(0)), self.labels[following], some)
        builder.position_at_end(some)
        builder.cbranch(builder.icmp_unsigned("==", other, i32(0)), self.labels[target], parting)
        builder.position_at_end(parting)
        meeting = self._prepare_meeting(item, active)
        if following == meeting:
            first, mask = target, taken
        elif target == meeting:
            first, mask = following, other
        else:
            self._push(item, target, i32(meeting), taken)
            first, mask = following, other
        builder.store(mask, self.active_at)
        builder.branch(self.labels[first])
        return None

    def _prepare_meeting(self, item: FlatInstruction, active: Value) -> int:
        """Push the reconvergence of the active lanes, unless they already wait for others there."""
        builder = self.builder
        meeting = self.flow.post_dominator[self.current.number]
        if meeting != END:
            before = builder.load(self.meeting_at, typ=I32)
            with builder.if_then(builder.icmp_signed("!=", before, i32(meeting))):
                self._push(item, meeting, before, active)
                builder.store(i32(meeting), self.meeting_at)
        return meeting

    def _branch_table(self, item: FlatInstruction, active: Value) -> None:
        """brx.idx: each lane selects a target; all sides but the first wait."""
        builder = self.builder
        if item.guard is not None:
            raise self.not_covered(item)
        index = self.read(self.operand(item, 0), TYPES["u32"])
        chosen: dict[int, Value] = {}
        for position, target in enumerate(item.targets):
            flags = self.bits_of(builder.icmp_unsigned("==", index, self.integer(32, position)))
            chosen[target] = builder.or_(chosen[target], flags) if target in chosen else flags
        self._part(item, active, chosen, Fault.BAD_BRANCH)

    def _branch_to_function(self, item: FlatInstruction, active: Value) -> None:
        """A call through a pointer: the operands after the pointer are the addresses of the targets."""
        pointer, *known = item.instruction.operands
        value = self.read(pointer, TYPES["b64"])
        chosen: dict[int, Value] = {}
        for address, target in zip(known, item.targets, strict=True):
            expected = self.read(address, TYPES["b64"])
            chosen[target] = self.bits_of(self.builder.icmp_unsigned("==", value, expected))
        self._part(item, active, chosen, Fault.BAD_CALL)

    def _part(self, item: FlatInstruction, active: Value, chosen: dict[int, Value], fault: Fault) -> None:
        """Lanes go where they choose to; all sides but the last wait. Lanes without a choice are at fault."""
        builder = self.builder
        wild = active
        for lanes in chosen.values():
            wild = builder.and_(wild, builder.not_(lanes))
        self.fail_if(builder.icmp_unsigned("!=", wild, i32(0)), fault, item, wild)
        if len(chosen) == 1:
            builder.branch(self.labels[item.targets[0]])
            return
        meeting = self._prepare_meeting(item, active)
        for target, lanes in chosen.items():
            if target == meeting:
                continue
            here = builder.and_(lanes, active)
            with builder.if_then(builder.icmp_unsigned("!=", here, i32(0))):
                self._push(item, target, i32(meeting), here)
        builder.branch(self.next_lanes)

    def exit(self, item: FlatInstruction) -> None:
        builder = self.builder
        leaving = self.mask(item)
        alive = builder.load(self.alive_at, typ=I32)
        builder.store(builder.and_(alive, builder.not_(leaving)), self.alive_at)
        staying = builder.and_(self.active(), builder.not_(leaving))
        builder.store(staying, self.active_at)
        if item.guard is None:
            builder.branch(self.next_lanes)
        else:
            following = self.labels[self.current.successors[-1]]
            builder.cbranch(builder.icmp_unsigned("==", staying, i32(0)), self.next_lanes, following)

    def meet(self, number: int) -> None:
        """At a reconvergence point: continue with the next waiting lanes, or with all of them together."""
        builder = self.builder
        waited_for = builder.append_basic_block("waited_for")
        meeting = builder.load(self.meeting_at, typ=I32)
        builder.cbranch(builder.icmp_signed("==", meeting, i32(number)), waited_for, self.bodies[number])
        builder.position_at_end(waited_for)
        target, mask = self._pop()
        some = builder.append_basic_block("some")
        builder.cbranch(builder.icmp_unsigned("==", mask, i32(0)), self.next_lanes, some)
        builder.position_at_end(some)
        chosen = builder.switch(target, self.next_lanes)
        chosen.add_case(i32(number), self.bodies[number])
        for side in sorted(self.pending[number]):
            chosen.add_case(i32(side), self.labels[side])

    def _pop(self) -> tuple[Value, Value]:
        builder = self.builder
        depth = builder.sub(builder.load(self.depth_at, typ=I32), i32(1))
        builder.store(depth, self.depth_at)
        target, meeting, mask = (builder.load(each, typ=I32) for each in _entry(self, depth))
        mask = builder.and_(mask, builder.load(self.alive_at, typ=I32))
        meeting = builder.select(builder.icmp_signed("==", meeting, i32(AT_BARRIER)), i32(END), meeting)
        builder.store(mask, self.active_at)
        builder.store(meeting, self.meeting_at)
        return target, mask

    def _push(self, item: FlatInstruction, target: int, meeting: Value, mask: Value) -> None:
        builder = self.builder
        depth = builder.load(self.depth_at, typ=I32)
        self.fail_if(builder.icmp_signed(">=", depth, i32(MOST_DEPTH)), Fault.TOO_DEEP, item, mask)
        for place, value in zip(_entry(self, depth), (i32(target), meeting, mask), strict=True):
            builder.store(value, place)
        builder.store(builder.add(depth, i32(1)), self.depth_at)

    def build_next_lanes(self) -> None:
        """Continue with waiting lanes after the active ones have left the kernel."""
        builder = self.builder
        builder.position_at_end(self.next_lanes)
        finished, more = builder.append_basic_block("finished"), builder.append_basic_block("more")
        depth = builder.load(self.depth_at, typ=I32)
        builder.cbranch(builder.icmp_signed("<=", depth, i32(0)), finished, more)
        builder.position_at_end(finished)
        builder.ret(i32(Status.DONE))
        builder.position_at_end(more)
        target, mask = self._pop()
        builder.store(target, self.target_at)
        builder.cbranch(builder.icmp_unsigned("==", mask, i32(0)), self.next_lanes, self.dispatch)
        builder.position_at_end(self.dispatch)
        chosen = builder.switch(builder.load(self.target_at, typ=I32), self.failed)
        for number in sorted(self.meetings.union(*(self.pending.values()), self.parted, self.barriers)):
            # An entry that resumes at a reconvergence point is complete: its lanes do not wait there again.
            chosen.add_case(i32(number), self.labels[number])

    def let_others_pass(self, block: BasicBlock) -> None:
        """At a barrier: first run all other lanes of the warp; they may exit, or come here too."""
        builder = self.builder
        item = block.instructions[0]
        active = self.active()
        elsewhere = builder.and_(builder.load(self.alive_at, typ=I32), builder.not_(active))
        with builder.if_then(builder.icmp_unsigned("!=", elsewhere, i32(0)), likely=False):
            depth = builder.load(self.depth_at, typ=I32)
            self.fail_if(builder.icmp_signed(">=", depth, i32(MOST_DEPTH)), Fault.TOO_DEEP, item, active)
            arguments = [depth, i32(block.number), active]
            depth = builder.call(_wait_below(self.module), [self.context, self.frame, *arguments])
            apart = builder.icmp_signed("<", depth, i32(0))
            self.fail_if(apart, Fault.DIVERGENT_BARRIER, item, elsewhere)
            builder.store(depth, self.depth_at)
            builder.branch(self.next_lanes)
            builder.position_at_end(builder.append_basic_block("never"))
            builder.unreachable()

    @property
    def parted(self) -> set[int]:
        """Branch sides whose lanes never reconverge."""
        found = set[int]()
        for number in self.flow.divergent_branches:
            if self.flow.post_dominator[number] == END:
                found |= set(self.kernel.blocks[number].successors)
        return found


def _entry(self: Fields, depth: Value) -> list[Value]:
    """Pointers to the parts of one entry of the stack: block, reconvergence block, mask."""
    offset = self.builder.mul(self.builder.zext(depth, I64), i64(24))
    base = self.builder.add(offset, i64(8 * Frame.STACK))
    return [self.at(self.frame, self.builder.add(base, i64(8 * part))) for part in range(3)]


def _wait_below(module: ir.Module) -> ir.Function:
    """(depth, block, lanes): lanes wait at a barrier below all others → the new depth; -1 if some wait at another.

    They reconverge with nobody any more: whoever is still there when the barrier
    opens has come to it as well.
    """

    def body(self: Fields, function: ir.Function) -> None:
        depth, block, lanes = function.args[2:]
        builder = self.builder
        others = builder.not_(lanes)
        with self.count_loop(builder.zext(depth, I64)) as number:
            mask_at = _entry(self, builder.trunc(number, I32))[2]
            builder.store(builder.and_(builder.load(mask_at, typ=I32), others), mask_at)
        target_at, meeting_at, mask_at = _entry(self, i32(0))
        waits = builder.icmp_signed("==", builder.load(meeting_at, typ=I32), i32(AT_BARRIER))
        with builder.if_then(builder.and_(builder.icmp_signed(">", depth, i32(0)), waits)):
            builder.store(builder.or_(builder.load(mask_at, typ=I32), lanes), mask_at)
            same = builder.icmp_signed("==", builder.load(target_at, typ=I32), block)
            builder.ret(builder.select(same, depth, i32(-1)))
        bottom = self.at(self.frame, 8 * Frame.STACK)
        move = self.declared("memmove", POINTER, [POINTER, POINTER, I64])
        size = builder.mul(builder.zext(depth, I64), i64(24))
        builder.call(move, [self.at(bottom, 24), bottom, size])
        for place, value in ((target_at, block), (meeting_at, i32(AT_BARRIER)), (mask_at, lanes)):
            builder.store(value, place)
        builder.ret(builder.add(depth, i32(1)))

    return helper(module, "wait_below", I32, [I32, I32, I32], body)
