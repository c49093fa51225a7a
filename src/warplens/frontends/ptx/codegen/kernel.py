"""A kernel as LLVM IR: `run_warp`, which runs one warp until it ends, waits or is interrupted.

Registers are vectors of 32 lanes. Lanes that diverge at a branch reconverge at its
immediate post-dominator: a stack holds (block, reconvergence block, mask) of the
waiting lanes. A warp that waits at a barrier, or is interrupted at a loop head,
saves its live registers in its frame and returns. A switch at the start of the
function resumes it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from llvmlite import ir

from ..flat import BasicBlock, FlatInstruction, FlatKernel
from ..flatten import DEVICE_CALLS, TOO_DEEP
from ..flow import END, Flow
from ..needed import Needed
from ..opcodes import memory_use
from ..program import TYPES, Address, Immediate, Operand, Symbol
from ..remedies import remedy_of
from . import runtime
from .calls import call_device_function
from .divergence import DivergentLanes
from .lanes import I1, I32, I64, LANES, POINTER, Value, integers
from .layout import CLUSTER_BARRIER, SAVE_AREA, Arrival, Context, Fault, Frame, Status
from .lowering import LOWERINGS
from .rare_paths import count_rare_paths
from .runtime import i32, i64
from .scheduler import build_scheduler

#: Instructions after which a long block is divided: LLVM takes quadratic time to select code for one.
PIECE_INSTRUCTIONS = 64

_AXES = {"x": 0, "y": 1, "z": 2}


@dataclass(frozen=True)
class Segment:
    """Consecutive instructions of a block that run under the same mask: one entry of the record."""

    instructions: tuple[FlatInstruction, ...]


@dataclass(frozen=True)
class GeneratedCode:
    """The IR of a kernel, and the bytes of a warp's frame."""

    ir: str
    frame_bytes: int


def build_module(kernel: FlatKernel, flow: Flow, *, recording: bool, needed: Needed | None = None) -> GeneratedCode:
    """`needed` is what the kernel computes where that is not everything."""
    module = ir.Module("kernel")
    builder = KernelBuilder(module, kernel, flow, recording=recording, needed=needed)
    with _no_collection():
        builder.build()
        build_scheduler(module, builder.function)
        text = str(module)
    return GeneratedCode(text, builder.frame_bytes)


@dataclass(frozen=True)
class RecordShape:
    """What is needed to read the record of a kernel."""

    segments: tuple[Segment, ...]
    #: Segments that stand for the accesses of bulk copies, by the copy.
    bulk_segments: Mapping[int, int]
    #: Most words that the code of a basic block records.
    most_words: int


def record_shape(kernel: FlatKernel, *, recording: bool) -> RecordShape:
    bulk = kernel.bulk_accesses
    copies = tuple(Segment((each,)) for _, each in bulk)
    if not recording:
        return RecordShape(copies, {}, 0)
    blocks = [_segments(block) for block in kernel.blocks]
    segments = tuple(segment for block in blocks for segment in block)
    numbers = {index: len(segments) + number for number, (index, _) in enumerate(bulk)}
    return RecordShape((*segments, *copies), numbers, max(map(_most_words, blocks), default=0))


def _most_words(segments: Sequence[Segment]) -> int:
    uses = sum(is_recorded_access(item) for segment in segments for item in segment.instructions)
    return len(segments) + uses * runtime.MOST_ACCESS_WORDS


