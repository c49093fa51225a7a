"""From records to a trace: replays every warp of a launch and says how exact the result is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import TraceError
from ...traces import SPACES, StaticTable, WarpGroup
from ._program import Program
from .counts import Counts, Shares, branch_shares, unknown_shares
from .disassembly import SassKernel
from .flow import build_program, recordings, silent_mnemonics
from .raw import Batch, RawLaunch, Survey, batches, survey_records
from .statics import build_statics

#: Records read at a time, and instructions that a group of a trace should not exceed.
MOST_RECORDS = 1 << 20
GROUP_INSTRUCTIONS = 1 << 19
#: Where local memory lies in traces: no global address of a GPU is as low or as high.
LOCAL_BASE = 0x6000_0000_0000
_IDLE, _MOST_IDLE = 1 << 16, 1 << 25


@dataclass
class Exactness:
    """How well the replay fits: executions per instruction, and what it had to assume."""

    replayed: Any
    counted: Any | None = None
    guessed: int = 0
    """Branches that records left open; counted executions decided them, or nothing did."""
    jumped: int = 0
    """Lanes that no path leads to their next record."""
    lost: int = 0
    """Lanes that ended without a record of it."""
    forced: int = 0
    """Waits that nothing would have ended."""
    whole: bool = True
    """Whether all blocks of the launch are in the trace; otherwise counts are scaled to those that are."""

    @property
    def instructions(self) -> int:
        return int(self.replayed.sum())

    @property
    def counted_instructions(self) -> float | None:
        return None if self.counted is None else float(self.counted.sum())

    @property
    def share(self) -> float | None:
        """1 - Σ|replayed - counted| / Σ counted over all instructions; None without counts."""
        if self.counted is None or not self.counted.sum():
            return None
        return max(1.0 - float(np.abs(self.replayed - self.counted).sum()) / float(self.counted.sum()), 0.0)

    def to_dict(self) -> dict[str, Any]:
        return {
            "instructions": self.instructions,
            "counted_instructions": self.counted_instructions,
            "exact_share": self.share,
            "all_blocks": self.whole,
            "guessed_branches": self.guessed,
            "jumped_lanes": self.jumped,
            "lost_lanes": self.lost,
            "forced_waits": self.forced,
        }


#: Tables and control flow of a kernel, by what its launches recorded: made once, however often it is launched.
Prepared = dict[tuple[bytes, bytes], tuple[StaticTable, Program]]


@dataclass
class Reconstruction:
    """A launch being replayed: `groups()` once, after which `exactness` is complete."""

    launch: RawLaunch
    kernel: SassKernel
    counts: Counts | None = None
    prepared: Prepared = field(default_factory=dict)
    survey: Survey = field(init=False)
    static: StaticTable = field(init=False)
    program: Program = field(init=False)
    exactness: Exactness = field(init=False)
    idle_limit: int = _IDLE
    """Instructions without a record after which a warp is lost."""

    def __post_init__(self) -> None:
        n = len(self.kernel.instructions)
        self.survey = survey_records(self.launch)
        held = self.survey.kinds_seen
        if held[n:].any():
            raise TraceError(f"{self.launch.records}: has records of code that the disassembly of the kernel lacks")
        seen = np.zeros(n, dtype=np.uint64)
        seen[: min(n, len(held))] = held[:n]
        offsets = {self.kernel.instructions[i].pc for i in np.flatnonzero(seen).tolist()}
        blocks = self.launch.grid[0] * self.launch.grid[1] * self.launch.grid[2]
        whole = self.launch.blocks == blocks
        if self.counts is not None and len(self.counts.warps) < n:
            self.counts = None  # counts of other code
        silent: set[str] = set()
        if self.counts is not None and whole:  # blocks that are not recorded may be the only ones that ran something
            ran = {16 * i: int(count) for i, count in enumerate(self.counts.warps[:n]) if count}
            silent = silent_mnemonics(self.kernel, offsets, ran)
        recorded = recordings(self.kernel, self.launch.kinds, offsets, silent)
        key = seen.tobytes(), recorded.tobytes()
        if key not in self.prepared:
            static = build_statics(self.kernel, seen, recorded)
            self.prepared[key] = static, build_program(self.kernel, recorded, static.access_bytes > 0)
        self.static, self.program = self.prepared[key]
        self.exactness = Exactness(np.zeros(n, dtype=np.int64), whole=whole)
        if self.counts is not None:
            self.exactness.counted = self.counts.warps[:n] * (self.launch.blocks / blocks)
            # No warp did more than all together.
            self.idle_limit = int(min(self.counts.warps.sum() + _IDLE, _MOST_IDLE))

    def groups(self) -> Iterator[WarpGroup]:
        """The warps of all recorded blocks."""
        n = len(self.kernel.instructions)
        shares = unknown_shares(n)
        if self.counts is not None:
            shares = branch_shares(self.program, Counts(self.counts.warps[:n], self.counts.threads[:n]))
        statistics = np.zeros((n, 5), dtype=np.int64)
        tallies = np.zeros(4, dtype=np.int64)
        for batch in batches(self.launch, self.survey, MOST_RECORDS):
            for group in _BatchReplay(self, batch).run(shares, statistics, tallies):
                self.exactness.replayed += np.bincount(group.static, minlength=n)
                yield group
        guessed, jumped, lost, forced = tallies.tolist()  # in the order of _replay_kernels
        self.exactness.guessed, self.exactness.jumped = guessed, jumped
        self.exactness.lost, self.exactness.forced = lost, forced


class _BatchReplay:
    """The warps of some blocks, replayed as often as it takes."""

    def __init__(self, owner: Reconstruction, batch: Batch) -> None:
        self._owner, self._batch = owner, batch
        units = owner.survey.units
        self._place = (units[batch.position, 0] // 16).astype(np.int64)
        self._mask = units[batch.position, 1].astype(np.int64)
        x, y, z = owner.launch.block
        warps = owner.launch.warps_per_block
        masks = np.full(warps, 0xFFFFFFFF, dtype=np.int64)
        if x * y * z % 32:
            masks[-1] = (1 << (x * y * z % 32)) - 1
        self._first_mask = np.tile(masks, batch.blocks)
        self._local = owner.static.space == SPACES.index("local")

    def run(self, shares: Shares, statistics: Any, tallies: Any) -> Iterator[WarpGroup]:
        from . import _replay_kernels as k

        batch, warps = self._batch, self._owner.launch.warps_per_block
        room = GROUP_INSTRUCTIONS
        total = len(batch.start) - 1
        block = 0
        while block < batch.blocks:
            first = block * warps
            static = np.empty(room, dtype=np.uint32)
            mask = np.empty(room, dtype=np.uint32)
            access = np.empty(room, dtype=np.int64)
            ends = np.zeros((total + 1, 2), dtype=np.int64)
            stop = k.replay(
                self._owner.program, shares.cases, shares.lanes, statistics, batch.start, self._place, self._mask,
                self._first_mask, first, warps, self._owner.idle_limit, room, static, mask, access, ends, tallies,
            )  # fmt: skip
            if stop == first:  # not even one block
                room *= 2
                continue
            blocks = (stop - first) // warps
            yield self._group(block, blocks, static, mask, access, ends[first : stop + 1])
            block += blocks

    def _group(self, block: int, blocks: int, static: Any, mask: Any, access: Any, ends: Any) -> WarpGroup:
        from . import _raw_kernels as k

        owner, batch, warps = self._owner, self._batch, self._owner.launch.warps_per_block
        instructions, accesses = int(ends[-1, 0]), int(ends[-1, 1])
        static, mask, access = static[:instructions].copy(), mask[:instructions].copy(), access[:accesses]
        has_access = owner.program.has_access[static]
        lanes_listed = int(np.count_nonzero(access >= 0)) * 32
        base, stride = np.empty(accesses, dtype=np.int64), np.empty(accesses, dtype=np.int64)
        lanes = np.empty(lanes_listed, dtype=np.int64)
        lane_end = np.zeros(blocks * warps, dtype=np.int64)
        used = k.expand(
            owner.survey.units, batch.position, access, static[has_access], accesses, ends[1:, 1].copy(), self._local,
            owner.static.access_bytes.astype(np.int64), (batch.first_block + block) * warps, owner.survey.local_low,
            owner.survey.local_span, LOCAL_BASE, base, stride, lanes, lane_end,
        )  # fmt: skip
        return WarpGroup(
            block=np.repeat(np.arange(blocks, dtype=np.int64) + batch.first_block + block, warps),
            warp=np.tile(np.arange(warps, dtype=np.int32), blocks),
            start=ends[:, 0].copy(),
            static=static,
            mask=mask,
            access_start=ends[:, 1].copy(),
            base=base.view(np.uint64),
            stride=stride,
            lane_start=np.append(0, lane_end),
            lanes=lanes[:used].copy().view(np.uint64),
        )
