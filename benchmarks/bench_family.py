"""L2 caches that differ only in their ways: one pass by stack distances against one simulation each.

CPU time over the 16 kernels of data/accelsim, round-robin order; both give the same counters.
"""

from __future__ import annotations

import time

import numpy as np
from run import Row

from warplens.analysis import cache_run, collect_events, instruction_kinds, simulate_caches, simulate_family
from warplens.api import load_workloads
from warplens.machine import load_gpu
from warplens.workload import resident
from warplens_studies.validate import accelsim

#: Bytes of one way of the machine's L2: the number of sets stays the same.
WAY_BYTES = 3 * 2**20 // 8
ORDER = "round-robin"


def measure() -> list[Row]:
    inputs = []
    for kernel in accelsim.kernels():
        (workload,) = load_workloads(accelsim.trace_path(kernel))
        gpu = load_gpu(accelsim.GPU)
        trace = workload.trace  # type: ignore[attr-defined]
        events = list(collect_events(trace, int(gpu.l1.line_bytes), lambda _: 0.0))
        blocks = int(np.floor(np.max(resident(workload.launch, gpu).blocks_per_sm)))
        inputs.append((events, instruction_kinds(trace.static), blocks))
    rows = []
    for count in (4, 8, 16):
        ways = [2 * (index + 1) for index in range(count)]
        gpus = [load_gpu(accelsim.GPU, {"llc.ways": each, "llc.size": WAY_BYTES * each}) for each in ways]
        together = apart = 0.0
        for events, kinds, blocks in inputs:
            runs = [cache_run(gpu, gpu, blocks, order=ORDER) for gpu in gpus]
            simulate_family(events, kinds, runs)  # compile, and load the events
            start = time.process_time()
            found = simulate_family(events, kinds, runs)
            middle = time.process_time()
            alone = [simulate_caches(events, kinds, run) for run in runs]
            apart += time.process_time() - middle
            together += middle - start
            assert all(np.array_equal(a.counters, b.counters) for a, b in zip(found, alone, strict=True))
        what = f"LLCs of {count} numbers of ways, in one pass"
        rows.append(Row(what, together, "s of CPU", "one simulation each", apart / together))
    return rows
