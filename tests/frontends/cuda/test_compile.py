"""CUDA C++ through NVRTC: what comes out, what is kept, and what the errors say."""

from __future__ import annotations

import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import warplens
from warplens import result_cache as cache
from warplens.errors import CompileError, FileError, MissingPackageError
from warplens.frontends.cuda import compile as compile_module
from warplens.frontends.cuda.compile import compile_cuda, kernel_names
from warplens.result_cache import cache_folder, content_hash, open_results

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")

SAXPY = """
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
"""


def message(source: str, **arguments: object) -> str:
    with pytest.raises(CompileError) as caught:
        compile_cuda(source, **arguments)  # type: ignore[arg-type]
    text = str(caught.value)
    assert "\n" not in text and "warplens_source" not in text
    return text


def test_a_kernel_becomes_ptx_with_the_users_lines() -> None:
    compiled = compile_cuda(SAXPY, name="folder/saxpy.cu")
    assert ".entry saxpy(" in compiled.ptx and compiled.log == ""
    assert re.search(r'\.file\s+1 "folder/saxpy\.cu"', compiled.ptx)
    lines = {int(line) for line in re.findall(r"\.loc\s+1 (\d+)", compiled.ptx)}
    assert {4, 5, 6} <= lines <= set(range(2, 8))
    assert compiled.compiler.startswith("NVRTC 1")


def test_templates_are_found_by_name_expressions() -> None:
    source = "namespace a { template <class T, int N> __global__ void scale(T *x) { x[threadIdx.x] *= N; } }"
    wanted = ("a::scale<float, 3>", "&a::scale<double, 2>")
    compiled = compile_cuda(source, kernels=wanted)
    assert set(compiled.lowered_names) == set(wanted)
    for lowered in compiled.lowered_names.values():
        assert f".entry {lowered}(" in compiled.ptx
        assert compiled.registers[lowered] > 0


def test_a_kernel_has_its_own_name_in_the_ptx() -> None:
    kernel = warplens.cuda("__global__ void fill(float *x) { x[threadIdx.x] = 1.0f; }").kernel("fill")
    assert kernel.entry == "_Z4fillPf" and kernel.registers_per_thread
    assert warplens.cuda(kernel.compiled.ptx).kernel("_Z4fillPf").entry == "_Z4fillPf"


def test_a_virtual_architecture_has_no_registers() -> None:
    compiled = compile_cuda(SAXPY, architecture="compute_90")
    assert compiled.resources == {} and ".target sm_90" in compiled.ptx


@pytest.mark.parametrize(
    "header, use",
    [
        ("cstdint", "uint64_t v = x[0]; x[1] = (int)(v >> 3);"),
        ("stdint.h", "int8_t v = x[0]; x[1] = v;"),
        ("math.h", "x[0] = (int)(sqrtf((float)x[1]) * M_PI); if (x[2] > INFINITY) x[3] = 1;"),
        ("climits", "x[0] = INT_MAX;"),
        ("cfloat", "x[0] = (int)(FLT_EPSILON * 1e9f);"),
        ("stdio.h", 'printf("%d", x[0]);'),
        ("cuda_runtime.h", "x[0] = make_float2(1.0f, 2.0f).x;"),
        ("cuda_fp16.h", "x[0] = (int)__half2float(__hadd(__float2half(x[1]), __float2half(2.0f)));"),
        ("cuda_bf16.h", "x[0] = (int)__bfloat162float(__float2bfloat16(x[1]));"),
        ("mma.h", "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> f; x[0] = f.num_elements;"),
    ],
)
def test_usual_headers_need_no_toolkit(header: str, use: str) -> None:
    compiled = compile_cuda(f'#include <{header}>\nextern "C" __global__ void f(int *x) {{ {use} }}')
    assert ".entry f(" in compiled.ptx


def test_includes_are_found_beside_the_source_and_noticed_when_they_change(tmp_path: Path) -> None:
    folder = tmp_path / "a folder é"
    (folder / "deep").mkdir(parents=True)
    (folder / "one.h").write_text('#include "deep/two.h"\n')
    (folder / "deep" / "two.h").write_text('#include "three.h"\n')
    (folder / "deep" / "three.h").write_text("#define VALUE 41\n")
    source = '#include "one.h"\nextern "C" __global__ void f(int *x) { x[0] = VALUE; }'
    first = compile_cuda(source, folder=folder)
    assert "41" in first.ptx and not first.from_cache
    assert compile_cuda(source, folder=folder).from_cache
    (folder / "deep" / "three.h").write_text("#define VALUE 42\n")
    changed = compile_cuda(source, folder=folder)
    assert "42" in changed.ptx and not changed.from_cache
    other = compile_cuda(source.replace("one.h", "two.h"), folder=folder, options=["-I", "deep"])
    assert "42" in other.ptx


