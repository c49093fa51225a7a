"""Another NVRTC than the package's: a library of any CUDA toolkit from 11.2 on, called as cuda-bindings call theirs.

Compilers differ in registers and spills: what CUDA 11.8 built is best predicted from what 11.8 makes of its source.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ...errors import FileError

#: Names a library to compile with.
LIBRARY_VARIABLE = "WARPLENS_NVRTC"

_Pointer, _Int, _Text = ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p


def chosen_library() -> Path | None:
    """`$WARPLENS_NVRTC`, the path of a libnvrtc."""
    given = os.environ.get(LIBRARY_VARIABLE)
    return Path(given).absolute() if given else None


@cache
def open_library(path: Path) -> SimpleNamespace:
    """The functions of a library that compilations need."""
    try:
        for each in sorted(path.parent.glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(each), ctypes.RTLD_GLOBAL)  # the library looks for it by name, not beside itself
        library = ctypes.CDLL(str(path))
        library.nvrtcGetCUBIN  # noqa: B018 (an AttributeError before CUDA 11.2)
    except (OSError, AttributeError) as error:
        raise FileError(
            f"{path}: is no NVRTC of CUDA 11.2 or newer ({error}); {LIBRARY_VARIABLE} names a libnvrtc.so"
        ) from None
    return SimpleNamespace(**_functions(library))


def _functions(library: Any) -> dict[str, Callable[..., Any]]:
    """As in `cuda.bindings.nvrtc`: each returns a tuple that begins with its result code."""

    def version() -> tuple[int, int, int]:
        major, minor = _Int(), _Int()
        return library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)), major.value, minor.value

    def supported() -> tuple[int, list[int]]:
        count = _Int()
        library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        values = (_Int * count.value)()
        return library.nvrtcGetSupportedArchs(values), list(values)

    def create(source: bytes, name: bytes, count: int, texts: Sequence[bytes], names: Sequence[bytes]) -> Any:
        program, strings = _Pointer(), _Text * max(count, 1)
        headers = (_Int(count), strings(*texts), strings(*names))
        result = library.nvrtcCreateProgram(ctypes.byref(program), _Text(source), _Text(name), *headers)
        return result, program.value

    def compile_program(program: int, count: int, options: Sequence[bytes]) -> tuple[int]:
        return (library.nvrtcCompileProgram(_Pointer(program), _Int(count), (_Text * max(count, 1))(*options)),)

    def lowered(program: int, kernel: bytes) -> tuple[int, bytes | None]:
        name = _Text()
        return library.nvrtcGetLoweredName(_Pointer(program), _Text(kernel), ctypes.byref(name)), name.value

    def size_of(name: str) -> Callable[[int], tuple[int, int]]:
        def call(program: int) -> tuple[int, int]:
            size = ctypes.c_size_t()
            return getattr(library, name)(_Pointer(program), ctypes.byref(size)), size.value

        return call

    def with_text(name: str) -> Callable[[int, bytes], tuple[int]]:
        return lambda program, text: (getattr(library, name)(_Pointer(program), _Text(text)),)

    outputs = ("ProgramLog", "PTX", "CUBIN")
    return {
        "nvrtcVersion": version,
        "nvrtcGetSupportedArchs": supported,
        "nvrtcCreateProgram": create,
        "nvrtcCompileProgram": compile_program,
        "nvrtcGetLoweredName": lowered,
        "nvrtcAddNameExpression": with_text("nvrtcAddNameExpression"),
        "nvrtcDestroyProgram": lambda program: (library.nvrtcDestroyProgram(ctypes.byref(_Pointer(program))),),
        **{f"nvrtcGet{each}Size": size_of(f"nvrtcGet{each}Size") for each in outputs},
        **{f"nvrtcGet{each}": with_text(f"nvrtcGet{each}") for each in outputs},
    }
