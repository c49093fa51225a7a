"""The compiled simulator agrees exactly with one that steps every cycle, and however the trace is cut up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import detailed as reference
from reference.detailed import Machine
from reference.traces import Step, evenly
from warplens.traces import StaticInstruction

from .machines import counters, final_state, totals, totals_of

#: Registers are few, so that instructions often wait for one another; 255 is none.
REGISTERS = st.sampled_from([0, 1, 2, 3, 255])
COMPUTE = ("int32", "fp32", "sfu")
BARRIER = 0


@st.composite
def tables(draw):
    """Static instructions by kind; the first is a barrier."""
    rows = [StaticInstruction(0, "BAR", "barrier")]

    def add(name, space="none", width=0, writes=True):
        sources = tuple(draw(st.lists(REGISTERS, max_size=2)))
        destinations = tuple(draw(st.lists(REGISTERS, max_size=1))) if writes else ()
        rows.append(StaticInstruction(16 * len(rows), name, name, space, width, destinations, sources))

    widths = st.sampled_from([1, 4, 4, 8, 16])
    for name in COMPUTE:
        add(name)
        add(name)
    for _ in range(2):
        add("load_global", "global", draw(widths))
        add("store_global", "global", draw(widths), writes=False)
    add("atomic_global", "global", 4)
    add("load_shared", "shared", draw(widths))
    add("store_shared", "shared", draw(widths), writes=False)
    return rows


@st.composite
def steps(draw, rows):
    row = draw(st.integers(1, len(rows) - 1))
    if not rows[row].access_bytes:
        return Step(row)
    if rows[row].space == "shared":
        stride = draw(st.sampled_from([0, 4, 8, 64, 128]))
        return Step(row, evenly(1024, stride, draw(st.sampled_from([0, 1, 7, 32]))))
    base = 4096 + 32 * draw(st.integers(0, 40))
    if draw(st.booleans()):
        return Step(row, evenly(base, draw(st.sampled_from([0, 4, 16, 68])), draw(st.sampled_from([0, 1, 8, 32]))))
    anywhere = st.one_of(st.just(0), st.integers(0, 300).map(lambda place: 4096 + 4 * place))
    return Step(row, tuple(draw(st.lists(anywhere, max_size=6))), listed=True)


@st.composite
def launches(draw, rows):
    """Blocks of one launch: warps of different lengths that meet at the same barriers (some end with one)."""
    warps = draw(st.integers(1, 3))
    blocks = []
    for _ in range(draw(st.integers(1, 6))):
        barriers = draw(st.integers(0, 2))
        block = []
        for _ in range(warps):
            warp = []
            for _ in range(barriers):
                warp += [*draw(st.lists(steps(rows), max_size=8)), Step(BARRIER)]
            block.append([*warp, *draw(st.lists(steps(rows), max_size=12))])
        blocks.append(block)
    return blocks


@st.composite
def machines(draw):
    flits = st.sampled_from([0.5, 1.0, 1.25, 2.0, 4.0])
    few = st.integers(1, 3)
    latency = st.sampled_from([1.0, 4.0, 6.5, 17.0])
    interval = st.sampled_from([0.5, 1.0, 2.5, 4.0])
    l1_latency = float(draw(st.sampled_from([1, 3, 4.5, 9])))
    return Machine(
        sms=draw(few),
        schedulers=draw(st.integers(1, 2)),
        policy=draw(st.sampled_from(["gto", "lrr", "oldest", "two-level"])),
        issue_width=draw(st.sampled_from([1, 2, 0.5, 0.25])),
        blocks_per_sm=draw(few),
        timings={name: (draw(st.sampled_from("ab")), draw(interval), draw(latency)) for name in COMPUTE},
        active_warps=draw(few),
        lsu_queue=draw(st.integers(1, 5)),
        collectors=draw(st.sampled_from([None, 1, 2])),
        operand_cycles=draw(st.sampled_from([0.0, 0.0, 0.5, 3.0])),
        sectors=draw(st.sampled_from([1, 2, 4])),
        l1_sets=draw(st.integers(0, 4)),
        l1_ways=draw(st.integers(1, 2)),
        l1_hashed=draw(st.booleans()),
        l1_latency=l1_latency,
        mshrs=draw(st.integers(1, 4)),
        merges=draw(st.integers(1, 2)),
        streaming=draw(st.booleans()),
        shared_latency=draw(st.sampled_from([3.0, 7.5, 20.0])),
        noc_queue=draw(st.sampled_from([1, 2, 64])),
        sm_flit=draw(flits),
        bank_flit=draw(flits),
        banks=draw(few),
        llc_sets=draw(st.integers(1, 2)),
        llc_ways=draw(st.integers(1, 2)),
        llc_latency=draw(st.sampled_from([2.0, 40.0, 75.5])),
        llc_mshrs=draw(few),
        l1_write_back=draw(st.booleans()),
        l1_allocate=draw(st.booleans()),
        write_back=draw(st.booleans()),
        allocate=draw(st.booleans()),
        channels=draw(few),
        dram_latency=draw(st.sampled_from([0.0, 35.0, 80.25])),
        dram_queue=draw(few),
        service=draw(st.sampled_from([0.5, 1.0, 4.0, 8.0])),
    )


@st.composite
def cases(draw):
    rows = draw(tables())
    return rows, draw(launches(rows)), draw(machines())


@given(cases())
@settings(max_examples=settings().max_examples * 3)
def test_agrees_with_stepping_every_cycle(case):
    simulation = reference.Simulation(*case)
    expected = simulation.run()
    state = final_state(*case)
    sums = totals_of(state)
    assert sums == {name: expected[name] for name in sums}
    found = counters(state)
    assert found == pytest.approx({key: simulation.counters[key] for key in found}, rel=1e-12)


@given(cases(), st.integers(1, 3))
def test_groups_of_the_trace_change_nothing(case, blocks_per_group):
    assert totals(*case, blocks_per_group=blocks_per_group) == totals(*case)
