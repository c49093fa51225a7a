"""Host code in a CUDA source: NVRTC compiles device code only, so what it refuses of the rest is left out.

A declaration is left out only if the compiler reports an error in it and it has no device annotation.
What remains keeps its lines, so that messages and the PTX still name the right ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from .headers import included_names

#: Headers for the host. Kernels need nothing of them, so a compiler that lacks them gets an empty one.
_HOST_HEADERS = re.compile(
    r"""(?x)
    (any|atomic|cctype|cerrno|charconv|chrono|clocale|codecvt|condition_variable|csetjmp|csignal|cstdarg|ctime|cwchar|
     deque|exception|filesystem|format|forward_list|fstream|future|iomanip|ios|iosfwd|iostream|istream|list|
     locale|map|memory|mutex|new|ostream|queue|random|regex|set|sstream|stack|stdexcept|
     streambuf|string|string_view|system_error|thread|typeinfo|unordered_map|unordered_set|vector)
    | (alloca|ctype|dirent|dlfcn|errno|fcntl|getopt|glob|io|libgen|malloc|mpi|netdb|omp|poll|pthread|sched|
       semaphore|signal|stdarg|strings|time|unistd|windows)\.h
    | (arpa|net|netinet|sys)/.*\.h | (bits|ext)/.*
    | cuda_profiler_api\.h | cuda_gl_interop\.h | cuda_egl_interop\.h | cudaProfiler\.h | cuda_runtime_api\.h
    | cu(blas|dnn|fft|solver|sparse|tensor)\w*\.h | curand\.h | (nvrtc|nccl|nvml)\.h
    | nv(tx3/)?.*[tT]ool.*\.h(pp)? | nvtx3/.* | cudnn_frontend.*
    | (helper_(cuda|cuda_drvapi|functions|gl|image|string|timer)|exception|drvapi_error_string)\.h
    | (torch|ATen|c10|pybind11|gtest|gmock|benchmark|boost|Eigen|opencv2|GL)/.* | Python\.h
    """
)
#: Standard headers of which NVRTC has its own version, in namespace cuda::std.
_SHARED_HEADERS = (
    "algorithm", "array", "bit", "complex", "cstddef", "functional", "initializer_list", "iterator", "limits",
    "numeric", "optional", "span", "tuple", "type_traits", "utility", "variant",
)  # fmt: skip
#: Headers that NVRTC has and that are the host's all the same.
_HOST_ALGORITHMS = re.compile(
    r"cub/device/.*|thrust/(system/.*|(async|device|host|managed|universal)_\w+\.h|"
    r"(copy|count|execution_policy|extrema|fill|for_each|gather|generate|inner_product|merge|partition|reduce|remove|"
    r"scan|scatter|sequence|set_operations|sort|transform|transform_reduce|transform_scan|unique)\.h)"
)
_DEVICE = ("__device__", "__global__", "__constant__", "__shared__", "__managed__")
_MISSING_HEADER = re.compile(r'cannot open source file "([^"]+)"')
_SCOPE = re.compile(r"\b(namespace|struct|class|union)\b[^;={}()]*$|\bextern\s*$")


def host_algorithms(text: str) -> dict[str, str]:
    """Empty headers in place of those of parallel algorithms that a source includes."""
    return {name: "\n" for name in included_names(text) if _HOST_ALGORITHMS.fullmatch(name)}


def stand_in(log: str) -> dict[str, str]:
    """The header that a compiler's log misses, if kernels need nothing of it or NVRTC has its own version."""
    match = _MISSING_HEADER.search(log)
    name = match[1] if match else ""
    if name in _SHARED_HEADERS:
        return {name: f"#pragma once\n#include <cuda/std/{name}>\nnamespace std {{ using namespace cuda::std; }}\n"}
    if name.startswith(("cublas", "torch/", "ATen/")):  # they bring these types
        return {name: "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"}
    return {name: "\n"} if name and _HOST_HEADERS.fullmatch(name) else {}


def without_declarations(text: str, lines: Iterable[int]) -> str:
    """A source without the host declarations that hold these lines. Errors in device code may follow from theirs."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    annotated = re.compile(rf"\b({'|'.join((*_DEVICE, *_device_macros(text)))})\b")
    plain = scrubbed(text)
    host = [span for span in _declarations(plain) if plain[slice(*span)] != ";" and not annotated.search(text, *span)]
    ranges = [(starts[line - 1], (*starts, len(text))[line]) for line in lines if 1 <= line <= len(starts)]
    for begin, end in host:
        if any(begin < last and end > first for first, last in ranges):
            text = text[:begin] + re.sub(r"[^\n]", " ", text[begin:end]) + text[end:]
    return text


def with_plain_lambdas(text: str) -> str:
    """A source whose lambdas have no annotations: within a kernel they mean nothing, and NVRTC refuses them."""
    return re.sub(
        r"(?<=\])(\s*(?:__(?:host|device)__\s*)+)(?=[({])", lambda match: re.sub(r"\S", " ", match[0]), text
    )


def line_ranges(before: str, after: str) -> str:
    """The lines that were left out, as `12-40, 52`."""
    changed = [
        number
        for number, (old, new) in enumerate(zip(before.split("\n"), after.split("\n"), strict=True), 1)
        if old != new
    ]
    parts: list[list[int]] = []
    for number in changed:
        if parts and number <= parts[-1][1] + 2:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{first}-{last}" if first != last else str(first) for first, last in parts)


def scrubbed(text: str) -> str:
    """The source with comments, texts, character literals and preprocessor lines blanked; every place stays."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    pattern = r'//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n]){1,8}\''
    text = re.sub(pattern, blank, text, flags=re.S)
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", blank, text, flags=re.M)


def _device_macros(text: str) -> Iterator[str]:
    for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)((?:\\\n|[^\n])*)", text, re.M):
        if any(word in match[2] for word in _DEVICE):
            yield match[1]


def _declarations(plain: str) -> Iterator[tuple[int, int]]:
    """(start, end) of every declaration outside functions: members of namespaces and classes one by one."""
    begin = depth = 0
    scopes: list[int] = []
    for match in re.finditer(r"[{};]", plain):
        position, mark = match.start(), match[0]
        if mark == "{":
            if depth == len(scopes) and _SCOPE.search(plain[begin:position]):
                scopes.append(depth)
                begin = position + 1
            depth += 1
        elif mark == "}":
            depth -= 1
            if scopes and depth == scopes[-1]:
                scopes.pop()
                begin = position + 1
            elif depth == len(scopes):
                yield _trimmed(plain, begin, position + 1)
                begin = position + 1
            depth = max(depth, len(scopes))
        elif depth == len(scopes):
            yield _trimmed(plain, begin, position + 1)
            begin = position + 1


def _trimmed(plain: str, begin: int, end: int) -> tuple[int, int]:
    return end - len(plain[begin:end].lstrip()), end
