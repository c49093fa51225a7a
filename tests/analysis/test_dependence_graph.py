"""Longest chains, instruction mixes and work flows of dependence graphs, against brute force."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from making import graph_of
from reference import warp
from warplens.analysis import InstructionMix, MixEntry
from warplens.machine import INSTRUCTION_CLASSES

MEMORY = {"load_global", "store_global"}
BARRIERS = {"barrier"}
CLASSES = ["comp", "sfu", "load_shared", *sorted(MEMORY), *sorted(BARRIERS)]


@st.composite
def programs(draw, most=9):
    program = []
    for position in range(draw(st.integers(1, most))):
        depends = draw(st.sets(st.integers(0, position - 1), max_size=3)) if position else set()
        program.append((draw(st.sampled_from(CLASSES)), tuple(sorted(depends))))
    return program


latencies = st.fixed_dictionaries({name: st.integers(0, 30) for name in CLASSES})


def is_chain(program, positions):
    """Whether each position waits for the one before."""
    return all(before in program[after][1] for before, after in pairwise(positions))


# -- longest chain -----------------------------------------------------------------------------


@given(program=programs(), latency=latencies)
def test_the_longest_chain_is_a_chain_with_the_largest_sum_over_all_paths(program, latency):
    marked = graph_of(*program).on_longest_chain(latency.__getitem__)
    assert marked.shape == (len(program), 1)
    chain = np.flatnonzero(marked[:, 0]).tolist()
    assert is_chain(program, chain)
    assert sum(latency[program[position][0]] for position in chain) == warp.longest_latency(program, latency)


@given(program=programs(), several=st.lists(latencies, min_size=2, max_size=4))
def test_chains_of_several_machines_are_those_of_each(program, several):
    graph = graph_of(*program)
    together = graph.on_longest_chain(
        {name: np.array([one[name] for one in several]) for name in CLASSES}.__getitem__
    )
    for index, one in enumerate(several):
        assert (together[:, index] == graph.on_longest_chain(one.__getitem__)[:, 0]).all()


def test_which_chain_is_longest_depends_on_the_machine():
    graph = graph_of("comp", "load_global", ("sfu", (0,)), ("comp", (1,)))
    slow_special = graph.on_longest_chain({"comp": 1, "sfu": 50, "load_global": 10}.__getitem__)[:, 0]
    slow_memory = graph.on_longest_chain({"comp": 1, "sfu": 5, "load_global": 10}.__getitem__)[:, 0]
    assert slow_special.tolist() == [True, False, True, False]
    assert slow_memory.tolist() == [False, True, False, True]


# -- instruction mix ---------------------------------------------------------------------------


@given(program=programs(), latency=latencies)
def test_the_mix_counts_classes_and_what_is_off_the_chain(program, latency):
    graph = graph_of(*program)
    on_chain = graph.on_longest_chain(latency.__getitem__)[:, 0]
    mix = graph.instruction_mix(latency.__getitem__)
    names = [name for name, _ in program]
    assert {name: entry.count for name, entry in mix.entries.items()} == {n: names.count(n) for n in set(names)}
    for name, entry in mix.entries.items():
        free = sum(1 for position, other in enumerate(names) if other == name and not on_chain[position])
        assert entry.independent == free
        assert entry.uncoalesced == 0
    assert mix.synchronizations == names.count("barrier")
    assert mix.total == len(program)
    assert mix.memory_count == sum(name in MEMORY for name in names)
    assert mix.compute_count == mix.total - mix.memory_count


def test_a_mix_counts_shared_memory_and_barriers_as_computation():
    """As Hong & Kim do: #Comp_insts = 27 of the worked example contains both."""
    mix = InstructionMix({name: MixEntry(1.0) for name in ("comp", "load_shared", "barrier", "load_global")})
    assert (mix.total, mix.memory_count, mix.compute_count) == (4, 1, 3)


