"""Workload files drafted from sources: what host code shows is used, the rest is guessed, and the file runs."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest

from warplens.api import load_workloads
from warplens.errors import WorkloadError
from warplens.frontends.cuda.draft import draft_of
from warplens.frontends.cuda.host_calls import HostCode
from warplens.frontends.cuda.signatures import kernel_source
from warplens.workload.trial import tried_draft

PROGRAM = """
#include <iostream>
#include <vector>
#define CEIL(a, b) (((a) + (b) - 1) / (b))
#define CHECK(x) do { if ((x) != cudaSuccess) exit(1); } while (0)
constexpr int TILE = 16;
typedef float real;
struct Shape { int rows, columns; };

template <typename T, int SIZE>
__global__ void scale(T *out, const T *__restrict__ in, const int *index, Shape shape, T by)
{
    int x = blockIdx.x * SIZE + threadIdx.x, y = blockIdx.y * SIZE + threadIdx.y;
    if (x < shape.columns && y < shape.rows)
        out[y * shape.columns + x] = by * in[index[x]];
}

void launch(real *d_out, real *d_in, int *d_index, int rows, int columns)
{
    dim3 block(TILE, TILE);
    dim3 grid(CEIL(columns, block.x), CEIL(rows, TILE));
    scale<real, TILE><<<grid, block>>>(d_out, d_in, d_index, Shape{rows, columns}, 2.0f);
}