def test_the_current_folder_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stray.h").write_text("#define VALUE 1\n")
    monkeypatch.chdir(tmp_path)
    assert '"stray.h"' in message('#include "stray.h"\nextern "C" __global__ void f(int *x) { x[0] = VALUE; }')


def test_an_include_that_only_the_preprocessor_knows_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "v.h").write_text("#define VALUE 1\n")
    source = '#define NAME "v.h"\n#include NAME\nextern "C" __global__ void f(int *x) { x[0] = VALUE; }'
    compile_cuda(source, folder=tmp_path)
    assert not compile_cuda(source, folder=tmp_path).from_cache
    by_option = {"options": [f"--pre-include={tmp_path / 'v.h'}"]}
    source = 'extern "C" __global__ void f(int *x) { x[0] = VALUE; }'
    compile_cuda(source, **by_option)  # type: ignore[arg-type]
    assert not compile_cuda(source, **by_option).from_cache  # type: ignore[arg-type]


def test_what_is_kept_depends_on_everything_but_the_name() -> None:
    source = SAXPY + "// kept"
    first = compile_cuda(source, name="one.cu")
    again = compile_cuda(source, name='tw"o.cu')
    assert not first.from_cache and again.from_cache
    assert again.ptx == first.ptx.replace("one.cu", "tw'o.cu") and again.resources == first.resources
    assert not compile_cuda(source, options=["-DN=1"]).from_cache
    assert not compile_cuda(source, architecture="sm_80").from_cache
    assert not compile_cuda(source, kernels=["saxpy"]).from_cache
    assert not compile_cuda(source, cached=False).from_cache


def test_a_damaged_entry_is_made_again() -> None:
    source = SAXPY + "// damaged"
    compile_cuda(source)
    newest = max((cache_folder() / "nvrtc").glob("*/*.entry"), key=lambda path: path.stat().st_mtime_ns)
    for wrong in ("", "{", "[]", "{}", '{"ptx": 3, "log": "", "lowered_names": {}, "resources": {}}'):
        newest.write_text(wrong)
        assert not compile_cuda(source).from_cache
    assert compile_cuda(source).from_cache


def _write_often(key: str) -> None:
    for index in range(50):
        open_results("test").put(key, {"value": str(index) * 20_000})


def test_several_writers_leave_a_whole_entry() -> None:
    key = content_hash(["several writers"])
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_often, args=(key,)) for _ in range(2)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        entry = open_results("test").get(key)
        assert entry is None or len(set(entry["value"])) <= 2
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert set(open_results("test").get(key)["value"]) == {"4", "9"}  # type: ignore[index]
    assert [path.name for path in (cache_folder() / "test").glob("*/*")] == [f"{key}.entry"]


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WARPLENS_CACHE_DIR", str(tmp_path / "file"))
    assert ".entry saxpy(" in compile_cuda(SAXPY).ptx
    assert "set WARPLENS_CACHE_DIR to a folder" in message("#include <cuda_fp16.h>\n" + SAXPY)


def test_parts_of_a_hash_do_not_run_together() -> None:
    assert content_hash(["ab", "c"]) != content_hash(["a", "bc"]) != content_hash(["abc"])


