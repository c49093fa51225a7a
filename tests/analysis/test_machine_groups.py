"""A wait reads the register of the group of copies or products that it waits for."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import warplens
from reference.traces import Step, evenly, memory_trace
from warplens.analysis.block_samples import sample_of_blocks
from warplens.analysis.machine_groups import in_turns, waiting
from warplens.traces import LaunchTrace, StaticInstruction
from warplens.traces.store import TraceWriter, read_trace
from warplens.workload import workload_of_trace

ROWS = [
    StaticInstruction(0, "LDGSTS.E.128", "async_copy", "global", 16, sources=(250,)),
    StaticInstruction(16, "LDGDEPBAR", "control"),
    StaticInstruction(32, "DEPBAR.LE.1", "control"),
    StaticInstruction(48, "FFMA", "fp32"),
]
COPY, MARK, WAIT, OTHER = range(len(ROWS))


@pytest.mark.parametrize("groups", [1, 2, 5, 20])
def test_waits_leave_the_last_group_under_way(groups: int) -> None:
    warp = [COPY, COPY, MARK, WAIT, OTHER] * groups
    executed = np.array(warp * 2)
    turns = in_turns(ROWS, executed, np.array([0, len(warp), 2 * len(warp)]), len(ROWS))
    table = [*ROWS, *turns.rows]
    for first in (0, len(warp)):
        rows = [table[each] for each in turns.executed[first : first + len(warp)]]
        assert [row.opcode for row in rows] == [ROWS[each].opcode for each in warp]
        copies, waits = rows[::5], rows[3::5]
        assert [row.destinations for row in rows[1::5]] == [row.destinations for row in copies]
        # At the first wait only its own group was copied, and that may be under way.
        assert [row.sources for row in waits] == [(), *(row.destinations for row in copies[:-1])]
        assert all(row.destinations and row.sources == ROWS[COPY].sources for row in copies)
        assert all(one.destinations != other.destinations for one, other in pairwise(copies))


@pytest.mark.parametrize("groups", [1, 3, 12])
def test_products_belong_to_the_group_that_begins_before_them(groups: int) -> None:
    rows = [
        StaticInstruction(0, "WARPGROUP.ARRIVE", "control"),
        StaticInstruction(16, "HGMMA.64x64x16.F32", "tensor"),
        StaticInstruction(32, "WARPGROUP.DEPBAR.LE.0", "control"),
    ]
    executed = np.array([0, 1, 1, 2] * groups)
    turns = in_turns(rows, executed, np.array([0, len(executed)]), len(rows))
    table = [*rows, *turns.rows]
    for begin in range(0, len(executed), 4):
        _, one, other, wait = (table[each] for each in turns.executed[begin : begin + 4])
        assert one.destinations == other.destinations == wait.sources != ()


def traced(wait: str, *, registers: int = 40) -> LaunchTrace:
    """Machine code as it is traced: a pipeline of copies, each used two steps later."""
    rows = (
        StaticInstruction(0, "LDGSTS.E.BYPASS.128", "async_copy", "global", 16, sources=(registers,)),
        StaticInstruction(16, "LDGDEPBAR", "control"),
        StaticInstruction(32, wait, "control"),
        StaticInstruction(48, "FFMA", "fp32", destinations=(3,), sources=tuple(range(registers))),
        StaticInstruction(64, "EXIT", "control"),
    )
    warps = []
    for warp in range(4):
        steps = []
        for step in range(12):
            copy = Step(0, evenly(0x7F00_0000_0000 + (12 * warp + step) * 4096, 16))
            steps += [copy, Step(1), Step(2), *[Step(3)] * 4]
        warps.append([*steps, Step(4)])
    made = memory_trace(rows, [warps], registers_per_thread=registers)
    return replace(made, header=replace(made.header, extra={"sass_control": [0x7E1] * len(rows)}))


def test_traced_waits_are_for_a_group_too(tmp_path: Path) -> None:
    """With the number that `DEPBAR.LE` has, a warp waits for the copies of the step before the last."""
    path = tmp_path / "copies.wlt"
    trace = traced("DEPBAR.LE.1")
    with TraceWriter(path) as writer:
        for group in trace.groups():
            writer.write(group)
        writer.end_launch(trace.header, trace.static)
    (kept,) = read_trace(path)
    for each in (trace, kept):
        (group,) = each.groups()
        sample = sample_of_blocks(group, each, 128, lambda name: 4.0)
        copies = sample.dependence[:12]
        # A copy comes before the wait of its own step: it needs what the wait before it was for.
        assert copies.tolist() == [-1, -1, *range(10)]
    (group,) = trace.groups()
    unknown = traced("DEPBAR.LE")
    assert waiting(group, unknown) is None
    assert (sample_of_blocks(group, unknown, 128, lambda name: 4.0).dependence == -1).all()
    times = [float(warplens.predict(workload_of_trace(each), "h200").cycles) for each in (trace, unknown)]
    assert times[0] > times[1] + 2000


def test_what_waits_for_groups_counts_as_the_instructions_that_it_is() -> None:
    """Rows by turn are not more code, and events are those of the traced instructions."""
    trace, unknown = traced("DEPBAR.LE.2"), traced("DEPBAR.LE")
    (group,) = trace.groups()
    one, other = (
        sample_of_blocks(group, each, 128, lambda name: 4.0, code_bytes=(64, 96)) for each in (trace, unknown)
    )
    assert one.classes == other.classes and np.array_equal(one.counts, other.counts)
    assert np.array_equal(one.static, other.static) and np.array_equal(one.kind, other.kind)


@pytest.mark.parametrize(("registers", "waits"), [(252, False), (250, True), (230, True)])
def test_groups_are_told_apart_by_registers_that_are_free(registers: int, waits: bool) -> None:
    trace = traced("DEPBAR.LE.1", registers=registers)
    (group,) = trace.groups()
    found = waiting(group, trace)
    dependence = sample_of_blocks(group, trace, 128, lambda name: 4.0).dependence
    assert (dependence >= 0).any() == waits
    if found is not None:
        new = range(len(trace.static), len(found.trace.static))
        used = {*trace.static.destinations.tolist(), *trace.static.sources.tolist()}
        assert used.isdisjoint(register for row in new for register in found.trace.static.destinations_of(row))
