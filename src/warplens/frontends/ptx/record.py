"""From the record of a launch to a trace: the static table of a kernel, and groups of warps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...traces import StaticInstruction, StaticTable, WarpGroup, static_table
from ...traces.inlining import Chain
from ._record_format import Columns, RecordFormat, WarpEnds, Words
from .bulk_record import PIECE_BYTES, SECTOR_BYTES
from .codegen.kernel import Segment, is_recorded_access
from .codegen.runtime import SEEN_GLOBAL, SEEN_LOCAL, SEEN_SHARED
from .flat import FlatInstruction, FlatKernel
from .opcodes import instruction_class, memory_use
from .program import Immediate
from .registers import Allocation

_SPACES = {"param": "constant"}
_SEEN = {SEEN_GLOBAL: "global", SEEN_SHARED: "shared", SEEN_LOCAL: "local"}


def source_line(kernel: FlatKernel, item: FlatInstruction) -> int:
    """The user's source line of an instruction; in PTX without debug lines, its line there.

    Code from a header counts at the line of the kernel's file that calls it. What the compiler made on its own
    account has line 0: no line.
    """
    place, main = item.instruction.place, kernel_file(kernel)
    own = next((each.line for each in place.chain if each.file == main), 0)
    return own or place.line or (0 if main else item.instruction.line)


def inlined_chains(kernel: FlatKernel) -> list[Chain]:
    """For each instruction, the places in other files that lie within its line, from the innermost outwards."""
    main, files = kernel_file(kernel), kernel.module.files
    names = {number: name.replace("\\", "/").rsplit("/", 1)[-1] for number, name in files.items()}
    found = []
    for item in kernel.instructions:
        places = list(item.instruction.place.chain)
        within = next((index for index, place in enumerate(places) if place.file == main), 0)
        found.append(tuple((names.get(place.file, ""), place.line) for place in places[:within] if place.line))
    return found


def kernel_file(kernel: FlatKernel) -> int:
    """The file that the kernel itself is in."""
    return next((item.instruction.place.file for item in kernel.instructions if item.function == kernel.name), 0)


def build_static_table(
    kernel: FlatKernel, registers: Allocation, seen: NDArray[np.uint8], texel_bytes: Mapping[int, int]
) -> StaticTable:
    """One row per instruction; a generic access gets the space that it reached, if it was only one.

    `texel_bytes` are those of the textures that instructions have read.
    """
    rows = []
    for item in (*kernel.instructions, *(each for _, each in kernel.bulk_accesses)):
        if item.is_bulk_access:
            rows.append(_bulk_access(kernel, item))
            continue
        use = memory_use(item.instruction)
        name = instruction_class(item.instruction)
        space, size = "none", 0
        if use is not None:
            space = _SPACES.get(use.space, use.space)
            size = texel_bytes.get(item.index, use.access_bytes) if is_recorded_access(item) else 0
            if space == "generic" and int(seen[item.index]) in _SEEN:
                space = _SEEN[int(seen[item.index])]
                if space != "global":
                    name = name.replace("global", space)
                    name = "atomic_global" if name == "atomic_local" else name
        rows.append(
            StaticInstruction(
                pc=item.pc,
                opcode=item.instruction.name,
                instruction_class=name,
                space=space,
                access_bytes=size,
                destinations=tuple(registers.number[each] for each in item.destinations),
                sources=tuple(registers.number[each] for each in item.sources),
                line=source_line(kernel, item),
                immediate=_groups_left(item),
            )
        )
    return static_table(rows)


def _groups_left(item: FlatInstruction) -> int:
    """How many groups of asynchronous work may stay under way after a wait for them; 0 for all else."""
    number = next(iter(item.instruction.operands), None) if item.instruction.has("wait_group") else None
    return int(number.value) if isinstance(number, Immediate) else 0


def _bulk_access(kernel: FlatKernel, item: FlatInstruction) -> StaticInstruction:
    """The row that stands for 32 sectors of a bulk copy, or for a wide store where memory is cleared."""
    modifiers = item.instruction.modifiers
    space, size = ("shared", PIECE_BYTES) if item.opcode == "st" else ("global", SECTOR_BYTES)
    if space == "shared":
        name = "store_shared"
    elif next(each for each in modifiers if each.split("::")[0] in ("shared", "global")).startswith("shared"):
        name = "async_copy"
    else:
        name = "atomic_global" if "reduce" in modifiers else "store_global"
    return StaticInstruction(
        pc=item.pc,
        opcode=item.instruction.name,
        instruction_class=name,
        space=space,
        access_bytes=size,
        line=source_line(kernel, item),
    )


def record_format(segments: Sequence[Segment]) -> RecordFormat:
    accesses = [
        [(place, lanes) for place, item in enumerate(each.instructions) if (lanes := _access_lanes(item))]
        for each in segments
    ]
    places = np.array([found for each in accesses for found in each], dtype=np.int64).reshape(-1, 2)
    return RecordFormat(
        _starts([len(each.instructions) for each in segments]),
        np.array([item.index for segment in segments for item in segment.instructions], dtype=np.uint32),
        _starts([len(each) for each in accesses]),
        places[:, 0].copy(),
        places[:, 1].astype(np.uint64),
    )


def _starts(counts: Sequence[int]) -> NDArray[np.int64]:
    found = np.zeros(len(counts) + 1, dtype=np.int64)
    np.cumsum(counts, out=found[1:])
    return found


def _access_lanes(item: FlatInstruction) -> int:
    """Lanes whose addresses are recorded, as bits; ldmatrix and stmatrix take one per row."""
    if item.is_bulk_access:
        return 0xFFFFFFFF
    if not is_recorded_access(item):
        return 0
    if item.opcode in ("ldmatrix", "stmatrix"):
        count = next((int(each[1:]) for each in item.instruction.modifiers if each in ("x1", "x2", "x4")), 4)
        return (1 << (8 * count)) - 1
    return 0xFFFFFFFF


def warp_group(
    buffers: Sequence[NDArray[np.int64]], lengths: NDArray[np.int64], first_block: int, shape: RecordFormat
) -> WarpGroup:
    """The warps of some blocks; `lengths` (blocks × warps) gives the end of each block's words in a warp's buffer."""
    from ._record_kernels import expand_warps, measure_warps

    blocks, warps = lengths.shape
    words, begins = _spanning(buffers)
    word_ends = begins + np.vstack([np.zeros(warps, dtype=np.int64), lengths])
    recorded = Words(words, word_ends[:-1].reshape(-1), word_ends[1:].reshape(-1))
    ends = WarpEnds(*(np.zeros(blocks * warps + 1, dtype=np.int64) for _ in WarpEnds._fields))
    measure_warps(recorded, shape, ends)
    columns = Columns(
        static=np.empty(ends.instructions[-1], dtype=np.uint32),
        mask=np.empty(ends.instructions[-1], dtype=np.uint32),
        base=np.empty(ends.accesses[-1], dtype=np.int64),
        stride=np.empty(ends.accesses[-1], dtype=np.int64),
        lanes=np.empty(ends.lanes[-1], dtype=np.int64),
    )
    expand_warps(recorded, shape, ends, columns)
    return WarpGroup(
        block=np.repeat(np.arange(first_block, first_block + blocks, dtype=np.int64), warps),
        warp=np.tile(np.arange(warps, dtype=np.int32), blocks),
        start=ends.instructions,
        static=columns.static,
        mask=columns.mask,
        access_start=ends.accesses,
        base=columns.base.view(np.uint64),
        stride=columns.stride,
        lane_start=ends.lanes,
        lanes=columns.lanes.view(np.uint64),
    )


def _spanning(buffers: Sequence[NDArray[np.int64]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """One view of memory that all buffers lie in, and where each begins in it: no copy has to be made."""
    filled = [each for each in buffers if len(each)]
    if not filled:
        return np.empty(0, dtype=np.int64), np.zeros(len(buffers), dtype=np.int64)
    first, last = (choose(filled, key=lambda each: each.ctypes.data) for choose in (min, max))
    begins = np.array([(each.ctypes.data - first.ctypes.data) // 8 if len(each) else 0 for each in buffers])
    words = (last.ctypes.data - first.ctypes.data) // 8 + len(last)
    return np.lib.stride_tricks.as_strided(first, (words,), writeable=False), begins
