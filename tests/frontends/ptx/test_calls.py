"""Calls: through pointers, of virtual functions, recursive, and of what CUDA provides."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from reference.ptx import Launch
from warplens import cuda
from warplens.errors import KernelFault
from warplens.frontends.ptx import execute, parse_ptx
from warplens.frontends.ptx.heap import HEAP_BYTES

THREADS = 48
KERNEL = 'extern "C" __global__ void k(int* x) { int t = threadIdx.x;'
SOURCES = {
    "virtual functions": """
        struct Shape { int side; __device__ virtual int area() const = 0; };
        struct Square : Shape { __device__ int area() const override { return side * side; } };
        struct Line : Shape { __device__ int area() const override { return 1 - side; } };
        struct Box : Square { __device__ int area() const override { return 6 * Square::area(); } };
        __device__ __noinline__ int total(Shape** shapes, int n)
        { int sum = 0; for (int i = 0; i < n; i++) sum += shapes[i]->area(); return sum; }
        KERNEL
          Square a; Line b; Box c; a.side = t; b.side = t + 1; c.side = x[t] + 2;
          Shape* shapes[3] = {&a, t % 2 ? (Shape*)&b : &c, t % 3 ? (Shape*)&c : &a};
          x[t] = total(shapes, 1 + t % 3); }""",
    "a table of functions": """
        __device__ int plus(int a, int b) { return a + b; }
        __device__ int minus(int a, int b) { return a - b; }
        __device__ int times(int a, int b) { return a * b; }
        __device__ int (*table[3])(int, int) = {plus, minus, times};
        KERNEL x[t] = table[x[t] % 3](t, x[t]); }""",
    "recursion": """
        __device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
        __device__ __noinline__ int depth(const int* x, int n) { return n <= 0 ? 0 : 1 + depth(x, n - 1 - x[n] % 2); }
        KERNEL x[t] = fib(t % 5) + depth(x, t % 9); }""",
    "malloc": """
        struct Node { int value; Node* next; };
        KERNEL
          Node* head = nullptr;
          for (int i = 0; i < t % 5; i++) { Node* one = (Node*)malloc(sizeof(Node));
            one->value = i * t; one->next = head; head = one; }
          int sum = 0;
          while (head) { sum += head->value; Node* next = head->next; free(head); head = next; }
          x[t] = sum; }""",
}


def given() -> np.ndarray:
    return np.random.default_rng(1).integers(0, 9, THREADS).astype(np.int32)


def assert_as_the_oracle(module, entry: str = "k", **options) -> np.ndarray:
    mine, theirs = given(), given()
    Launch(module, entry, (1, 1, 1), (THREADS, 1, 1), [theirs]).run()
    execute(module, entry, 1, THREADS, [mine], **options)
    np.testing.assert_array_equal(mine, theirs)
    return mine


@pytest.mark.parametrize("name", SOURCES)
def test_calls_do_what_the_oracle_says(name: str) -> None:
    compiled = cuda(SOURCES[name].replace("KERNEL", KERNEL)).kernel("k")
    assert (assert_as_the_oracle(compiled.ptx) != given()).any()


HEAD = """.version 8.6
.target sm_90
.address_size 64
"""


def test_a_listed_target_and_memory_from_the_stack() -> None:
    assert_as_the_oracle(
        parse_ptx(
            HEAD
            + """.func (.param .b32 r) one(.param .b32 a) { .reg .b32 %r; ld.param.b32 %r, [a];
            add.u32 %r, %r, 1; st.param.b32 [r], %r; ret; }
            .func (.param .b32 r) two(.param .b32 a) { .reg .b32 %r; .reg .b64 %d<3>; ld.param.b32 %r, [a];
            mov.u64 %d0, 40; alloca.u64 %d1, %d0, 16; st.local.u32 [%d1+36], %r; alloca.u64 %d2, %d0;
            st.local.u32 [%d2], 7; ld.local.u32 %r, [%d1+36]; add.u32 %r, %r, %r; st.param.b32 [r], %r; ret; }
            .visible .entry k(.param .u64 x) { .reg .b64 %d<3>; .reg .b32 %r<3>; .reg .pred %p;
            targets: .calltargets one, two;
            .param .b32 in; .param .b32 out;
            ld.param.u64 %d0, [x]; mov.u32 %r0, %tid.x; mad.wide.u32 %d0, %r0, 4, %d0; ld.global.u32 %r1, [%d0];
            mov.u64 %d1, one; mov.u64 %d2, two;
            and.b32 %r2, %r1, 1; setp.eq.u32 %p, %r2, 0; selp.b64 %d1, %d1, %d2, %p;
            st.param.b32 [in], %r1; call (out), %d1, (in), targets; ld.param.b32 %r1, [out];
            st.global.u32 [%d0], %r1; ret; }"""
        )
    )


def test_faults_of_calls() -> None:
    def launch(body: str, *, head: str = "") -> None:
        cuda(f"{head}\n{KERNEL} {body} }}").kernel("k").launch(1, THREADS, given())

    with pytest.raises(KernelFault, match=r"the pointer leads to no function.*32 in all"):
        launch(
            "x[t] = (x[0] > 99 ? table[0] : (F)(size_t)(x[t] + 4096))(t);",
            head="typedef int (*F)(int); __device__ int f(int a) { return a; } __device__ F table[1] = {f};",
        )
    with pytest.raises(KernelFault, match="recursion goes deeper"):
        launch(
            "x[t] = deep(x, t);",
            head="__device__ __noinline__ int deep(int* x, int n) { x[n] = deep(x, n ^ 1) + n; return x[n] * n; }",
        )
    with pytest.raises(KernelFault, match=r"frees 0x\w+, which malloc has not given"):
        launch("int* p = (int*)malloc(4); p[0] = t; x[t] = p[0]; free(p); free(p);")
    with pytest.raises(KernelFault, match=r"reads 4 bytes of generic memory out of bounds.*heap"):
        launch("volatile int* p = (int*)malloc(4); free((int*)p); x[t] = p[0];")
    with pytest.raises(KernelFault, match=r"an assertion fails: x\[t\] < 0 .*thread \(0, 0, 0\)"):
        launch("assert(x[t] < 0);", head="#include <cassert>")


def test_the_heap_has_an_end() -> None:
    found = np.zeros(THREADS, np.int32)
    size = HEAP_BYTES // 8
    source = f"{KERNEL} char* p = (char*)malloc({size}); x[t] = p != nullptr; if (p) p[{size - 1}] = 1; }}"
    cuda(source).kernel("k").launch(1, THREADS, found)
    assert found.sum() == 8


def test_printf_prints_as_c_does() -> None:
    """Two blocks on two workers, against the C library."""
    form = "%d|%5.2f|%-6s|%+lld|%c|%x|%%|%08.3e|%*d|%u|%.3s|%hd|%zu|%5c\n"
    values = '-7 - t, t * 0.375, "ab", 1ll << 40, 65 + t, 255, 1234.5, 6, t, -1, "abcdef", 70000, (size_t)3, 66'
    quoted = form.replace("\n", "\\n")
    run = cuda(f'#include <cstdio>\n{KERNEL} if (t < 3) printf("{quoted}", {values}); }}').kernel("k")
    printed = run.launch(2, 32, given(), workers=2).printed
    libc, room = ctypes.CDLL(None), ctypes.create_string_buffer(256)
    expected = ""
    for t in range(3):
        arguments = [-7 - t, ctypes.c_double(t * 0.375), b"ab", ctypes.c_longlong(1 << 40), 65 + t, 255]
        arguments += [ctypes.c_double(1234.5), 6, t, -1, b"abcdef", 70000, ctypes.c_size_t(3), 66]
        libc.snprintf(room, len(room), form.encode(), *arguments)
        expected += room.value.decode()
    assert printed == expected * 2