def test_a_mix_sums_uncoalesced_accesses():
    mix = InstructionMix({"load_global": MixEntry(5, 0, 2), "store_global": MixEntry(3, 0, 1), "comp": MixEntry(9)})
    assert mix.uncoalesced_count == 3
    assert [name for name, _ in mix.of_kind("memory")] == ["load_global", "store_global"]
    assert [name for name, _ in mix.of_kind("compute", "shared")] == ["comp"]


@pytest.mark.parametrize("name", INSTRUCTION_CLASSES)
def test_every_class_is_memory_or_computation(name):
    mix = InstructionMix({name: MixEntry(2.0)})
    is_memory = INSTRUCTION_CLASSES[name].kind == "memory"
    assert (mix.memory_count, mix.compute_count) == ((2, 0) if is_memory else (0, 2))


# -- work flow graph ---------------------------------------------------------------------------


@given(program=programs())
def test_the_work_flow_is_the_runs_of_computation_between_accesses(program):
    flow = graph_of(*program).work_flow_graph
    expected = warp.blocks(program, MEMORY, BARRIERS)
    assert [node.kind for node in flow.nodes] == [kind for kind, _ in expected]
    assert flow.total == len(program)
    waited_for = {other for _, depends in program for other in depends} | {len(program) - 1}
    for node, (kind, members) in zip(flow.nodes, expected, strict=True):
        assert node.count == len(members)
        if kind == "compute":
            assert node.ilp == len(members) / warp.depth(program, members)
            names = [program[position][0] for position in members]
            assert names.count(node.instruction_class) == max(names.count(name) for name in names)
        else:
            assert node.instruction_class == program[members[0]][0]
            assert node.ilp == 1
            assert node.dependent == (members[0] in waited_for)


def test_dependences_through_an_access_do_not_lengthen_a_block():
    """c0 → m → c2: the two computations are in different blocks, each with a depth of one."""
    flow = graph_of("comp", ("load_global", (0,)), ("comp", (0, 1)), "comp").work_flow_graph
    assert [(node.kind, node.count, node.ilp) for node in flow.nodes] == [
        ("compute", 1, 1),
        ("memory", 1, 1),
        ("compute", 2, 2),
    ]


def test_the_last_access_is_always_waited_for():
    flow = graph_of("store_global", "store_global").work_flow_graph
    assert [node.dependent for node in flow.nodes] == [False, True]


def test_the_work_flow_is_made_once():
    graph = graph_of("comp", ("load_global", (0,)))
    assert graph.work_flow_graph is graph.work_flow_graph


def test_of_equal_chains_the_first_is_marked():
    marked = graph_of("sfu", "sfu", ("comp", (1, 0)), ("comp", (0,))).on_longest_chain(
        {"sfu": 9, "comp": 2}.__getitem__
    )
    assert np.flatnonzero(marked).tolist() == [1, 2]


# -- in order ------------------------------------------------------------------------------------


def stops(program, chosen):
    """Waits of a warp that issues one instruction after another: whatever is under way then comes in."""
    under_way, count = set(), 0
    for position, (name, depends) in enumerate(program):
        if under_way & set(depends):
            under_way, count = set(), count + 1
        if chosen(name):
            under_way.add(position)
    return count


@given(program=programs(most=20))
def test_waits_in_order_are_those_of_a_warp_step_by_step(program):
    found = graph_of(*program).instruction_mix(lambda name: 1.0).waits
    assert found.memory == stops(program, MEMORY.__contains__)
    assert found.computation == stops(program, lambda name: name not in MEMORY)


def test_loads_before_the_first_use_are_in_flight_together():
    """A loop of load and use stops each time; four loads first stop once."""
    in_turn = [("load_global", ()), ("comp", (0,)), ("load_global", ()), ("comp", (2,))]
    ahead = [("load_global", ()), ("load_global", ()), ("comp", (0,)), ("comp", (1,))]
    assert [graph_of(*each).waits.memory for each in (in_turn, ahead)] == [2, 1]
