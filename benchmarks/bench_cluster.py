"""Scheduling overhead of a sweep on a Dask cluster: two workers on this machine.

Workers note when they compute. The rest of the time between their first and last
unit is overhead: messages, transfer of rows, waiting for the next unit. Every
configuration simulates its caches, as in sweeps that are worth a cluster.
"""

from __future__ import annotations

import os
import tempfile
from collections import defaultdict
from typing import Any

from run import Row

from warplens.api import load_workloads
from warplens.sweeps import run_sweep
from warplens_studies.validate import accelsim

VARY: dict[str, Any] = {"sms": "2:60:1", "l1.size": "12KiB:96KiB:12KiB"}


def measure() -> list[Row]:
    from distributed import Client, LocalCluster

    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("WARPLENS_CACHE_DIR")
        os.environ["WARPLENS_CACHE_DIR"] = folder
        try:
            with (
                LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
                Client(cluster, set_as_default=False) as client,
            ):
                return _measure(cluster.scheduler_address, client)
        finally:
            del os.environ["WARPLENS_CACHE_DIR"]
            if before is not None:
                os.environ["WARPLENS_CACHE_DIR"] = before


def _measure(address: str, client: Any) -> list[Row]:
    from distributed import get_task_stream

    kernels = [accelsim.trace_path(name) for name in ("graph", "stencil")]
    workloads = [each for path in kernels for each in load_workloads(path)]
    run_sweep(workloads, accelsim.GPU, {"sms": [3, 5]}, models=["mdm"], scheduler=address)  # code is loaded
    with get_task_stream(client) as stream:
        run_sweep(workloads, accelsim.GPU, VARY, models=["mdm", "gpumech"], scheduler=address)
    computing: dict[str, float] = defaultdict(float)
    spans: dict[str, list[float]] = defaultdict(list)
    for task in stream.data:
        for part in task["startstops"]:
            spans[task["worker"]] += [part["start"], part["stop"]]
            if part["action"] == "compute":
                computing[task["worker"]] += part["stop"] - part["start"]
    whole = sum(max(times) - min(times) for times in spans.values())
    share = 1.0 - sum(computing.values()) / whole
    units = len(stream.data)
    return [
        Row(f"scheduling of {units} units, part of the workers' time", share, "", target=0.05, lower_is_better=True),
        Row("mean time of a unit", sum(computing.values()) / units, "s"),
        Row("scheduling per unit", (whole - sum(computing.values())) / units, "s"),
    ]
