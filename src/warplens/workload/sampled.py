"""Sampled thread blocks of a traced launch for a batch of machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis import MissProfile
from ..analysis.block_samples import BlockSample, shortened
from ..machine import Gpu, distinct
from .traced import TracedWorkload


def sample_batches(
    workload: TracedWorkload,
    gpu: Gpu,
    size: int,
    needed_by: str,
    *,
    reorder: bool,
    most_events: NDArray[np.int64],
    also_by: Sequence[Any] = (),
) -> Iterator[tuple[Any, Gpu, BlockSample, MissProfile]]:
    """(rows, one of their machines, sampled blocks, cache simulation) of a batch.

    Machines of a group agree in all that caches and compute latencies depend on, and in the columns `also_by`.
    `most_events` are those of a warp that are kept, for each machine.
    """
    columns = [*workload.compute_latencies(gpu, needed_by).values(), most_events, *also_by]
    for rows, misses in workload._cache_groups(gpu, size, needed_by):
        chosen = [column[rows] if isinstance(column, np.ndarray) else column for column in columns]
        first, inverse = distinct(chosen, len(rows))
        for group, index in enumerate(first):
            machine, placed = workload.one_of(gpu, int(rows[index]))
            given = {} if reorder == workload.is_ptx else {"reorder": reorder}
            whole = placed.block_sample(machine, needed_by, **given)
            yield rows[inverse == group], machine, _shortened(workload, whole, int(most_events[rows[index]])), misses


def _shortened(workload: TracedWorkload, whole: BlockSample, most: int) -> BlockSample:
    # The sample is kept with its shorter form, so that no other one can come to have its identity.
    kept: tuple[BlockSample, BlockSample] = workload.once(
        ("shortened", id(whole), most), lambda: (whole, shortened(whole, most))
    )
    return kept[1]
