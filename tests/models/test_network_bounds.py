"""Whatever warps ask for: no time is impossible, and more of a resource is never more time for the whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import network_parts
from warplens.models import _network_records as k
from warplens.models import network_solution
from warplens.models._network_kernels import least_of_blocks
from warplens.models.network import Demand
from warplens.models.network_solution import most_blocks

from .test_network_kernels import BLOCKS, random_machine, random_stream

#: Cycles per request, flit and transfer, and latencies: less is more. Then places and queues.
SHORTENED = (*(name for name in network_solution.TIMES if name != "dram_queue"), *k.NETWORK.names, "issue_interval")
ENLARGED = ("outstanding", "stores", "ways", "queue", "injection", "dram_queue", "schedulers")
SIZES = {"seed": st.integers(0, 2**32 - 1), "warps": st.integers(1, 4), "events": st.integers(1, 8)}


def drawn(seed: int, warps: int, events: int) -> tuple[Demand, np.ndarray, np.random.Generator]:
    """Random warps, and a machine that may have too few places for their misses."""
    generator = np.random.default_rng(seed)
    stream = random_stream(generator, 2, warps, events)
    machine = np.zeros(1, k.MACHINE)
    machine[0] = random_machine(generator, warps)
    return Demand(stream, 1.0), machine, generator


def costs_of_more(seed: int, warps: int, events: int, name: str) -> float:
    """The largest ratio of cycles between a machine and the one before it, which has less of a resource."""
    demand, named, generator = drawn(seed, warps, events)
    named["in_order"] = False  # which leaves out a mechanism: a place that is held for long then keeps all others
    machines = np.repeat(named, 6)
    part = machines["network"] if name in k.NETWORK.names else machines
    factors = np.sort(generator.uniform(0.2, 3.0, len(machines)))
    for row, factor in enumerate(factors[::-1] if name in SHORTENED else factors):
        part[name][row] = np.maximum(part[name][row] * factor, 1 if name in ENLARGED else 0)
    cycles = network_solution.solve_all(demand, machines, named)[0]
    return float((cycles[1:] / cycles[:-1]).max())


@settings(max_examples=200, deadline=None)
@given(**SIZES, name=st.sampled_from(SHORTENED + ENLARGED))
def test_more_of_a_resource_is_never_slower(seed, warps, events, name):
    assert costs_of_more(seed, warps, events, name) <= 1.01


@pytest.mark.slow
def test_more_of_a_resource_costs_time_in_one_of_a_thousand_draws_at_most():
    """docs/models/warplens.md gives these limits."""
    costs = [
        costs_of_more(seed, 1 + seed % 4, 1 + seed // 4 % 8, name)
        for seed in range(1000)
        for name in SHORTENED + ENLARGED
    ]
    slower = [each for each in costs if each > 1.01]
    assert len(slower) <= 0.001 * len(costs) and max(costs) <= 1.1


@settings(max_examples=400, deadline=None)
@given(**SIZES, blocks=st.sampled_from([3.0, 3.7, 12.0, 150.5]))
def test_the_time_lies_between_the_busiest_resource_and_one_block_after_another(seed, warps, events, blocks):
    demand, machine, _ = drawn(seed, warps, events)
    machine["blocks"], machine["blocks_per_sm"] = blocks, 3
    machine["most_blocks"] = most_blocks(machine["blocks"], machine["blocks_per_sm"], np.full(1, 132.0))
    machine["block_launch"] = machine["block_start"] = 0.0
    (cycles,), _, busy = network_solution.solve_all(demand, machine, None)
    assert cycles >= busy.max() * (1 - 1e-9)
    machine["blocks_per_sm"] = 1
    (apart,), _, _ = network_solution.solve_all(demand, machine, None)
    assert cycles <= apart * (1 + 1e-9)


@settings(max_examples=60, deadline=None)
@given(**SIZES)
def test_blocks_alone_take_at_least_what_their_warps_need(seed, warps, events):
    demand, machine, _ = drawn(seed, warps, events)
    stream = demand.stream
    least, done = np.empty((1, 2)), np.empty(events)
    least_of_blocks(stream, machine, done, least)
    assert least[0].tolist() == network_parts.least_of_blocks(stream, machine[0])
    machine["blocks"], machine["blocks_per_sm"], machine["most_blocks"] = 2.0, 1, 2
    (apart,), _, _ = network_solution.solve_all(demand, machine, None)
    assert least.sum() <= apart * (1 + 1e-9)


@pytest.mark.parametrize("held", [1, 2, 32])
def test_there_is_room_for_all_blocks_that_are_followed(held):
    """The fullest SM of a machine that holds many blocks, also where they run one after another."""
    demand, machine, _ = drawn(1, 1, 3)
    machine["blocks"], machine["most_blocks"] = (
        372.4,
        most_blocks(np.array([372.4]), np.array([32.0]), np.full(1, 132.0)),
    )
    machine["blocks_per_sm"] = held
    sm = k.new_sm(demand.stream, machine)
    network_solution.solve_network(demand.stream, machine, sm=sm)
    assert 160 < sm.run[0]["to_run"] == sm.run[0]["finished"] <= len(sm.ends)


def solved_with(places: int, ahead: float) -> float:
    """Cycles of a load of 64 lines, behind a store that keeps the network busy for `ahead` cycles."""
    events = np.zeros(2, k.EVENT)
    events["kind"], events["level"], events["needs"], events["weight"] = (k.STORE, k.LOAD), k.LLC, -1, 1.0
    events["issue"] = events["gap"] = events["port"] = events["requests"] = 1.0
    events["misses"], events["places"], events["flits_out"] = (1, 64), (1, 64), (ahead, 0.0)
    units, order = np.zeros((2, 1)), np.zeros(1, dtype=np.int64)
    stream = k.Stream(np.array([0, 1]), np.array([0, 2]), events, units, order, np.ones(1))
    machine = np.zeros(1, k.MACHINE)
    for name in ("schedulers", "issue_interval", "arrivals", "blocks_per_sm", "warps_per_block", *BLOCKS):
        machine[name] = 1
    machine["stores"] = machine["partitions"] = 1
    machine["queue"], machine["injection"], machine["outstanding"] = 8, 1e6, places
    machine["llc_latency"] = 100.0
    machine["network"]["net_flit"] = 1.0
    return float(network_solution.solve_all(Demand(stream, 1.0), machine, None)[0][0])


@pytest.mark.parametrize("places", [64, 16, 4])
def test_a_load_waits_once_for_what_came_before_however_often_it_reuses_its_places(places):
    waited = solved_with(places, 5000.0) - solved_with(places, 0.0)
    assert waited == pytest.approx(5000.0, rel=0.01)
