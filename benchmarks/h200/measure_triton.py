"""Times of the Triton examples on the GPU of this machine, as the predictions without one are compared with.

    python3 benchmarks/h200/measure_triton.py measure OUT.json

Needs PyTorch, Triton and ncu; clocks are left as they are, caches are flushed. Results are checked against NumPy
before they are timed. What Triton compiled is kept beside OUT.json, as it depends on Triton's version.
"""

from __future__ import annotations

import importlib
import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from launching import profiled
from measure_examples import METRICS

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "triton"))
#: Examples and their sizes, from those of the tests to sizes that fill the GPU.
CASES: dict[str, list[dict[str, Any]]] = {
    "add": [{}, {"n": 1 << 24}],
    "softmax": [{}, {"rows": 4096, "columns": 1024}],
    "layer_norm": [{}, {"rows": 4096, "columns": 2048}],
    "matmul": [{}, {"config": 0}, {"size": 1024}, {"size": 2048, "config": 0}],
    "fp8_matmul": [{}, {"size": 2048, "config": 0}],
    "attention": [{}, {"heads": 16, "length": 1024}],
    "fused_mlp": [{}, {"rows": 1024, "hidden": 2048, "inner": 1024}],
    "persistent_matmul": [{}, {"size": 2048, "programs": 132}],
}
LABELS = [
    " ".join([name, *(f"{key}={value}" for key, value in size.items())])
    for name, sizes in CASES.items()
    for size in sizes
]
REPEATS = 5


def case_of(label: str) -> Any:
    name, *parts = label.split()
    size = {key: int(value) for key, _, value in (part.partition("=") for part in parts)}
    return importlib.import_module(name).example(**size)


def on_gpu(case: Any) -> list[Any]:
    import torch

    def moved(array: np.ndarray) -> Any:
        if array.dtype.name != "float8_e4m3fn":  # NumPy's own types
            return torch.from_numpy(array).cuda()
        return torch.from_numpy(array.view(np.uint8)).cuda().view(torch.float8_e4m3fn)

    return [moved(each) if isinstance(each, np.ndarray) else each for each in case.arguments]


def once(label: str) -> None:
    """One launch, for a tracer to record."""
    import torch

    case = case_of(label)
    case.kernel[case.grid](*on_gpu(case), **case.options)
    torch.cuda.synchronize()


def run_all(plan: Path) -> None:
    """Launch everything for ncu, and write down the order."""
    import torch
    import triton

    document: dict[str, Any] = {
        "gpu": torch.cuda.get_device_name(),
        "triton": triton.__version__,
        "launched": [],
        "failed": {},
        "examples": {},
    }
    with zipfile.ZipFile(plan.with_suffix(".compiled.zip"), "w", zipfile.ZIP_DEFLATED) as compiled:
        for label in LABELS:
            try:
                _run(label, document, compiled)
            except Exception as error:  # one that fails must not end the others
                document["failed"][label] = f"{type(error).__name__}: {error}"[:500]
            plan.write_text(json.dumps(document))
            print(label, document["failed"].get(label, ""), file=sys.stderr, flush=True)


def _run(label: str, document: dict[str, Any], compiled: zipfile.ZipFile) -> None:
    import torch

    case = case_of(label)
    given = on_gpu(case)
    kernel = case.kernel[case.grid](*given, **case.options)
    torch.cuda.synchronize()
    results = {index: given[index].cpu().numpy() for index in case.expected}
    error = case.error([results.get(index) for index in range(len(given))])
    document["examples"][label] = {"correct": error < case.tolerance, "shared_bytes": kernel.metadata.shared}
    for kind in ("ptx", "cubin"):
        compiled.writestr(f"{label}.{kind}", kernel.asm[kind])
    for _ in range(REPEATS):
        torch.cuda.cudart().cudaProfilerStart()
        case.kernel[case.grid](*given, **case.options)
        torch.cuda.synchronize()
        torch.cuda.cudart().cudaProfilerStop()
        document["launched"].append(label)


if __name__ == "__main__":
    command, argument = sys.argv[1:3]
    if command == "measure":
        Path(argument).write_text(json.dumps(profiled(__file__, Path(argument), METRICS)))
    elif command == "launch":
        run_all(Path(argument))
    else:
        once(argument)
