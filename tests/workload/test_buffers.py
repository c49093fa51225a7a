"""Buffers that arguments point into, arrays of pointers, narrow dtypes, and several launches of one file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warplens
from warplens.api import load_workload, load_workloads, trace
from warplens.errors import InputError, WorkloadError
from warplens.frontends.cuda.arguments import ArrayArgument
from warplens.frontends.cuda.dtypes import as_on_gpu, find_dtype
from warplens.tomlfile import read_toml
from warplens.traces import read_trace
from warplens.workload.source import cuda_launches_of, record_launch

SOURCE = """
struct View { float *data; int count; };
extern "C" __global__ void fill(View view, float by) { if (threadIdx.x < view.count) view.data[threadIdx.x] = by; }
extern "C" __global__ void gather(const float *const *parts, float *out) {
    out[threadIdx.x] = parts[threadIdx.x / 32][threadIdx.x % 32];
}
extern "C" __global__ void shift(float *to, const float *from) { to[threadIdx.x] = from[threadIdx.x]; }
"""
PIPELINE = """
[cuda]
source = "k.cu"
block = [64]
grid = [1]
[buffers.x]
dtype = "float32"
shape = [96]
[buffers.out]
dtype = "float32"
shape = [64]
[[launch]]
kernel = "fill"
[[launch.arguments]]
members = [{ buffer = "x", offset = 32 }, { dtype = "int32", value = 64 }]
[[launch.arguments]]
dtype = "float32"
value = 3.0
[[launch]]
name = "collect"
kernel = "gather"
[[launch.arguments]]
pointers = [{ buffer = "x" }, { buffer = "x", offset = 64 }]
[[launch.arguments]]
buffer = "out"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "w.toml").write_text(PIPELINE)
    return tmp_path


def test_launches_share_buffers_in_order(folder: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    buffers: dict[Any, Any] = {}
    launches = cuda_launches_of(read_toml(folder / "w.toml"))
    for launch in launches:
        record_launch(launch, buffers=buffers)
    x, out = (buffers[launches[0].buffers[name]] for name in ("x", "out"))
    assert x.tolist() == [0.0] * 32 + [3.0] * 64
    assert out.tolist() == [0.0] * 32 + [3.0] * 32
    workloads = load_workloads(folder / "w.toml")
    assert [(each.name, each.launch_index) for each in workloads] == [("fill", 0), ("collect", 1)]
    trace(folder / "w.toml", folder / "w.wlt")
    assert [each.header.launch_index for each in read_trace(folder / "w.wlt")] == [0, 1]
    with pytest.raises(InputError, match=r"holds 2 launches; use load_workloads"):
        load_workload(folder / "w.toml")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('buffer = "out"', 'buffer = "ou"'), "'ou' is no buffer; did you mean 'out'"),
        (("offset = 64", "offset = 96"), "96 lies beyond the 96 elements of buffer 'x'"),
        (('dtype = "float32"\nshape = [96]', 'dtype = "float32"\nvalue = 1.0'), "buffers.x: is no array"),
        (('pointers = [{ buffer = "x" }', 'pointers = [{ dtype = "int32", value = 1 }'), "points to an array"),
        (('dtype = "float32"\nvalue', 'dtype = "flot32"\nvalue'), "'flot32' is unknown; did you mean 'float32'"),
        (('dtype = "float32"\nvalue = 3.0', "value = 3.0"), "dtype: is missing; valid: bool, int8"),
        (('dtype = "float32"\nvalue', 'dtype = "half2"\nvalue'), "is a vector"),
    ],
)
def test_mistakes_are_named(folder: Path, change: tuple[str, str], message: str) -> None:
    (folder / "w.toml").write_text(PIPELINE.replace(*change, 1))
    with pytest.raises(WorkloadError, match=message):
        cuda_launches_of(read_toml(folder / "w.toml"))


def test_views_of_one_array_overlap_in_any_order(folder: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    x = np.arange(96, dtype=np.float32)
    warplens.cuda(folder / "k.cu").kernel("shift").launch(1, 32, x[16:80], x[:64])
    assert x[16:48].tolist() == list(range(32))


def test_a_structured_array_without_dimensions_is_a_struct_and_a_list_is_pointers(folder: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    source = warplens.cuda(
        "struct P { char c; double d; };"
        'extern "C" __global__ void k(P p, double **out) { out[p.c][threadIdx.x] = p.d; }'
    )
    given = np.zeros((), np.dtype([("c", "i1"), ("d", "f8")], align=True))
    given["c"], given["d"] = 1, 2.5
    first, second = np.zeros(32), np.zeros(32)
    source.kernel("k").launch(1, 32, given, [first, second])
    assert not first.any() and second.tolist() == [2.5] * 32


def test_narrow_numbers_are_those_of_ml_dtypes() -> None:
    pytest.importorskip("ml_dtypes")
    for name, size in (("bfloat16", 2), ("float8_e4m3fn", 1), ("float8_e5m2", 1)):
        dtype, lanes = find_dtype(name)
        made = ArrayArgument(dtype, (8,), "random", low=1.0, high=2.0).build()
        assert made.nbytes == 8 * size and lanes == 1 and (made.astype(np.float32) >= 1).all()
    assert find_dtype("bfloat162")[1] == find_dtype("half2")[1] == 2
    packed = ArrayArgument(find_dtype("int4")[0], (4,), "arange", start=-2)
    assert packed.nbytes == 2 and packed.build().tolist() == [0xFE, 0x10]
    assert as_on_gpu(np.arange(3, dtype=np.uint8)).tolist() == [0, 1, 2]
