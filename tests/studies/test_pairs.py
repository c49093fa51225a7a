"""Both kernels of every pair compute what NumPy computes."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warplens
from warplens.frontends.cuda.arguments import Argument, ScalarArgument
from warplens.workload.source import load_cuda_launch

FOLDER = Path(__file__).parents[2] / "examples" / "pairs"
PAIRS = tomllib.loads((FOLDER / "pairs.toml").read_text("utf-8"))


def _references():
    specification = importlib.util.spec_from_file_location("pair_references", FOLDER / "references.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


references = _references()
TURNED = {"n": 64, "matrix": [64, 64], "out": [64, 64], "grid": [2, 2]}
PRODUCT = {"n": 64, "inner": 96, "a": [64, 96], "b": [64, 96], "c": [64, 64]}
SAMPLES = {"values": [512], "out": [512], "grid": [2]}

#: Sizes for this test, by the names of the references' parameters; `cure` differs in what stands under that key.
SMALL: dict[str, dict[str, Any]] = {
    "transpose-loads": TURNED,
    "transpose-stores": TURNED,
    "transpose-conflicts": TURNED,
    "structures-loads": {"count": 500, "particles": [500, 16], "distance": [500], "grid": [2]}
    | {"cure": {"particles": [16, 500]}},
    "structures-stores": {"count": 500, "speed": [500], "records": [500, 16], "grid": [2]}
    | {"cure": {"records": [16, 500]}},
    "row-sums": {"rows": 500, "matrix": [500, 64], "sums": [500], "grid": [2]},
    "index-order": {"width": 64, "height": 64, "depth": 5, "volume": [5, 64, 64], "most": [64, 64], "grid": [2, 8]},
    "matmul-conflicts": PRODUCT | {"grid": [4, 4]},
    "private-counters": {"words": 3000, "values": [3000], "counts": [2, 16], "grid": [2]},
    "histogram-global": {"count": 3000, "values": [3000], "grid": [2]},
    "sum-atomics": {"count": 3000, "values": [3000], "grid": [2]},
    "segment-sums": {"count": 3000, "keys": [3000], "values": [3000], "sums": [6], "grid": [12]},
    "histogram-shared": {"count": 3000, "values": [3000], "weights": [3000], "bins": [2, 16], "grid": [2]},
    "few-blocks": {"columns": 3000, "matrix": [3, 3000], "norms": [3], "grid": [3], "cure": {"grid": [2, 3]}},
    "single-block": {"count": 3000, "values": [3000], "out": [3000], "cure": {"grid": [12]}},
    "tail-wave": {"count": 6000, "segment": 2048, "samples": [6000], "out": [6000], "grid": [3]}
    | {"cure": {"segment": 3072, "grid": [2]}},
    "uneven-waves": {
        "count": 6000,
        "piece": 2048,
        "start": [6000],
        "out": [6000],
        "grid": [3],
        "cure": {"grid": [2]},
    },
    "triangle": {"n": 200, "matrix": [200, 200], "x": [200], "y": [200], "grid": [2]},
    "occupancy-registers": {"threads": 512, "steps": 3, "x": [3, 512], "out": [3, 512], "grid": [2]},
    "occupancy-shared": {"count": 3000, "index": [3000], "out": [3000], "grid": [2]},
    "occupancy-block": {"threads": 512, "samples": 3, "values": [3, 512], "out": [512], "grid": [16]}
    | {"cure": {"grid": [2]}},
    "early-exit": {"threads": 512, "terms": 100, "series": [100, 512], "sums": [512], "grid": [2]},
    "dependent-gather": {"threads": 512, "steps": 8, "index": [8, 512], "sums": [512], "grid": [4]},
    "synchronous-tiles": {"columns": 128, "inner": 96, "a": [64, 96], "b": [96, 128], "c": [64, 128], "grid": [2, 1]},
    "column-filter": {"height": 64, "image": [128, 2048], "out": [64, 2048], "grid": [1, 64]}
    | {"cure": {"grid": [64, 1]}},
    "row-normalise": {"quads": 600, "rows": [3, 2400], "out": [3, 2400], "grid": [3]},
    "matmul-naive": PRODUCT | {"b": [96, 64], "grid": [4, 4], "cure": {"grid": [2, 2]}},
    "blur": {"width": 64, "height": 32, "image": [46, 78], "out": [32, 64], "grid": [2, 4], "cure": {"grid": [2, 1]}},
    "byte-image": {"count": 8000, "image": [8000], "out": [8000], "grid": [2]},
    "saxpy": {"count": 8000, "x": [8000], "y": [8000], "grid": [2]},
    "local-array": {"threads": 512, "samples": [32, 512], "least": [8, 512], "grid": [2]},
    "spills": {"threads": 512, "samples": 3, "values": [36, 512], "out": [78, 512], "grid": [2]},
    "lane-parity": {"samples": [512], "out": [512], "grid": [2]},
    "uneven-loops": {"samples": [2048], "out": [2048], "grid": [2]},
    "serial-sum": {"chunks": 5, "samples": [5, 256], "out": [5, 256], "grid": [2]},
    "double-literals": {"start": [512], "end": [512], "grid": [2]},
    "permute": {
        "channels": 3,
        "height": 10,
        "width": 40,
        "count": 2400,
        "values": [2, 3, 10, 40],
        "out": [2, 10, 3, 40],
    }
    | {"grid": [2], "cure": {"grid": [2, 3, 2]}},
    "ring-buffer": SAMPLES,
    "softplus": SAMPLES,
    "oscillators": {"phase": [512], "out": [512], "grid": [2]},
    "power": SAMPLES,
    "integer-counter": SAMPLES,
    "missed-fma": SAMPLES,
    "half-product": {"columns": 128, "inner": 64, "a": [64, 64], "b": [128, 64], "c": [64, 128], "grid": [2, 1]},
    "constant-table": {"count": 3000, "values": [3000], "out": [3000], "grid": [2]},
    "tiny-launch": {"count": 500, "batch": 3, "bias": [500], "values": [16, 500], "grid": [2]}
    | {"cure": {"batch": 16, "grid": [2, 16]}},
    "border-checks": {"width": 96, "height": 32, "image": [32, 96], "out": [32, 96], "grid": [3, 4]},
    "generic-table": {"steps": 20, "start": [256], "end": [256], "grid": [2]},
}


def test_every_file_belongs_to_a_pair():
    assert len(PAIRS) >= 34
    files = {path.name for path in FOLDER.iterdir() if path.suffix in (".cu", ".toml")}
    assert files == {
        "pairs.toml",
        *(f"{pair}{end}" for pair in PAIRS for end in (".cu", "-fault.toml", "-cure.toml")),
    }


def _resized(argument: Argument, size: int | list[int] | None) -> Argument:
    if size is None:
        return argument
    if isinstance(argument, ScalarArgument):
        return ScalarArgument(argument.value.dtype.type(size))
    return dataclasses.replace(argument, shape=tuple(size))


@pytest.mark.parametrize("kernel", ["fault", "cure"])
@pytest.mark.parametrize("pair", PAIRS)
def test_computes_what_numpy_computes(pair, kernel):
    sizes = SMALL[pair] | (SMALL[pair].get("cure", {}) if kernel == "cure" else {})
    launch = load_cuda_launch(FOLDER / f"{pair}-{kernel}.toml")
    names = inspect.signature(getattr(references, pair.replace("-", "_"))).parameters
    resized = [_resized(argument, sizes.get(name)) for name, argument in zip(names, launch.arguments, strict=False)]
    arguments = [argument.build() for argument in resized]
    constants = {name: np.asarray(argument.build()) for name, argument in launch.constants.items()}
    wanted = references.expected(pair, kernel, arguments, constants)
    warplens.cuda(FOLDER / f"{pair}.cu", options=launch.options).kernel(kernel).launch(
        sizes.get("grid", launch.grid),
        launch.block,
        *arguments,
        dynamic_shared_memory_bytes=launch.dynamic_shared_memory_bytes,
        constants=constants,
        record=False,
    )
    assert references.largest_error(arguments[-1], wanted) <= PAIRS[pair]["tolerance"]
