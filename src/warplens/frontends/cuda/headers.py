"""Headers: small stand-ins for the standard library's, and which files a source includes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

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
            "assert.h", "cassert", "cuda.h", "cuda_runtime.h", "cuda_runtime_api.h", "cstddef", "cstdio", "cstdlib",
            "cstring", "device_launch_parameters.h", "stddef.h", "stdio.h", "stdlib.h", "string.h",
        ),
        "\n",
    ),
}  # fmt: skip

_INCLUDE = re.compile(
    r'(?:^[ \t]*#[ \t]*include\b|\b__has_include)[ \t]*\(?[ \t]*(?:(["<])([^">\n]+)[">]|(\S))', re.M
)
_MOST_FILES = 1000


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


def _first(name: str, folders: Iterable[Path]) -> Path | None:
    for folder in folders:
        path = folder / name
        try:
            if path.is_file():
                return path.resolve()
        except (OSError, ValueError):
            continue
    return None
