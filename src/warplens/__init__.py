"""warplens predicts how fast a GPU kernel runs on a GPU you may not have, and explains why.

>>> import warplens
>>> warplens.predict("mdm-baseline", model="mdm").terms["batches"]
16.0
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .api import (
        Comparison,
        compare,
        compare_versions,
        explain,
        load_workload,
        load_workloads,
        predict,
        simulate,
        trace,
    )
    from .errors import InputError, WarplensError
    from .explanation import Answer, VersionComparison
    from .frontends.cuda.module import cuda
    from .frontends.ptx.tensor_maps import Im2col, Tiles
    from .frontends.ptx.textures import Texture
    from .frontends.triton import tensor
    from .machine import Gpu, gpu_names, load_gpu, occupancy
    from .models import Model, Prediction, get_model, model_names
    from .reports.build import make_report as report
    from .sweeps import run_sweep as sweep
    from .tuning import run_tuning as tune
    from .tuning.triton import triton
    from .workload import Launch, Workload, example_names

# Imported on first use, so that `import warplens` and the command line start at once. `module:name` where the name
# differs.
_HOMES = {
    "Comparison": "api",
    "Gpu": "machine",
    "InputError": "errors",
    "Launch": "workload",
    "Model": "models",
    "Prediction": "models",
    "Im2col": "frontends.ptx.tensor_maps",
    "Tiles": "frontends.ptx.tensor_maps",
    "Texture": "frontends.ptx.textures",
    "WarplensError": "errors",
    "Workload": "workload",
    "compare": "api",
    "compare_versions": "api",
    "VersionComparison": "explanation",
    "Answer": "explanation",
    "cuda": "frontends.cuda.module",
    "example_names": "workload",
    "explain": "api",
    "get_model": "models",
    "gpu_names": "machine",
    "load_gpu": "machine",
    "load_workload": "api",
    "load_workloads": "api",
    "model_names": "models",
    "occupancy": "machine",
    "predict": "api",
    "report": "reports.build:make_report",
    "simulate": "api",
    "sweep": "sweeps:run_sweep",
    "tensor": "frontends.triton",
    "trace": "api",
    "triton": "tuning.triton",
    "tune": "tuning:run_tuning",
}

__all__ = [
    "Answer",
    "Comparison",
    "Gpu",
    "Im2col",
    "InputError",
    "Launch",
    "Model",
    "Prediction",
    "Texture",
    "Tiles",
    "VersionComparison",
    "WarplensError",
    "Workload",
    "__version__",
    "compare",
    "compare_versions",
    "cuda",
    "example_names",
    "explain",
    "get_model",
    "gpu_names",
    "load_gpu",
    "load_workload",
    "load_workloads",
    "model_names",
    "occupancy",
    "predict",
    "report",
    "simulate",
    "sweep",
    "tensor",
    "trace",
    "triton",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'warplens' has no attribute {name!r}")
    home, _, renamed = _HOMES[name].partition(":")
    value = getattr(import_module(f".{home}", __name__), renamed or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
