"""The kernels of examples/cuda that use tensor cores, TMA, clusters and CUB, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from warplens.workload.source import launch_parameters, load_cuda_launch, record_launch

FOLDER = Path(__file__).parents[3] / "examples" / "cuda"
Arrays = list[np.ndarray[Any, Any]]


def products(transposed: bool) -> Callable[[Arrays], None]:
    def check(arrays: Arrays) -> None:
        a, b, c = (each.astype(np.float64) for each in arrays[:3])
        np.testing.assert_allclose(c, a @ (b.T if transposed else b), atol=1e-4)

    return check


def attention(arrays: Arrays) -> None:
    q, k, v, out = (each.astype(np.float64).reshape(2, 256, 64) for each in arrays[:4])
    scores = np.einsum("hid,hjd->hij", q, k) / 8
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(out, weights / weights.sum(-1, keepdims=True) @ v, atol=1e-4)


def sorted_blocks(arrays: Arrays) -> None:
    given = np.random.default_rng(3).integers(0, 1 << 32, 32768, np.uint32)
    np.testing.assert_array_equal(arrays[0].reshape(64, 512), np.sort(given.reshape(64, 512), axis=1))


def sums(arrays: Arrays) -> None:
    np.testing.assert_allclose(arrays[1], arrays[0].reshape(8, -1).sum(1), rtol=1e-5)


CHECKS = {
    "wmma": products(transposed=False),
    "mma_pipeline": products(transposed=True),
    "warp_specialised": products(transposed=True),
    "attention": attention,
    "block_sort": sorted_blocks,
    "cluster_sum": sums,
}


#: The others compile as long as these together.
FAST = ("warp_specialised", "block_sort", "cluster_sum")


@pytest.mark.parametrize(
    "name", [name if name in FAST else pytest.param(name, marks=pytest.mark.slow) for name in CHECKS]
)
def test_results(name: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    launch = load_cuda_launch(FOLDER / f"{name}.toml")
    parameters = launch_parameters(launch)
    record_launch(launch, parameters=parameters)
    CHECKS[name]([getattr(each, "array", each) for each in parameters])
