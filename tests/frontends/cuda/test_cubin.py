"""Cubins: the numbers are the assembler's own, and damaged files are refused."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.frontends.cuda import compile as compile_module
from warplens.frontends.cuda.compile import compile_cuda
from warplens.frontends.cuda.cubin import KernelResources, read_cubin, sections_of

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")

SOURCE = """
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
__device__ __noinline__ float slow(float x) { return sinf(x) * x; }
extern "C" __global__ void heavy(float *x, int k)
{
    __shared__ float s[300];
    float l[50];
    for (int i = 0; i < 50; i++)
        l[i] = x[i];
    s[threadIdx.x] = slow(l[k]);
    __syncthreads();
    x[k] = s[k] + l[k + 1] + sin((double)x[3]);
}
"""


def told_by_the_assembler(log: str) -> dict[str, KernelResources]:
    """The same numbers from the report of `ptxas -v`."""
    found = {}
    for part in re.split(r"Compiling entry function ", log)[1:]:
        name = re.match(r"'(\w+)'", part)
        registers = re.search(r"Used (\d+) registers", part)
        shared = re.search(r"(\d+) bytes smem", part)
        stack = re.search(r"(\d+) bytes stack frame", part)
        assert name and registers and stack
        found[name[1]] = KernelResources(int(registers[1]), int(shared[1]) if shared else 0, int(stack[1]))
    return found


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_100"])
@pytest.mark.parametrize("options", [(), ("-maxrregcount=24",)])
def test_the_numbers_are_the_assemblers(architecture: str, options: tuple[str, ...]) -> None:
    compiled = compile_cuda(SOURCE, architecture=architecture, options=["--ptxas-options=-v", *options], cached=False)
    told = told_by_the_assembler(compiled.log)
    assert set(told) == {"saxpy", "heavy"}
    assert told["heavy"].shared_memory_bytes == 1200 and told["heavy"].stack_bytes > 0
    assert dict(compiled.resources) == told


def test_a_cubin_of_nvcc_reads_the_same_way() -> None:
    """The source above, by `nvcc -cubin -arch=sm_90 -Xptxas -v` of CUDA 13.0."""
    data = Path(__file__).parent / "data"
    assembled = lzma.decompress((data / "nvcc.cubin.xz").read_bytes())
    assert read_cubin(assembled) == told_by_the_assembler((data / "nvcc.log").read_text())


def test_shared_memory_has_no_bytes_in_the_file() -> None:
    assembled = lzma.decompress((Path(__file__).parent / "data" / "nvcc.cubin.xz").read_bytes())
    absent = {section.name for section in sections_of(assembled) if not section.held}
    assert absent == {".nv.shared.heavy", ".nv.shared.reserved.0"}


@pytest.fixture(scope="module")
def cubin() -> bytes:
    """The machine code of the source above, as it comes out of the compiler."""
    kept = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_module, "read_cubin", lambda data: kept.append(data) or {})
        compile_cuda(SOURCE, cached=False)
    return kept[0]


def read_or_refuse(data: bytes) -> None:
    try:
        for name, resources in read_cubin(data).items():
            assert isinstance(name, str) and resources.registers_per_thread >= 0
            assert resources.shared_memory_bytes >= 0
    except ValueError as error:
        assert "cubin" in str(error)


def test_what_is_no_cubin_is_refused(cubin: bytes) -> None:
    assert set(read_cubin(cubin)) == {"saxpy", "heavy"}
    for data in (b"", b"\x7fELF", b"\x7fELF\x02\x01" + bytes(58), b"\x7fELF\x01" + cubin[5:], bytes(5000)):
        with pytest.raises(ValueError, match="cubin"):
            read_cubin(data)


@given(st.data())
def test_truncated_cubins_are_read_or_refused(cubin: bytes, data: st.DataObject) -> None:
    read_or_refuse(cubin[: data.draw(st.integers(0, len(cubin)))])


@given(st.data())
def test_mutated_cubins_are_read_or_refused(cubin: bytes, data: st.DataObject) -> None:
    damaged = bytearray(cubin)
    table = int.from_bytes(cubin[40:48], "little")
    places = st.one_of(st.integers(0, 63), st.integers(table, len(cubin) - 1), st.integers(0, len(cubin) - 1))
    for _ in range(data.draw(st.integers(1, 8))):
        damaged[data.draw(places)] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    read_or_refuse(bytes(damaged))


@given(st.binary(max_size=300))
def test_any_bytes_after_a_header_are_read_or_refused(tail: bytes) -> None:
    read_or_refuse(b"\x7fELF\x02\x01" + tail)
