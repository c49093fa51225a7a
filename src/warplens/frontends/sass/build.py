"""Finds the tools and builds the injected library once, from `injection/` into the cache folder."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path

from ...errors import MissingPackageError
from ...result_cache import content_hash
from ..cuda.toolkit import find_program, homes
from ..native_library import built_once, call_compiler

#: Names a folder with `sanitizer_patching.h` and `libsanitizer-public.so` in it or below it.
SANITIZER_VARIABLE = "WARPLENS_SANITIZER"
_HEADER, _LIBRARY = "sanitizer_patching.h", "libsanitizer-public.so"
_SOURCES = ("record.h", "chosen.h", "turns.h", "parting.h", "state.h", "writing.h", "patches.cu", "tracer.cpp")
_BELOW = ("", "include", "lib", "lib64", "compute-sanitizer", "compute-sanitizer/include", "extras/Sanitizer",
          "extras/Sanitizer/include")  # fmt: skip
_WHAT, _TRACER, _PATCHES = "the tracer", "libwarplens-tracer.so", "patches.fatbin"
_MAJOR_ATTRIBUTE, _MINOR_ATTRIBUTE = 75, 76


@dataclass(frozen=True)
class Tools:
    """What tracing needs of the machine."""

    nvcc: str
    nvdisasm: str
    sanitizer_headers: Path
    sanitizer_library: Path
    compute_capability: tuple[int, int]
    ncu: str | None = None
    """Nsight Compute, for counts; tracing works without it."""


def find_tools() -> Tools:
    """Find what tracing needs; the error names what is missing and where to get it."""
    capability = _compute_capability()
    missing = []
    nvcc, nvdisasm = find_program("nvcc"), find_program("nvdisasm")
    if nvcc is None:
        missing.append("nvcc (the CUDA toolkit's compiler)")
    if nvdisasm is None:
        missing.append("nvdisasm (CUDA toolkit, or the package nvidia-cuda-nvdisasm)")
    headers, library = _find(_HEADER, nvcc), _find(_LIBRARY, nvcc)
    if headers is None:
        missing.append(f"{_HEADER} (Compute Sanitizer of the CUDA toolkit, or the package nvidia-cuda-sanitizer-api)")
    if library is None:
        missing.append(f"{_LIBRARY} (from the same place)")
    if nvcc is None or nvdisasm is None or headers is None or library is None:
        raise MissingPackageError(
            f"tracing on a GPU needs {', '.join(missing)}; install it, put it on PATH or below CUDA_HOME, "
            f"or name the folder of Compute Sanitizer in {SANITIZER_VARIABLE}"
        )
    return Tools(nvcc, nvdisasm, headers.parent, library, capability, find_program("ncu"))


def _compute_capability() -> tuple[int, int]:
    """Compute capability of the first GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        raise MissingPackageError(
            "tracing on a GPU needs NVIDIA's driver, but libcuda.so.1 cannot be loaded; "
            "run this on a machine with an NVIDIA GPU and its driver"
        ) from None
    device, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    status = driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(device), 0)
    status = status or driver.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR_ATTRIBUTE, device)
    status = status or driver.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR_ATTRIBUTE, device)
    if status:
        raise MissingPackageError(f"NVIDIA's driver finds no GPU (CUDA error {status}); check CUDA_VISIBLE_DEVICES")
    if major.value < 7:
        raise MissingPackageError(
            f"GPUs of compute capability {major.value}.{minor.value} cannot be traced; 7.0 (Volta) or newer is needed"
        )
    return major.value, minor.value


def _find(name: str, nvcc: str | None) -> Path | None:
    for home in homes(nvcc, SANITIZER_VARIABLE):
        for below in _BELOW:
            path = home / below / name
            if path.is_file():
                return path.resolve()
    return None


@dataclass(frozen=True)
class Injection:
    """The built files."""

    library: Path
    patches: Path


def build_injection(tools: Tools) -> Injection:
    """The library and the patches for this GPU, from the cache or built now."""
    sources = {name: files(__package__).joinpath("injection", name).read_bytes() for name in _SOURCES}
    version = subprocess.run([tools.nvcc, "--version"], capture_output=True, check=False).stdout
    key = content_hash(
        [
            *sources.values(), version, str(tools.compute_capability), str(tools.sanitizer_library),
            *((path.read_bytes()) for path in sorted(tools.sanitizer_headers.glob("sanitizer*.h"))),
        ]
    )[:32]  # fmt: skip
    place = built_once(_WHAT, ("sass-tracer", key), sources, _TRACER, partial(_build, tools))
    return Injection(place / _TRACER, place / _PATCHES)


def _build(tools: Tools, folder: Path) -> None:
    number = "{}{}".format(*tools.compute_capability)
    library = tools.sanitizer_library
    include = ["-I", str(tools.sanitizer_headers)]
    call_compiler(
        _WHAT,
        [
            tools.nvcc, "-fatbin", "--keep-device-functions", "-Xptxas", "--compile-as-tools-patch",
            f"-gencode=arch=compute_{number},code=sm_{number}", *include, "patches.cu", "-o", f"out/{_PATCHES}",
        ],
        folder,
    )  # fmt: skip
    call_compiler(
        _WHAT,
        [
            tools.nvcc, "-std=c++17", "-O2", "-shared", "-cudart", "none", "-Xcompiler", "-fPIC", *include,
            "tracer.cpp", "-o", f"out/{_TRACER}", "-Xlinker", str(library), "-Xlinker", "-rpath",
            "-Xlinker", str(library.parent), "-ldl",
        ],
        folder,
    )  # fmt: skip
