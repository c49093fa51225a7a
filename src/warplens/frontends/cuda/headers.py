"""Headers: small stand-ins for the standard library's, and which files a source includes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

from ...errors import MissingPackageError

#: NVRTC has no host headers. What kernels need of them is built in or part of NVRTC's own headers.
STANDARD_HEADERS = {
    **dict.fromkeys(("stdint.h", "cstdint", "inttypes.h", "cinttypes"), "#include <cuda/std/cstdint>\n"),
    **dict.fromkeys(("limits.h", "climits"), "#include <cuda/std/climits>\n"),
    **dict.fromkeys(("float.h", "cfloat"), "#include <cuda/std/cfloat>\n"),
    **dict.fromkeys(
        ("math.h", "cmath"),
        "#pragma once\n"
        "#define INFINITY __int_as_float(0x7f800000)\n"
        "#define NAN __int_as_float(0x7fffffff)\n"
        "#define HUGE_VALF INFINITY\n"
        "#define HUGE_VAL ((double)INFINITY)\n"
        "#define M_E 2.7182818284590452354\n"
        "#define M_LN2 0.69314718055994530942\n"
        "#define M_PI 3.14159265358979323846\n"
        "#define M_PI_2 1.57079632679489661923\n"
        "#define M_SQRT2 1.41421356237309504880\n"
        "#define M_SQRT1_2 0.70710678118654752440\n",
    ),
    **dict.fromkeys(
        (
            "assert.h", "cassert", "cuda_runtime.h", "cuda_runtime_api.h", "cstddef", "cstdio", "cstdlib",
            "cstring", "device_launch_parameters.h", "stddef.h", "stdio.h", "stdlib.h", "string.h",
        ),
        "\n",
    ),
    # Kernels take tensor maps by value.
    **dict.fromkeys(
        ("cuda.h", "cudaTypedefs.h"),
        "#pragma once\n"
        "#ifndef __cuda_cuda_h__\n"
        "#define __cuda_cuda_h__\n"
        "typedef struct CUtensorMap_st { alignas(64) unsigned long long opaque[16]; } CUtensorMap;\n"
        "#endif\n",
    ),
}  # fmt: skip

#: Functions that kernels get from nvcc without a header, and what they are.
DEVICE_RUNTIME = {
    "alloca": "static __device__ __forceinline__ void* alloca(size_t size) { void* found; "
    'asm volatile("{ .reg .b64 at; alloca.u64 at, %1; cvta.local.u64 %0, at; }" : "=l"(found) : "l"(size)); '
    "return found; }\n",
    **{
        name: f'static __device__ __forceinline__ void {name}() {{ asm volatile("{code};" ::: "memory"); }}\n'
        for name, code in (
            ("cudaGridDependencySynchronize", "griddepcontrol.wait"),
            ("cudaTriggerProgrammaticLaunchCompletion", "griddepcontrol.launch_dependents"),
        )
    },
}
#: Types that nvcc has without a header, as the host's headers come first.
HOST_TYPES = {"uint": "unsigned int", "ushort": "unsigned short", "ulong": "unsigned long", "clock_t": "long",
              "ssize_t": "long", "time_t": "long"}  # fmt: skip
TYPES_HEADER = "warplens_types.h"
STANDARD_HEADERS[TYPES_HEADER] = "#pragma once\n#include <cuda/std/cstdint>\n" + "".join(
    f"typedef {meaning} {name};\n" for name, meaning in HOST_TYPES.items()
)
DEVICE_HEADER = "warplens_device_runtime.h"
STANDARD_HEADERS[DEVICE_HEADER] = "#pragma once\n" + "".join(DEVICE_RUNTIME.values())

#: Headers of cub that kernels use. NVRTC refuses the one that includes all, with the host's among them.
_CUB_BLOCK = (
    "adjacent_difference", "discontinuity", "exchange", "histogram", "load", "merge_sort", "radix_sort", "reduce",
    "run_length_decode", "scan", "shuffle", "store",
)  # fmt: skip
_CUB_WARP = ("exchange", "load", "merge_sort", "reduce", "scan", "store")
STANDARD_HEADERS["cub/cub.cuh"] = "\n".join(
    f"#include <cub/{level}/{level}_{name}.cuh>"
    for level, names in (("block", _CUB_BLOCK), ("warp", _CUB_WARP))
    for name in names
)
#: Wheels with headers for kernels that NVRTC does not carry, and a header that each has.
HEADER_WHEELS = {
    "cccl": ("nvidia-cuda-cccl", "cub/version.cuh"),
    "curand": ("nvidia-curand", "curand_kernel.h"),
    "cutlass": ("nvidia-cutlass", "source/include/cute/tensor.hpp"),
}

_INCLUDE = re.compile(
    r'(?:^[ \t]*#[ \t]*include\b|\b__has_include)[ \t]*\(?[ \t]*(?:(["<])([^">\n]+)[">]|(\S))', re.M
)
_MOST_FILES = 1000
#: How many folders of a project are found, and how far above a source they are looked for.
_MOST_FOLDERS, _MOST_LEVELS = 8, 6


def wheel_folder(name: str) -> Path:
    """The folder of headers of one of `HEADER_WHEELS`, as it is installed."""
    package, header = HEADER_WHEELS[name]
    try:
        files = metadata.files(package) or ()
    except metadata.PackageNotFoundError:
        files = ()
    paths = [Path(str(file.locate())) for file in files if file.as_posix().endswith(f"/{header}")]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise MissingPackageError(f"the headers {name!r} come with a package; `pip install {package}`")
    return path.parents[header.removeprefix("source/include/").count("/")]


def includes_anything(source: str) -> bool:
    """Whether a source includes headers."""
    return _INCLUDE.search(source) is not None


def included_names(source: str) -> list[str]:
    """What a source includes, as it spells it."""
    return [match[2] for match in _INCLUDE.finditer(source) if match[2]]


def included_files(source: str, folder: Path | None, folders: Sequence[Path]) -> dict[str, bytes] | None:
    """Every user file that a source may include, by path; None if the text does not tell.

    A file counts even if the preprocessor skips its line: too many files are safe
    for a hash, too few are not.
    """
    found: dict[str, bytes] = {}
    pending: list[tuple[str, Path | None]] = [(source, folder)]
    while pending:
        text, place = pending.pop()
        for match in _INCLUDE.finditer(text):
            if match[3]:  # a macro's value: only the preprocessor knows
                return None
            near = [place] if place is not None and match[1] == '"' else []
            path = _first(match[2], [*near, *folders])
            if path is None or str(path) in found:
                continue
            if len(found) >= _MOST_FILES:
                return None
            try:
                raw = path.read_bytes()
            except OSError:
                return None
            found[str(path)] = raw
            pending.append((raw.decode("utf-8", "replace"), path.parent))
    return found


def folders_nearby(source: str, folder: Path) -> list[Path]:
    """Folders of the checkout around a source that hold headers which it includes and which are not beside it."""
    found: list[Path] = []
    places = [folder, *_around(folder)]
    for _ in range(_MOST_FOLDERS):
        files = included_files(source, folder, [folder, *found]) or {}
        texts = [source, *(raw.decode("utf-8", "replace") for raw in files.values())]
        known = {Path(name).name for name in files}
        names = dict.fromkeys(match[2] for text in texts for match in _INCLUDE.finditer(text) if _is_own(match))
        missing = (name for name in names if Path(name).name not in known and name not in STANDARD_HEADERS)
        holding = next((held for name in missing if (held := _holding(name, places)) not in (None, *found)), None)
        if holding is None:
            break
        found.append(holding)
    return found


def _is_own(match: re.Match[str]) -> bool:
    """Whether an include may name a header of the project: others stand in angles."""
    return bool(match[2]) and (match[1] == '"' or match[2].endswith(".cuh")) and not match[2].startswith("cub/")


def _around(folder: Path) -> list[Path]:
    """The folders above one, up to that of the checkout; the next one where there is no checkout."""
    above = list(folder.resolve().parents)[:_MOST_LEVELS]
    tops = [index for index, each in enumerate([folder.resolve(), *above]) if (each / ".git").exists()]
    return above[: tops[0]] if tops else []


def _holding(name: str, places: Iterable[Path]) -> Path | None:
    """The folder from which an include of this name finds its file."""
    for place in places:
        for pattern in (name, f"*/{name}", f"*/*/{name}"):
            try:
                path = next((path for path in sorted(place.glob(pattern)) if path.is_file()), None)
            except (OSError, ValueError, NotImplementedError):
                continue
            if path is not None:
                return path.parents[len(Path(name).parts) - 1]
    return None


def _first(name: str, folders: Iterable[Path]) -> Path | None:
    for folder in folders:
        path = folder / name
        try:
            if path.is_file():
                return path.resolve()
        except (OSError, ValueError):
            continue
    return None
