"""Our own model once caches are simulated: CPU time of a configuration, for each kernel of data/accelsim.

A batch of 64 configurations that differ in the bandwidths of DRAM and NoC, and a single
one, which includes preparing the demand. The peer is Accel-Sim's own CPU time.
"""

from __future__ import annotations

import time

import numpy as np
from run import Row

from warplens.api import load_workloads, predict
from warplens.machine import Gpu, load_gpu
from warplens.models import get_model
from warplens.workload import Workload
from warplens_studies.validate import accelsim

CONFIGURATIONS = 64
REPEATS = 5
PEER = "Accel-Sim"


def milliseconds(workload: Workload, gpu: Gpu) -> float:
    """Fewest CPU milliseconds of a few predictions, after one that compiles and simulates the caches."""
    model = get_model("warplens")
    predict(workload, gpu, model)
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        predict(workload, gpu, model)
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def measure() -> list[Row]:
    random = np.random.default_rng(2020)
    bandwidths = {
        "dram.bandwidth": random.uniform(240e9, 960e9, CONFIGURATIONS),
        "noc.bandwidth": random.uniform(525e9, 2100e9, CONFIGURATIONS),
    }
    rows, alone, simulated = [], 0.0, 0.0
    for kernel in accelsim.kernels():
        (workload,) = load_workloads(accelsim.trace_path(kernel))
        each = milliseconds(workload, load_gpu(accelsim.GPU, bandwidths)) / CONFIGURATIONS
        peer = 1e3 * accelsim.measurements()["base", kernel].simulator_cpu_seconds
        rows.append(Row(kernel, each, "ms of CPU", PEER, peer / each, 1.0, True))
        alone += milliseconds(workload, load_gpu(accelsim.GPU))
        simulated += peer
    mean = alone / len(rows)
    return [*rows, Row("one configuration alone, mean of the kernels", mean, "ms of CPU", PEER, simulated / alone)]
