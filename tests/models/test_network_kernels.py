"""The compiled network agrees exactly with the plain one, on random warps and machines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import network
from warplens.models import _network_records as k
from warplens.models._network_kernels import solve
from warplens.models.network_solution import most_blocks

BLOCKS = "blocks", "most_blocks"


def random_stream(generator: np.random.Generator, blocks: int, warps: int, events: int) -> k.Stream:
    counts = generator.integers(1, events + 1, blocks * warps)
    start = np.concatenate(([0], np.cumsum(counts)))
    total = int(start[-1])
    kinds = [k.LOAD] * 4 + [k.STORE, k.STORE, k.ATOMIC, k.ATOMIC, k.BARRIER, k.BARRIER, k.END]
    awaits = generator.integers(0, 2)
    kind = generator.choice(kinds + [k.SIGNAL, k.AWAIT, k.AWAIT] * awaits, total)
    ends = start[1:] - 1
    kind[ends] = np.where(generator.random(len(ends)) < 0.8, k.END, kind[ends])  # or cut off before its end
    access = kind <= k.ATOMIC
    level = np.where(access, generator.integers(0, 5, total), k.L1)
    place = np.concatenate([np.arange(count) for count in counts])
    needs = np.where(generator.random(total) < 0.6, place - generator.integers(1, 4, total), -1)
    table = np.zeros(total, k.EVENT)
    table["kind"], table["level"], table["needs"] = kind, level, np.maximum(needs, -1)
    table["issue"] = generator.integers(1, 20, total)
    table["gap"] = table["issue"] * generator.uniform(1.0, 5.0, total)
    table["tail"] = generator.uniform(0, 30, total)
    table["port"] = np.where(access, generator.integers(1, 33, total), 0)
    table["shared"] = generator.integers(0, 2, total) * generator.integers(0, 30, total)
    table["turn"] = np.where(kind == k.LOAD, generator.integers(1, 40, total), 0)
    table["special"] = generator.integers(0, 2, total) * generator.integers(0, 30, total)
    goes = access & np.isin(level, (k.LLC, k.DRAM, k.GIVEN))
    table["misses"] = np.where(goes, generator.uniform(0.5, 32, total), 0.0)
    for name in ("places", "requests", "flits_out", "flits_in"):
        table[name] = table["misses"] * generator.integers(1, 5, total)
    table["lookups"] = np.where(level == k.DRAM, 0.5 * table["requests"], 0.0)
    table["dram_reads"] = np.where(goes & (level != k.LLC), table["misses"], 0.0)
    table["dram_writes"] = np.where(goes, generator.uniform(0, 3, total), 0.0)
    table["weight"] = generator.choice([1.0, 1.0, 3.5], total)
    table["left"], table["from_dram"] = generator.choice([0.0, 0.4], total), generator.uniform(0.0, 1.0, total)
    table["set_lines"] = generator.uniform(0, 9, total)
    for name in ("bank", "channel", "spread", "scatter"):
        table[name] = generator.uniform(0, 5, total) * generator.integers(0, 2, total)
    table["set"] = generator.integers(0, 4, total)
    table["clustered"], table["steps"] = generator.integers(0, 2, total), generator.integers(0, 4, total)
    await_start, awaited = np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64)
    if awaits:  # for anything that a warp of the block does, whether it can come to that or not
        many = np.where(kind == k.AWAIT, generator.integers(0, 4, total), 0)
        await_start = np.concatenate(([0], np.cumsum(many)))
        block = np.repeat(np.arange(blocks), np.add.reduceat(counts, np.arange(blocks) * warps))
        who = generator.integers(0, warps, int(many.sum()))
        room = counts[np.repeat(block, many) * warps + who]
        awaited = np.stack([who, generator.integers(0, 1 << 20, len(who)) % room], axis=1)
    return k.Stream(
        np.arange(blocks + 1) * warps,
        start,
        table,
        generator.uniform(0, 10, (total, 2)) * generator.integers(0, 2, (total, 2)),
        generator.permutation(blocks),
        generator.uniform(0.5, 2.0, blocks),
        await_start,
        awaited,
        generator.random(2) < 0.5,
        generator.random(2) < 0.7,
    )


def in_whole_numbers(table: np.ndarray) -> None:
    """Round times and counts, so that events often happen at the same time."""
    for name in table.dtype.names:
        if table[name].dtype == bool:
            continue
        if table[name].dtype.names:
            in_whole_numbers(table[name])
        else:
            table[name] = np.round(table[name])


def random_machine(generator: np.random.Generator, warps: int) -> np.ndarray:
    machine = np.zeros(1, k.MACHINE)[0]
    machine["schedulers"] = generator.integers(1, 5)
    machine["issue_interval"] = generator.choice([0.5, 1.0, 2.0])
    machine["greedy"] = generator.integers(0, 2)
    machine["queue"] = generator.integers(1, 12)
    for name, low, high in (("l1_latency", 5, 40), ("llc_latency", 40, 200), ("dram_latency", 50, 400)):
        machine[name] = generator.integers(low, high)
    machine["tags"] = machine["l1_latency"]
    machine["sets"] = generator.choice([0, 4])
    machine["ways"] = generator.integers(1, 7)
    machine["outstanding"], machine["stores"] = generator.integers(2, 64, 2)
    for name in k.NETWORK.names:
        machine["network"][name] = generator.uniform(0, 3, 3)
    machine["dram_service"] = generator.uniform(0, 3)
    machine["injection"] = generator.integers(1, 64)
    machine["dram_queue"] = generator.uniform(0, 500)
    machine["arrivals"] = generator.choice([0.3, 1.0])
    machine["in_order"], machine["together"], machine["posted"] = generator.integers(0, 2, 3)
    machine["bank"], machine["channel"] = generator.uniform(0, 9, 2)
    machine["barrier"], machine["cluster_barrier"] = generator.integers(0, 20, 2)
    machine["blocks_per_sm"] = generator.integers(1, 5)
    machine["warps_per_block"] = warps
    machine["blocks"] = generator.choice([0.4, 1.0, 3.7, 12.0, 150.5])
    machine["most_blocks"] = most_blocks(machine["blocks"], machine["blocks_per_sm"], generator.choice([1.0, 132.0]))
    machine["block_launch"], machine["block_start"], machine["cold_start"] = generator.choice([0.0, 90.0], 3)
    machine["partitions"] = generator.choice([1, machine["schedulers"]])
    return machine


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    blocks=st.integers(1, 3),
    warps=st.integers(1, 4),
    events=st.integers(1, 8),
    count=st.integers(1, 3),
    whole=st.booleans(),
)
def test_the_compiled_network_is_the_plain_one(seed, blocks, warps, events, count, whole):
    """Each machine of a batch, whatever the ones before it left behind."""
    generator = np.random.default_rng(seed)
    stream = random_stream(generator, blocks, warps, events)
    machines = np.zeros(count, k.MACHINE)
    for row in range(count):
        machines[row] = random_machine(generator, warps)
    if whole:
        in_whole_numbers(stream.events)
        in_whole_numbers(machines)
        machines["blocks"] = np.maximum(machines["blocks"], 1.0)
        machines["most_blocks"] = most_blocks(machines["blocks"], machines["blocks_per_sm"], np.ones(count))
    cycles, waits, busy = np.empty(count), np.zeros((count, k.CAUSES)), np.zeros((count, k.RESOURCES))
    script = k.new_script(stream, machines[:1])
    sm, memory = k.new_sm(stream, machines), k.new_memory(stream, machines)
    solve(stream, machines, False, script[:0], sm, memory, cycles, waits, busy)
    asked = np.empty(count), np.zeros((count, k.CAUSES)), np.zeros((count, k.RESOURCES))
    sm = k.new_sm(stream, machines, blames=True)
    solve(stream, machines, False, script[:0], sm, k.new_memory(stream, machines), *asked)
    for found, same in zip((cycles, waits, busy), asked, strict=True):
        assert np.array_equal(found, same)
    blames = np.zeros((len(stream.events), k.BLAMES))
    for row, machine in enumerate(machines):
        expected, expected_waits, expected_busy, expected_blames = network.solved(stream, machine)
        blames += [list(each.values()) for each in expected_blames]
        assert cycles[row] == expected
        assert waits[row].tolist() == pytest.approx(list(expected_waits.values()), rel=1e-12, abs=1e-9)
        assert busy[row].tolist() == pytest.approx(list(expected_busy.values()), rel=1e-12, abs=1e-9)
    assert sm.blame == pytest.approx(blames, rel=1e-12, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), warps=st.integers(1, 4), events=st.integers(1, 8))
def test_a_machine_that_follows_itself_does_the_same(seed, warps, events):
    generator = np.random.default_rng(seed)
    stream = random_stream(generator, 2, warps, events)
    machines = np.zeros(1, k.MACHINE)
    machines[0] = random_machine(generator, warps)
    script, sm, memory = k.new_script(stream, machines), k.new_sm(stream, machines), k.new_memory(stream, machines)
    found = []
    for follows in (False, True):
        cycles, waits, busy = np.empty(1), np.zeros((1, k.CAUSES)), np.zeros((1, k.RESOURCES))
        solve(stream, machines, follows, script, sm, memory, cycles, waits, busy)
        found.append((cycles[0], busy[0].tolist()))
    assert found[0] == found[1]


def test_of_results_that_come_together_a_warp_waits_for_the_last_it_asked_for():
    """The first load waits for a miss on its way until cycle 41; the second, a hit, is back in the same cycle."""
    events = np.zeros(3, k.EVENT)
    events["kind"], events["level"] = (k.LOAD, k.LOAD, k.END), (k.COMING, k.L1, k.L1)
    events["issue"] = events["port"] = events["weight"] = 1.0
    events["gap"], events["left"], events["needs"] = (1.0, 20.0, 1.0), (1.0, 0.0, 0.0), (-1, -1, 1)
    stream = k.Stream(
        np.array([0, 1]), np.array([0, 3]), events, np.zeros((3, 1)), np.zeros(1, dtype=np.int64), np.ones(1)
    )
    machines = np.zeros(1, k.MACHINE)
    for name in ("schedulers", "issue_interval", "queue", "arrivals", "blocks_per_sm", "warps_per_block", *BLOCKS):
        machines[name] = 1
    machines["partitions"] = 1
    machines["l1_latency"], machines["llc_latency"] = 20.0, 40.0
    sm, script = k.new_sm(stream, machines, blames=True), k.new_script(stream, machines)[:0]
    waits, busy = np.zeros((1, k.CAUSES)), np.zeros((1, k.RESOURCES))
    solve(stream, machines, False, script, sm, k.new_memory(stream, machines), np.empty(1), waits, busy)
    assert waits[0, k.C_L1] == sm.blame[1, k.C_L1] == 41 - 1 - 21


def test_a_wait_ends_when_arrivals_and_copies_have_come():
    """A warp loads for another, which waits for the load and for an arrival after it."""
    events = np.zeros(5, k.EVENT)
    events["kind"] = k.LOAD, k.SIGNAL, k.END, k.AWAIT, k.END
    events["level"], events["needs"], events["weight"], events["issue"] = k.L1, -1, 1.0, 1.0
    events["port"][0], events["gap"] = 1.0, (1.0, 300.0, 1.0, 5.0, 1.0)
    units, order = np.zeros((5, 1)), np.zeros(1, dtype=np.int64)
    machines = np.zeros(1, k.MACHINE)
    for name in ("schedulers", "issue_interval", "queue", "arrivals", "blocks_per_sm", "partitions", *BLOCKS):
        machines[name] = 1
    machines["warps_per_block"], machines["l1_latency"], machines["tags"] = 2, 900.0, 900.0
    found = {}
    for name, pairs in {"none": [], "arrival": [(0, 1)], "load": [(0, 0)], "both": [(0, 0), (0, 1)]}.items():
        starts = np.array([0, 0, 0, 0, len(pairs), len(pairs)])
        awaited = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        stream = k.Stream(np.array([0, 2]), np.array([0, 3, 5]), events, units, order, np.ones(1), starts, awaited)
        waits, busy = np.zeros((1, k.CAUSES)), np.zeros((1, k.RESOURCES))
        sm, script = k.new_sm(stream, machines), k.new_script(stream, machines)[:0]
        solve(stream, machines, False, script, sm, k.new_memory(stream, machines), np.empty(1), waits, busy)
        found[name] = waits[0, k.C_SYNC]
    assert found["none"] == 0.0
    assert 280.0 < found["arrival"] < 310.0
    assert 880.0 < found["load"] < 910.0 and found["both"] == found["load"]


def test_a_barrier_opens_when_the_last_warp_that_it_waits_for_leaves():
    """One warp is at the barrier early; the other computes for 500 cycles, then leaves without it."""
    events = np.zeros(3, k.EVENT)
    events["kind"], events["needs"], events["issue"] = (k.BARRIER, k.END, k.END), -1, 1.0
    events["weight"], events["gap"] = 1.0, (1.0, 1.0, 500.0)
    units, order = np.zeros((3, 1)), np.zeros(1, dtype=np.int64)
    stream = k.Stream(np.array([0, 2]), np.array([0, 2, 3]), events, units, order, np.ones(1))
    machines = np.zeros(1, k.MACHINE)
    for name in ("schedulers", "issue_interval", "queue", "arrivals", "blocks_per_sm", "partitions", *BLOCKS):
        machines[name] = 1
    machines["warps_per_block"], machines["barrier"] = 2, 10.0
    sm, cycles = k.new_sm(stream, machines), np.empty(1)
    waits, busy = np.zeros((1, k.CAUSES)), np.zeros((1, k.RESOURCES))
    script = k.new_script(stream, machines)[:0]
    solve(stream, machines, False, script, sm, k.new_memory(stream, machines), cycles, waits, busy)
    assert cycles[0] >= 510.0 and waits[0, k.C_SYNC] >= 500.0


@pytest.mark.parametrize(("turn", "port", "expected"), [(1.0, 1.0, 3.0), (1.0, 4.0, 4.0), (0.0, 1.0, 2.0)])
def test_special_functions_take_turns_with_loads(turn, port, expected):
    """16 warps with 8 accesses each, and special functions of 2 cycles before each: loads, wide loads and stores."""
    warps, count = 16, 32
    events = np.zeros(warps * count, k.EVENT)
    events["kind"], events["needs"], events["weight"] = k.LOAD if turn else k.STORE, -1, 1.0
    events["issue"], events["gap"], events["special"] = 0.1, 0.1, 2.0
    events["turn"], events["port"] = turn, port
    units, order = np.zeros((len(events), 1)), np.zeros(1, dtype=np.int64)
    starts = np.arange(warps + 1) * count
    stream = k.Stream(np.array([0, warps]), starts, events, units, order, np.ones(1))
    machines = np.zeros(1, k.MACHINE)
    for name in ("schedulers", "issue_interval", "arrivals", "blocks_per_sm", "partitions", *BLOCKS):
        machines[name] = 1
    machines["queue"], machines["warps_per_block"], machines["l1_latency"] = 20, warps, 30.0
    cycles, waits, busy = np.empty(1), np.zeros((1, k.CAUSES)), np.zeros((1, k.RESOURCES))
    script = k.new_script(stream, machines)[:0]
    sm, memory = k.new_sm(stream, machines), k.new_memory(stream, machines)
    solve(stream, machines, False, script, sm, memory, cycles, waits, busy)
    assert (cycles[0] - 30.0) / len(events) == pytest.approx(expected, rel=0.05)
