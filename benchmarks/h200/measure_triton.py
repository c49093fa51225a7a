"""Times of the Triton examples on the GPU of this machine, as the predictions without one are compared with.

    python benchmarks/h200/measure_triton.py OUT.json

Needs PyTorch and Triton. Results are checked against NumPy before they are timed. The L2 is flushed before every
run, and the median of a hundred runs is kept. Writes after every example, so that a run that is cut is still good.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

FOLDER = Path(__file__).parents[2] / "examples" / "triton"
#: Examples and their sizes, from those of the tests to sizes that fill the GPU.
CASES: dict[str, list[dict[str, Any]]] = {
    "add": [{}, {"n": 1 << 24}],
    "softmax": [{}, {"rows": 4096, "columns": 1024}],
    "layer_norm": [{}, {"rows": 4096, "columns": 2048}],
    "matmul": [{}, {"config": 0}, {"size": 1024}, {"size": 2048, "config": 0}],
    "attention": [{}, {"heads": 16, "length": 1024}],
    "fused_mlp": [{}, {"rows": 1024, "hidden": 2048, "inner": 1024}],
    "persistent_matmul": [{}, {"size": 2048, "programs": 132}],
}
RUNS = 100


def tensors(arguments: Any) -> list[Any]:
    return [torch.from_numpy(each).cuda() if isinstance(each, np.ndarray) else each for each in arguments]


def median_seconds(launch: Any, flush: Any) -> float:
    """Median time of a launch that finds nothing of its data in the L2."""
    found = []
    for _ in range(RUNS):
        flush.zero_()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        launch()
        stop.record()
        torch.cuda.synchronize()
        found.append(start.elapsed_time(stop) / 1e3)
    return statistics.median(found)


def in_graph(launch: Any) -> Any:
    """The launch as a CUDA graph of one kernel: without the time that Python takes to launch."""
    launch()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        launch()
    return graph.replay


def measure(name: str, size: dict[str, Any], flush: Any) -> dict[str, Any]:
    case = importlib.import_module(name).example(**size)
    given = tensors(case.arguments)
    made: list[Any] = []

    def launch() -> None:
        made[:] = [case.kernel[case.grid](*given, **case.options)]

    launch()
    torch.cuda.synchronize()
    results = [each.cpu().numpy() if isinstance(each, torch.Tensor) else each for each in given]
    error = case.error(results)
    kernel = made[0]
    seconds = median_seconds(in_graph(launch), flush)
    used = {key: getattr(kernel, key, None) for key in ("n_regs", "n_spills")}
    return {
        "example": name,
        "size": size,
        "seconds": seconds,
        "error": error,
        "correct": error < case.tolerance,
        "shared_memory_bytes": kernel.metadata.shared,
        **used,
    }


def main(path: str) -> None:
    import triton

    sys.path.insert(0, str(FOLDER))
    flush = torch.empty(256 << 20, dtype=torch.int8, device="cuda")
    nothing = torch.empty(1, device="cuda")
    document: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(),
        "triton": triton.__version__,
        "torch": torch.__version__,
        "empty_graph_seconds": median_seconds(in_graph(lambda: nothing.zero_()), flush),
        "rows": [],
    }
    for name, sizes in CASES.items():
        for size in sizes:
            try:
                row = measure(name, size, flush)
            except Exception as error:
                row = {"example": name, "size": size, "failure": f"{type(error).__name__}: {error}"[:500]}
            print(row, flush=True)
            document["rows"].append(row)
            Path(path).write_text(json.dumps(document, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
