"""The compiled network agrees exactly with the plain one, on random warps and machines."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import network
from warplens.models import _access_kernels as k
from warplens.models._network_kernels import solve
from warplens.models._warp_kernels import Stream, new_sm

COLUMNS = [name for name in vars(k) if name.startswith("M_")]


def random_stream(generator: np.random.Generator, blocks: int, warps: int, events: int) -> Stream:
    counts = generator.integers(1, events + 1, blocks * warps)
    start = np.concatenate(([0], np.cumsum(counts)))
    total = int(start[-1])
    kind = generator.choice([k.LOAD] * 4 + [k.STORE, k.STORE, k.ATOMIC, k.ATOMIC, k.BARRIER, k.BARRIER, k.END], total)
    ends = start[1:] - 1
    kind[ends] = np.where(generator.random(len(ends)) < 0.8, k.END, kind[ends])  # or cut off before its end
    access = kind <= k.ATOMIC
    level = np.where(access, generator.integers(0, 5, total), k.L1)
    place = np.concatenate([np.arange(count) for count in counts])
    needs = np.where(generator.random(total) < 0.6, place - generator.integers(1, 4, total), -1)
    table = np.zeros((total, k.EVENT_COLUMNS))
    table[:, k.E_ISSUE] = generator.integers(1, 20, total)
    table[:, k.E_GAP] = table[:, k.E_ISSUE] * generator.uniform(1.0, 5.0, total)
    table[:, k.E_TAIL] = generator.uniform(0, 30, total)
    table[:, k.E_PORT] = np.where(access, generator.integers(1, 33, total), 0)
    table[:, k.E_SHARED] = generator.integers(0, 2, total) * generator.integers(0, 30, total)
    goes = access & np.isin(level, (k.LLC, k.DRAM, k.GIVEN))
    table[:, k.E_MISSES] = np.where(goes, generator.uniform(0.5, 32, total), 0.0)
    for column in (k.E_REQUESTS, k.E_FLITS_OUT, k.E_FLITS_IN):
        table[:, column] = table[:, k.E_MISSES] * generator.integers(1, 5, total)
    table[:, k.E_DRAM_READS] = np.where(goes & (level != k.LLC), table[:, k.E_MISSES], 0.0)
    table[:, k.E_DRAM_WRITES] = np.where(goes, generator.uniform(0, 3, total), 0.0)
    table[:, k.E_WEIGHT] = generator.choice([1.0, 1.0, 3.5], total)
    table[:, k.E_LEFT] = generator.choice([0.0, 0.4], total)
    table[:, k.E_SET_LINES] = generator.uniform(0, 9, total)
    table[:, [k.E_BANK, k.E_CHANNEL]] = generator.uniform(0, 5, (total, 2)) * generator.integers(0, 2, (total, 2))
    return Stream(
        np.arange(blocks + 1) * warps,
        start,
        kind.astype(np.int64),
        level.astype(np.int64),
        np.maximum(needs, -1).astype(np.int64),
        generator.integers(0, 4, total),
        table,
        generator.uniform(0, 10, (total, 2)) * generator.integers(0, 2, (total, 2)),
        generator.permutation(blocks),
        generator.uniform(0.5, 2.0, blocks),
    )


def random_machine(generator: np.random.Generator, warps: int) -> np.ndarray:
    machine = np.zeros(k.MACHINE_COLUMNS)
    machine[k.M_SCHEDULERS] = generator.integers(1, 5)
    machine[k.M_ISSUE_INTERVAL] = generator.choice([0.5, 1.0, 2.0])
    machine[k.M_GREEDY] = generator.integers(0, 2)
    machine[k.M_QUEUE] = generator.integers(1, 12)
    machine[[k.M_L1_LATENCY, k.M_LLC_LATENCY, k.M_DRAM_LATENCY]] = generator.integers((5, 40, 50), (40, 200, 400))
    machine[k.M_SETS] = generator.choice([0, 4])
    machine[k.M_WAYS] = generator.integers(1, 7)
    machine[[k.M_OUTSTANDING, k.M_STORES]] = generator.integers(2, 64, 2)
    machine[k.M_REQUEST : k.M_REQUEST + 3 * k.NETWORK_COLUMNS] = generator.uniform(0, 3, 3 * k.NETWORK_COLUMNS)
    machine[k.M_DRAM_SERVICE] = generator.uniform(0, 3)
    machine[k.M_INJECTION] = generator.integers(1, 64)
    machine[k.M_DRAM_QUEUE] = generator.uniform(0, 500)
    machine[k.M_ARRIVALS] = generator.choice([0.3, 1.0])
    machine[k.M_IN_ORDER] = generator.integers(0, 2)
    machine[[k.M_BANK, k.M_CHANNEL]] = generator.uniform(0, 9, 2)
    machine[k.M_BARRIER] = generator.integers(0, 20)
    machine[k.M_BLOCKS_PER_SM] = generator.integers(1, 5)
    machine[k.M_WARPS_PER_BLOCK] = warps
    machine[k.M_BLOCKS] = generator.choice([0.4, 1.0, 3.7, 12.0, 150.5])
    machine[[k.M_BLOCK_LAUNCH, k.M_BLOCK_START]] = generator.choice([0.0, 90.0], 2)
    return machine


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    blocks=st.integers(1, 3),
    warps=st.integers(1, 4),
    events=st.integers(1, 8),
    count=st.integers(1, 3),
)
def test_the_compiled_network_is_the_plain_one(seed, blocks, warps, events, count):
    """Each machine of a batch, whatever the ones before it left behind."""
    generator = np.random.default_rng(seed)
    stream = random_stream(generator, blocks, warps, events)
    machines = np.stack([random_machine(generator, warps) for _ in range(count)])
    cycles, waits, busy = np.empty(count), np.zeros((count, k.CAUSES)), np.zeros((count, k.RESOURCES))
    solve(stream, machines, new_sm(stream, machines), k.new_memory(machines), cycles, waits, busy)
    for row, machine in enumerate(machines):
        named = {name.removeprefix("M_"): float(machine[getattr(k, name)]) for name in COLUMNS if name != "M_COLUMNS"}
        expected, expected_waits, expected_busy = network.solved(stream, named)
        assert cycles[row] == expected
        assert waits[row].tolist() == pytest.approx(list(expected_waits.values()), rel=1e-12, abs=1e-9)
        assert busy[row].tolist() == pytest.approx(list(expected_busy.values()), rel=1e-12, abs=1e-9)
