"""Latencies of traced instructions, and views of a representative warp (GPUMech §V), against plain oracles."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import warps as oracle
from warplens.analysis import COLUMNS, STALL_CAUSES, MissProfile, instruction_kinds
from warplens.analysis._cache_records import COUNTERS, table_of
from warplens.analysis.representative import (
    Representative,
    graph_of_warp,
    latencies,
    level_latencies,
    profile_of_warp,
    profiles_of_warp,
)
from warplens.errors import MissingInputError
from warplens.machine import INSTRUCTION_CLASSES, load_gpu

from .rows import ATOM, BAR, FADD, FMUL, IMAD, LDG, LDG64, MOV, MUFU, ROWS, STG, TABLE, any_latencies, programs

# -- latencies: average memory access time (§V-B) -----------------------------------------------


def miss_profile(**counts: dict[int, int]) -> MissProfile:
    """Counters by name and row."""
    counters = np.zeros(len(ROWS), dtype=COUNTERS)
    for name, of_rows in counts.items():
        for row, value in of_rows.items():
            counters[name.lower()][row] = value
    return MissProfile(
        table_of(counters),
        instruction_kinds(TABLE),
        transfer_bytes=128,
        dirty_left=0,
        order="round-robin",
        estimated_cycles=0.0,
    )


def test_amat_of_the_paper():
    """90 % hit L2 at 120 cycles, 10 % miss it at 420: 150 cycles (docs/conventions.md §4)."""
    gpu = load_gpu("accelsim-mdm", {"llc.latency": 120, "dram.latency": 300})
    assert level_latencies(gpu, "the test").tolist() == [24.0, 120.0, 420.0]
    misses = miss_profile(EXECUTED={LDG: 10}, WORST_LLC={LDG: 9}, WORST_DRAM={LDG: 1})
    found = latencies(TABLE, misses, lambda _: 0.0, level_latencies(gpu, "the test").tolist())
    assert found[LDG] == pytest.approx(150.0, rel=1e-15)


def test_every_instruction_has_a_latency():
    gpu = load_gpu("accelsim-mdm")
    misses = miss_profile(
        EXECUTED={LDG: 4, LDG64: 2, ATOM: 5, STG: 3},
        WORST_L1={LDG: 3},
        WORST_LLC={LDG: 1, ATOM: 5},
        WORST_DRAM={LDG64: 2, STG: 3},
    )

    def latency_of(name):
        return 0.0 if INSTRUCTION_CLASSES[name].kind == "memory" else gpu.timing(name, "the test").latency_cycles

    found = latencies(TABLE, misses, latency_of, level_latencies(gpu, "the test").tolist())
    expected = {
        LDG: (3 * 24 + 120) / 4,
        LDG64: 340.0,
        ATOM: 120.0,
        STG: 0.0,  # nothing waits for a store
        FADD: 4.0,
        FMUL: 4.0,
        IMAD: 4.0,
        MUFU: 20.0,
        BAR: 4.0,
        MOV: 4.0,
    }
    assert dict(enumerate(found.tolist())) == expected


def test_dram_latency_follows_the_clock():
    slow = load_gpu("accelsim-mdm", {"clock": 0.7e9})
    assert level_latencies(slow, "the test").tolist() == [24.0, 120.0, 120.0 + 110.0]


def test_a_machine_without_dram_latency_is_refused():
    gpu = load_gpu("accelsim-mdm")
    gpu = dataclasses.replace(gpu, dram=dataclasses.replace(gpu.dram, latency_cycles=None))
    with pytest.raises(MissingInputError, match=r"the test needs dram\.latency"):
        level_latencies(gpu, "the test")


# -- views of the representative ------------------------------------------------------------------


def as_representative(warp: list[int]) -> Representative:
    size = float(len(warp))
    return Representative(0, np.array(warp, dtype=np.uint32), "clustering", (1, 0), 0.0, 0.0, 1, size, 1, size)


@given(programs)
def test_the_dependence_graph_is_def_use(warp):
    graph = graph_of_warp(as_representative(warp), TABLE)
    assert [item.instruction_class for item in graph.instructions] == [ROWS[row].instruction_class for row in warp]
    expected = [tuple(sorted(set(found))) for found in oracle.producers(warp, ROWS)]
    assert [item.depends for item in graph.instructions] == expected


def test_nobody_depends_on_the_zero_register():
    graph = graph_of_warp(as_representative([MOV, FMUL]), TABLE)
    assert [item.depends for item in graph.instructions] == [(), ()]


def test_views_of_a_warp_by_hand():
    """Two loads, the second needs the first; FADD needs both; the store needs FADD."""
    graph = graph_of_warp(as_representative([LDG, LDG64, FADD, BAR, STG]), TABLE)
    assert [item.depends for item in graph.instructions] == [(), (0,), (0, 1), (), (2,)]
    mix = graph.instruction_mix(lambda name: 100.0 if name == "load_global" else 4.0)
    assert {name: (entry.count, entry.independent) for name, entry in mix.entries.items()} == {
        "load_global": (2, 0.0),
        "fp32": (1, 0.0),
        "barrier": (1, 1.0),
        "store_global": (1, 0.0),
    }
    assert mix.synchronizations == 1
    flow = graph.work_flow_graph
    assert [(node.kind, node.instruction_class, node.dependent) for node in flow.nodes] == [
        ("memory", "load_global", True),
        ("memory", "load_global", True),
        ("compute", "fp32", True),
        ("barrier", "barrier", False),
        ("memory", "store_global", True),
    ]


MISSES = miss_profile(
    EXECUTED={LDG: 10, LDG64: 4, STG: 5, ATOM: 2},
    WORST_L1={LDG: 4},
    WORST_LLC={LDG: 1, LDG64: 1, STG: 5},
    WORST_DRAM={LDG: 5, LDG64: 3, ATOM: 2},
    LLC_HITS={LDG: 7, LDG64: 2, STG: 20},
    LLC_MISSES={LDG: 13, LDG64: 30, STG: 5, ATOM: 2},
    WRITEBACK_HITS={LDG: 3},
    WRITEBACK_MISSES={LDG: 2, STG: 1},
)


@given(programs, any_latencies, st.sampled_from((0.5, 1.0, 2.0)), st.sampled_from((0.0, 1.0, 10.0)))
def test_profile_columns_are_sums_over_the_instructions_of_each_interval(warp, latency, issue_rate, min_gap):
    profile = profile_of_warp(as_representative(warp), TABLE, np.array(latency), MISSES, issue_rate, min_gap=min_gap)
    reads, writes = (LDG, LDG64, ATOM), (STG,)

    def per_execution(row: int, *names: str) -> float:
        executed = MISSES.executed[row]
        return sum(MISSES.column(name.lower())[row] for name in names) / executed if executed else 0.0

    step = max(1.0, 1.0 / issue_rate)
    expected = oracle.intervals(warp, ROWS, latency, step=step, min_gap=min_gap)
    assert len(profile) == len(expected)
    first = 0
    for row, interval in zip(profile.matrix, expected, strict=True):
        inside = warp[first : first + interval.instructions]
        first += interval.instructions
        leaving = {r: per_execution(r, "LLC_HITS", "LLC_MISSES") for r in (*reads, *writes)}
        read = sum(leaving[r] for r in inside if r in reads)
        written = sum(leaving[r] for r in inside if r in writes)
        written += sum(per_execution(r, "WRITEBACK_HITS", "WRITEBACK_MISSES") for r in inside)  # whoever evicts
        beyond = sum(per_execution(r, "LLC_MISSES", "WRITEBACK_MISSES") for r in inside)
        columns = {
            "instructions": interval.instructions,
            "stall_cycles": interval.stall,
            "memory_instructions": sum(1 - per_execution(r, "WORST_L1") for r in inside if r in reads),
            "read_misses": read,
            "write_requests": written,
            "llc_miss_ratio": beyond / (read + written) if read + written else 0.0,
        }
        assert dict(zip(COLUMNS, row, strict=True)) == pytest.approx(columns, rel=1e-9, abs=1e-9)
    stalled = oracle.intervals(warp, ROWS, latency, step=step, min_gap=min_gap)
    for row, interval in zip(profile.causes, stalled, strict=True):
        if interval.cause in reads:
            levels = [0.0, *(per_execution(interval.cause, f"WORST_{level}") for level in ("L1", "LLC", "DRAM"))]
        else:
            levels = [1.0, 0.0, 0.0, 0.0]
        assert row.tolist() == pytest.approx(levels)
    assert profile.total_instructions == len(warp)


def test_stalls_have_the_levels_of_the_load_that_caused_them():
    """The load is 40 % L1, 10 % L2, 50 % DRAM: so is the stall of its user. Other stalls are DEP."""
    latency = np.zeros(len(ROWS))
    latency[LDG], latency[FADD] = 100.0, 30.0
    profile = profile_of_warp(as_representative([LDG, FADD, FMUL]), TABLE, latency, MISSES, 1.0)
    by_cause = dict(zip(STALL_CAUSES, profile.stall_by_cause.tolist(), strict=True))
    assert by_cause == pytest.approx({"DEP": 30.0, "L1": 40.0, "L2": 10.0, "DRAM": 50.0})


def test_the_part_of_missing_loads_that_go_to_dram():
    """LDG: 5 of 6 that miss L1; LDG64: 3 of 4; ATOM: 2 of 2. Stores do not count."""
    profile = profile_of_warp(as_representative([LDG]), TABLE, np.zeros(len(ROWS)), MISSES, 1.0)
    assert profile.dram_fraction == pytest.approx((5 + 3 + 2) / (6 + 4 + 2))
    none = profile_of_warp(as_representative([FADD]), TABLE, np.zeros(len(ROWS)), miss_profile(), 1.0)
    assert none.dram_fraction == 0.0


@given(
    st.lists(st.lists(st.floats(0, 600), min_size=len(ROWS), max_size=len(ROWS)), min_size=1, max_size=4), st.data()
)
def test_profiles_of_many_machines_are_those_of_each(latencies_, data):
    warp = as_representative(data.draw(st.lists(st.integers(0, len(ROWS) - 1), min_size=1, max_size=30)))
    rates = data.draw(st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=len(latencies_), max_size=len(latencies_)))
    min_gap = data.draw(st.sampled_from([1.0, 20.0]))
    batch = profiles_of_warp(warp, TABLE, np.array(latencies_), MISSES, np.array(rates), min_gap=min_gap)
    for index, (latency, rate) in enumerate(zip(latencies_, rates, strict=True)):
        one = profile_of_warp(warp, TABLE, np.array(latency), MISSES, rate, min_gap=min_gap)
        assert np.array_equal(batch.matrix[batch.start[index] : batch.start[index + 1]], one.matrix)
        assert batch.total_instructions == one.total_instructions
        assert batch.stalls[index] == np.count_nonzero(one.column("stall_cycles"))
        assert batch.dram_fraction[index] == one.dram_fraction
        assert batch.stall_cycles[index] == pytest.approx(one.column("stall_cycles").sum(), rel=1e-13)
        assert batch.stall_by_cause[index].tolist() == pytest.approx(one.stall_by_cause.tolist(), rel=1e-12)
