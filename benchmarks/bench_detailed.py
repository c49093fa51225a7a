"""The detailed simulator: the kernels of the validation data, against the CPU time the third-party simulator took."""

from __future__ import annotations

import time

from run import Row

from warplens.api import load_workload
from warplens.machine import load_gpu
from warplens.simulators.detailed import simulate_detailed
from warplens_studies.validate import accelsim


def measure() -> list[Row]:
    gpu = load_gpu(accelsim.GPU)
    workloads = {kernel: load_workload(accelsim.trace_path(kernel)) for kernel in accelsim.kernels()}
    simulate_detailed(workloads["stencil"], gpu)  # compile
    start = time.process_time()
    for workload in workloads.values():
        simulate_detailed(workload, gpu)
    seconds = time.process_time() - start
    theirs = sum(accelsim.measurements()["base", kernel].simulator_cpu_seconds for kernel in workloads)
    return [
        Row(
            f"detailed: {len(workloads)} kernels of `accelsim` at base",
            seconds,
            "s CPU",
            "Accel-Sim",
            theirs / seconds,
        ),
        Row("detailed: times faster", theirs / seconds, "×", "Accel-Sim", theirs / seconds, target=50.0),
    ]
