"""What the text of a source shows: values, launches, allocations, types, templates and declarations."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.errors import MissingPackageError
from warplens.frontends.cuda.draft import Draft, Row, _grown, draft_of
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
    assert (launch.kernel, launch.template, launch.line) == ("k", ("4", "float"), 4)
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
    assert _grown(row, 32) is row and _grown(row, 33).shape == (5, 2)


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
