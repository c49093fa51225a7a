"""Executed PTX as the machine code that the compiler made of it.

A cubin says from which line of PTX each machine instruction comes. So a pass through a loop of the PTX, or through
what is in no loop, becomes a pass through its machine code: its instructions in their order, with their stall counts
and scoreboards, and with the addresses of the PTX accesses that they stand for. PTX of which there is no machine code
stays as it is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..traces import (
    CLASS_NAMES,
    IRREGULAR,
    LaunchTrace,
    StaticInstruction,
    StaticTable,
    WarpGroup,
    active_lanes,
    static_table,
)
from ..traces.machine_code import TracedCode, code_of
from .machine_calls import RareCalls
from .machine_groups import in_turns
from .machine_loops import MachineKernel, match_loops
from .machine_rows import is_access, joined_tables, machine_rows, pieces_of, same_access, silent_rows
from .machine_waits import straightened
from .mbarriers import is_wait
from .register_banks import further_reads_of

#: In place of the PTX instruction that an address is taken from: none is, or it is on the stack.
_NOWHERE, STACK = -1, -2
_STACK_BASE = 1 << 20
#: In place of the part of an access: all of it.
_WHOLE = -1
#: Least share of the accessed bytes that must be found in the machine code.
_LEAST_FOUND = 0.9
_BULK = ("UTMA", "UBLK")

Indices = NDArray[np.int64]


class MachineForm(NamedTuple):
    """Blocks in machine code.

    The static table has the machine code, the same without effect, the PTX, and copies by turn (see `in_turns`).
    """

    group: WarpGroup
    static: StaticTable
    #: The machine code, and PTX if some stays, each instruction once; and where in it each row stands.
    distinct: StaticTable
    place: Indices
    #: Control bits of the rows; 0 for those of the PTX.
    control: tuple[int, ...]
    #: Of each execution: the PTX instruction that it stands for.
    origin: Indices
    #: Share of the executed PTX that has become machine code.
    share: float
    #: Of each row: registers that its busiest bank has to give beyond the first.
    further_reads: Indices

    @property
    def classes(self) -> frozenset[str]:
        return frozenset(CLASS_NAMES[each] for each in np.unique(self.static.class_id))


def machine_form(group: WarpGroup, trace: LaunchTrace) -> MachineForm | None:
    """Executed blocks in machine code; None if the trace has none, or accesses of the PTX are not found in it."""
    code = code_of(trace.header)
    if code is None or not code.opcodes or not code.ptx_blocks or not len(group.static):
        return None
    code = straightened(code, trace.static)
    writer = Writer(group, trace.static, machine_rows(code, trace.static), code)
    written: list[Written] = []
    start = np.zeros(len(group) + 1, dtype=np.int64)
    for warp, (begin, end) in enumerate(pairwise(group.start.tolist())):
        before = len(written)
        if end > begin:
            writer.write(0, [(begin, end)], written)
        start[warp + 1] = start[warp] + sum(len(each.rows) for each in written[before:])
    whole = Written(*(np.concatenate(column) for column in zip(*written, strict=True)))
    rows, ptx = writer.rows, trace.static
    turns = in_turns(rows, whole.rows, start, 2 * len(rows) + len(trace.static))
    whole = whole._replace(rows=turns.executed)
    table = joined_tables([static_table([*rows, *silent_rows(rows)]), trace.static, static_table(turns.rows)])
    reads = further_reads_of(code, rows)
    accessed = _accessed(trace.static, group.static)
    found = _accessed(table, whole.rows[whole.accesses >= 0]) / accessed if accessed else 1.0
    if found < _LEAST_FOUND:
        return None
    return MachineForm(
        group=_group(group, trace.static, table, whole, start, writer.pieces),
        static=table,
        distinct=joined_tables([static_table(rows), *([ptx] if writer.kept else [])]),
        place=np.array(
            [
                *range(len(rows)),
                *range(len(rows)),
                *(len(rows) + each if writer.kept else 0 for each in range(len(ptx))),
                *turns.origins,
            ]
        ),
        control=(
            *(*code.control, *code.control, *(0,) * len(trace.static)),
            *(code.control[each] for each in turns.origins),
        ),
        origin=group.static[whole.sources].astype(np.int64),
        share=(1.0 - writer.kept / len(group.static)) * min(found, 1.0),
        further_reads=np.concatenate((reads, np.zeros(len(rows) + len(ptx), dtype=np.int64), reads[turns.origins])),
    )


def _accessed(table: StaticTable, executed: NDArray[Any]) -> float:
    """Bytes that a lane accesses in memory; constants are often operands in machine code."""
    constant = table.class_id == CLASS_NAMES.index("load_constant")
    return float(np.where(constant, 0, table.access_bytes)[executed].sum(dtype=np.int64))


class Written(NamedTuple):
    """Rows of the static table, and for each the instructions of the group that give its mask and its address.

    An access of the PTX that is several in machine code gives each a part of its lanes: the number of the part, or
    _WHOLE.
    """

    rows: Indices
    sources: Indices
    accesses: Indices
    parts: Indices


@dataclass
class _Pass:
    """Machine code of one pass through a region, by indices among the PTX instructions of the pass."""

    rows: list[int] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)
    accesses: list[int] = field(default_factory=list)
    parts: list[int] = field(default_factory=list)
    #: (How many rows come before it, region of the PTX that is passed through then).
    inner: list[tuple[int, int]] = field(default_factory=list)

    def add(self, row: int, source: int, access: int = _NOWHERE, part: int = _WHOLE) -> None:
        self.rows.append(row)
        self.sources.append(source)
        self.accesses.append(access)
        self.parts.append(part)


@dataclass
class _Executed:
    """PTX instructions of a pass: where each was executed, and what of that has been written."""

    where: dict[int, list[int]]
    #: By instruction: how many machine instructions each of its executions stands for, and how many were written.
    pieces: Mapping[int, int]
    used: Counter[int] = field(default_factory=Counter)
    taken: set[int] = field(default_factory=set)
    seen: set[int] = field(default_factory=set)

    def left(self, origin: int) -> bool:
        return len(self.where.get(origin, ())) * self.pieces.get(origin, 1) > self.used[origin]

    def next(self, origin: int) -> tuple[int, int]:
        """The execution, and the part of it, that is written next."""
        number, part = divmod(self.used[origin], self.pieces.get(origin, 1))
        self.used[origin] += 1
        return self.where[origin][number], part

    def latest(self, origin: int) -> int:
        """The execution that was written last, or the first."""
        found = self.where.get(origin)
        written = max(self.used[origin] - 1, 0) // self.pieces.get(origin, 1)
        return found[min(written, len(found) - 1)] if found else 0


class Writer:
    """Writes what the warps of a group executed as machine code."""

    def __init__(self, group: WarpGroup, ptx: StaticTable, rows: list[StaticInstruction], code: TracedCode) -> None:
        self.group, self.ptx, self.rows = group, ptx, rows
        self.static = group.static.astype(np.int64)
        self.has_access = ptx.access_bytes[self.static] > 0
        self.address = np.zeros(len(self.static), dtype=np.uint64)
        self.address[self.has_access] = group.base
        self.pieces = pieces_of(code, ptx)
        classes = [row.instruction_class for row in rows], [CLASS_NAMES[each] for each in ptx.class_id]
        self.spilled = frozenset(code.spills.values())
        self.kernel = MachineKernel(code, *classes, self.pieces)
        for i in self.kernel.swaps:
            self.rows[i] = replace(rows[i], opcode=ptx.opcode[self.kernel.origins[i]])
        for i, origin in enumerate(self.kernel.origins):  # SYNCS alone does not say whether it arrives or waits
            if rows[i].access_bytes and rows[i].opcode == "SYNCS":
                self.rows[i] = replace(rows[i], opcode=ptx.opcode[origin])
        #: What copies in bulk, where waits tell that its place matters.
        self.copying = frozenset(i for i, row in enumerate(rows) if row.opcode.startswith(_BULK))
        if not any(map(is_wait, ptx.opcode)):
            self.copying = frozenset()
        self.regions = match_loops(self.kernel)
        self.calls = RareCalls(code, self.kernel.origins)
        self.sites = [
            [i for block in blocks for i in self.kernel.spans[block] if i in self.calls.bodies]
            for blocks in self.regions.blocks
        ]
        # A spill belongs where the instruction before it does, and so does what stands for a bulk copy.
        spill = self.static >= code.ptx_size if self.copying else np.isin(self.static, list(self.spilled))
        owner = np.maximum.accumulate(np.where(spill, 0, np.arange(len(self.static))))
        self.owner = self.static[owner]
        self.region = self.regions.of_static[self.owner]
        #: Executed PTX that stays as it is.
        self.kept = 0
        self._passes: dict[tuple[Any, ...], _Pass] = {}

    def write(self, machine: int, spans: list[tuple[int, int]], written: list[Written]) -> None:
        """Append one pass through machine code: the PTX in `spans`, with the loops in it."""
        inner_of = self.regions.inner_of[machine]
        own: list[Indices] = []
        loops: dict[int, list[Any]] = defaultdict(list)
        for begin, end in spans:
            inside = inner_of[self.region[begin:end]]
            edges = (np.flatnonzero(np.diff(inside)) + 1 + begin).tolist()
            for low, high in zip([begin, *edges], [*edges, end], strict=True):
                inner = int(inside[low - begin])
                if inner < 0:
                    own.append(np.arange(low, high))
                else:
                    entry, *iterations = self._iterations(machine, inner, low, high)
                    own.append(np.arange(low, entry))
                    loops[inner].append(iterations)
        copied = self.regions.copied[machine]
        own += [np.arange(*rest) for inner in loops if inner in copied for _, rest in loops[inner]]
        positions = np.concatenate(own) if own else np.array(spans[0][:1])
        made = self._pass(machine, positions, tuple(loops))
        at = 0
        for where, inner in made.inner:
            _append(made, at, where, positions, written)
            for passes, rest in loops[inner]:
                for variant, iterations in passes:
                    self.write(variant, iterations, written)
                if inner not in copied:
                    self._keep(np.arange(*rest), written)
            at = where
        _append(made, at, len(made.rows), positions, written)

    def _iterations(self, machine: int, inner: int, begin: int, end: int) -> Any:
        """Of an inner loop: where its machine code takes over, its passes, and the PTX that is left.

        A pass is a region of the machine code, and the PTX that it stands for.
        """
        heads = np.flatnonzero(self.static[begin:end] == self.regions.headers[inner]) + begin
        starts = np.append(begin, heads[heads > begin])
        before = self.regions.entered[machine].get(inner)
        if before is not None:
            behind = np.append(np.flatnonzero(~before[self.owner[begin:end]]) + begin, end)
            starts = behind[np.searchsorted(behind, starts)]
        edges = [*starts[starts < end].tolist(), end]
        spans = list(pairwise(edges))
        passes = []
        at = 0
        for copies, variant in self.regions.variants[inner]:
            while len(spans) - at >= copies:
                passes.append((variant, spans[at : at + copies]))
                at += copies
        return edges[0], passes, (edges[at], end)

    def _keep(self, positions: Indices, written: list[Written]) -> None:
        """Append PTX as it is."""
        self.kept += len(positions)
        addresses = np.where(self.has_access[positions], positions, _NOWHERE)
        parts = np.full(len(positions), _WHOLE)
        written.append(Written(2 * len(self.rows) + self.static[positions], positions, addresses, parts))

    def _pass(self, machine: int, positions: Indices, inner: tuple[int, ...]) -> _Pass:
        executed, sites = self.static[positions], self.sites[machine]
        calls = self.calls.next(set(executed.tolist()), sites) if sites else ()
        key = machine, executed.tobytes(), inner, calls
        if key not in self._passes:
            self._passes[key] = self._made(machine, positions, inner, calls)
        return self._passes[key]

    def _made(self, machine: int, positions: Indices, inner: tuple[int, ...], calls: tuple[int, ...]) -> _Pass:
        """The machine code of a pass in which these PTX instructions were executed, these inner loops and calls."""
        where: dict[int, list[int]] = defaultdict(list)
        for index, origin in enumerate(self.static[positions].tolist()):
            where[origin].append(index)
        executed, made = _Executed(dict(where), self.pieces), _Pass()
        children = self.regions.children[machine]
        waiting = set(inner)
        ran = True
        for block in sorted({*self.regions.blocks[machine], *children}):
            if block in children:
                child = self.regions.ptx_of[children[block]]
                if child in waiting:
                    waiting.discard(child)
                    made.inner.append((len(made.rows), child))
                continue
            ran = self._runs(block, self.regions.ptx_of[machine], executed, ran, calls)
            for i in self.kernel.executed_in(block) if ran else ():
                self._add(i, made, executed)
                for each in self.calls.bodies[i] if i in calls else ():
                    made.add(each, executed.latest(self.kernel.origins[i]))
                self._add_bulk(i, made, executed, positions)
                executed.seen.add(self.kernel.origins[i])
        made.inner += [(len(made.rows), child) for child in inner if child in waiting]
        self._widen(made, executed, positions)
        return made

    def _runs(self, block: int, region: int, executed: _Executed, before: bool, calls: tuple[int, ...] = ()) -> bool:
        """Whether a block runs in a pass: most of its accesses were executed, or of its instructions without any.

        One that comes from no PTX of the region runs like the block before it.
        """
        kernel, span = self.kernel, self.kernel.spans[block]
        accesses: list[bool] = []
        others: list[bool] = []
        foreign = fresh = False
        for i in span:
            origin = kernel.origins[i]
            here = origin in executed.where
            if origin < 0 or (kernel.code.guarded[i] and kernel.code.opcodes[i] != "BRA"):
                continue
            if self.regions.of_static[origin] != region and not here:
                foreign = True
            elif is_access(kernel.classes[i]) and is_access(kernel.ptx_classes[origin]):
                accesses.append(executed.left(origin))
            else:
                others.append(here)
            fresh |= here and origin not in executed.seen
        if not fresh and any(kernel.code.opcodes[i] == "CALL" for i in span):
            return any(i in calls for i in span)  # for rare operands of what the code before it is about, too
        votes = accesses or others
        return 2 * sum(votes) >= len(votes) if votes else before and not foreign

    def _add(self, i: int, made: _Pass, executed: _Executed) -> None:
        """Add a machine instruction. One that a guard keeps from its access only issues."""
        row, code = self.rows[i], self.kernel.code
        origin = code.spills.get(i, self.kernel.origins[i])
        if not row.access_bytes:
            made.add(i, executed.latest(origin))
            executed.used[origin] += row.instruction_class.startswith("barrier")
        elif origin < 0 or not (
            self.ptx.access_bytes[origin] and same_access(row.instruction_class, self.kernel.ptx_classes[origin])
        ):
            made.add(i, executed.latest(origin), STACK)
        elif executed.left(origin):
            index, part = executed.next(origin)
            made.add(i, index, index, part)
            executed.taken.add(index)
        elif i not in code.spills:
            made.add(len(self.rows) + i, 0)

    def _add_bulk(self, i: int, made: _Pass, executed: _Executed, positions: Indices) -> None:
        """Add what stands in the PTX trace for the accesses of a bulk copy."""
        copies = executed.where.get(self.kernel.origins[i], [])
        if self.copying:
            copies = [each for each in copies if each + 1 not in executed.taken] if i in self.copying else []
        for index in copies[:1]:
            following = index + 1
            while following < len(positions) and self.static[positions[following]] >= self.kernel.code.ptx_size:
                if following not in executed.taken and self.static[positions[following]] not in self.spilled:
                    executed.taken.add(following)
                    made.add(2 * len(self.rows) + int(self.static[positions[following]]), following, following)
                following += 1

    def _widen(self, made: _Pass, executed: _Executed, positions: Indices) -> None:
        """A wide access stands for several of the PTX: it has the lowest of their addresses."""
        addresses = self.address[positions].astype(np.int64)
        for at, (row, index) in enumerate(zip(made.rows, made.accesses, strict=True)):
            origin = int(self.static[positions[index]])
            if index < 0 or row >= len(self.rows) or self.rows[row].access_bytes <= self.ptx.access_bytes[origin]:
                continue
            like = [other for other in executed.where if self._alike(origin, other)]
            near = [each for other in like for each in executed.where[other] if each not in executed.taken]
            least = addresses[index] - self.rows[row].access_bytes
            near = [each for each in near if least < addresses[each] < addresses[index]]
            made.accesses[at] = min((*near, index), key=lambda each: addresses[each])

    def _alike(self, one: int, other: int) -> bool:
        return bool(
            self.ptx.class_id[one] == self.ptx.class_id[other]
            and self.ptx.access_bytes[one] == self.ptx.access_bytes[other]
        )


def _append(made: _Pass, begin: int, end: int, positions: Indices, written: list[Written]) -> None:
    if end > begin:
        accesses = np.array(made.accesses[begin:end])
        found = np.where(accesses >= 0, positions[np.maximum(accesses, 0)], accesses)
        rows, parts = (np.array(each[begin:end]) for each in (made.rows, made.parts))
        written.append(Written(rows, positions[made.sources[begin:end]], found, parts))


def _part_of(mask: NDArray[Any], part: Indices, every: Indices) -> NDArray[Any]:
    """Masks with one active lane in `every`, beginning with number `part`."""
    found = mask.copy()
    for at in np.flatnonzero(every > 1).tolist():
        lanes = [lane for lane in range(32) if int(mask[at]) >> lane & 1]
        found[at] = sum(1 << lane for lane in lanes[part[at] :: every[at]])
    return found


def _group(
    group: WarpGroup,
    ptx: StaticTable,
    table: StaticTable,
    whole: Written,
    start: Indices,
    pieces: Mapping[int, int],
) -> WarpGroup:
    """The written instructions with masks and addresses."""
    has_access = ptx.access_bytes[group.static] > 0
    number = np.cumsum(has_access) - 1
    lanes_of = np.where(group.stride == IRREGULAR, active_lanes(group.mask[has_access]), 0)
    first = np.cumsum(lanes_of) - lanes_of
    access = table.access_bytes[whole.rows] > 0
    rows, chosen = whole.rows[access], whole.accesses[access]
    known = chosen >= 0
    mask = group.mask[whole.sources]
    mask[access] = np.where(known, group.mask[np.maximum(chosen, 0)], mask[access])
    of_ptx = np.ones(len(ptx), dtype=np.int64)
    of_ptx[list(pieces)] = list(pieces.values())
    part, every = whole.parts[access], of_ptx[group.static[np.maximum(chosen, 0)]]
    every = np.where(known & (part != _WHOLE) & (active_lanes(mask[access]) >= every), every, 1)
    part = np.where(every > 1, part, 0)
    mask[access] = _part_of(mask[access], part, every)
    if not len(group.base):
        base, stride, counts = np.zeros(len(rows), np.uint64), np.zeros(len(rows), np.int64), np.zeros(len(rows), int)
        which = counts
    else:
        which = number[np.maximum(chosen, 0)]
        base, stride = group.base[which], group.stride[which]
        even = stride != IRREGULAR
        counts = np.where(known & ~even, active_lanes(mask[access]), 0)
        base = np.where(even, base + (part * stride).astype(np.uint64), base)
        stride = np.where(even, stride * every, stride)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    access_start = np.concatenate(([0], np.cumsum(access)))[start]
    lane_start = np.concatenate(([0], np.cumsum(counts)))[access_start]
    return WarpGroup(
        block=group.block,
        warp=group.warp,
        start=start,
        static=whole.rows.astype(np.uint32),
        mask=mask,
        access_start=access_start,
        base=np.where(known, base, np.uint64(_STACK_BASE)).astype(np.uint64),
        stride=np.where(known, stride, table.access_bytes[rows]).astype(group.stride.dtype),
        lane_start=lane_start,
        lanes=(
            group.lanes[np.repeat(first[which] + part, counts) + within * np.repeat(every, counts)]
            if len(group.base)
            else group.lanes[:0]
        ),
    )
