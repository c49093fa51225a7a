"""Registers that the compiler keeps on the stack, as accesses in the trace of the PTX that it compiled.

PTX has no spills; the machine code made of it has them, with their places in the stack frame. Here they become
accesses to local memory, which caches hold or not. A GPU lays out local memory by lane: the same word of a warp's
lanes lies side by side.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..frontends.sass_opcodes import decode_opcode
from ..traces import LaunchTrace, StaticInstruction, StaticTable, WarpGroup, static_table
from ..traces.machine_code import MACHINE_CODE, TracedCode, code_of
from ..traces.rewrite import changed
from .machine_form import STACK, Writer, Written
from .machine_rows import joined_tables, machine_rows, spilling

#: Where frames lie, apart from arrays in local memory.
_FRAMES = 0x7E20_0000_0000
_LANES = 32
_FRAME_ALIGNMENT = 16
#: Warps that execute something of their own are looked at each time the trace is read.
_MOST_PLANS = 1 << 12


def with_spills(trace: LaunchTrace) -> LaunchTrace:
    """The trace with the spills of its machine code; itself where there are none, or it has them already."""
    code = code_of(trace.header)
    if code is None or code.spills or not code.ptx_blocks:
        return trace
    ptx = trace.static
    found = spilling(code, ptx)
    if not found:
        return trace
    spilled = static_table([_row(code, ptx, index) for index in found])
    known = replace(code, spills={index: len(ptx) + number for number, index in enumerate(found)})
    extra = {**trace.header.extra, MACHINE_CODE: known.packed()}
    return changed(
        trace,
        _Spilling(code, tuple(found), spilled, -(-trace.header.threads_per_block // _LANES)).insert,
        static=joined_tables([ptx, spilled]),
        header=replace(trace.header, extra=extra),
    )


def _row(code: TracedCode, ptx: StaticTable, index: int) -> StaticInstruction:
    known, origin = decode_opcode(code.opcodes[index]), code.origins[index]
    return StaticInstruction(
        pc=int(ptx.pc.max(initial=0)) + 16 * (index + 1),
        opcode=code.opcodes[index],
        instruction_class=known.instruction_class,
        space="local",
        access_bytes=known.access_bytes,
        line=int(ptx.line[origin]) if 0 <= origin < len(ptx) else 0,
        immediate=code.offsets[index],
    )


class _Plan(NamedTuple):
    """Spills of a warp: before which of its instructions each comes, whose lanes it has, and its number."""

    place: NDArray[np.int64]
    source: NDArray[np.int64]
    number: NDArray[np.int64]


@dataclass
class _Spilling:
    code: TracedCode
    #: Machine instructions, and their rows.
    spills: tuple[int, ...]
    rows: StaticTable
    warps_per_block: int
    #: By a digest of what a warp executed.
    plans: dict[bytes, _Plan] = field(default_factory=dict)

    @property
    def frame_bytes(self) -> int:
        """Of a thread."""
        last = int((self.rows.immediate + self.rows.access_bytes).max())
        return -(-last // _FRAME_ALIGNMENT) * _FRAME_ALIGNMENT

    def insert(self, group: WarpGroup, ptx: StaticTable) -> WarpGroup:
        """The group with its spills."""
        plans = self._plans_of(group, ptx)
        counts = np.array([len(plan.place) for plan in plans], dtype=np.int64)
        if not counts.sum():
            return group
        first = np.repeat(group.start[:-1], counts)
        place, source, number = (np.concatenate(each) for each in zip(*plans, strict=True))
        place, source = place + first, source + first
        before = np.concatenate(([0], np.cumsum(counts)))
        accesses = np.concatenate(([0], np.cumsum(ptx.access_bytes[group.static] > 0)))[place]
        frame = np.repeat(group.block * self.warps_per_block + group.warp, counts) * self.frame_bytes
        base = _FRAMES + (frame + self.rows.immediate[number]) * _LANES
        return replace(
            group,
            start=group.start + before,
            static=np.insert(group.static, place, len(ptx) + number),
            mask=np.insert(group.mask, place, group.mask[source]),
            access_start=group.access_start + before,
            base=np.insert(group.base, accesses, base),
            stride=np.insert(group.stride, accesses, self.rows.access_bytes[number]),
        )

    def _plans_of(self, group: WarpGroup, ptx: StaticTable) -> list[_Plan]:
        """Warps that execute the same instructions have the same spills."""
        keys = [blake2b(group.static[begin:end].tobytes()).digest() for begin, end in pairwise(group.start.tolist())]
        writer = None
        if len(self.plans) > _MOST_PLANS:
            self.plans.clear()
        for warp, key in enumerate(keys):
            if key not in self.plans:
                writer = writer or Writer(group, ptx, machine_rows(self.code, ptx), self.code)
                self.plans[key] = self._plan(writer, int(group.start[warp]), int(group.start[warp + 1]))
        return [self.plans[key] for key in keys]

    def _plan(self, writer: Writer, begin: int, end: int) -> _Plan:
        written: list[Written] = []
        if end > begin:
            writer.write(0, [(begin, end)], written)
        row, source, access = (
            np.concatenate([np.zeros(0, np.int64), *(getattr(each, name) for each in written)])
            for name in ("rows", "sources", "accesses")
        )
        spills = np.flatnonzero((access == STACK) & np.isin(row, self.spills))
        spills = spills[np.argsort(source[spills], kind="stable")]
        row, source = row[spills], source[spills]
        number = np.searchsorted(self.spills, row)
        # Accesses of a bulk copy stay behind it.
        following = np.append(np.flatnonzero(writer.static[begin:end] < self.code.ptx_size), end - begin)
        place = following[np.searchsorted(following, source - begin, side="right")]
        return _Plan(place, source - begin, number)
