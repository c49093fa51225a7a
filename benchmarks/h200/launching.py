"""Kernels prepared for a GPU with CuPy, for the scripts beside this one."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.suite.catalog import SUITE
from warplens.suite.kernel import SuiteLaunch


@dataclass(frozen=True)
class Prepared:
    """A kernel with its inputs on the GPU."""

    name: str
    launch: SuiteLaunch
    function: Any
    inputs: list[Any]

    def __call__(self, shared_bytes: int | None = None) -> None:
        """Launch on fresh copies of the inputs, and wait."""
        import cupy

        arguments = [a.copy() if isinstance(a, cupy.ndarray) else a for a in self.inputs]
        shared = self.launch.dynamic_shared_memory_bytes if shared_bytes is None else shared_bytes
        self.function(self.launch.grid, self.launch.block, arguments, shared_mem=shared)
        cupy.cuda.Device().synchronize()


def prepared(name: str, launch: SuiteLaunch) -> Prepared:
    """Compile a kernel of the suite and upload what it reads."""
    kernel = SUITE[name]
    return uploaded(name, launch, kernel.source_text(), kernel.entry, ("-std=c++17", *kernel.options))


def uploaded(name: str, launch: SuiteLaunch, source: str, entry: str, options: tuple[str, ...]) -> Prepared:
    """Compile a source and upload what its kernel reads."""
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()
    module = cupy.RawModule(code=source, options=options, backend="nvrtc")
    for symbol, values in launch.constants.items():
        cupy.ndarray(values.shape, values.dtype, module.get_global(symbol))[...] = cupy.asarray(values)
    inputs = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in launch.arguments]
    return Prepared(name, launch, module.get_function(entry), inputs)


def profiled(script: str, output: Path, metrics: Mapping[str, str]) -> dict[str, Any]:
    """Run `script launch PLAN` under ncu; what it wrote to the plan, and a row of metrics for each launch."""
    plan, report = output.with_suffix(".plan.json"), output.with_suffix(".ncu.csv")
    options = ["--clock-control", "none", "--profile-from-start", "off", "--csv", "--page", "raw"]
    options += ["--print-units", "base", "--metrics", ",".join(metrics.values()), "--log-file", str(report)]
    subprocess.run(["ncu", *options, sys.executable, script, "launch", str(plan)], check=False)
    lines = [line for line in report.read_text().splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))[1:]  # the first one holds units
    found: dict[str, Any] = json.loads(plan.read_text())
    found["rows"] = [
        {"kernel_name": row["Kernel Name"], **{name: row.get(metric, "") for name, metric in metrics.items()}}
        for row in rows
    ]
    print(f"{len(found['launched'])} launches, {len(rows)} measured; failed: {found['failed']}")
    return found


if __name__ == "__main__":  # KERNEL SIZE: one launch, for a tracer to record
    prepared(sys.argv[1], SUITE[sys.argv[1]].prepare(sys.argv[2]))()
