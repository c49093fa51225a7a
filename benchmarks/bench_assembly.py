"""Accesses of PTX in the order of its machine code: against those in its own order, and against a whole prediction.

CPU time, kernels of the suite at size medium, executed on this CPU.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from run import Row

from warplens.analysis import collect_events
from warplens.api import predict
from warplens.suite.execution import run_on_cpu
from warplens.workload import workload_of_trace

KERNELS = ("matmul_naive", "spmv_csr", "lu_internal", "ray_tracing", "kmeans_assign")
LINE_BYTES = 128


def measure() -> list[Row]:
    _seconds_of(KERNELS[0])  # compiles
    plain, assembled, whole = (sum(column) for column in zip(*map(_seconds_of, KERNELS), strict=True))
    return [
        Row("accesses of PTX in its own order", plain, "s of CPU", "in that of its machine code", assembled / plain),
        Row("accesses of PTX in machine order", assembled, "s of CPU", "a prediction with them", whole / assembled),
    ]


def _seconds_of(name: str) -> tuple[float, ...]:
    """Accesses in either order, and a prediction from the trace."""
    trace = run_on_cpu(name, "medium", record=True).trace

    def collected(**order: bool) -> int:
        return sum(chunk.blocks for chunk in collect_events(trace, LINE_BYTES, lambda _: 4.0, **order))

    works: tuple[Callable[[], Any], ...] = (
        collected,
        lambda: collected(assembled=True),
        lambda: predict(workload_of_trace(trace), "h200"),
    )
    return tuple(map(_seconds, works))


def _seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start