@pytest.mark.parametrize("platform, folder", [("linux", "/x/warplens"), ("darwin", "Library/Caches/warplens")])
def test_the_cache_is_in_the_users_folder(platform: str, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WARPLENS_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_folder().as_posix().endswith(folder)


def test_errors_name_the_place_and_the_reason() -> None:
    source = '\n\nextern "C" __global__ void f(int *x) {\n  x[0] = y;\n  z();\n}'
    assert message(source, name="a/b.cu") == 'a/b.cu:4: identifier "y" is undefined (and 1 more error)'


def test_errors_of_host_code_in_a_kernel_say_what_to_do() -> None:
    assert "__CUDACC_RTC__" in message("__global__ void f(float *x) { cudaMalloc(&x, 4); }")
    assert "no kernel was compiled" in message("#include <vector>\n")


def test_headers_of_wheels_are_named() -> None:
    text = message("#include <cute/tensor.hpp>\n" + SAXPY)
    assert 'package nvidia-cutlass: install it, and write include = ["cutlass"]' in text
    assert "nvidia-curand" in message("#include <curand_kernel.h>\n" + SAXPY)


def test_parallel_algorithms_of_the_host_are_left_out() -> None:
    source = "#include <thrust/device_vector.h>\n" + SAXPY + "\nint main() { thrust::device_vector<int> x(4); }\n"
    assert ".entry saxpy(" in compile_cuda(source).ptx


def test_host_code_is_left_out(tmp_path: Path) -> None:
    """Also that of a user's header; what kernels call stays, and so do the lines."""
    (tmp_path / "check.h").write_text(
        "#include <iostream>\nvoid check(cudaError_t e) { if (e) exit(1); }\n"
        "__device__ float half_of(float x) { return x / 2; }\n"
    )
    source = """#include <vector>
#include "check.h"
int up(int a, int b) { return (a + b - 1) / b; }
struct Timer { cudaEvent_t start; Timer() { cudaEventCreate(&start); } };

__global__ void k(float *x) { x[threadIdx.x] = half_of(INFINITY) + up(5, 2); }
int main() {
    std::vector<float> host(32);
    k<<<1, 32>>>(host.data());
}
"""
    found = compile_cuda(source, name="k.cu", kernels=("k",), folder=tmp_path)
    assert "host code was left out: lines 4, 7-10" in found.log
    assert re.search(r"\.loc\s+\d+ 6 ", found.ptx)
    assert message(source.replace("up(5, 2)", "up(5, y)"), name="k.cu", folder=tmp_path).startswith("k.cu:6: ")


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ({"options": ["-nosuch"]}, "'-nosuch' is unknown to NVRTC; it takes"),
        ({"options": ["N=4"]}, 'does not begin with "-"'),
        ({"options": ["-I"]}, "names no folder"),
        ({"options": ["-arch=sm_80"]}, 'give architecture = "sm_90" instead'),
        ({"architecture": "sm_77"}, "'sm_77' is unknown to the compiler; did you mean 'sm_"),
        ({"architecture": "hopper"}, 'write for example "sm_90"'),
        ({"kernels": ["saxy"]}, "did you mean 'saxpy'?"),
        ({"kernels": [""]}, "kernel ''"),
        ({"kernels": ["\0"]}, "NUL"),
    ],
)
def test_wrong_arguments_come_with_a_remedy(arguments: dict[str, object], expected: str) -> None:
    text = message(SAXPY, name="k.cu", **arguments)
    assert text.startswith("k.cu: ") and expected in text


@pytest.mark.parametrize(
    "source, expected",
    [
        ("", "no kernel was compiled"),
        ("__device__ int x;", "no kernel was compiled"),
        ("\0", "NUL"),
        ("\udc80", "UTF-8"),
        ('__global__ void f(int *x) { asm("nonsense.b32 %0;" : "=r"(x[0])); }', "nonsense"),
        ("__global__ void f(int *x) { __shared__ int y[9999999]; y[x[0]] = 1; x[0] = y[1]; }", "too much shared"),
        ("template <int N> __global__ void g(int *x) { x[0] += N; }", "no kernel was compiled"),
    ],
)
def test_sources_that_are_none(source: str, expected: str) -> None:
    assert expected in message(source)


def test_a_template_without_its_arguments_says_how_to_write_them() -> None:
    source = "template <int N> __global__ void g(int *x) { x[0] += N; }"
    assert "name<float>" in message(source, kernels=["g"])


def test_kernels_are_seen_in_the_text() -> None:
    source = """
    // __global__ void commented(int x)
    /* __global__ void too() */
    extern "C" __global__ void __launch_bounds__(256, 2) first(int *x) { f(x); }
    template <class T> __global__ void second(T x) {}
    __device__ int no(int x) { return x; }
    """
    assert kernel_names(source) == ["first", "second"]


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(MissingPackageError, match="pip install nvidia-cuda-nvrtc"):
        compile_cuda(SAXPY, cached=False)


