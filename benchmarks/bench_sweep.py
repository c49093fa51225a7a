"""Sweeps over the 16 kernels of data/accelsim, against the evaluation times of MDM's Table II.

The paper's recurrent cost of 1000 configurations is 1.4 days for 17 benchmarks
(cache simulation and equations; the traces and representative warps are its
one-time cost). Each sweep writes its Parquet file. The second one starts with
an empty cache folder; the first and the third are run after a pass that parses
the traces and simulates the caches, as the paper's one-time cost does.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from run import Row

from warplens.api import load_workloads
from warplens.models import MODELS
from warplens.sweeps import run_sweep
from warplens_studies.validate import accelsim

#: Recurrent cost of MDM for 1000 configurations (mdm-micro2020, Table II), per benchmark of its 17.
PAPER_SECONDS = 1.4 * 86400 / 17
PAPER = "Table II per kernel"
OWN = "warplens"
#: The papers' models; our own follows thread blocks through a network and is measured separately.
INTERVAL_MODELS = [name for name, model in MODELS.items() if model.needs == "interval_profile" and name != OWN]
CONTENTION: dict[str, Any] = {
    "dram.bandwidth": "200GB/s:1000GB/s",
    "noc.bandwidth": "500GB/s:2000GB/s",
    "l1.mshrs": "32,64,128,256",
}
LATENCIES: dict[str, Any] = {"llc.latency": "80:240", "dram.latency": "100:400", "clock": "0.8GHz:2GHz"}
#: All distinct: 1000 cache simulations of each kernel.
CACHES: dict[str, Any] = {"sms": "7:56", "l1.size": "12KiB:96KiB:6KiB", "llc.size": "768KiB:6MiB:192KiB"}


def timed(folder: Path, inputs: Any, vary: dict[str, Any], models: list[str], sample: int) -> tuple[float, float]:
    """(elapsed seconds, CPU seconds); other load on the machine hardly changes the latter."""
    output = folder / f"{time.monotonic_ns()}.parquet"
    start, cpu = time.perf_counter(), time.process_time()
    result = run_sweep(inputs, accelsim.GPU, vary, models=models, sample=sample, output=output)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    assert result.errors == 0, result
    return seconds, cpu


def measure() -> list[Row]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = os.environ.get("WARPLENS_CACHE_DIR")
        os.environ["WARPLENS_CACHE_DIR"] = str(folder / "cache")
        try:
            return _measure(folder)
        finally:
            if before is None:
                del os.environ["WARPLENS_CACHE_DIR"]
            else:
                os.environ["WARPLENS_CACHE_DIR"] = before


def _measure(folder: Path) -> list[Row]:
    names = accelsim.kernels()
    paths = [accelsim.trace_path(kernel) for kernel in names]
    paper = PAPER_SECONDS * len(names)
    million_paper = 1000 * PAPER_SECONDS
    first = timed(folder, paths, {"l1.mshrs": CONTENTION["l1.mshrs"]}, INTERVAL_MODELS, 4)
    workloads = [workload for path in paths for workload in load_workloads(path)]
    warm = timed(folder, workloads, CONTENTION | LATENCIES, INTERVAL_MODELS, 1000)
    cold = timed(folder, paths, CONTENTION | LATENCIES | CACHES, INTERVAL_MODELS, 1000)
    again = timed(folder, paths, CONTENTION | LATENCIES | CACHES, INTERVAL_MODELS, 1000)
    own = timed(folder, workloads, CONTENTION | LATENCIES, [OWN], 20)
    (strided,) = load_workloads(accelsim.trace_path("strided32"))
    million = timed(folder, strided, CONTENTION, ["mdm"], 1_000_000)
    rows = []
    for what, (seconds, cpu), reference, target in (
        ("traces parsed, caches simulated for 4 MSHR counts", first, paper, None),
        (f"1000 configurations x {len(INTERVAL_MODELS)} models", warm, paper, 5.0),
        ("1000 that change SMs and cache sizes, cold", cold, paper, 300.0),
        ("the same again into another file", again, paper, None),
        ("20 configurations, our own model", own, 0.02 * paper, None),
        ("1 000 000 contention-only, one kernel, MDM", million, million_paper, 10.0),
    ):
        rows.append(Row(what, seconds, "s", PAPER, reference / seconds, target, True))
        rows.append(Row("  CPU time of it", cpu, "s", PAPER, reference / cpu))
    return rows
