"""What the plain detailed simulator does in the background: bulk copies, groups, products, mbarriers and clusters."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from warplens.traces import StaticInstruction

from .detailed import Simulation
from .detailed_parts import UNKNOWN, Access, BlockOnSm, Instruction, Machine, Pending, Sm, Warp, instruction
from .traces import Block, Step

#: What starts work of a kind of group, marks a group, and waits for groups.
STARTS = {"cp.async.cg": "copies", "wgmma.mma_async": "products"}
MARKS = {"cp.async.commit_group": "copies", "wgmma.commit_group": "products"}
WAITS = {"cp.async.wait_group": "copies", "wgmma.wait_group": "products", "cp.async.wait_all": "copies"}
PORT_BYTES, WARPS_OF_PRODUCT, ROWS_OF_PRODUCT, BYTES_OF_ROW = 128, 4, 64, 32


def _of(opcode: str, names: dict[str, str]) -> str:
    return next((kind for name, kind in names.items() if opcode.startswith(name)), "")


@dataclass
class Work(Instruction):
    """An instruction with what it does in the background."""

    arrives: Pending | None = None
    copies: Pending | None = None
    awaits: Pending | None = None

    @property
    def starts(self) -> str:
        return _of(self.row.opcode, STARTS)

    @property
    def marks(self) -> str:
        return _of(self.row.opcode, MARKS)

    @property
    def waits(self) -> str:
        return _of(self.row.opcode, WAITS)

    @property
    def bulk(self) -> bool:
        return "bulk" in self.row.opcode

    @property
    def clustered(self) -> bool:
        return self.row.instruction_class == "barrier_cluster"

    @property
    def staying(self) -> int:
        """Groups that a wait leaves under way; -1: not even what is in no group yet."""
        return -1 if self.row.opcode == "cp.async.wait_all" else self.row.immediate

    @property
    def sums(self) -> tuple[int, ...]:
        return self.row.destinations

    @property
    def operands(self) -> list[int]:
        return [each for each in self.row.sources if each not in self.sums]

    @property
    def port_cycles(self) -> float:
        """Of shared memory, for a warp's share of both operands, or of the second if registers have the first."""
        rows = int(self.row.instruction_class.removeprefix("tensor_n"))
        if len(self.operands) <= 2:
            rows += ROWS_OF_PRODUCT
        return rows * BYTES_OF_ROW / PORT_BYTES / WARPS_OF_PRODUCT


def work(step: Step, rows: Sequence[StaticInstruction], line_bytes: int) -> Work:
    plain = instruction(step, rows, line_bytes)
    made = Work(plain.number, plain.row, plain.kind, plain.lines, plain.degree)
    if made.clustered:
        made.kind = "barrier"
    elif made.starts == "products":
        made.kind = "product"
    elif made.row.opcode.startswith("mbarrier.arrive"):  # lanes of a word one by one
        made.degree = max(Counter(step.addresses).values())
    return made


def programs(block: Block, rows: Sequence[StaticInstruction], line_bytes: int) -> list[list[Work]]:
    """The warps of a block, with the phases of its mbarriers.

    The nth arrival of a warp at a barrier is for phase n. Its copies are for the phase at which it last expected
    bytes. The first wait for parity 0 is for phase 0; other parities are for the next one each, an odd one first for
    none.
    """
    phases: dict[tuple[int, int], Pending] = defaultdict(Pending)
    waits: list[tuple[Work, tuple[int, int]]] = []
    made = []
    for warp in block:
        arrived: Counter[int] = Counter()
        phase_of: dict[int, int] = {}
        expected: Pending | None = None
        made.append([work(step, rows, line_bytes) for step in warp])
        for step, one in zip(warp, made[-1], strict=True):
            opcode = one.row.opcode
            if opcode.startswith("mbarrier.arrive"):
                barrier = step.addresses[0]
                one.arrives = phases[barrier, arrived[barrier]]
                one.arrives.left += 1
                if "expect_tx" in opcode:
                    expected = one.arrives
                arrived[barrier] += 1
            elif opcode.startswith("mbarrier.try_wait"):
                barrier, parity = step.addresses[0] & ~7, step.addresses[0] & 1
                phase = phase_of.get(barrier, -1)
                while phase % 2 != parity:
                    phase += 1
                phase_of[barrier] = phase
                if phase >= 0:
                    waits.append((one, (barrier, phase)))
            elif one.bulk and expected is not None:
                one.copies = expected
                expected.left += 1
    for one, phase in waits:
        one.awaits = phases[phase] if phase in phases else Pending(1)
    return made


