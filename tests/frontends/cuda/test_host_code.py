"""What the text of a source shows: values, launches, allocations, types, templates and declarations."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from warplens.errors import MissingPackageError, WorkloadError
from warplens.frontends.cuda.compile import compile_cuda
from warplens.frontends.cuda.draft import Draft, draft_of
from warplens.frontends.cuda.draft_rows import Row, grown
from warplens.frontends.cuda.expressions import evaluate
from warplens.frontends.cuda.headers import wheel_folder
from warplens.frontends.cuda.host_calls import HostCode, _is_declared_call
from warplens.frontends.cuda.host_code import line_ranges, without_declarations
from warplens.frontends.cuda.signatures import kernel_source, signatures, struct_members
from warplens.frontends.cuda.toolkit import homes


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0 || 1", 1),
        ("1 ? 5 : 6", 5),
        ("0 ? (1 ? 2 : 3) : 4", 4),
        ("0 ? max(1, n) : 9", 9),
        ("n > 3 ? (n ? 5 : 6) : 7", 5),
        ("max(2, n)", 8),
        ("std::min(2, 7)", 2),
        ("dim3(4).z", 1),
        ("dim3(4).y", 1),
        ("dim3(4, 2).y", 2),
    ],
)
def test_expressions_of_c(text: str, value: int) -> None:
    assert evaluate(text, lambda name, arguments: {"n": 8}.get(name)) == value


HOST = """
#define REAL float
typedef const REAL real;
void launch(float *x) { k<4, float><<<2, 32>>>(x, 1); }
int main() {
    int n = half(20);
    float *d, *none;
    cudaMalloc(&d, n * sizeof(float));
    cudaMalloc(&none, 0);
    if (n) { launch(d); }
}
int half(int x) { return x / 2; }
"""


def test_launches_allocations_and_types() -> None:
    host = HostCode(HOST)
    (launch,) = host.launches
    assert (launch.kernel, launch.template, launch.place) == ("k", ("4", "float"), "line 4")
    assert (launch.configuration, launch.arguments) == (("2", "32"), ("x", "1"))
    assert [each.name for each in host.functions] == ["launch", "main", "half"]
    main = HOST.index("launch(d)")
    assert host.value("n", main) == 10
    assert host.allocated_bytes("d", main) == 40 and host.allocated_bytes("x", launch.position) == 40
    assert host.allocated_bytes("none", main) is None and host.allocated_bytes("n", main) is None
    assert host.type_of("const real") == "float"


def test_a_call_is_no_declaration() -> None:
    for text, is_call in (("x = f(1);", True), ("return f(1);", True), ("dim3 f(1);", False), ("int f(1);", False)):
        assert _is_declared_call(text, text.index("f(")) is is_call
    assert not _is_declared_call("int" + 39 * " " + "f(1);", 42) and _is_declared_call("int" + 40 * " " + "f(1);", 43)
    # The same 40 characters before the name decide whether it is a `return`.
    assert _is_declared_call("return" + 34 * " " + "f(1);", 40)
    assert not _is_declared_call("return" + 35 * " " + "f(1);", 41)


@pytest.mark.parametrize("link", ["#define f{}(x) f{}(x)", "#define f{} f{}"])
def test_values_are_followed_through_a_few_names(link: str) -> None:
    def value(links: int) -> object:
        last = link.rpartition(" ")[0].format(links) + " 7"
        text = "\n".join([*(link.format(each, each + 1) for each in range(links)), last])
        return HostCode(text).value("f0(1)" if "(x)" in link else "f0", len(text))

    assert (value(5), value(30)) == (7, None)


def test_arrays_grow_to_what_is_accessed() -> None:
    row = Row("x", dtype="float32", shape=(4, 2))
    assert grown(row, 32) is row and grown(row, 33).shape == (5, 2)


def test_host_declarations_are_left_out_and_named_by_their_lines() -> None:
    text = "int a;\n\n  void f() {\n g();\n}\n__global__ void k() {}\nint b;"
    left = without_declarations(text, [4])
    assert left == "int a;\n\n  " + " " * 10 + "\n" + " " * 5 + "\n \n__global__ void k() {}\nint b;"
    assert line_ranges(text, left) == "3-5"
    assert line_ranges(text, without_declarations(text, [1, 7])) == "1, 7"
    assert without_declarations(text, [2, 6]) == text
    assert line_ranges("a\nb\nc\nd\ne", "x\nb\nx\nd\ne") == "1-3" and line_ranges("a\nb", "x\nb") == "1"


def test_templates_vectors_and_heads() -> None:
    (kernel,) = kernel_source("template <int N> __global__ void __launch_bounds__(64) k(float2 v) { }")
    assert [each["name"] for each in kernel.template] == ["N"] and kernel.head.startswith("template <int N>")
    (late,) = kernel_source("int x;\n" * 100 + "__global__ void k(float2 v) { }")
    assert len(late.head) == 300 + len("__global__ void k(float2 v)")
    assert struct_members("float2", "") == [("x", "float"), ("y", "float")]
    (found,) = signatures("__global__ void k(float2 v) { }")
    assert [each["pointer"] for each in found["parameters"][0]["members"]] == [False, False]


def test_where_toolkits_and_headers_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("MINE", str(tmp_path / "mine"))
    beside = str(tmp_path / "a" / "bin" / "nvcc")
    found = list(homes(beside, "MINE"))
    assert found[:2] == [tmp_path / "mine", tmp_path / "home"] and tmp_path / "a" in found
    monkeypatch.setattr("warplens.frontends.cuda.headers.metadata.files", lambda name: ())
    with pytest.raises(MissingPackageError, match="pip install"):
        wheel_folder("cutlass")


def test_a_launch_that_the_source_does_not_show_is_guessed(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"

    def drafted(text: str) -> Draft:
        path.write_text(text)
        return draft_of(path)

    plain = drafted("__global__ void k(float *x) { x[threadIdx.x] = 0; }")
    assert (plain.block, plain.shared_bytes, plain.shared_source) == ((256,), 0, "")
    bound = drafted("__global__ void __launch_bounds__(1) k(float *x) { extern __shared__ float t[]; t[0] = *x; }")
    assert (bound.block, bound.shared_bytes) == ((1,), 8)
    host = "__global__ void k(float *x, int n = 3) { x[0] = n; }\nvoid f(float *x) { k<<<2, 32>>>(x); }"
    fewer = drafted(host)
    assert (fewer.grid, fewer.block, [row.name for row in fewer.rows]) == ((2,), (32,), ["x", "n"])


def test_structs_are_drafted_by_what_the_host_assigns(tmp_path: Path) -> None:
    """Members that are structs, of a template too; arrays by the sizes of vectors; functions are no members."""
    path = tmp_path / "k.cu"
    path.write_text("""#include <vector>
