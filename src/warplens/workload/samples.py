"""Sampled thread blocks of a traced launch for the machines of a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..analysis import MissProfile
from ..analysis.block_samples import (
    GENERIC,
    REMOTE,
    SHUFFLE,
    SWAP_LANE,
    SWAP_PORT,
    SWAP_WORD,
    BlockSample,
    SharedTiming,
    fits_in,
    sample_of_blocks,
)
from ..analysis.events import BRANCH, GUARD, TAKEN
from ..analysis.machine_form import MachineForm, machine_form
from ..analysis.short_samples import shortened
from ..machine import INSTRUCTION_CLASSES, Gpu, Quantity, distinct
from ..traces import CLASS_NAMES
from .facts import Facts
from .traced import compute_latencies_of

#: A word of each of the 32 banks of shared memory.
_BANK_BYTES = 128


@dataclass(frozen=True)
class SampleOf:
    """What the events of the sampled blocks depend on besides the trace."""

    line_bytes: int
    latencies: tuple[tuple[str, float], ...]
    #: Reorder instructions as an assembler would.
    reorder: bool
    shared: SharedTiming
    #: Most events to keep per warp; 0 keeps all.
    most_events: int = 0
    #: Iterations by which loads are issued earlier.
    ahead: int = 0
    #: Sizes of the instruction caches, if the code does not fit in the first.
    code_bytes: tuple[int, ...] = ()
    #: Take machine code in place of PTX, where the trace has it.
    machine_code: bool = False


def sample_batches(
    facts: Facts,
    needed_by: str,
    *,
    reorder: bool,
    most_events: NDArray[np.int64],
    ahead: int = 0,
    machine_code: bool = False,
    also_by: Sequence[Any] = (),
) -> Iterator[tuple[Any, Gpu, BlockSample, MissProfile]]:
    """(rows, one of their machines, sampled blocks, cache simulation) of a batch.

    Machines of a group have the same cache simulation, compute latencies and values of the columns `also_by`.
    `most_events` gives, per machine, the events to keep of a warp.
    """
    traced, gpu = facts.traced, facts.gpu
    assert traced is not None
    latencies = latencies_of(facts, gpu, needed_by, machine_code=machine_code).values()
    columns = [*latencies, *shared_timing(gpu), most_events, *also_by]
    for rows, misses in traced.caches.groups():
        chosen = [column[rows] if isinstance(column, np.ndarray) else column for column in columns]
        first, inverse = distinct(chosen, len(rows))
        for group, index in enumerate(first):
            machine, _ = facts.workload.one_of(gpu, int(rows[index]))
            sample = block_sample(
                facts, machine, needed_by, reorder, int(most_events[rows[index]]), ahead, machine_code
            )
            yield rows[inverse == group], machine, sample, misses


def form_of(facts: Facts) -> MachineForm | None:
    """The sampled blocks in machine code, where the trace has it."""
    traced = facts.traced
    assert traced is not None and traced.blocks is not None
    blocks, trace = traced.blocks, traced.trace
    return facts.workload.results.once("machine form", lambda: machine_form(blocks, trace))


def executed_classes(facts: Facts) -> dict[str, float]:
    """Machine instructions of each class for an instruction of the PTX; empty where the trace has no machine code."""
    form = form_of(facts)
    if form is None:
        return {}
    assert facts.traced is not None and facts.traced.blocks is not None
    found, counts = np.unique(form.static.class_id[form.group.static], return_counts=True)
    executed = max(len(facts.traced.blocks.static), 1)
    return {CLASS_NAMES[each]: count / executed for each, count in zip(found.tolist(), counts.tolist(), strict=True)}


def latencies_of(facts: Facts, gpu: Gpu, needed_by: str, *, machine_code: bool) -> dict[str, Quantity]:
    """Latencies of the classes of a trace and of its machine code, except memory classes."""
    assert facts.traced is not None
    found = compute_latencies_of(facts.traced.trace, gpu, needed_by)
    form = form_of(facts) if machine_code else None
    for name in sorted(form.classes - found.keys()) if form else ():
        if INSTRUCTION_CLASSES[name].kind != "memory":
            found[name] = gpu.timing(name, needed_by).latency_cycles
    operands = gpu.with_defaults.operand_cycles
    return {name: latency + operands for name, latency in found.items()}


def sample_latencies(facts: Facts, machine: Gpu, needed_by: str, *, machine_code: bool = False) -> dict[str, float]:
    """Latencies by instruction class, and those that events name besides."""
    found = latencies_of(facts, machine, needed_by, machine_code=machine_code) | {
        GENERIC: machine.generic_latency_cycles,
        REMOTE: machine.remote_latency_cycles,
        SHUFFLE: machine.shuffle_latency_cycles,
        SWAP_LANE: machine.swap_lane_cycles,
        SWAP_WORD: machine.swap_word_cycles,
        SWAP_PORT: machine.swap_port_cycles,
        BRANCH: machine.branch_cycles,
        TAKEN: machine.taken_branch_cycles,
        GUARD: machine.predicate_latency_cycles,
    }
    return {name: float(cycles) for name, cycles in found.items() if cycles is not None}


def block_sample(
    facts: Facts,
    machine: Gpu,
    needed_by: str,
    reorder: bool,
    most_events: int = 0,
    ahead: int = 0,
    machine_code: bool = False,
) -> BlockSample:
    """The events of the sampled blocks on one machine, at most `most_events` per warp (0: all)."""
    traced = facts.traced
    assert traced is not None and traced.blocks is not None
    trace, blocks = traced.trace, traced.blocks
    latency = sample_latencies(facts, machine, needed_by, machine_code=machine_code)
    line_bytes = int(machine.require("l1.line_bytes", needed_by))
    shared = SharedTiming(*(float(each) for each in shared_timing(machine)))
    form = form_of(facts) if machine_code else None
    code = form.distinct if form else trace.static
    caches = machine.code_cache_bytes, machine.far_code_cache_bytes
    code_bytes = () if None in caches or fits_in(code, caches[0]) else tuple(int(each) for each in caches)
    record = SampleOf(
        *(line_bytes, tuple(latency.items()), reorder, shared),
        ahead=ahead,
        code_bytes=code_bytes,
        machine_code=machine_code,
    )

    def sample() -> BlockSample:
        return sample_of_blocks(
            blocks,
            trace,
            line_bytes,
            lambda name: latency.get(name, 0.0),
            reorder=reorder,
            ahead=ahead,
            shared=shared,
            code_bytes=code_bytes,
            form=form,
        )

    results = facts.workload.results
    whole = results.once(record, sample)
    if not most_events:
        return whole
    short = replace(record, most_events=most_events)
    return results.once(short, lambda: shortened(whole, most_events))


def shared_timing(gpu: Gpu) -> SharedTiming:
    """How fast a machine's shared memory is; of a batch, with arrays. As Hopper's where a machine does not say."""
    interval = gpu.get("instructions.shared.interval_cycles")
    banks = np.divide(_BANK_BYTES, gpu.with_defaults.shared_memory_bytes_per_cycle)
    return SharedTiming(banks, 1.0 if interval is None else interval)
