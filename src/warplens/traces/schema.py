"""The one trace format: what every front end emits and every analysis reads.

A launch has a header, a table of static instructions, and groups of warps.
Dynamic instructions are an index into the static table and an active mask;
memory instructions also have addresses, kept as base and stride where the
active lanes are evenly spaced and as a list where they are not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..machine import INSTRUCTION_CLASSES

#: Instruction classes by the number that traces store.
CLASS_NAMES = tuple(INSTRUCTION_CLASSES)
CLASS_IDS = {name: index for index, name in enumerate(CLASS_NAMES)}
#: Address spaces by the number that traces store.
SPACES = ("none", "global", "local", "shared", "constant", "generic")
#: Registers that hold no value (zero register, or absent).
NO_REGISTER = 255


@dataclass(frozen=True)
class LaunchHeader:
    """What is known of a launch apart from its instructions. `extra` keeps what only one format has."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers_per_thread: int = 0
    shared_memory_per_block_bytes: int = 0
    launch_index: int = 0
    origin: str = ""
    #: What the front end could not supply ("predicates", "source lines", …).
    missing: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads_per_block(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def cluster_blocks(self) -> int:
        """Thread blocks of a cluster; 1 without clusters."""
        return int(self.extra.get("cluster_blocks", 1))


@dataclass(frozen=True, eq=False)
class StaticTable:
    """Static instructions, one entry per distinct instruction text at a PC.

    Registers are flat lists with offsets: those of instruction i lie between
    `offsets[i]` and `offsets[i + 1]`.
    """

    pc: NDArray[np.uint64]
    opcode: Sequence[str]
    class_id: NDArray[np.uint8]
    space: NDArray[np.uint8]
    access_bytes: NDArray[np.uint16]
    destinations: NDArray[np.uint16]
    destination_offsets: NDArray[np.int64]
    sources: NDArray[np.uint16]
    source_offsets: NDArray[np.int64]
    line: NDArray[np.uint32]
    immediate: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.pc)

    def destinations_of(self, index: int) -> list[int]:
        return self.destinations[self.destination_offsets[index] : self.destination_offsets[index + 1]].tolist()

    def sources_of(self, index: int) -> list[int]:
        return self.sources[self.source_offsets[index] : self.source_offsets[index + 1]].tolist()

    def row(self, index: int) -> StaticInstruction:
        return StaticInstruction(
            pc=int(self.pc[index]),
            opcode=self.opcode[index],
            instruction_class=CLASS_NAMES[self.class_id[index]],
            space=SPACES[self.space[index]],
            access_bytes=int(self.access_bytes[index]),
            destinations=tuple(self.destinations_of(index)),
            sources=tuple(self.sources_of(index)),
            line=int(self.line[index]),
            immediate=int(self.immediate[index]),
        )


@dataclass(frozen=True)
class StaticInstruction:
    """One row of a `StaticTable`, as front ends give it."""

    pc: int
    opcode: str
    instruction_class: str
    space: str = "none"
    access_bytes: int = 0
    destinations: tuple[int, ...] = ()
    sources: tuple[int, ...] = ()
    line: int = 0
    immediate: int = 0


def static_table(rows: Sequence[StaticInstruction]) -> StaticTable:
    """Rows as columns."""

    def flat(lists: Sequence[tuple[int, ...]]) -> tuple[NDArray[np.uint16], NDArray[np.int64]]:
        offsets = np.zeros(len(lists) + 1, dtype=np.int64)
        np.cumsum([len(each) for each in lists], out=offsets[1:])
        return np.array([value for each in lists for value in each], dtype=np.uint16), offsets

    destinations, destination_offsets = flat([row.destinations for row in rows])
    sources, source_offsets = flat([row.sources for row in rows])
    return StaticTable(
        pc=np.array([row.pc for row in rows], dtype=np.uint64),
        opcode=tuple(row.opcode for row in rows),
        class_id=np.array([CLASS_IDS[row.instruction_class] for row in rows], dtype=np.uint8),
        space=np.array([SPACES.index(row.space) for row in rows], dtype=np.uint8),
        access_bytes=np.array([row.access_bytes for row in rows], dtype=np.uint16),
        destinations=destinations,
        destination_offsets=destination_offsets,
        sources=sources,
        source_offsets=source_offsets,
        line=np.array([row.line for row in rows], dtype=np.uint32),
        immediate=np.array([row.immediate for row in rows], dtype=np.int64),
    )


@dataclass(frozen=True, eq=False)
class WarpGroup:
    """The warps of some consecutive thread blocks.

    Instructions of warp w are `static[start[w]:start[w + 1]]` with their masks.
    Its accesses, one per instruction with an access size, are
    `base[access_start[w]:access_start[w + 1]]`; active lane i of an even access
    is at base + i·stride. Irregular ones take as many of
    `lanes[lane_start[w]:…]` as they have active lanes, in order. Address 0
    means that a lane makes no access.
    """

    block: NDArray[np.int64]
    warp: NDArray[np.int32]
    start: NDArray[np.int64]
    static: NDArray[np.uint32]
    mask: NDArray[np.uint32]
    access_start: NDArray[np.int64]
    base: NDArray[np.uint64]
    stride: NDArray[np.int64]
    lane_start: NDArray[np.int64]
    lanes: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.block)

    @property
    def instructions(self) -> int:
        return len(self.static)

    @property
    def nbytes(self) -> int:
        return sum(getattr(self, each.name).nbytes for each in fields(self))

    @property
    def blocks(self) -> int:
        """Thread blocks in the group."""
        return len(np.unique(self.block))


def active_lanes(mask: NDArray[np.uint32]) -> NDArray[np.int64]:
    """Active lanes of each mask: sums of its bits in pairs, then in fours and bytes, then of the bytes."""
    pairs = mask - ((mask >> 1) & 0x55555555)
    fours = (pairs & 0x33333333) + ((pairs >> 2) & 0x33333333)
    found = (((fours + (fours >> 4)) & 0x0F0F0F0F) * np.uint32(0x01010101)) >> 24
    return found.astype(np.int64)


class LaunchTrace(Protocol):
    """A recorded launch that can be read several times, group by group."""

    @property
    def header(self) -> LaunchHeader: ...

    @property
    def static(self) -> StaticTable: ...

    def groups(self) -> Iterator[WarpGroup]: ...


class Described:
    """A trace that prints as one line: what was launched, and how much of it is recorded."""

    header: LaunchHeader
    static: StaticTable

    def __repr__(self) -> str:
        header = self.header
        grid, block = ("×".join(map(str, extents)) for extents in (header.grid, header.block))
        recorded = header.extra.get("recorded_blocks", header.blocks)
        number = f", launch {header.launch_index}" if header.launch_index else ""
        return (
            f"<trace of {header.kernel}{number}: grid {grid}, block {block}, "
            f"{header.registers_per_thread} registers, {header.shared_memory_per_block_bytes} B of shared memory; "
            f"{recorded} of {header.blocks} blocks, {len(self.static)} distinct instructions>"
        )


@dataclass(frozen=True, eq=False, repr=False)
class MemoryTrace(Described):
    """A launch held in memory."""

    header: LaunchHeader
    static: StaticTable
    held: tuple[WarpGroup, ...]

    def groups(self) -> Iterator[WarpGroup]:
        return iter(self.held)
