"""Python kernels: the flattened parameters are those of the PTX that numba-cuda makes."""

from __future__ import annotations

import re
import sys
from typing import Any

import numpy as np
import pytest

from warplens.errors import CompileError, MissingPackageError, install_command
from warplens.frontends.cuda.python import _type_of, compile_python_kernel, flatten_arguments

VALUES: list[Any] = [
    np.int32(3),
    np.float32(2),
    np.zeros(4, np.float32),
    np.zeros((4, 3), np.float64),
    np.zeros((4, 6), np.int16)[:, ::2],
    np.bool_(True),
    np.int8(3),
    np.uint64(3),
]
BITS = {"f32": 32, "f64": 64, "u8": 8, "u16": 16, "u32": 32, "u64": 64, "b8": 8, "b32": 32, "b64": 64}


def test_an_array_is_seven_parameters_or_more() -> None:
    array = np.zeros((4, 3), np.float32)
    flat = flatten_arguments([np.int32(7), array])
    assert flat[0] == 7 and flat[5] is array and len(flat) == 10
    assert [int(value) for value in flat[1:5]] == [0, 0, 12, 4]  # type: ignore[arg-type]
    assert [int(value) for value in flat[6:]] == [4, 3, 12, 4]  # type: ignore[arg-type]


def test_types_are_those_of_the_values() -> None:
    from numba import types

    array = types.Array
    expected = [types.int32, types.float32, array(types.float32, 1, "C"), array(types.float64, 2, "C")]
    expected += [array(types.int16, 2, "A"), types.boolean, types.int8, types.uint64]
    assert [_type_of(types, value) for value in VALUES] == expected


def test_without_numba_cuda_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba_cuda", None)
    with pytest.raises(MissingPackageError, match=re.escape(install_command("python-kernels"))):
        compile_python_kernel(lambda: None, [])


def test_parameters_are_those_of_the_ptx() -> None:
    pytest.importorskip("cuda.bindings.nvvm", reason="libNVVM has no wheel for this platform")
    import math

    from numba import cuda

    @cuda.jit
    def kernel(n, a, x, y, z, b, c, d):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < n and b:
            y[i, 1] = a * math.exp(x[i]) + z[i, 1] + c + d

    compiled = compile_python_kernel(kernel, VALUES)
    head = compiled.ptx.split(".entry")[1].split("{")[0]
    assert compiled.entry in head and ".target sm_90" in compiled.ptx and compiled.compiler.startswith("numba-cuda")
    bits = [BITS[name] for name in re.findall(r"\.param \.(\w+) ", head)]
    assert bits == [64 if isinstance(v, np.ndarray) else 8 * v.itemsize for v in flatten_arguments(VALUES)]
    assert re.search(r'\.file\s+1 ".*test_python\.py"', compiled.ptx) and ".loc" in compiled.ptx
    # The data, shape and strides are where numba looks for them: the 2-D arrays' are read, the null pointers are not.
    read = {int(n) for n in re.findall(r"ld\.param\.\w+\s+%\w+, \[\w+_param_(\d+)\]", compiled.ptx)}
    assert 6 in read and 13 in read and not read & {2, 3, 9, 10}


def test_errors_name_the_line() -> None:
    pytest.importorskip("cuda.bindings.nvvm", reason="libNVVM has no wheel for this platform")

    def wrong(n):  # type: ignore[no-untyped-def]
        n.nothing = 3

    with pytest.raises(CompileError, match=r"here: .*test_python\.py:\d+: wrong does not compile: .*nothing"):
        compile_python_kernel(wrong, [np.int32(1)], where="here")
