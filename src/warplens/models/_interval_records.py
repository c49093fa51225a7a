"""Records and constants that the interval models and their kernels share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


def _record(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.float64) for name in names])


#: A row of `warplens.analysis.IntervalProfile.matrix`.
INTERVAL = _record("instructions", "stall", "memory_instructions", "reads", "writes", "miss_ratio")
MACHINE = _record(
    "warps",
    "sms",
    "issue_rate",
    "mshrs",
    "llc_latency",
    "dram_latency",
    "noc_service",
    "dram_service",
    "miss_latency",
)
RESULT = _record(
    # Sums over the intervals.
    "nonoverlapped",
    "mshr",
    "noc",
    "dram",
    "divergent",
    "saturated",
    # Largest of all intervals.
    "utilisation",
    # Of the interval with the largest M.
    "concurrent",
    "memory_stall",
    "batches",
    "queue_wait",
    "requests",
)

# How the other warps hide a stall, the wait for MSHRs, the queues, and the requests in GPUMech's queues.
OPTIMISTIC, ROUND_ROBIN, ROUND_ROBIN_CORRECTED, GREEDY_THEN_OLDEST = range(4)
NO_MSHR, GPUMECH_MSHR, GPUMECH_MSHR_WITH_QUEUES, MDM_MSHR = range(4)
NO_QUEUE, GPUMECH_DRAM, GPUMECH_NOC_AND_DRAM, MDM_QUEUE, MDM_QUEUE_CAL2019 = range(5)
ALL_REQUESTS, MSHR_CAPPED = range(2)


class Terms(NamedTuple):
    """Which equations a model uses."""

    policy: int
    mshr: int
    queue: int
    requests: int
