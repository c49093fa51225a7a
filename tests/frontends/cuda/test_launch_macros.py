"""Launches and kernels that macros hold."""

from __future__ import annotations

from warplens.frontends.cuda.host_calls import HostCode
from warplens.frontends.cuda.launch_macros import with_launch_macros
from warplens.frontends.cuda.signatures import kernel_source

TEXT = """#define LAUNCH(name, size) \\
    name##_kernel<(size), float> \\
        <<<grid, (size) / 4>>>(x, #size); // the last
#define CASES(name) \\
    case 64: LAUNCH(name, 64); break; \\
    case 128: LAUNCH(name, 128); break;
#define ALL(...) run<<<1, 2>>>(__VA_ARGS__)
#define KERNEL(type) __global__ void scale_##type(type *x) { *x *= 2; }
#define PLAIN(x) ((x) + 1)
KERNEL(float)
void f(int size) {
    switch (size) {
        CASES(sum)
    }
    ALL(a,
        b, PLAIN(c));
}
"""


def test_uses_of_macros_that_launch_are_written_out_on_their_lines() -> None:
    text = with_launch_macros(TEXT)
    assert text.count("\n") == TEXT.count("\n") and with_launch_macros("int PLAIN;") == "int PLAIN;"
    first, second, last = HostCode(text).launches
    assert (first.kernel, first.template) == ("sum_kernel", ("(64)", "float"))
    assert first.configuration == ("grid", "(64) / 4")
    assert (first.place, second.template[0], second.place) == ("line 13", "(128)", "line 13")
    assert (last.place, last.arguments[2].split()) == ("line 15", ["PLAIN(c)"])
    assert [each.name for each in kernel_source(text)] == ["scale_float"]


def test_macros_that_use_themselves_end() -> None:
    text = "#define A(x) A(x), A(x), k<<<1, x>>>(x)\nvoid f() { A(4); }\n"
    assert len(with_launch_macros(text)) < 1 << 20
