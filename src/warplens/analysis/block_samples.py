"""Sampled thread blocks that stand for a whole launch: their warps as events, from one memory access to the next."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..traces import CLASS_IDS, CLASS_NAMES, LaunchTrace, StaticTable, WarpGroup, active_lanes
from ..traces.grouping import joined, part_of
from ..traces.rewrite import changed, lane_addresses
from . import IssueTiming, collect_events_of, instruction_kinds, timing_of
from .assembly import Assembly
from .atomics import swaps_of
from .banks import conflict_degrees, shared_accesses
from .clusters import remote_share
from .def_use import chased_loads, def_use
from .machine_form import MachineForm
from .machine_groups import waiting
from .mbarriers import NOTHING_AWAITED, Awaited, awaited_events, mbarrier_kinds
from .register_banks import further_reads

#: Among the counts by class: words beyond the first at which lanes read constant memory.
CONSTANT_INDICES = "constant_indices"
#: Among them too: instructions that come from beyond the first instruction cache, and from beyond the second.
FETCHED, FAR_FETCHED = "fetched", "far_fetched"
#: And registers that an instruction reads from a bank beyond the first.
FURTHER_READS = "further_reads"
#: Bytes of an instruction and of a line of code.
INSTRUCTION_BYTES, CODE_LINE_BYTES = 16, 128
#: Among the latencies by class: what a generic load of shared memory adds, one of another block, and a shuffle's.
GENERIC, REMOTE, SHUFFLE = "generic", "remote", "shuffle"
#: And of a loop of compare-and-swap: for each lane of a word, for each of other warps, and at the port.
SWAP_LANE, SWAP_WORD, SWAP_PORT = "swap_lane", "swap_word", "swap_port"
#: Instructions of a turn, as ptxas makes it: a load, a move, the sum, the swap, a comparison and a branch.
SWAP_INSTRUCTIONS = 6
WORD_BYTES = 4
#: Kinds of events. `END` is a warp's last instruction if it is neither an access nor a barrier.
LOAD, STORE, END = 1, 2, 5
#: Most and fewest sampled blocks; most warps and instructions of all sampled blocks together.
MOST_BLOCKS, LEAST_BLOCKS, MOST_WARPS, MOST_INSTRUCTIONS = 24, 4, 256, 1 << 17
#: Ratio from which blocks count as different.
DIFFERENT = 1.25


@dataclass(frozen=True)
class BlockChoice:
    """What the choice of thread blocks depends on: the trace alone."""

    kept_as: ClassVar[str] = "blocks"


@dataclass(frozen=True, eq=False)
class BlockSample:
    """Events (accesses, barriers and ends) of the warps of the sampled blocks, as flat columns.

    Block b has warps `block_start[b]` to `block_start[b + 1]`; warp w has events
    `event_start[w]` to `event_start[w + 1]`. `gap`, `dependence` (index within
    the warp) and `tail` come from the coalescer. `instructions`, `counts` (by
    class) and `shared_cycles` cover the time since the previous event.
    `granules` are the 32nds of lines that an access touches, `bank_words` the words
    of the busiest of 32 banks. An event of weight n stands for n similar ones.
    """

    block_start: NDArray[np.int64]
    event_start: NDArray[np.int64]
    static: NDArray[np.int64]
    kind: NDArray[np.int64]
    dependence: NDArray[np.int64]
    instructions: NDArray[np.float64]
    gap: NDArray[np.float64]
    tail: NDArray[np.float64]
    lines: NDArray[np.float64]
    line_start: NDArray[np.int64]
    line_id: NDArray[np.int64]
    access_bytes: NDArray[np.float64]
    granules: NDArray[np.float64]
    bank_words: NDArray[np.float64]
    shared_cycles: NDArray[np.float64]
    counts: NDArray[np.float64]
    weight: NDArray[np.float64]
    classes: tuple[str, ...]
    #: Instructions per instruction of the trace, and whether they are the machine code of its PTX.
    expansion: float = 1.0
    machine_code: bool = False
    #: What waits at mbarriers are for.
    awaited: Awaited = NOTHING_AWAITED

    @property
    def blocks(self) -> int:
        return len(self.block_start) - 1

    def sets(self, count: int, *, hashed: bool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(L1 set, out of `count`, that holds most lines of each event; number of those lines)."""
        from ._cache_kernels import find_l1_sets

        place = np.empty_like(self.line_id)
        find_l1_sets(self.line_id, count, hashed, place)
        found = np.zeros(len(self.static), dtype=np.int64)
        most = np.zeros(len(self.static))
        event = np.repeat(np.arange(len(self.static)), np.diff(self.line_start))
        pairs, sizes = np.unique(event * count + place, return_counts=True)
        order = np.argsort(sizes, kind="stable")  # of equal sizes the last one wins
        found[pairs[order] // count] = pairs[order] % count
        most[pairs[order] // count] = sizes[order]
        return found, most


class SharedTiming(NamedTuple):
    """How fast an SM's shared memory is: an access takes as long as its busiest bank, and at least the interval.

    An SM with 16 load/store units serves half a warp at a time: its interval is 2.
    """

    #: Cycles in which each bank gives a word.
    bank_cycles: float = 1.0
    interval_cycles: float = 1.0


#: 32 load/store units, 128 bytes per cycle.
HOPPER = SharedTiming()


def sample_of_blocks(
    group: WarpGroup,
    trace: LaunchTrace,
    line_bytes: int,
    latency_of_class: Callable[[str], float],
    *,
    reorder: bool = False,
    ahead: int = 0,
    shared: SharedTiming = HOPPER,
    code_bytes: Sequence[float] = (),
    form: MachineForm | None = None,
) -> BlockSample:
    """The events of a group of blocks; `trace` gives only the static instructions.

    `reorder` puts PTX instructions in the order that an assembler would choose.
    Loads of a loop are issued `ahead` iterations before what waits for them.
    `code_bytes` are the sizes of two instruction caches, or empty if the code fits in the first.
    If the blocks have a `form` in machine code, the events are those of that; their instructions are the PTX's.
    """
    expansion = 1.0
    if form is not None:
        expansion = len(form.group.static) / max(len(group.static), 1)
        header = dataclasses.replace(trace.header, extra={**trace.header.extra, "sass_control": form.control})
        group, trace, reorder = form.group, changed(trace, static=form.static, header=header), False
    place, distinct = (None, trace.static) if form is None else (form.place, form.distinct)
    if form is None and (found := waiting(group, trace)):
        group, trace, place = found
    static = trace.static
    group, kinds, timing, held, repeated = executed_by(group, trace, latency_of_class, reorder=reorder, shared=shared)
    expansion *= 1.0 + repeated.sum() / max(len(group.static), 1)
    events = collect_events_of(group, static, kinds, timing, line_bytes)
    at = _instruction_of_event(group, events)
    before = np.concatenate(([-1], at[:-1]))
    before[events.event_start[:-1][np.diff(events.event_start) > 0]] = -1  # `begin` has the warp's start
    first = np.repeat(group.start[:-1], np.diff(events.event_start))
    begin = np.maximum(before + 1, first)

    def since(values: Any) -> Any:
        sums = np.concatenate(([0.0], np.cumsum(values)))
        return sums[at + 1] - sums[begin]

    words = np.zeros(len(group.static))
    moves = np.isin(kinds, (LOAD, STORE))
    words[moves[group.static]] = conflict_degrees(group, static, moves)[1]
    class_id = static.class_id[group.static]
    columns = {CLASS_NAMES[index]: class_id == index for index in np.unique(class_id)}
    if (indices := further_indices(group, static)).any():
        columns[CONSTANT_INDICES] = indices
    if (reads := further_reads(trace) if form is None else form.further_reads).any():
        columns[FURTHER_READS] = reads[group.static]
    placed = group if place is None else dataclasses.replace(group, static=place[group.static].astype(np.uint32))
    columns.update(fetched_instructions(placed, distinct, code_bytes))
    lanes = active_lanes(group.mask[at]).astype(np.float64)
    dependence = events.event_dependence
    if ahead:
        chased = chased_loads(def_use(group, static), static)
        dependence = _issued_ahead(events, kinds == LOAD, chased, ahead)
    return BlockSample(
        block_start=events.block_start,
        event_start=events.event_start,
        static=(placed.static if form is None else form.origin)[at].astype(np.int64),
        kind=kinds[events.event_static].astype(np.int64),
        dependence=dependence.astype(np.int64),
        instructions=events.event_instructions + since(repeated),
        gap=events.event_gap.astype(np.float64),
        tail=events.event_tail.astype(np.float64),
        lines=np.diff(events.line_start).astype(np.float64),
        line_start=events.line_start,
        line_id=events.line_id,
        access_bytes=lanes * static.access_bytes[events.event_static],
        granules=_granules(events),
        bank_words=words[at],
        shared_cycles=since(held),
        counts=np.stack([since(each) for each in columns.values()], axis=1),
        weight=np.ones(len(events.event_static)),
        classes=tuple(columns),
        expansion=expansion,
        machine_code=form is not None,
        awaited=awaited_events(group, static, events, at),
    )


class Executed(NamedTuple):
    """Instructions of some blocks in the order in which warps issue them."""

    group: WarpGroup
    #: Kind of event, or 0, and timing apart from memory, of static instructions.
    kinds: NDArray[np.uint8]
    timing: IssueTiming
    #: Of each execution: cycles that it holds the banks of shared memory, and instructions that it repeats.
    shared_cycles: NDArray[np.float64]
    repeated: NDArray[np.float64]


def executed_by(
    group: WarpGroup,
    trace: LaunchTrace,
    latency_of_class: Callable[[str], float],
    *,
    reorder: bool,
    shared: SharedTiming = HOPPER,
) -> Executed:
    """How warps execute the instructions of some blocks. A warp's last one is an event, whatever it does."""
    static = trace.static
    if reorder:
        group = Assembly(static).ordered(group)
    kinds = instruction_kinds(static)
    kinds = np.where(kinds > 0, kinds, mbarrier_kinds(static))
    ends = np.unique(group.static[group.start[1:] - 1][np.diff(group.start) > 0])
    kinds[ends[kinds[ends] == 0]] = END
    _, degrees = conflict_degrees(group, static, in_passes=True)
    accesses = np.flatnonzero(shared_accesses(static)[group.static])
    timing = timing_of(trace, latency_of_class)
    executions = np.maximum(np.bincount(group.static[accesses], minlength=len(static)), 1)
    conflicts = np.bincount(group.static[accesses], degrees, len(static)) / executions
    # Conflicting words arrive one per cycle; wait for the last.
    latencies = timing.latencies + np.maximum(conflicts - 1.0, 0.0)
    latencies[generic_loads(static)] += latency_of_class(GENERIC)
    if trace.header.cluster_blocks > 1 and latency_of_class(REMOTE):
        latencies += remote_share(group, static) * latency_of_class(REMOTE)
    held = np.zeros(len(group.static))
    held[accesses] = np.maximum(degrees * shared.bank_cycles, shared.interval_cycles)
    if latency_of_class(SHUFFLE):
        shuffles = shuffles_of(static)
        latencies[shuffles] = latency_of_class(SHUFFLE)
        held[shuffles[group.static]] = shared.interval_cycles
    swaps, repeated = swaps_of(group, static), np.zeros(len(group.static))
    lane, word, port = (latency_of_class(name) for name in (SWAP_LANE, SWAP_WORD, SWAP_PORT))
    turns = swaps.turns(lane, word, port)
    repeated[swaps.instruction] = turns * SWAP_INSTRUCTIONS - 1.0
    held[swaps.instruction] = np.maximum(held[swaps.instruction], turns * port)
    looped = swaps.cycles(lane, word) - swaps.waits(lane, word, port)
    issue = timing.issue_cycles + np.bincount(group.static[swaps.instruction], looped, len(static)) / executions
    return Executed(group, kinds, timing._replace(latencies=latencies, issue_cycles=issue), held, repeated)


def further_indices(group: WarpGroup, static: StaticTable) -> NDArray[np.int64]:
    """For each instruction, at how many words beyond the first its lanes read constant memory."""
    found = np.zeros(len(group.static), dtype=np.int64)
    constant = (static.class_id == CLASS_IDS["load_constant"]) & (static.access_bytes > 0)
    if constant.any():
        lanes = lane_addresses(group, static, constant)
        found[lanes.instruction] = lanes.most(lanes.ranks(WORD_BYTES))
    return found


def fits_in(static: StaticTable, code_bytes: float) -> bool:
    """Whether all instructions that a kernel executes fit in an instruction cache."""
    return len(static) * INSTRUCTION_BYTES <= code_bytes


def fetched_instructions(
    group: WarpGroup, static: StaticTable, code_bytes: Sequence[float]
) -> dict[str, NDArray[np.int64]]:
    """By where they come from: instructions that each execution fetches from beyond the instruction caches."""
    if not code_bytes:
        return {}
    order = np.argsort(static.pc, kind="stable")
    line = np.empty(len(static), dtype=np.int64)
    line[order] = np.arange(len(static)) * INSTRUCTION_BYTES // CODE_LINE_BYTES
    from ._fetch_kernels import fetch

    places = np.array([size // CODE_LINE_BYTES for size in code_bytes], dtype=np.int64)
    fetched = np.zeros((len(group.static), len(places)), dtype=np.bool_)
    fetch(group.start, line[group.static], places, np.empty(int(line.max()) + 1, dtype=np.int64), fetched)
    many = CODE_LINE_BYTES // INSTRUCTION_BYTES
    far = fetched.all(axis=1)
    return {FETCHED: np.where(fetched[:, 0] & ~far, many, 0), FAR_FETCHED: np.where(far, many, 0)}


def generic_loads(static: StaticTable) -> NDArray[np.bool_]:
    """Loads of shared memory that do not name it: `ld` without a space in PTX, `LD` in machine code."""
    parts = [opcode.lower().split(".") for opcode in static.opcode]
    unnamed = np.array([each[0] == "ld" and "shared" not in each for each in parts], dtype=bool)
    return unnamed & (static.class_id == CLASS_IDS["load_shared"])


def shuffles_of(static: StaticTable) -> NDArray[np.bool_]:
    """Which instructions move values between the lanes of a warp."""
    return np.array([opcode.lower().startswith("shfl") for opcode in static.opcode], dtype=bool)


def chosen_blocks(trace: LaunchTrace, recorded: int) -> WarpGroup:
    """A group of recorded blocks that do as much as all do on average; the longest of all is among them.

    They are sampled at even distances among the blocks in order of their instructions, those that do about as much in
    launch order. The longest joins them if it is much longer than they are, else it takes the place of the longest of
    them. Where blocks differ, those that do most come first: the SM that has them ends last.
    """
    sizes = [_sizes_of_blocks(group) for group in trace.groups() if len(group)]
    instructions, lengths, warps = (np.concatenate(column) for column in zip(*sizes, strict=True))
    alike = np.round(np.log(np.maximum(instructions, 1)) / np.log(DIFFERENT)).astype(np.int64)
    ordered = np.argsort(alike, kind="stable")
    wanted = ordered[np.unique(((np.arange(MOST_BLOCKS) + 0.5) * recorded / MOST_BLOCKS).astype(np.int64))]
    # Large blocks: sample fewer, to stay within the limits on warps and instructions.
    room = min(MOST_WARPS / warps[wanted].max(), MOST_INSTRUCTIONS / max(instructions[wanted].max(), 1))
    fewer = min(len(wanted), max(int(room), LEAST_BLOCKS))
    chosen = wanted[((np.arange(fewer) + 0.5) * len(wanted) / fewer).astype(np.int64)]
    longest = int(np.argmax(lengths))
    if lengths[longest] > DIFFERENT * lengths[chosen].max():
        chosen = np.append(chosen, longest)
    elif lengths[longest] > lengths[chosen].max():  # the longest of all, for the last block ends the launch
        chosen[int(np.argmax(lengths[chosen]))] = longest
    chosen.sort()
    if instructions[chosen].max() > DIFFERENT * np.median(instructions[chosen]):
        chosen = np.roll(chosen, -int(np.argmax(instructions[chosen])))
    return joined(_picked(trace, chosen))


def _sizes_of_blocks(group: WarpGroup) -> tuple[NDArray[np.int64], ...]:
    """Instructions of each block of a group, those of its longest warp, and its warps."""
    begins = np.concatenate(([0], np.flatnonzero(np.diff(group.block)) + 1))
    of_warps = np.diff(group.start)
    warps = np.diff(np.append(begins, len(group)))
    return np.add.reduceat(of_warps, begins), np.maximum.reduceat(of_warps, begins), warps


def _picked(trace: LaunchTrace, chosen: NDArray[np.int64]) -> list[WarpGroup]:
    """Recorded blocks by their number among all, in the order given."""
    found: dict[int, WarpGroup] = {}
    seen = 0
    for group in trace.groups():
        if not len(group):
            continue
        begins = np.concatenate(([0], np.flatnonzero(np.diff(group.block)) + 1, [len(group)]))
        for b in chosen[(chosen >= seen) & (chosen < seen + len(begins) - 1)].tolist():
            found[b] = part_of(group, int(begins[b - seen]), int(begins[b - seen + 1]))
        seen += len(begins) - 1
    return [found[b] for b in chosen.tolist()]


def _issued_ahead(events: Any, loads: Any, chased: Any, ahead: int) -> Any:
    """What each event waits for when loads are issued some iterations earlier: the load's execution before that one.

    The first iterations wait for the first load. Loads whose address is chased stay where they are.
    """
    static = events.event_static.astype(np.int64)
    warp = np.repeat(np.arange(len(events.event_start) - 1), np.diff(events.event_start))
    # Executions of one instruction by one warp lie side by side, in order.
    order = np.lexsort((np.arange(len(static)), static, warp))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (static[order[1:]] != static[order[:-1]]) | (warp[order[1:]] != warp[order[:-1]])
    first = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    earlier = np.empty(len(order), dtype=np.int64)
    earlier[order] = order[np.maximum(np.arange(len(order)) - ahead, first)]
    begin = events.event_start[:-1][warp]
    needed = events.event_dependence
    waits = needed >= 0
    event = np.where(waits, begin + needed, 0)
    moves = waits & loads[static[event]] & ~chased[static[event]]
    shifted = np.where(moves, earlier[event] - begin, needed)
    # What cannot move is still needed by all that comes later.
    offset = warp * (len(static) + 1)
    kept = np.maximum.accumulate(np.where(waits & ~moves, needed, -1) + offset) - offset
    return np.maximum(shifted, kept)


def _granules(events: Any) -> NDArray[np.float64]:
    """32nds of lines that each event touches."""
    sums = np.concatenate(([0], np.cumsum(active_lanes(events.line_words).astype(np.int64))))
    return np.diff(sums[events.line_start]).astype(np.float64)


def _instruction_of_event(group: WarpGroup, events: Any) -> Any:
    """Index of each event's instruction in the group."""
    per_warp = np.diff(events.event_start)
    sums = np.concatenate(([0], np.cumsum(events.event_instructions)))
    first = np.repeat(sums[events.event_start[:-1]], per_warp)
    return np.repeat(group.start[:-1], per_warp) + sums[1:] - first - 1