@contextmanager
def _no_collection() -> Iterator[None]:
    """IR is millions of small objects, none of them garbage: looking for some takes as long as making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@dataclass
class _Resume:
    number: int
    block: ir.Block
    saved: list[str] = field(default_factory=list)


class KernelBuilder(DivergentLanes):
    def __init__(
        self, module: ir.Module, kernel: FlatKernel, flow: Flow, *, recording: bool, needed: Needed | None = None
    ) -> None:
        self.function = ir.Function(module, ir.FunctionType(I32, [POINTER, POINTER]), "run_warp")
        self.function.linkage = "internal"
        super().__init__(module, ir.IRBuilder(self.function.append_basic_block("entry")), kernel, flow)
        self.context, self.frame = self.function.args
        self.recording = recording
        self.needed = needed
        self.saved_at: dict[str, int] = {}
        self.frame_bytes = SAVE_AREA
        #: Segments of the record so far.
        self.recorded = 0
        self.resumes: list[_Resume] = []
        self.fields: dict[tuple[type, Context | Frame], Value] = {}

    def field(self, name: Context | Frame) -> Value:
        """A field's address, worked out once at the function's entry."""
        key = type(name), name  # numbers of a context's fields are those of a frame's, too
        if key not in self.fields:
            with self.builder.goto_entry_block():
                self.fields[key] = super().field(name)
        return self.fields[key]

    # -- the function -------------------------------------------------------------------------------------

    def build(self) -> None:
        builder = self.builder
        self.active_at, self.alive_at, self.meeting_at, self.depth_at, self.target_at = (
            builder.alloca(I32) for _ in range(5)
        )
        for state, place in self._lane_state():
            builder.store(builder.trunc(self.get(state), I32), place)
        for name in sorted(
            {name for item in self.kernel.instructions for name in (*item.sources, *item.destinations)}
        ):
            kind = integers(self.kernel.registers[name].total_bits)
            self.registers[name] = builder.alloca(kind)
            builder.store(self.integer(kind.element.width, 0), self.registers[name])
        self.labels = [builder.append_basic_block(f"b{block.number}") for block in self.kernel.blocks]
        self.bodies = [builder.append_basic_block(f"body{block.number}") for block in self.kernel.blocks]
        self.failed = builder.append_basic_block("failed")
        self.next_lanes = builder.append_basic_block("next_lanes")
        self.dispatch = builder.append_basic_block("dispatch")
        self.barriers = {
            block.number for block in self.kernel.blocks if block.instructions[:1] and (block.instructions[0].waits)
        }
        self.start = builder.append_basic_block("start")
        builder.branch(self.start)
        self.pending = {number: set[int]() for number in range(len(self.labels))}
        for number in self.flow.divergent_branches:
            meeting = self.flow.post_dominator[number]
            for side in self.kernel.blocks[number].successors:
                if meeting not in (END, side):
                    self.pending[meeting].add(side)
        self.meetings = {self.flow.post_dominator[number] for number in self.flow.divergent_branches} - {END}
        for block in self.kernel.blocks:
            self._block(block)
        self.build_next_lanes()
        builder.position_at_end(self.failed)
        builder.ret(i32(Status.FAULT))
        builder.position_at_end(self.start)
        chosen = builder.switch(builder.trunc(self.get(Frame.RESUME), I32), self.labels[0])
        for resume in self.resumes:
            chosen.add_case(i32(resume.number), resume.block)

    def _lane_state(self) -> list[tuple[Frame, Value]]:
        return [
            (Frame.ACTIVE, self.active_at),
            (Frame.ALIVE, self.alive_at),
            (Frame.MEETING, self.meeting_at),
            (Frame.DEPTH, self.depth_at),
        ]

    # -- waiting and resuming -----------------------------------------------------------------------------------

    def suspend(self, status: Status, live: set[str], item: FlatInstruction | None = None) -> _Resume:
        """Save the live registers and return; code generation continues in the block that resumes."""
        builder = self.builder
        if self.needed is not None:
            live = live & self.needed.registers
        resume = _Resume(len(self.resumes) + 1, builder.append_basic_block("resume"), sorted(live))
        self.resumes.append(resume)
        for name in resume.saved:
            value = self.read_register(name)
            if value.type.element.width == 1:
                value = self.bits_of(value)
            builder.store(value, self._save_place(name), align=1)
        for state, place in self._lane_state():
            self.put(state, builder.sext(builder.load(place, typ=I32), I64))
        self.put(Frame.RESUME, resume.number)
        if item is not None:
            self.put(Frame.INSTRUCTION, item.index)
        builder.ret(i32(status))
        builder.position_at_end(resume.block)
        self.active_flags = None
        for name in resume.saved:
            bits = self.kernel.registers[name].total_bits
            kind = I32 if bits == 1 else integers(bits)
            value = builder.load(self._save_place(name), typ=kind, align=1)
            builder.store(self.flags_of(value) if bits == 1 else value, self.registers[name])
        return resume

    def _save_place(self, name: str) -> Value:
        if name not in self.saved_at:
            self.saved_at[name] = self.frame_bytes
            bits = self.kernel.registers[name].total_bits
            self.frame_bytes += 8 if bits == 1 else LANES * bits // 8
        return self.at(self.frame, self.saved_at[name])

    # -- blocks ------------------------------------------------------------------------------------------------

    def _block(self, block: BasicBlock) -> None:
        builder = self.builder
        self.current = block
        self.active_flags = None
        number = block.number
        builder.position_at_end(self.labels[number])
        if number in self.meetings:
            self.meet(number)
        else:
            builder.branch(self.bodies[number])
        builder.position_at_end(self.bodies[number])
        if number in self.barriers:
            self.let_others_pass(block)
        if number in self.flow.loop_heads:
            spent = builder.icmp_signed(">=", self.get(Frame.INSTRUCTIONS), self.get(Frame.SLICE_LEFT))
            with builder.if_then(spent, likely=False):
                go_on = builder.append_basic_block("go_on")
                # Lanes that wait elsewhere have registers of their own that are live.
                self.suspend(Status.INTERRUPTED, self.flow.live_in[number] | self.flow.must_keep[number])
                builder.branch(go_on)
                builder.position_at_end(go_on)
        self._count(block)
        segments = _segments(block)
        if self.recording and segments:
            self._make_room(segments)
        first_ones = {segment.instructions[0].index for segment in segments}
        for place, item in enumerate(block.instructions):
            if place % PIECE_INSTRUCTIONS == PIECE_INSTRUCTIONS - 1:
                following = builder.append_basic_block("more")
                builder.branch(following)
                builder.position_at_end(following)
            self.begin(item)
            if self.recording and item.index in first_ones:
                self._record(item)
            self._instruction(item)
        if builder.block.terminator is None:
            builder.branch(self.labels[block.successors[0]])

    def _count(self, block: BasicBlock) -> None:
        if not block.instructions:
            return
        builder = self.builder
        count = i64(len(block.instructions))
        self.add_to(Frame.INSTRUCTIONS, count)
        lanes = builder.zext(builder.ctpop(self.active()), I64)
        self.add_to(Frame.THREAD_INSTRUCTIONS, builder.mul(lanes, count))

    def _make_room(self, segments: list[Segment]) -> None:
        builder = self.builder
        words = i64(_most_words(segments))
        needed = builder.add(self.get(Frame.RECORD_LENGTH), words)
        with builder.if_then(builder.icmp_unsigned(">", needed, self.get(Frame.RECORD_ROOM)), likely=False):
            where = i32(segments[0].instructions[0].index)
            failed = builder.call(runtime.grow(self.module), [self.context, self.frame, words, where])
            self.leave_if(builder.icmp_unsigned("!=", failed, i32(0)))

    def _record(self, item: FlatInstruction) -> None:
        """The segment that an instruction begins; they are numbered in order, as in `record_shape`."""
        builder = self.builder
        number = self.recorded
        self.recorded += 1
        mask = self.active() if item.targets or item.opcode in ("ret", "exit") else self.mask(item)
        word = builder.or_(i64(number << 32), builder.zext(mask, I64))
        length = self.get(Frame.RECORD_LENGTH)
        self.store_lane(self.get_pointer(Frame.RECORD), length, word)
        self.put(Frame.RECORD_LENGTH, builder.add(length, i64(1)))

    # -- instructions ----------------------------------------------------------------------------------------------

    def is_needed(self, item: FlatInstruction) -> bool:
        return self.needed is None or item in self.needed

    def _instruction(self, item: FlatInstruction) -> None:
        opcode = item.opcode
        if memory_use(item.instruction) is None and not self.is_needed(item):
            return None
        if opcode in ("bra", "brx") or (opcode == "ret" and item.targets):
            return self.branch(item)
        if opcode in ("ret", "exit"):
            return self.exit(item)
        if opcode in ("trap", "brkpt"):  # without a debugger, both end the launch
            return self._trap(item, Fault.RECURSION if item.instruction.has(TOO_DEEP) else Fault.TRAP)
        if opcode == "call":
            return self._call(item)
        if opcode in ("bar", "barrier"):
            return self._barrier(item)
        lowering = LOWERINGS.get(opcode)
        if lowering is None:
            raise self.error(item, f"this instruction is not supported{remedy_of(item.instruction)}")
        try:
            if self.recording:
                count_rare_paths(self, item)
            return lowering(self, item)
        except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
            # A combination of types and operands that valid PTX never has makes a lowering fail.
            raise self.not_covered(item) from error

    def _trap(self, item: FlatInstruction, fault: Fault) -> None:
        builder = self.builder
        lanes = self.mask(item)
        if item.guard is None:
            self.fault(int(fault), i32(item.index), lanes)
            builder.branch(self.failed)
            if item.opcode != "trap":
                builder.position_at_end(builder.append_basic_block("never"))
        else:
            self.fail_if(builder.icmp_unsigned("!=", lanes, i32(0)), fault, item, lanes)

    def _call(self, item: FlatInstruction) -> None:
        """The kernel's own functions were inlined before; which of them runs is a matter of branches."""
        if item.targets:
            return self.branch(item)
        if any(isinstance(each, Symbol) and each.name in DEVICE_CALLS for each in item.instruction.operands):
            return call_device_function(self, item)
        return None

    def _barrier(self, item: FlatInstruction) -> None:
        builder = self.builder
        modifiers = item.instruction.modifiers
        if "warp" in modifiers:
            return
        if "cluster" in modifiers:
            self._cluster_barrier(item)
            return
        operands = [*item.instruction.operands[item.has_destination :]]
        predicate = operands.pop() if "red" in modifiers else None
        number, count = [*operands, None, None][:2]
        if item.guard is not None or number is None or not {"sync", "arrive", "red"} & set(modifiers):
            raise self.not_covered(item)
        if isinstance(number, Immediate) and not 0 <= number.value < CLUSTER_BARRIER:
            raise self.error(item, f"there is no barrier {number.value}")
        which = self._of_warp(number)
        if not isinstance(number, Immediate):
            none = builder.icmp_unsigned(">=", which, i64(CLUSTER_BARRIER))
            self.fail_if(none, Fault.NO_BARRIER, item, self.active())
        threads: Value = i64(0)
        if count is not None:
            threads = self._of_warp(count)
            uneven = builder.icmp_unsigned("!=", builder.and_(threads, i64(LANES - 1)), i64(0))
            none = builder.icmp_unsigned("==", threads, i64(0))
            self.fail_if(builder.or_(uneven, none), Fault.BAD_BARRIER, item, self.active())

        def field(start: Context, barrier: Value) -> Value:
            return self.at(self.context, builder.add(builder.mul(barrier, i64(8)), i64(8 * start)))

        if "arrive" in modifiers:
            place = field(Context.BARRIER_ARRIVED, which)
            builder.store(builder.add(builder.load(place, typ=I64), i64(LANES)), place)
            return
        if predicate is not None:
            flags = builder.and_(self.bits_of(self.read(predicate, TYPES["pred"])), self.active())
            for start, bits in ((Context.BARRIER_COUNT, flags), (Context.BARRIER_LANES, self.active())):
                place = field(start, which)
                lanes = builder.zext(builder.ctpop(bits), I64)
                builder.store(builder.add(builder.load(place, typ=I64), lanes), place)
        self.put(Frame.BARRIER, which)
        self.put(Frame.BARRIER_THREADS, threads)
        self.suspend(Status.BARRIER, self.live_after(item), item)
        if predicate is not None:
            held, lanes = (
                builder.load(field(start, self.get(Frame.BARRIER)), typ=I64)
                for start in (Context.BARRIER_RESULT_COUNT, Context.BARRIER_RESULT_LANES)
            )
            if "popc" in modifiers:
                self.write(item, self.splat(builder.trunc(held, I32)))
            elif "and" in modifiers:
                self.write(item, self.splat(builder.icmp_unsigned("==", held, lanes)))
            else:
                self.write(item, self.splat(builder.icmp_unsigned("!=", held, i64(0))))

    def _of_warp(self, operand: Operand) -> Value:
        """A number that all lanes of a warp agree on, as 64 bits: that of the first one."""
        first = self.builder.cttz(self.active(), ir.Constant(I1, 0))
        return self.builder.zext(self.builder.extract_element(self.read(operand, TYPES["u32"]), first), I64)

    def _cluster_barrier(self, item: FlatInstruction) -> None:
        """Only the wait waits; it ends at once if all others of the cluster have arrived since this warp did."""
        waits = "wait" in item.instruction.modifiers
        if item.guard is not None or waits == ("arrive" in item.instruction.modifiers):
            raise self.not_covered(item)
        if not waits:
            self.put(Frame.CLUSTER, int(Arrival.ARRIVED))
            return
        builder = self.builder
        complete = builder.icmp_unsigned("==", self.get(Frame.CLUSTER), i64(Arrival.COMPLETE))
        with builder.if_then(builder.not_(complete)):
            go_on = builder.append_basic_block("go_on")
            self.put(Frame.BARRIER, CLUSTER_BARRIER)
            self.put(Frame.BARRIER_THREADS, i64(0))
            self.suspend(Status.BARRIER, self.live_after(item), item)
            builder.branch(go_on)
            builder.position_at_end(go_on)
        self.put(Frame.CLUSTER, int(Arrival.NONE))

    def live_after(self, item: FlatInstruction) -> set[str]:
        """Registers that are read after an instruction in the middle of a block."""
        live = self.flow.live_out(self.current.number)
        for other in reversed(self.current.instructions):
            if other.index == item.index:
                break
            if other.guard is None:
                live -= set(other.destinations)
            else:
                live |= set(other.destinations)
            live |= set(other.sources)
        # Registers that inactive lanes must keep are live too.
        return live | {name for name in item.destinations if name in self.flow.must_keep[self.current.number]}


def is_recorded_access(item: FlatInstruction) -> bool:
    """Whether the record has addresses of an instruction; parameters at known offsets need none."""
    use = memory_use(item.instruction)
    if use is None:
        return False
    return not (use.space == "param" and _is_constant_address(item))


def _is_constant_address(item: FlatInstruction) -> bool:
    return any(isinstance(each, Address) and isinstance(each.base, Immediate) for each in item.instruction.operands)


def _segments(block: BasicBlock) -> list[Segment]:
    """Runs of instructions under the same mask.

    A guarded instruction, except a branch, is a run of its own. So is a bulk copy,
    because its accesses follow it in the record.
    """
    found: list[list[FlatInstruction]] = []
    joinable = False
    for item in block.instructions:
        alone = item.guard is not None and not (item.targets or item.opcode in ("ret", "exit"))
        alone = alone or item.is_bulk_copy
        if alone or not joinable:
            found.append([item])
        else:
            found[-1].append(item)
        joinable = not alone
    return [Segment(tuple(items)) for items in found]