def test_what_is_kept_is_read_without_loading_the_library() -> None:
    source = SAXPY + "// no library"
    compile_cuda(source)
    code = (
        "import sys\nfrom warplens.frontends.cuda.compile import compile_cuda\n"
        f"assert compile_cuda({source!r}).from_cache\n"
        "assert not any(name.startswith('cuda.bindings') for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_registers_that_cannot_be_read_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(data: bytes) -> None:
        raise ValueError("damaged cubin")

    monkeypatch.setattr(compile_module, "read_cubin", fail)
    compiled = compile_cuda(SAXPY, cached=False)
    assert compiled.resources == {} and "registers are unknown: damaged cubin" in compiled.log


def test_what_is_kept_stays_within_its_bounds(tmp_path, monkeypatch):
    """The least recently used go first."""
    monkeypatch.setenv("WARPLENS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "MOST_BYTES", 10_500)
    for number in range(9):
        open_results("kind").put(str(number), {"text": "x" * 1000})
        os.utime(tmp_path / "kind" / f"{number}"[:2] / f"{number}.entry", (number, number))
    assert open_results("kind").get("0") is not None  # used just now
    for number in range(9, 11):
        open_results("kind").put(str(number), {"text": "x" * 1000})
    assert {path.stem for path in (tmp_path / "kind").glob("*/*")} == {"0", *map(str, range(3, 11))}


def test_another_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Called without cuda-bindings, a library compiles alike."""
    usual = compile_cuda(SAXPY)
    files = [file.locate() for file in compile_module._wheel_files() if file.name.startswith("libnvrtc.so.")]
    if not files:
        pytest.skip("NVRTC has no wheel for this platform")
    monkeypatch.setenv("WARPLENS_NVRTC", str(files[0]))
    found = compile_cuda(SAXPY, cached=False)
    assert (found.ptx, found.resources, found.log) == (usual.ptx, usual.resources, usual.log)
    assert usual.compiler.startswith(found.compiler), "NVRTC 13.4 of 13.4.92"
    template = "template <class T> __global__ void one(T *x) { *x = 1; }"
    names = compile_cuda(template, kernels=["one<float>"], cached=False).lowered_names
    assert names == {"one<float>": "_Z3oneIfEvPT_"}
    assert message("__global__ void f() { oops; }", cached=False).startswith("kernel.cu:1: ")
    monkeypatch.setenv("WARPLENS_NVRTC", str(tmp_path / "libnvrtc.so"))
    with pytest.raises(FileError, match="WARPLENS_NVRTC"):
        compile_cuda(SAXPY)


def test_headers_of_a_toolkit_serve_an_older_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """NVRTC refuses the option before 13.3."""
    include = tmp_path / "toolkit" / "include"
    (include / "cccl").mkdir(parents=True)
    (include / "cuda_fp16.h").touch()
    monkeypatch.setattr(compile_module, "homes", lambda: iter([tmp_path / "none", tmp_path / "toolkit"]))
    of_toolkit = [f"-I{include}", f"-I{include}/cccl"]
    for version, options in (("13.4.92", ["--use-bundled-headers="]), ("13.2", of_toolkit)):
        monkeypatch.setattr(compile_module, "compiler_version", lambda version=version: f"NVRTC {version}")
        found = compile_module._header_options()
        assert len(found) == len(options) and all(map(str.startswith, found, options))


def test_what_kernels_have_of_nvcc_without_a_header():
    """alloca, 128-bit integers, and the functions of programmatic dependent launch."""
    source = """#include <alloca.h>
    extern "C" __global__ void k(long long* x, int n) {
        cudaGridDependencySynchronize();
        int count = n + threadIdx.x;
        int* own = (int*)alloca(count * sizeof(int));
        for (int i = 0; i < count; i++) own[i] = i * i;
        __int128 wide = (__int128)x[threadIdx.x] * x[threadIdx.x];
        x[threadIdx.x] = (long long)(wide >> 64) + own[count - 1];
        cudaTriggerProgrammaticLaunchCompletion();
    }"""
    given = np.random.default_rng(1).integers(1 << 61, 1 << 62, 32)
    found = given.copy()
    warplens.cuda(source).kernel("k").launch(1, 32, found, np.int32(3))
    expected = [(int(each) ** 2 >> 64) + (2 + lane) ** 2 for lane, each in enumerate(given)]
    assert found.tolist() == expected


def test_instructions_of_one_architecture_alone_are_compiled_for_it() -> None:
    source = """extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }"""
    assert ".target sm_90a" in compile_cuda(source, architecture="sm_90").ptx
    assert ".target sm_90\n" in compile_cuda(source.replace("wgmma.fence.sync.aligned", "membar.gl")).ptx
    with pytest.raises(CompileError, match=r"not supported on .target 'sm_80'"):
        compile_cuda(source, architecture="sm_80")


def test_an_error_in_a_header_names_its_place_and_a_missing_one_the_remedy(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "slope.cuh").write_text("__device__ float slope(float x) { return a * x; }\n")
    source = '#include "slope.cuh"\n__global__ void scale(float *x) { *x = slope(*x); }\n'
    with pytest.raises(CompileError, match=r'^include/slope\.cuh:1: identifier "a" is undefined'):
        compile_cuda(source, options=["-Iinclude"], folder=tmp_path)
    with pytest.raises(CompileError, match=r'name the folder of your headers, include = \["FOLDER"\]'):
        compile_cuda(source, folder=tmp_path)


def test_types_that_nvcc_has_without_a_header() -> None:
    used = """#include <arpa/inet.h>
    #include <glob.h>
    __global__ void k(uint *x, ulong a) {
        uint64_t z = *x; clock_t t = 2; ushort b = 1; time_t n = 3; *x = z * a + t + b + n;
    }"""
    assert compile_cuda(used).registers
    assert compile_cuda(f"typedef unsigned int uint;\n{used}").registers


def test_a_header_with_host_code_keeps_the_headers_beside_it(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "a.h").write_text('#include "b.h"\ninline void f() { std::string s; }\n')
    (tmp_path / "lib" / "b.h").write_text("#define SIZE 4\n")
    source = '#include "lib/a.h"\n__global__ void k(int *x) { *x = SIZE; }'
    assert compile_cuda(source, folder=tmp_path).registers