@dataclass(eq=False)
class TensorCore:
    waiting: deque[tuple[Warp, Work, Pending]] = field(default_factory=deque)
    free: float = 0.0


@dataclass(eq=False)
class Background:
    """What an SM has beside its load-store unit and pipelines."""

    tensor_cores: list[TensorCore]
    bulk: deque[Access] = field(default_factory=deque)
    port_free: float = 0.0
    product_read_last: bool = False


@dataclass(eq=False)
class Groups:
    """Of a warp: by kind, the group that work joins now, last, and those before it."""

    of_kind: dict[str, list[Pending]] = field(default_factory=lambda: defaultdict(lambda: [Pending()]))


@dataclass(eq=False)
class Meeting:
    """A block at its cluster's barrier."""

    opens: float = UNKNOWN


class BackgroundSimulation(Simulation):
    def __init__(
        self,
        rows: Sequence[StaticInstruction],
        blocks: Sequence[Block],
        machine: Machine,
        *,
        cluster_blocks: int = 1,
        cluster_barrier: float = 2.0,
    ) -> None:
        super().__init__(rows, blocks, machine)
        self.to_do = deque(programs(block, rows, machine.line_bytes) for block in blocks)
        self.cluster_blocks, self.cluster_barrier = cluster_blocks, cluster_barrier
        self.of_sm = {sm: Background([TensorCore() for _ in sm.schedulers]) for sm in self.sms}
        self.groups: dict[Warp, Groups] = defaultdict(Groups)
        self.numbers_of: dict[BlockOnSm, int] = {}
        self.left_blocks: set[int] = set()
        #: Whether the barrier that a warp of a block has reached last is the cluster's.
        self.at_clusters: dict[BlockOnSm, bool] = {}
        self.meetings: dict[BlockOnSm, Meeting] = {}
        self.launched = len(blocks)

    # -- scheduler ----------------------------------------------------------------

    def dispatch(self, t: int) -> None:
        super().dispatch(t)
        started = [block for sm in self.sms for block in sm.blocks if block and block not in self.numbers_of]
        for block in sorted(started, key=lambda each: each.warps[0].age):
            self.numbers_of[block] = len(self.numbers_of)

    def held_by(self, t: int, sm: Sm, warp: Warp) -> str:
        following = warp.program[warp.next]
        assert isinstance(following, Work)
        if not (following.waits or following.bulk or following.kind == "product"):
            return super().held_by(t, sm, warp)
        if warp.not_before > t:
            return "DEP"
        needed = following.operands if following.kind == "product" else following.needed
        ready = max((warp.ready.get(register, 0.0) for register in needed if register < 255), default=0.0)
        if ready == UNKNOWN:
            warp.found_waiting = True
            return "MEMORY"
        if ready > t:
            return "DEP"
        if not following.waits:
            return ""
        groups = self.groups[warp].of_kind[following.waits]
        awaited = groups[: len(groups) - 1 - following.staying]
        if any(group.left for group in awaited):
            warp.found_waiting = following.waits == "copies"
            return "MEMORY" if warp.found_waiting else "UNIT"
        if any(group.ready > t for group in awaited):
            return "DEP"
        return super().held_by(t, sm, warp)

    def issue(self, t: int, sm: Sm, warp: Warp) -> None:
        issued = warp.program[warp.next]
        assert isinstance(issued, Work)
        groups = self.groups[warp].of_kind
        if issued.kind == "product":
            warp.next += 1
            warp.not_before = t + 1
            warp.in_flight += 1
            groups["products"][-1].left += 1
            core = self.of_sm[sm].tensor_cores[warp.slot % len(sm.schedulers)]
            core.waiting.append((warp, issued, groups["products"][-1]))
            return
        super().issue(t, sm, warp)
        if issued.marks:
            groups[issued.marks].append(Pending())
        if issued.kind not in ("nothing", "barrier"):
            access = sm.lsu[-1]
            if issued.copies:
                access.completes.append(issued.copies)
            if issued.starts:
                groups[issued.starts][-1].left += 1
                access.completes.append(groups[issued.starts][-1])
            if issued.bulk:
                self.of_sm[sm].bulk.append(sm.lsu.pop())
        if issued.kind == "barrier":
            self.at_clusters[warp.block] = issued.clustered
        warp.awaits = None if warp.finished else issued.awaits

    # -- tensor cores, load-store unit, copy engine --------------------------------

    def l1_stage(self, t: int, sm: Sm) -> None:
        super().l1_stage(t, sm)
        for core in self.of_sm[sm].tensor_cores:
            if core.waiting and self.can_start(t, sm, core):
                self.start(t, sm, core)

    def can_start(self, t: int, sm: Sm, core: TensorCore) -> bool:
        own = self.of_sm[sm]
        warp, product, _ = core.waiting[0]
        others_turn = own.product_read_last and bool(sm.lsu) and sm.lsu[0].instruction.kind == "shared"
        sums = warp.ready.get(product.sums[0], 0.0)
        return core.free < t + 1 and sums <= t and own.port_free < t + 1 and not others_turn

    def start(self, t: int, sm: Sm, core: TensorCore) -> None:
        own = self.of_sm[sm]
        warp, product, group = core.waiting.popleft()
        unit, interval, latency = self.machine.timings[product.row.instruction_class]
        core.free = max(core.free, t) + interval * len(sm.schedulers)
        sm.units[unit] = max(sm.units.get(unit, 0.0), t) + interval
        own.port_free = max(own.port_free, t) + product.port_cycles
        own.product_read_last = True
        done = t + latency + self.machine.operand_cycles
        warp.ready[product.sums[0]] = done
        group.part_done(done)
        warp.in_flight -= 1

    def lsu_stage(self, t: int, sm: Sm) -> None:
        own = self.of_sm[sm]
        lines = len(sm.pipe)
        serves = bool(sm.lsu) and sm.lsu_free <= t
        head = sm.lsu[0].instruction if serves else None
        if head is not None and head.kind == "shared":
            assert isinstance(head, Work)
            if own.port_free < t + 1:
                super().lsu_stage(t, sm)
                own.port_free = max(own.port_free, t) + head.degree
                own.product_read_last = False
                if head.arrives:
                    head.arrives.part_done(t + head.degree)
        else:
            super().lsu_stage(t, sm)
        self.bulk_stage(t, sm, sent=len(sm.pipe) > lines)
        for warp in sm.warps():
            if warp.awaits and not warp.awaits.left and warp.awaits.ready <= t:
                warp.awaits = None

    def bulk_stage(self, t: int, sm: Sm, *, sent: bool) -> None:
        """The copy engine sends a line of its oldest copy if the load-store unit sends none."""
        queue = self.of_sm[sm].bulk
        if queue and not queue[0].instruction.lines:
            queue.popleft().give(t + self.machine.l1_latency)
        elif queue and not sent:
            others, sm.lsu, held, sm.lsu_free = sm.lsu, queue, sm.lsu_free, 0.0
            super().lsu_stage(t, sm)
            sm.lsu, sm.lsu_free = others, held

    # -- barriers -------------------------------------------------------------------

    def barriers_and_exits(self, t: int, sm: Sm) -> None:
        for place, block in enumerate(sm.blocks):
            if block is None:
                continue
            running = [warp for warp in block.warps if not warp.finished]
            there = [warp for warp in running if warp.at_barrier]
            elsewhere = [warp for warp in running if warp.awaits and warp.awaits.left]
            if there and len(there) + len(elsewhere) == len(running) and self.opens(t, block):
                for warp in there:
                    warp.at_barrier = False
                    warp.not_before = t + 1
            if not running and not any(warp.in_flight for warp in block.warps):
                sm.blocks[place] = None
                self.left_blocks.add(self.numbers_of[block])
                self.totals["BLOCKS"] += 1
                self.meet(t, self.numbers_of[block] // self.cluster_blocks)

    def opens(self, t: int, block: BlockOnSm) -> bool:
        if not self.at_clusters[block]:
            return True
        if block not in self.meetings:
            self.meetings[block] = Meeting()
            self.meet(t, self.numbers_of[block] // self.cluster_blocks)
        if self.meetings[block].opens > t:
            return False
        del self.meetings[block]
        return True

    def meet(self, t: int, cluster: int) -> None:
        """All blocks of a cluster that have not left must be at its barrier; it opens for all at once."""
        first = cluster * self.cluster_blocks
        members = range(first, min(first + self.cluster_blocks, self.launched))
        waiting = {self.numbers_of[block]: meeting for block, meeting in self.meetings.items()}
        if all(number in waiting or number in self.left_blocks for number in members):
            for number in members:
                if number in waiting and waiting[number].opens == UNKNOWN:
                    waiting[number].opens = t + self.cluster_barrier - 1
