"""Python kernels: numba-cuda turns them into PTX, with neither a GPU nor a toolkit.

numba-cuda translates to LLVM; the `nvidia-nvvm` wheel has the rest of the compiler
and libdevice (the mathematical functions). An array becomes several parameters of
the kernel; `flatten_arguments` lists them.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import CompileError, MissingPackageError, install_command
from .arguments import Built


@dataclass(frozen=True)
class CompiledPythonKernel:
    """PTX of a Python kernel for one set of argument types."""

    ptx: str
    entry: str
    compiler: str


def compile_python_kernel(
    function: Callable[..., Any], arguments: Sequence[Built], *, architecture: str = "sm_90", where: str = "kernel"
) -> CompiledPythonKernel:
    """Compile a Python function, plain or decorated with `@cuda.jit`, for the types of `arguments`."""
    cuda, types, version = _numba_cuda()
    plain = getattr(function, "py_func", function)
    digits = re.sub(r"\D", "", architecture)
    try:
        signature = types.void(*(_type_of(types, value) for value in arguments))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns about the missing GPU
            ptx, _ = cuda.compile_ptx(
                plain, signature, cc=(int(digits[:-1]), int(digits[-1])), lineinfo=True, device=False
            )
    except Exception as error:
        if type(error).__name__ in ("NvvmSupportError", "DynamicLibNotFoundError"):
            raise MissingPackageError(f"{where}: numba-cuda needs libNVVM; `pip install nvidia-nvvm`") from None
        raise CompileError(_failure(error, plain, where)) from None
    entry = re.search(r"\.entry\s+([\w$.]+)", ptx)
    if entry is None:
        raise CompileError(f"{where}: no kernel was compiled from {getattr(plain, '__name__', 'the function')}")
    return CompiledPythonKernel(ptx, entry[1], f"numba-cuda {version}")


def flatten_arguments(arguments: Sequence[Built]) -> list[Built]:
    """The parameters of numba's kernels: an array is two null pointers, two counts, its data, shape and strides."""
    flat: list[Built] = []
    for value in arguments:
        if not isinstance(value, np.ndarray):
            flat.append(value)
            continue
        flat += [np.uint64(0), np.uint64(0), np.int64(value.size), np.int64(value.itemsize), value]
        flat += [np.int64(extent) for extent in value.shape]
        flat += [np.int64(stride) for stride in value.strides]
    return flat


def _failure(error: Exception, function: Any, where: str) -> str:
    """numba's error as one line: the place, and what is wrong."""
    text = re.sub(r"\x1b\[[\d;]*m", "", str(error))
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    reasons = [line for line in lines if not line.startswith(("Failed in", "File ", "During"))] or lines
    line = re.search(r"File \".*\", line (\d+)", text)
    code = getattr(function, "__code__", None)
    place = f"{code.co_filename}:{line[1] if line else code.co_firstlineno}" if code else "kernel"
    return f"{where}: {place}: {getattr(function, '__name__', 'kernel')} does not compile: {reasons[0][:500]}"


def _type_of(types: Any, value: Built) -> Any:
    if isinstance(value, tuple):
        return types.Tuple([_type_of(types, member) for member in value])
    if not isinstance(value, np.ndarray | np.generic):
        raise TypeError("arrays of pointers and textures cannot be passed to Python kernels; pass arrays one by one")
    scalar = types.boolean if value.dtype.kind == "b" else getattr(types, value.dtype.name)
    if not isinstance(value, np.ndarray):
        return scalar
    return types.Array(scalar, value.ndim, "C" if value.flags.c_contiguous else "A")


def _numba_cuda() -> tuple[Any, Any, str]:
    try:
        import numba_cuda
        from numba import cuda, types
    except ImportError:
        raise MissingPackageError(
            f"Python kernels need numba-cuda; install it with: {install_command('python-kernels')}"
        ) from None
    return cuda, types, str(numba_cuda.__version__)
