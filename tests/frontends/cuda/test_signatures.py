"""Kernels and parameters read off a source, and the launch that they suggest."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.api import load_workloads
from warplens.errors import FileError
from warplens.frontends.cuda.signatures import signatures


def test_parameters_are_read_off_the_source() -> None:
    source = """
    __global__ void one(const float *__restrict__ x, unsigned long long n, int8_t flags[], half h /* last */) {}
    template <class T> __global__ void __launch_bounds__(128) two(T *x) {}
    """
    one, two = signatures(source)
    assert [(p["name"], p["pointer"], p["dtype"]) for p in one["parameters"]] == [
        ("x", True, "float32"),
        ("n", False, "uint64"),
        ("flags", True, "int8"),
        ("h", False, "float16"),
    ]
    assert two == {"kernel": "two", "parameters": [{"name": "x", "pointer": True, "dtype": None}]}


def test_a_source_in_place_of_a_workload_file_is_answered_with_a_launch(tmp_path: Path) -> None:
    """Which runs as it is, once saved."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    source = tmp_path / "add.cu"
    source.write_text(
        "__global__ void add(const float *a, float *b, float by, int n)"
        " { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) b[i] += by * a[i]; }"
    )
    with pytest.raises(FileError, match=r"add\.cu: is a CUDA source; .*Save this as .*add\.toml") as caught:
        load_workloads(source)
    (tmp_path / "add.toml").write_text(str(caught.value).partition("\n\n")[2])
    (workload,) = load_workloads(tmp_path / "add.toml")
    assert workload.launch.blocks == 1024
    (tmp_path / "none.cu").write_text("int x;")
    with pytest.raises(FileError, match='kernel = ""'):
        load_workloads(tmp_path / "none.cu")
