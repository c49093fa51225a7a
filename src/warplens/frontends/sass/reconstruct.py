"""From records to a trace: replays every warp of a launch and says how exact the result is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import TraceError
from ...traces import SPACES, StaticTable, WarpGroup
from ._program import Program
from ._raw_state import Accesses, LocalMemory, new_addresses
from ._replay_state import (
    GROUP,
    MOST_GROUPS,
    TALLIES,
    WARP,
    Outcomes,
    Output,
    Records,
    Replay,
    Shares,
    new_lanes,
    new_outcomes,
    new_output,
)
from .counts import Counts, branch_shares, unknown_shares
from .disassembly import SassKernel
from .flow import build_program, recordings, silent_mnemonics
from .raw import Batch, RawLaunch, Survey, batches, survey_records
from .statics import build_statics

#: Records read at a time, and most instructions per group of a trace.
MOST_RECORDS = 1 << 20
GROUP_INSTRUCTIONS = 1 << 19
#: Addresses of local memory in traces, outside the range of global addresses.
LOCAL_BASE = 0x6000_0000_0000
_IDLE, _MOST_IDLE = 1 << 16, 1 << 25


@dataclass
class Exactness:
    """How exact the replay is: executions per instruction, and the assumptions it made."""

    replayed: Any
    counted: Any | None = None
    guessed: int = 0
    """Branches that records left open: decided by counted executions, or guessed."""
    jumped: int = 0
    """Lanes that had no path to their next record."""
    lost: int = 0
    """Lanes that exited without a record."""
    forced: int = 0
    """Waits that could never end."""
    whole: bool = True
    """Whether the trace has all blocks of the launch; otherwise counts are scaled to the recorded ones."""

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


#: Cache of tables and control flow per kernel and set of recorded instructions, shared by its launches.
Prepared = dict[tuple[bytes, bytes], tuple[StaticTable, Program]]


@dataclass
class Reconstruction:
    """Replays a launch. Iterate over `groups()` once; `exactness` is complete after that."""

    launch: RawLaunch
    kernel: SassKernel
    counts: Counts | None = None
    prepared: Prepared = field(default_factory=dict)
    survey: Survey = field(init=False)
    static: StaticTable = field(init=False)
    program: Program = field(init=False)
    exactness: Exactness = field(init=False)
    idle_limit: int = _IDLE
    """Most instructions between two records; beyond them a warp counts as lost."""

    def __post_init__(self) -> None:
        n = len(self.kernel.instructions)
        self.survey = survey_records(self.launch)
        held = self.survey.kinds_seen
        if held[n:].any():
            raise TraceError(
                f"{self.launch.records}: has records of instructions that the kernel's disassembly does not have; "
                "trace the program again"
            )
        seen = np.zeros(n, dtype=np.uint64)
        seen[: min(n, len(held))] = held[:n]
        offsets = {self.kernel.instructions[i].pc for i in np.flatnonzero(seen).tolist()}
        blocks = self.launch.grid[0] * self.launch.grid[1] * self.launch.grid[2]
        whole = self.launch.block_limit == blocks
        if self.counts is not None and len(self.counts.warps) < n:
            self.counts = None  # the counts belong to other code
        silent: set[str] = set()
        if self.counts is not None and whole:  # otherwise an unrecorded block may be the only one that ran it
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
            self.exactness.counted = self.counts.warps[:n] * (self.launch.block_limit / blocks)
            # No warp executes more than all warps together.
            self.idle_limit = int(min(self.counts.warps.sum() + _IDLE, _MOST_IDLE))

    def groups(self) -> Iterator[WarpGroup]:
        """The warps of all recorded blocks."""
        n = len(self.kernel.instructions)
        shares = unknown_shares(n)
        if self.counts is not None:
            shares = branch_shares(self.program, Counts(self.counts.warps[:n], self.counts.threads[:n]))
        outcomes, tallies = new_outcomes(n), np.zeros(1, dtype=TALLIES)[0]
        for batch in batches(self.launch, self.survey, MOST_RECORDS):
            for group in _BatchReplay(self, batch).run(shares, outcomes, tallies):
                self.exactness.replayed += np.bincount(group.static, minlength=n)
                yield group
        for name in TALLIES.names or ():
            setattr(self.exactness, name, int(tallies[name]))


class _BatchReplay:
    """Replays the warps of some blocks, in as many steps as the output buffer needs."""

    def __init__(self, owner: Reconstruction, batch: Batch) -> None:
        self._owner, self._batch = owner, batch
        units = owner.survey.units
        self._records = Records(
            start=batch.start,
            place=(units[batch.position, 0] // 16).astype(np.int64),
            mask=units[batch.position, 1].astype(np.int64),
        )
        x, y, z = owner.launch.block
        masks = np.full(owner.launch.warps_per_block, 0xFFFFFFFF, dtype=np.int64)
        if x * y * z % 32:
            masks[-1] = (1 << (x * y * z % 32)) - 1
        self._first_mask = np.tile(masks, batch.blocks)

    def run(self, shares: Shares, outcomes: Outcomes, tallies: Any) -> Iterator[WarpGroup]:
        from ._replay_kernels import replay

        program, warps = self._owner.program, self._owner.launch.warps_per_block
        state = Replay(
            program=program,
            records=self._records,
            shares=shares,
            outcomes=outcomes,
            saved_outcomes=new_outcomes(len(program.action)),
            tallies=tallies,
            saved_tallies=np.zeros(1, dtype=TALLIES)[0],
            first_mask=self._first_mask,
            warps_per_block=warps,
            idle_limit=self._owner.idle_limit,
            warp=np.zeros(1, dtype=WARP)[0],
            groups=np.zeros(MOST_GROUPS, dtype=GROUP),
            lanes=new_lanes(program.regions),
            output=new_output(0, 0),
        )
        room = GROUP_INSTRUCTIONS
        block = 0
        while block < self._batch.blocks:
            first = block * warps
            output = new_output(room, len(self._first_mask))
            stop = replay(state._replace(output=output), first)
            if stop == first:  # not even one block fits
                room *= 2
                continue
            blocks = (stop - first) // warps
            yield self._group(block, blocks, output, slice(first, stop + 1))
            block += blocks

    def _group(self, block: int, blocks: int, output: Output, done: slice) -> WarpGroup:
        from ._raw_kernels import expand

        owner, batch, warps = self._owner, self._batch, self._owner.launch.warps_per_block
        start, access_start = output.instruction_end[done].copy(), output.access_end[done].copy()
        static, mask = output.static[: start[-1]].copy(), output.mask[: start[-1]].copy()
        record = output.access[: access_start[-1]]
        accesses = Accesses(
            unit=np.where(record >= 0, batch.position[record] if len(batch.position) else -1, -1),
            static=static[owner.program.has_access[static]],
            end=access_start[1:],
        )
        local = LocalMemory(
            is_local=owner.static.space == SPACES.index("local"),
            access_bytes=owner.static.access_bytes.astype(np.int64),
            base=LOCAL_BASE,
            first_warp=(batch.first_block + block) * warps,
            low=owner.survey.local_low,
            span=owner.survey.local_span,
        )
        addresses = new_addresses(len(record), int(np.count_nonzero(record >= 0)), blocks * warps)
        used = expand(owner.survey.units, accesses, local, addresses)
        return WarpGroup(
            block=np.repeat(owner.launch.block_numbers(batch.first_block + block, blocks), warps),
            warp=np.tile(np.arange(warps, dtype=np.int32), blocks),
            start=start,
            static=static,
            mask=mask,
            access_start=access_start,
            base=addresses.base.view(np.uint64),
            stride=addresses.stride,
            lane_start=np.append(0, addresses.lane_end),
            lanes=addresses.lanes[:used].copy().view(np.uint64),
        )
