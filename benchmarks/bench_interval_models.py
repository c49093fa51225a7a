"""Interval models over a batch of 100 000 machines, a 30-interval profile, one core."""

from __future__ import annotations

import time

import numpy as np
from run import Row

import warplens
from warplens.analysis import IntervalProfile
from warplens.api import predict
from warplens.machine import Gpu, load_gpu
from warplens.workload import Launch, Workload

MACHINES = 100_000
INTERVALS = 30


def divergent_workload() -> Workload:
    """A made-up profile of 30 intervals with reads, writes and stalls of all kinds."""
    random = np.random.default_rng(2014)
    matrix = np.column_stack(
        [
            random.integers(1, 20, INTERVALS),
            random.integers(0, 400, INTERVALS),
            np.ones(INTERVALS),
            random.integers(0, 33, INTERVALS),
            random.integers(0, 3, INTERVALS),
            random.random(INTERVALS),
        ]
    ).astype(np.float64)
    causes = np.tile([0.25, 0.25, 0.25, 0.25], (INTERVALS, 1))
    return Workload("made-up", launch=Launch(warps_per_sm=32.0), profile=IntervalProfile(matrix, causes))


def many_machines() -> Gpu:
    random = np.random.default_rng(2020)
    return load_gpu(
        "mdm2020",
        {
            "dram.bandwidth": random.uniform(1e11, 1e12, MACHINES),
            "noc.bandwidth": random.uniform(5e11, 2e12, MACHINES),
            "l1.mshrs": random.integers(16, 512, MACHINES),
        },
    )


def seconds_for_batch(name: str, workload: Workload, machines: Gpu) -> float:
    model = warplens.get_model(name)
    predict(workload, load_gpu("mdm2020"), model)  # compile
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        predict(workload, machines, model)
        best = min(best, time.perf_counter() - start)
    return best


def seconds_for_loop(name: str, workload: Workload, machines: Gpu, count: int) -> float:
    """The same work one machine at a time, as a sweep without batches would do it."""
    model = warplens.get_model(name)
    singles = [
        load_gpu("mdm2020", {key: float(values[index]) for key, values in machines.overrides.items()})
        for index in range(count)
    ]
    start = time.perf_counter()
    for single in singles:
        predict(workload, single, model)
    return (time.perf_counter() - start) / count


def measure() -> list[Row]:
    workload, machines = divergent_workload(), many_machines()
    rows = []
    for name in warplens.model_names():
        if warplens.get_model(name).needs != "interval_profile":
            continue
        batch = seconds_for_batch(name, workload, machines)
        single = seconds_for_loop(name, workload, machines, 200)
        rows.append(
            Row(
                f"{name}: machines × 30 intervals",
                MACHINES / batch / 1e6,
                "M/s",
                "one predict per machine",
                single * MACHINES / batch,
                target=1.0,
            )
        )
    return rows
