"""Raw records of the injected library: `launch-N.launch` describes a launch, `launch-N.raw` holds its records."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import TraceError
from ._raw_state import BlockRecords, Blocks, RecordLimits

#: Blocks of a recorded launch, for each of which tables have a row, and bytes of its code.
MOST_BLOCKS, MOST_CODE_BYTES = 1 << 27, 1 << 28
MOST_CLUSTER_BLOCKS = 1 << 10


@dataclass(frozen=True)
class RawLaunch:
    """A recorded launch before its records are read."""

    folder: Path
    stem: str
    """Stem of its file names."""
    kernel: str
    readable: str
    """The kernel's name as in the source (demangled)."""
    module: str
    kinds: frozenset[int]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster_blocks: int
    """Thread blocks of a cluster; 1 without clusters."""
    index: int
    """Index among the program's launches."""
    occurrence: int
    """Index among the launches of this kernel."""
    code_bytes: int
    block_limit: int
    """Thread blocks that were recorded."""
    run_blocks: int
    """They come in runs of so many consecutive ones, spread over the grid."""
    run_period: int
    """From the first block of a run to the first of the next."""
    first_run: int
    """The first block of all."""
    dynamic_shared_bytes: int
    total_shared_bytes: int
    dropped: int
    foreign: int
    head_bytes: int
    capacity_bytes: int
    raw_bytes: int
    raw_limited: bool

    @property
    def warps_per_block(self) -> int:
        x, y, z = self.block
        return -(-x * y * z // 32)

    def block_numbers(self, first: int, count: int) -> Any:
        """Numbers in the grid of `count` recorded blocks from the `first` on."""
        run, within = np.divmod(np.arange(first, first + count, dtype=np.int64), max(self.run_blocks, 1))
        return self.first_run + run * self.run_period + within

    @property
    def cubin(self) -> Path:
        return self.folder / self.module

    @property
    def records(self) -> Path:
        return self.folder / f"{self.stem}.raw"


def read_launch(path: Path) -> RawLaunch:
    """Read a `.launch` file."""
    try:
        values = dict(line.split("=", 1) for line in path.read_text(encoding="utf-8").splitlines())
        numbers = {
            key: int(values[key])
            for key in (
                *("index", "occurrence", "code_bytes", "dynamic_shared_bytes", "total_shared_bytes"),
                *("block_limit", "run_blocks", "run_period", "first_run"),
                *("dropped", "foreign", "head_bytes", "capacity_bytes", "raw_bytes"),
            )
        }
        grid, block, cluster = (
            tuple(int(each) for each in values[key].split()) for key in ("grid", "block", "cluster")
        )
        if len(grid) != 3 or len(block) != 3 or min(*grid, *block) < 1 or "/" in values["module"]:
            raise ValueError("dimensions")
        if math.prod(grid) > MOST_BLOCKS or math.prod(block) > 1024 or numbers["code_bytes"] > MOST_CODE_BYTES:
            raise ValueError("more blocks, threads or code than a launch has")
        if len(cluster) != 3 or not 0 <= min(cluster) <= math.prod(cluster) <= MOST_CLUSTER_BLOCKS:
            raise ValueError("clusters that cannot be")
        if min(numbers.values()) < 0 or max(numbers.values()) >= 1 << 62:
            raise ValueError("a number that cannot be")
        launch = RawLaunch(
            folder=path.parent,
            stem=path.stem,
            kernel=values["kernel"],
            readable=values.get("readable", values["kernel"]),
            module=values["module"],
            kinds=frozenset(int(each) for each in values["kinds"].split()),
            grid=grid,
            block=block,
            cluster_blocks=max(math.prod(cluster), 1),
            raw_limited=values["raw_limited"] == "1",
            **numbers,
        )
        if launch.run_period < launch.run_blocks or launch.block_numbers(launch.block_limit - 1, 1)[0] >= math.prod(
            grid
        ):
            raise ValueError("recorded blocks that the grid does not have")
        return launch
    except (OSError, ValueError, KeyError) as error:
        raise TraceError(
            f"{path}: is not the description of a recorded launch ({error}); trace the program again"
        ) from None


@dataclass(frozen=True, eq=False)
class Survey:
    """Result of a first pass over the records of a launch: their number and place per block."""

    units: Any
    records: Any
    first: Any
    last: Any
    kinds_seen: Any
    """Bits of the kinds that each instruction was recorded with."""
    local_low: int
    local_span: int


def survey_records(launch: RawLaunch) -> Survey:
    """Check all records of a launch and count them."""
    from ._raw_kernels import survey

    path = launch.records
    size = path.stat().st_size if path.exists() else 0
    if size != launch.raw_bytes or size % 16:
        raise TraceError(f"{path}: has {size} bytes, not {launch.raw_bytes}; trace the program again")
    units = np.memmap(path, dtype=np.uint32, mode="r") if size else np.frombuffer(b"", dtype=np.uint32)
    units = units.reshape(-1, 4)
    blocks = BlockRecords(*(np.zeros(launch.block_limit, dtype=np.int64) for _ in BlockRecords._fields))
    seen = np.zeros(launch.code_bytes // 16, dtype=np.uint64)
    local = np.array([np.iinfo(np.int64).max, -1], dtype=np.int64)
    limits = RecordLimits(launch.warps_per_block, launch.block_limit, launch.code_bytes)
    bad = survey(units, limits, blocks, seen, local)
    if bad >= 0:
        raise TraceError(f"{path}: the record at byte {16 * bad} is damaged; trace the program again")
    low = int(local[0]) & ~127 if local[1] >= 0 else 0
    span = int(local[1]) + 16 - low if local[1] >= 0 else 0
    return Survey(units, *blocks, seen, low, -(-span // 128) * 128)


@dataclass(frozen=True, eq=False)
class Batch:
    """The records of some blocks, sorted by warp."""

    first_block: int
    """Its number among the recorded blocks."""
    blocks: int
    start: Any
    """Where each warp's records begin."""
    position: Any
    """The unit of each record."""


def batches(launch: RawLaunch, survey: Survey, most_records: int) -> Iterator[Batch]:
    """All records, in batches of blocks with about `most_records` records."""
    from ._raw_kernels import count_records, sort_records

    warps = launch.warps_per_block
    totals = np.append(0, np.cumsum(survey.records))
    block = 0
    while block < launch.block_limit:
        stop = int(np.searchsorted(totals, totals[block] + most_records, side="right")) - 1
        stop = min(max(stop, block + 1), block + max(most_records // warps, 1), launch.block_limit)
        some = survey.records[block:stop] > 0
        begin = int(survey.first[block:stop][some].min(initial=len(survey.units)))
        end = int(survey.last[block:stop][some].max(initial=0))
        start = np.zeros((stop - block) * warps + 1, dtype=np.int64)
        blocks = Blocks(block, stop - block, warps, begin, end)
        count_records(survey.units, blocks, start)
        position = np.empty(int(start[-1]), dtype=np.int64)
        sort_records(survey.units, blocks, start[:-1].copy(), position)
        yield Batch(block, stop - block, start, position)
        block = stop