template <typename T> struct View { T* data; int extent[2]; __device__ T& at(int i) const { return data[i]; } };
struct Inner { float scale; };
struct Arguments { View<float> x; Inner inner; const int *index; int n; };
__global__ void k(Arguments a) { if (threadIdx.x < a.n) a.x.at(threadIdx.x) *= a.inner.scale; }
int main() {
  const int n = 96; std::vector<int> host(n, 1);
  int* index; cudaMalloc(&index, host.size() * sizeof(int));
  Arguments a{}; a.n = n; a.index = index;
  k<<<1, 128>>>(a);
}
""")
    draft = draft_of(path)
    x, inner, index, n = draft.rows[0].members
    assert [each.name for each in x.members] == ["data", "extent", "extent"]
    assert (x.members[0].dtype, inner.members[0].dtype) == ("float32", "float32")
    assert (index.shape, index.source, n.value, n.source) == ((96,), "line 10, high is guessed", 96, "line 10")
    read = tomllib.loads(draft.toml())["cuda"]["arguments"][0]["members"]
    assert len(read) == 4 and len(read[0]["members"]) == 3 and read[3] == {"dtype": "int32", "value": 96}
    larger = draft.with_array_bytes(0, 1 << 20)
    assert larger.rows[0].members[0].members[0].shape == (1 << 18,)
    listed = path.read_text().replace(
        "Arguments a{}; a.n = n; a.index = index;", "Arguments a = {{}, {2.f}, index, n};"
    )
    path.write_text(listed)
    assert draft_of(path).rows[0].members[3].value == 96


def test_textures_are_drafted_as_the_host_sets_them(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text("""
__global__ void k(cudaTextureObject_t image, float* out) { out[threadIdx.x] = tex2D<float>(image, threadIdx.x, 0); }
void f(float* out) {
  const int w = 64, h = 32; cudaArray_t array; cudaMallocArray(&array, &format, w, h);
  cudaTextureDesc read{}; read.addressMode[0] = cudaAddressModeMirror; read.filterMode = cudaFilterModeLinear;
  k<<<1, 32>>>(image, out);
}
""")
    row = draft_of(path).rows[0]
    assert (row.shape, row.source) == ((32, 64), "")
    assert row.texture == {"filter": "linear", "address": "mirror"}
    path.write_text(path.read_text().replace("cudaMallocArray(&array, &format, w, h);", ""))
    assert (draft_of(path).rows[0].shape, draft_of(path).rows[0].source) == ((1024, 1024), "guessed")


@pytest.mark.parametrize(
    ("declared", "given"), [("enum class Act { Relu, Gelu };", "Act::Gelu"), ("enum Act { RELU, GELU };", "GELU")]
)
def test_enumerators_are_template_arguments(declared: str, given: str, tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(
        f"{declared}\ntemplate <Act A, int N> __global__ void k(float *x) {{ x[0] = N; }}\n"
        f"void f(float *x) {{ k<{given}, 8><<<1, 32>>>(x); }}"
    )
    draft = draft_of(path)
    assert (draft.kernel, draft.kernel_source) == (f"k<{given}, 8>", "line 3")


def test_a_guess_is_marked_wherever_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(
        "__global__ void k(float *x, int n, int m) { x[n] = m; }\n"
        "void f(float *x, int count) { k<<<count, 32>>>(x, count, 7); }"
    )
    rows = draft_of(path).rows
    assert [row.source for row in rows] == ["guessed", "guessed", "line 2"]


def test_annotated_lambdas_compile() -> None:
    source = """extern "C" __global__ void k(int *x) {
        auto add = [] __device__ (int a, int b) { return a + b; };
        auto twice = [=] __host__ __device__ (int a) { return 2 * a; };
        x[threadIdx.x] = twice(add(x[threadIdx.x], 1));
    }"""
    compiled = compile_cuda(source)
    assert ".entry k" in compiled.ptx and "left out" not in compiled.log


@pytest.mark.parametrize(
    ("statement", "kernel"),
    [
        ("switch (n) { case 128: k<128><<<1, 32>>>(x); break; case 512: k<512><<<2, 32>>>(x); break; }", "k<512>"),
        ("if (n == 128) k<128><<<1, 32>>>(x); else if (n == 512) k<512><<<2, 32>>>(x);", "k<512>"),
        ("if (n < 512) { if (x) k<128><<<1, 32>>>(x); } else { k<512><<<2, 32>>>(x); }", "k<512>"),
        ("if (flags & 1) k<128><<<1, 32>>>(x); else k<512><<<2, 32>>>(x);", "k<128>"),  # nobody knows
    ],
)
def test_a_launch_that_the_values_pass_over_is_not_drafted(statement: str, kernel: str, tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(
        "template <int N> __global__ void k(float *x) { x[0] = N; }\n"
        f"void f(float *x, int n, int flags) {{ {statement} }}\n"
        "int main(int argc, char **argv) { int n = argc > 1 ? atoi(argv[1]) : 512; f(data, n, get()); }"
    )
    draft = draft_of(path)
    assert (draft.kernel, draft.kernel_source) == (kernel, "line 2")
    named = draft_of(path, "k<512>")
    assert (named.kernel, named.grid) == ("k<512>", (2,))


def test_members_and_names_of_one_declaration_have_values() -> None:
    text = (
        "void f(int argc, char **argv) { Matrix m; m.n = argc > 1 ? atoi(argv[1]) : 4096; dim3 grid; grid.x = 5;"
        " int rows = argc > 1 ? atoi(argv[1]) : 96, blocks = (rows + 31) / 32; k<<<m.n / 8, 32>>>(m); }"
    )
    host, place = HostCode(text), text.index("k<<<")
    assert [host.value(each, place) for each in ("m.n / 8", "grid.x", "rows", "blocks")] == [512, 5, 96, 3]
    assert host.value("m.k", place) is None


def test_members_of_a_template_have_the_types_of_the_instance(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(
        "template <typename V> struct Ell { int rows; const V *values; };\n"
        "template <typename V> __global__ void k(Ell<V> m, V *y) { y[0] = m.values[0]; }\n"
        "void f(Ell<double> m, double *y) { k<double><<<1, 32>>>(m, y); }"
    )
    m, y = draft_of(path).rows
    assert [m.members[1].dtype, y.dtype] == ["float64", "float64"]


def test_tensor_maps_have_their_type() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    source = (
        "#include <cuda.h>\n#include <cuda/barrier>\n"
        "static_assert(sizeof(CUtensorMap) == 128 && alignof(CUtensorMap) == 64);\n"
        'extern "C" __global__ void k(const __grid_constant__ CUtensorMap map) {}'
    )
    assert "align 64 .b8" in compile_cuda(source).ptx


def test_tensor_maps_are_drafted_with_what_there_is_to_fill_in(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(
        "#include <cuda.h>\n__global__ void k(const __grid_constant__ CUtensorMap a, float *x) { x[0] = 1; }\n"
    )
    draft = draft_of(path)
    (found, _) = tomllib.loads(draft.toml())["cuda"]["arguments"]
    assert (found["shape"], found["tiles"]) == ([1024, 1024], {"box": [64, 64], "swizzle_bytes": 128})
    assert draft.rows[0].is_guessed


def test_arguments_of_macros_are_put_in_all_at_once() -> None:
    host = HostCode("#define CEIL(M, N) (((M) + (N) - 1) / (N))\nint main() { int N = 1000; }")
    assert host.value("CEIL(N, 32)", len(host.text) - 2) == 32


LAUNCHED = """
template <int S> __global__ void k(const float *x, int n) { }
template <typename T> void named(T kernel, float *x) { kernel<<<7, 32>>>(x, 1); }
void f(float *x, int n = 40, int m = 2 * 30) {
    dim3 grid, block;
    grid.x = n;
    grid.y = 3;
    block.x = 64;
    auto *kernel = &space::k<4>;
    kernel<<<grid, block>>>(x, m);
    void *list[] = {&x, (void *)&n};
    cudaLaunchCooperativeKernel((void *)k<5>, grid, dim3(32), list, 16, 0);
    cudaLaunchConfig_t config = {.gridDim = 9, .blockDim = dim3(8, 4)};
    config.dynamicSmemBytes = 1024;
    cudaLaunchKernelEx(&config, k<6>, x, n);
}
int main() {
    float *x;
    cudaMalloc(&x, 4096);
    named(k<8>, x);
    benchmark(100, f, x, 50);
}
"""


def test_launches_through_pointers_calls_and_lists(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(LAUNCHED)
    drafts = {each: draft_of(path, f"k<{each}>") for each in (4, 5, 6, 8)}
    configured = {
        each: (draft.grid, draft.block, draft.shared_bytes, draft.launch_source) for each, draft in drafts.items()
    }
    assert configured == {
        4: ((50, 3, 1), (64, 1, 1), 0, "line 10"),
        5: ((50, 3, 1), (32,), 16, "line 12"),
        6: ((9,), (8, 4), 1024, "line 15"),
        8: ((7,), (32,), 0, "line 3"),
    }
    assert [drafts[each].rows[1].value for each in drafts] == [60, 50, 50, 1]
    assert all(draft.rows[0].shape == (1024,) and not draft.rows[0].is_guessed for draft in drafts.values())


def test_guesses_are_of_the_kind_that_names_say(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(
        "template <typename T> __global__ void k(T *x, float alpha, int M, int N, int n_heads, int blocksPerSm) {}\n"
        "template <typename T> void run(T *x, float alpha, int M, int N, int n_heads) {\n"
        "    int N = 1;\n    for (int i = 0; i < 4; ++i) N *= x.size(i);\n"
        "    size_t smem_size = get(); cudaDeviceProp props; int blocksPerSm;\n"
        "    k<scalar_t><<<2 * props.multiProcessorCount, num_threads, smem_size>>>"
        "(x, alpha, M, N, n_heads, blocksPerSm);\n"
        "}\n"
    )
    draft = draft_of(path, "k")
    assert (draft.kernel, draft.kernel_source, draft.grid, draft.block) == ("k<float>", "guessed", (264,), (256,))
    assert [row.value for row in draft.rows[1:]] == [1.0, 1024, 1024, 16, 1]
    assert draft.shared_bytes == 0 and all(row.is_guessed for row in draft.rows)


def test_the_launch_that_the_guesses_reach_is_drafted(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(
        "template <int H, bool B> __global__ void k(float *x) {}\nvoid f(float *x, int width, bool b) {\n"
        "    switch (width) {\n    case 32: k<32, b><<<1, 32>>>(x); break;\n"
        "    case 1024: k<1024, b><<<1, 1024>>>(x); break;\n    }\n}\n"
    )
    assert draft_of(path).kernel == "k<1024, true>"


def test_places_in_headers_name_the_header(tmp_path: Path) -> None:
    (tmp_path / "run.cuh").write_text("// first\nvoid run(float *x) { k<<<2, 32>>>(x); }\n")
    path = tmp_path / "k.cu"
    path.write_text('#include "run.cuh"\n__global__ void k(float *x) { }\n\n')
    assert draft_of(path).launch_source == "run.cuh line 2"


def test_elements_have_the_type_that_the_build_and_the_callers_give(tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    path.write_text(
        "#define HALF\n#ifdef HALF\ntypedef half real;\n#else\ntypedef float real;\n#endif\n"
        "template <typename T> __global__ void k(T *x) {}\n"
        "template <typename U> void run(U *x) { k<<<1, 32>>>(x); }\n"
        "int main() { real *x; cudaMalloc(&x, 8 * sizeof(real)); run(x); }\n"
        "#ifdef OTHER\n__global__ void other(int *y) {}\nvoid g(int *y) { other<<<3, 64>>>(y); }\n#endif\n"
    )
    draft = draft_of(path)
    assert (draft.kernel, draft.rows[0].dtype, draft.rows[0].shape) == ("k<half>", "float16", (8,))
    assert draft_of(path, "other").grid == (3,)
    with pytest.raises(WorkloadError, match="no kernel 'third'"):
        draft_of(path, "third")


def test_headers_elsewhere_in_the_checkout_are_included(tmp_path: Path) -> None:
    for folder in (".git", "src/mma", "src/common", "lib/include/deep", "other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "src/common/run.h").write_text('#include "deep/sizes.h"\nvoid f(float *x) { k<<<SIZE, 32>>>(x); }\n')
    (tmp_path / "lib/include/deep/sizes.h").write_text("#define SIZE 5\n")
    path = tmp_path / "src/mma/k.cu"
    path.write_text('#include "run.h"\n#include "nowhere.h"\n#include <vector>\n__global__ void k(float *x) { }\n')
    draft = draft_of(path)
    assert (draft.include, draft.grid, draft.launch_source) == (
        ("../common", "../../lib/include"),
        (5,),
        "run.h line 2",
    )
    assert 'include = ["../common", "../../lib/include"] # guessed' in draft.toml()
    assert draft.guesses[0]["key"] == "include"
    (tmp_path / ".git").rmdir()
    assert draft_of(path).include == ()  # without a checkout, other folders are not the project's