int main(int argc, char **argv)
{
    const int rows = argc > 1 ? atoi(argv[1]) : 48, columns = 64;
    size_t bytes = rows * 64 * sizeof(real);
    real *d_out, *d_in; int *d_index;
    CHECK(cudaMalloc((void **)&d_out, bytes));
    CHECK(cudaMalloc(&d_in, bytes));
    CHECK(cudaMalloc(&d_index, 64 * sizeof(int)));
    launch(d_out, d_in, d_index, rows, 64);
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "program.cu"
    path.write_text(PROGRAM)
    return path


def test_a_draft_takes_what_host_code_shows(source: Path) -> None:
    draft = draft_of(source)
    table = tomllib.loads(draft.toml())["cuda"]
    assert (table["kernel"], table["grid"], table["block"]) == ("scale<float, 16>", [4, 3], [16, 16])
    out, into, index, shape, by = table["arguments"]
    assert out["shape"] == into["shape"] == [48 * 64]
    assert (index["shape"], index["fill"], index["high"]) == ([64], "random", 64)
    assert shape["members"] == [{"dtype": "int32", "value": 48}, {"dtype": "int32", "value": 64}]
    assert by == {"dtype": "float32", "value": 2.0}
    assert [each["name"] for each in draft.guesses] == ["index"]  # how large its values are
    assert "value = 2.0 # line 22" in draft.toml()


def test_a_draft_runs_as_it_is(source: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    trial = tried_draft(source)
    assert trial.failure is None
    path = source.with_suffix(".toml")
    path.write_text(trial.draft.toml())
    (workload,) = load_workloads(path)
    assert workload.launch.blocks == 12


def test_arrays_grow_until_the_kernel_stays_inside(tmp_path: Path) -> None:
    """And guesses get smaller where they would take too long."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    path = tmp_path / "k.cu"
    path.write_text(
        "namespace a { __global__ void k(float *x, const float *y, int n) {"
        " int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] = y[3 * i + 2]; } }"
        "__global__ void other() {}"
    )
    trial = tried_draft(path)
    assert trial.failure is None and trial.draft.kernel == "a::k" and trial.draft.kernels == ("k", "other")
    assert trial.draft.rows[1].shape[0] >= 3 << 20
    assert "guessed: so much is accessed" in trial.draft.toml()
    assert tried_draft(path, "other").draft.rows == ()
    with pytest.raises(WorkloadError, match=r"k\.cu: has no kernel 'othr'; did you mean 'other'"):
        draft_of(path, "othr")


def test_one_declaration_may_name_grid_and_block() -> None:
    text = "void f() { int w = 99; dim3 block(16, 4), grid((w + (block.x - 1)) / block.x, 2); k<<<grid, block>>>(w);"
    place = text.index("k<<<")
    host = HostCode(text)
    assert (host.value("grid", place), host.value("block", place)) == ((7, 2), (16, 4))


@pytest.mark.parametrize(
    "text",
    [
        "x = y + y; y = x + x; " * 300 + "k<<<x, x>>>(x);",
        "dim3 x(" * 3000 + ";k<<<x, x>>>(x);",
        "k<" * 5000 + "<<<",
        "__global__ void k(" * 1000,
    ],
)
def test_reading_a_source_takes_little_time_whatever_it_holds(text: str) -> None:
    host = HostCode(text)
    started = time.process_time()
    for launch in host.launches:
        assert host.value(launch.configuration[0], launch.position) is None
    assert kernel_source(text) == []
    assert time.process_time() - started < 5


def test_shared_memory_of_a_called_function_is_found(tmp_path):
    path = tmp_path / "sum.cu"
    path.write_text(
        "__device__ float* room() { extern __shared__ float held[]; return held; }\n"
        "__global__ void sum(float* out) { float* s = room(); s[threadIdx.x] = 1; __syncthreads();"
        " out[blockIdx.x * blockDim.x + threadIdx.x] = s[blockDim.x - 1 - threadIdx.x]; }\n"
    )
    trial = tried_draft(path)
    assert trial.failure is None and trial.draft.shared_bytes >= 4 * trial.draft.block[0]


def test_a_grid_that_is_a_product_of_guesses_is_guessed_itself(tmp_path):
    path = tmp_path / "fill.cu"
    path.write_text(
        "__global__ void fill(float* out, int n) { out[blockIdx.x * blockDim.x + threadIdx.x] = n; }\n"
        "void launch(float* out, unsigned rows, unsigned length) { fill<<<rows * length / 4, 256>>>(out, length); }\n"
    )
    trial = tried_draft(path)
    assert trial.failure is None and trial.draft.grid[0] <= 1 << 20


def test_a_block_of_one_extent_and_the_size_of_a_host_vector_have_values() -> None:
    text = (
        "struct Entry { unsigned key, value; };"
        "void f() { int n = 1000; dim3 block(128); dim3 grid((n + block.x - 1) / block.x);"
        " std::vector<float> a(n), b(2 * n, 1.0f); k<<<grid, block>>>(n);"
    )
    place = text.index("k<<<")
    host = HostCode(text)
    assert (host.value("grid", place), host.value("block.y", place)) == (8, 1)
    assert host.value("b.size() * sizeof(float)", place) == 8000
    assert host.value("n * sizeof(Entry)", place) == 8000
    assert host.value("b.capacity()", place) is None


def test_a_guessed_index_gets_smaller_where_the_array_has_its_size_from_the_source(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    path = tmp_path / "k.cu"
    path.write_text(
        "__global__ void k(const int *index, float *x) {"
        " int i = blockIdx.x * blockDim.x + threadIdx.x; x[index[i] * 8] = 1; }"
        "int main() { int *index; float *x; cudaMalloc(&index, 1024 * 4); cudaMalloc(&x, 256 * 8 * 4);"
        " k<<<8, 128>>>(index, x); }"
    )
    trial = tried_draft(path)
    index, x = trial.draft.rows
    assert trial.failure is None and x.shape == (2048,) and index.high == 256 and index.shape == (1024,)
    assert [each["name"] for each in trial.draft.guesses] == ["index"]

    path.write_text(path.read_text().replace("index[i] * 8", "4096 + index[i]"))  # no index is small enough
    index, x = tried_draft(path).draft.rows
    assert x.shape[0] >= 4096 + 1024 and x.is_guessed and index.high == 1024


def test_a_guessed_index_gets_smaller_where_it_leads_far_away(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    path = tmp_path / "k.cu"
    path.write_text(
        "__global__ void k(const int *pages, float *x) {"
        " int i = blockIdx.x * blockDim.x + threadIdx.x; x[(size_t)pages[i] * 65536 + threadIdx.x] = 1; }"
        "void f(int *pages, float *x) { k<<<512, 128>>>(pages, x); }"
    )
    trial = tried_draft(path)
    pages, _ = trial.draft.rows
    assert trial.failure is None and pages.high is not None and pages.high < 65536
