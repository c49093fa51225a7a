"""Whatever warps ask for: no time is impossible, and less time for a part is never more for the whole."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens.models import _network_records as k
from warplens.models import warplens_model
from warplens.models.network import Demand

from .test_network_kernels import random_machine, random_stream

#: Cycles per request, flit and transfer, and latencies.
SHORTENED = (*warplens_model.TIMES, *k.NETWORK.names)


def drawn(seed: int, warps: int, events: int) -> tuple[Demand, np.ndarray, np.random.Generator]:
    """Random warps, and a machine with places for all misses: how they share few is an approximation."""
    generator = np.random.default_rng(seed)
    stream = random_stream(generator, 2, warps, events)
    machine = np.zeros(1, k.MACHINE)
    machine[0] = random_machine(generator, warps)
    machine["outstanding"] = machine["stores"] = 4096
    machine["sets"] = 0
    return Demand(stream, 1.0), machine, generator


@settings(max_examples=80, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1), warps=st.integers(1, 4), events=st.integers(1, 8), name=st.sampled_from(SHORTENED)
)
def test_shorter_times_are_never_slower(seed, warps, events, name):
    demand, named, generator = drawn(seed, warps, events)
    machines = np.repeat(named, 6)
    part = machines["network"] if name in k.NETWORK.names else machines
    for row, factor in enumerate(np.sort(generator.uniform(0.2, 3.0, len(machines)))):
        part[name][row] *= factor
    cycles = warplens_model._solved(demand, machines, named)[0]
    assert np.all(cycles[:-1] <= 1.01 * cycles[1:])


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), warps=st.integers(1, 4), events=st.integers(1, 8))
def test_the_time_lies_between_the_busiest_resource_and_one_warp_after_another(seed, warps, events):
    demand, machine, _ = drawn(seed, warps, events)
    machine["blocks"], machine["blocks_per_sm"] = 3.0, 3
    machine["block_launch"] = machine["block_start"] = 0.0
    (cycles,), _, busy = warplens_model._solved(demand, machine, None)
    assert cycles >= busy.max() * (1 - 1e-9)
    machine["blocks_per_sm"] = 1
    (apart,), _, _ = warplens_model._solved(demand, machine, None)
    assert cycles <= apart * 1.01
