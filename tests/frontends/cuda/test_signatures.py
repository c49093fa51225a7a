"""Kernels and parameters read off a source, and the launch that they suggest."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.api import load_workloads
from warplens.errors import FileError, WarplensError
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
    assert two == {
        "kernel": "two",
        "parameters": [{"name": "x", "pointer": True, "dtype": None, "type": "T"}],
        "template": [{"name": "T", "kind": "type", "default": ""}],
    }


def test_templates_and_structs_say_what_they_need() -> None:
    source = """
    struct Grid { int width, height; const float *cells; float weights[2]; };
    typedef struct { double x; } Point;
    template <typename T, int TILE = 4>
    __global__ void step(T *out, Grid grid, const Point point, float4 colour) {}
    """
    (found,) = signatures(source)
    assert [(each["name"], each["kind"], each["default"]) for each in found["template"]] == [
        ("T", "type", ""),
        ("TILE", "value", "4"),
    ]
    members = {each["name"]: each.get("members") for each in found["parameters"]}
    assert members["out"] is None
    assert [(each["name"], each["pointer"], each["dtype"]) for each in members["grid"]] == [
        ("width", False, "int32"),
        ("height", False, "int32"),
        ("cells", True, "float32"),
        ("weights[0]", False, "float32"),
        ("weights[1]", False, "float32"),
    ]
    assert [each["dtype"] for each in members["point"]] == ["float64"]
    assert "".join(each["name"] for each in members["colour"]) == "xyzw"


def test_a_struct_is_passed_by_value(tmp_path: Path) -> None:
    """Members lie where C++ puts them: the pointer at 8, the double at 24, a struct inside at its own alignment."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    (tmp_path / "k.cu").write_text(
        "struct Inner { char c; double d; }; struct Args { int n; float *out; char flag; Inner inner; };"
        "__global__ void k(Args a) { int i = threadIdx.x; if (i < a.n && a.flag == 7 && a.inner.c == 3)"
        " a.out[i] = (float)a.inner.d; else a.out[1000000] = 0; }"
    )
    (tmp_path / "k.toml").write_text(
        '[cuda]\nsource = "k.cu"\ngrid = [1]\nblock = [32]\n[[cuda.arguments]]\nmembers = ['
        '{ dtype = "int32", value = 32 }, { dtype = "float32", shape = [32] }, { dtype = "int8", value = 7 },'
        '{ members = [{ dtype = "int8", value = 3 }, { dtype = "float64", value = 2.5 }] }]\n'
    )
    (workload,) = load_workloads(tmp_path / "k.toml")  # another layout would leave the array
    assert workload.trace is not None
    text = (tmp_path / "k.toml").read_text()
    (tmp_path / "k.toml").write_text(text.replace(', { dtype = "int8", value = 7 }', ""))
    with pytest.raises(WarplensError, match="32 bytes, where the kernel expects 40"):
        load_workloads(tmp_path / "k.toml")


def test_a_source_in_place_of_a_workload_file_is_answered_with_a_launch(tmp_path: Path) -> None:
    """Which runs as it is, once saved."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    source = tmp_path / "add.cu"
    source.write_text(
        "__global__ void add(const float *a, float *b, float by, int n)"
        " { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) b[i] += by * a[i]; }"
    )
    with pytest.raises(FileError, match=r"add\.cu: is a CUDA source; .*warplens init .*add\.toml") as caught:
        load_workloads(source)
    (tmp_path / "add.toml").write_text(str(caught.value).partition("\n\n")[2])
    (workload,) = load_workloads(tmp_path / "add.toml")
    assert workload.launch.blocks == 4096
    (tmp_path / "none.cu").write_text("int x;")
    with pytest.raises(WarplensError, match="no __global__ function"):
        load_workloads(tmp_path / "none.cu")
