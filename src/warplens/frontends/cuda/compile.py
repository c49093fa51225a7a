"""CUDA C++ to PTX with NVRTC, which needs neither a GPU nor a toolkit."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...errors import CompileError, MissingPackageError, nearest
from ...result_cache import CACHE_VARIABLE, cache_folder, code_digest, content_hash, open_results
from .cubin import KernelResources, read_cubin
from .headers import (
    DEVICE_HEADER,
    DEVICE_RUNTIME,
    HEADER_WHEELS,
    HOST_TYPES,
    STANDARD_HEADERS,
    TYPES_HEADER,
    included_files,
    included_names,
    includes_anything,
)
from .host_code import host_algorithms, line_ranges, stand_in, with_plain_lambdas, without_declarations
from .machine_code import MachineCode, read_machine_code
from .nvrtc import chosen_library, open_library
from .toolkit import homes

#: Default architecture; its machine code gives the register counts.
DEFAULT_ARCHITECTURE = "sm_90"
#: Oldest compute capability that a major version of NVRTC compiles for.
_OLDEST = {13: 75}

ARCHITECTURE = re.compile(r"(sm|compute)_\d{2,4}[af]?")
#: Options that include files the source does not name; such compilations are not cached.
_MORE_FILES = re.compile(r"--?(pre-include|include|pch|create-pch|use-pch)(=|$)")

_WHEEL = "nvidia-cuda-nvrtc"
#: First version of NVRTC that carries the toolkit's headers; those of a toolkit serve an older one.
_CARRIES_HEADERS = (13, 3)
#: The compiler sees this name, in the folder of the source; its output gets the user's name instead.
_PLACEHOLDER = "warplens_source.cu"
_LARGEST_SOURCE_BYTES = 64 << 20
#: What nvcc allows and NVRTC complains about: unannotated functions, names of headers that nvcc includes by itself,
#: and a type; and the options that bring them.
_AS_NVCC = (
    (
        r'JIT mode|identifier "(INFINITY|NAN|HUGE_VALF?|M_\w+)" is undefined',
        ("-default-device", "--pre-include=math.h"),
    ),
    (rf'identifier "({"|".join(DEVICE_RUNTIME)})" is undefined', (f"--pre-include={DEVICE_HEADER}",)),
    (r"--device-int128", ("--device-int128",)),
    (rf'identifier "({"|".join(HOST_TYPES)}|u?int(ptr|\d+)_t)" is undefined', (f"--pre-include={TYPES_HEADER}",)),
)
#: Each attempt misses one more header, or leaves out all declarations that the last one complained about.
_MOST_ATTEMPTS = 50


@dataclass(frozen=True)
class CompiledSource:
    """PTX and the compiler's messages."""

    name: str
    ptx: str
    log: str
    """The compiler's warnings."""
    lowered_names: Mapping[str, str]
    """Name in the PTX of each kernel that was asked for by a name expression (`scale<float>`)."""
    resources: Mapping[str, KernelResources]
    """Resources of each kernel's machine code; empty for a virtual architecture (`compute_90`)."""
    machine_code: Mapping[str, MachineCode]
    """Machine code of each kernel, where the compiler says which PTX it comes from."""
    compiler: str
    from_cache: bool = False

    @property
    def registers(self) -> dict[str, int]:
        """Registers per thread of each kernel with machine code."""
        return {name: item.registers_per_thread for name, item in self.resources.items()}


def compile_cuda(
    source: str,
    *,
    name: str = "kernel.cu",
    options: Sequence[str] = (),
    architecture: str = DEFAULT_ARCHITECTURE,
    kernels: Sequence[str] = (),
    folder: str | Path | None = None,
    cached: bool = True,
) -> CompiledSource:
    """Compile CUDA C++ to PTX, with line numbers.

    Messages and the PTX call the source `name`. Its `#include "…"` and relative
    `-I` start in `folder`. `kernels` are name expressions: they instantiate
    templates, and `lowered_names` gives their names in the PTX.
    """
    folder = None if folder is None else Path(folder).resolve()
    arguments, folders = _checked_options(name, options, folder)
    if not ARCHITECTURE.fullmatch(architecture):
        raise CompileError(f'{name}: architecture {architecture!r} is invalid; write for example "sm_90"')
    for text, what in ((source, "source"), *((kernel, "name of a kernel") for kernel in kernels)):
        if "\0" in text or len(text) > _LARGEST_SOURCE_BYTES:
            raise CompileError(f"{name}: the {what} holds a NUL character or is larger than 64 MiB: not CUDA C++")
    version = compiler_version()
    key = None
    if cached and not any(map(_MORE_FILES.match, arguments)):
        files = included_files(source, folder, folders)
        if files is not None:
            parts = [
                code_digest(Path(__file__).parent),
                version,
                architecture,
                *arguments,
                "",
                *kernels,
                "",
                source,
                *STANDARD_HEADERS.values(),
            ]
            key = content_hash([*parts, *(part for item in sorted(files.items()) for part in item)])
    if key is not None and (entry := open_results("nvrtc").get(key)) is not None:
        try:
            return _unpacked(entry, name, version, from_cache=True)
        except (KeyError, TypeError, AttributeError):
            pass  # not a cache entry of ours: compile again below
    entry = _compiled(source, name, arguments, architecture, tuple(kernels), folder)
    if key is not None:
        open_results("nvrtc").put(key, entry)
    return _unpacked(entry, name, version, from_cache=False)


def architecture_of(compute_capability: str) -> str:
    """What to compile for: a compute capability, or the oldest that the compiler has where that is newer."""
    wanted = int(re.sub(r"\D", "", compute_capability))
    version = re.search(r"\d+", compiler_version())
    return f"sm_{max(wanted, _OLDEST.get(int(version[0]), 0) if version else 0)}"


def kernel_names(source: str) -> list[str]:
    """Names of the kernels that the text of a source shows."""
    plain = without_comments(source)
    plain = re.sub(r"__(?:launch_bounds|cluster_dims|maxnreg|block_size)__\s*\([^)]{0,200}\)", " ", plain)
    return sorted(set(re.findall(r"__global__[^;{}()]{0,500}?\b(\w+)\s*\(", plain)))


def without_comments(source: str) -> str:
    """A source without its comments. An unterminated comment extends to the end, to keep the time linear."""
    return re.sub(r"//[^\n]*|/\*.*?(?:\*/|\Z)", " ", source, flags=re.S)


def nvrtc_library() -> Any:
    if chosen := chosen_library():
        return open_library(chosen)
    try:
        from cuda.bindings import nvrtc

        for file in _wheel_files():
            if re.fullmatch(r"libnvrtc\.so\.\d+|nvrtc64_\d+_\d+\.dll", file.name):
                # Load the wheel's library first: by itself, cuda-bindings may prefer a toolkit's.
                ctypes.CDLL(str(file.locate()))
        nvrtc.nvrtcVersion()  # loads the library if there is no wheel
    except (ImportError, OSError, RuntimeError) as error:
        raise MissingPackageError(
            "CUDA C++ is compiled by NVRTC, which is not installed "
            f"({str(error).splitlines()[0] if str(error) else type(error).__name__}); "
            "`pip install nvidia-cuda-nvrtc cuda-bindings` (Linux and Windows; elsewhere give PTX instead)"
        ) from None
    return nvrtc


def _wheel_files() -> list[metadata.PackagePath]:
    try:
        return metadata.files(_WHEEL) or []
    except metadata.PackageNotFoundError:
        return []


def compiler_version() -> str:
    """Version of the compiler. A wheel tells it without loading the library, which is slow."""
    if chosen_library() is None:
        with suppress(metadata.PackageNotFoundError):
            return f"NVRTC {metadata.version(_WHEEL)}"
    _, major, minor = nvrtc_library().nvrtcVersion()
    return f"NVRTC {major}.{minor}"


def _checked_options(name: str, options: Sequence[str], folder: Path | None) -> tuple[list[str], list[Path]]:
    """The options for the compiler, and the header folders that they add."""
    arguments: list[str] = []
    folders: list[Path] = []
    pending = list(options)
    while pending:
        option = pending.pop(0)
        if "\0" in option or not option.startswith("-"):
            raise CompileError(f'{name}: compile option {option!r} does not begin with "-"')
        if re.match(r"--?(gpu-architecture|arch)\b", option):
            raise CompileError(f'{name}: compile option {option!r}: give architecture = "sm_90" instead')
        if option in ("-I", "--include-path"):
            if not pending:
                raise CompileError(f"{name}: compile option {option!r} names no folder")
            option = f"-I{pending.pop(0)}"
        if match := re.match(r"(?:-I|--include-path)=?(.+)", option, re.S):
            folders.append((folder or Path.cwd()) / match[1])
            option = f"-I{folders[-1]}"
        arguments.append(option)
    return arguments, folders


def _compiled(
    source: str,
    name: str,
    options: list[str],
    architecture: str,
    kernels: tuple[str, ...],
    folder: Path | None,
) -> dict[str, Any]:
    """The cached part of a compilation, with a placeholder for the name of the source.

    Host code that NVRTC refuses is left out; the log says which lines.
    """
    attempt = _Attempt(source, options, architecture, host_algorithms(source))
    for _ in range(_MOST_ATTEMPTS):
        try:
            entry = _compiled_once(attempt, name, kernels, folder)
        except _Refused as refused:
            following = attempt.without_host_code(refused.log)
            if following == attempt:
                raise refused.failure(name, kernels, attempt, attempt.left_out(source)) from None
            attempt = following
            continue
        entry["log"] += attempt.left_out(source)
        return entry
    raise CompileError(f"{name}: holds more host code than can be left out; put the kernels into a file of their own")


@dataclass(frozen=True)
class _Attempt:
    """What the compiler is given: the source, options, and headers in place of files."""

    text: str
    options: list[str]
    architecture: str
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Files that headers stand for, by their names.
    places: Mapping[str, str] = field(default_factory=dict)

    def without_host_code(self, log: str) -> _Attempt:
        """The next attempt, without the host code that the log complains about; the same if it is about none."""
        own = re.fullmatch(r"sm_(9\d|\d{3})", self.architecture)  # wgmma and its kind are of one alone
        if own and f"not supported on .target '{own[0]}'" in log:
            return replace(self, architecture=f"{own[0]}a")
        if header := stand_in(log):
            return replace(self, headers={**self.headers, **header})
        if "on lambda" in log and (text := with_plain_lambdas(self.text)) != self.text:
            return replace(self, text=text)
        for pattern, options in _AS_NVCC:
            if re.search(pattern, log) and not set(options) <= set(self.options):
                return replace(self, options=[*self.options, *options])
        lines: dict[str, set[int]] = {}
        for file, line, _ in _DIAGNOSTIC.findall(log):
            lines.setdefault(file, set()).add(int(line))
        text = without_declarations(self.text, lines.pop(_PLACEHOLDER, ()))
        headers, places, folders = dict(self.headers), dict(self.places), list(self.options)
        for file, chosen in lines.items():
            if (name := _spelling(file, [self.text, *headers.values()])) is not None:
                headers[name] = without_declarations(_header_text(file, name, headers), chosen)
                places.setdefault(name, file)
                # What it includes lies beside the file, not beside the text in its place.
                beside = f"-I{Path(file).resolve().parent}"
                if Path(file).is_file() and beside not in folders:
                    folders.append(beside)
        return replace(self, text=text, headers=headers, places=places, options=folders)

    def left_out(self, source: str) -> str:
        found = line_ranges(with_plain_lambdas(source), with_plain_lambdas(self.text))
        return f"\nwarplens: host code was left out: lines {found}" if found else ""


def _spelling(file: str, texts: Sequence[str]) -> str | None:
    """How a source includes a user's header, if it does so itself."""
    names = (name for text in texts for name in included_names(text))
    return next((name for name in names if f"/{file}".endswith(f"/{name}")), None)


def _header_text(file: str, name: str, headers: Mapping[str, str]) -> str:
    try:
        return headers.get(name) or Path(file).read_text("utf-8", "replace")
    except OSError:
        return ""


class _Refused(Exception):  # noqa: N818 (it says what happened)
    """The compiler's log of a failure."""

    def __init__(self, log: str) -> None:
        self.log = log

    def failure(self, name: str, kernels: tuple[str, ...], attempt: _Attempt, left_out: str) -> CompileError:
        error = _failure(self.log.replace(_PLACEHOLDER, name), name, kernels, attempt)
        return CompileError(f"{error}{left_out.replace(chr(10) + 'warplens: ', '; ')}") if left_out else error


def _compiled_once(attempt: _Attempt, name: str, kernels: tuple[str, ...], folder: Path | None) -> dict[str, Any]:
    nvrtc = nvrtc_library()
    source, architecture = attempt.text, attempt.architecture
    _, supported = nvrtc.nvrtcGetSupportedArchs()
    number = re.sub(r"\D", "", architecture)
    if int(number) not in supported:
        known = nearest(f"sm_{number}", [f"sm_{value}" for value in supported])
        raise CompileError(f"{name}: architecture {architecture!r} is unknown to the compiler; {known}")
    # A folder that does not exist keeps the current folder out of the header search.
    path = str((folder or cache_folder() / "no-folder") / _PLACEHOLDER)
    arguments = ["-lineinfo", f"-arch={architecture}", *attempt.options]
    if includes_anything(source) or f"--pre-include={TYPES_HEADER}" in arguments:
        arguments += _header_options()
    headers = {**STANDARD_HEADERS, **attempt.headers}
    names, texts = ([text.encode() for text in part] for part in (headers, headers.values()))
    result, program = nvrtc.nvrtcCreateProgram(_encoded(source, name), path.encode(), len(names), texts, names)
    _expect_success(result, name, "starting")
    try:
        for kernel in kernels:
            _expect_success(
                nvrtc.nvrtcAddNameExpression(program, _encoded(kernel, name))[0], name, f"naming {kernel}"
            )
        (result,) = nvrtc.nvrtcCompileProgram(program, len(arguments), [_encoded(a, name) for a in arguments])
        log = _output(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0 \n")
        text = log.decode("utf-8", "replace").replace(path, _PLACEHOLDER)
        if int(result):
            raise _Refused(text or str(result))
        ptx = _output(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0").decode("utf-8", "replace")
        if ".entry" not in ptx:
            raise CompileError(f'{name}: no kernel was compiled; mark one `extern "C" __global__ void …`')
        lowered = {kernel: nvrtc.nvrtcGetLoweredName(program, kernel.encode())[1].decode() for kernel in kernels}
        resources: dict[str, KernelResources] = {}
        codes: dict[str, MachineCode] = {}
        if architecture.startswith("sm_"):
            cubin = _output(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
            try:
                resources = read_cubin(cubin)
                codes = read_machine_code(cubin)
            except ValueError as error:
                text += f"\nwarplens: registers are unknown: {error}"
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    # The compiler writes characters beyond ASCII as octal, so the folder is matched, not compared.
    ptx = re.sub(rf'(\.file\s+\d+\s+")[^"\n]*{re.escape(_PLACEHOLDER)}"', rf'\g<1>{_PLACEHOLDER}"', ptx)
    kept, code = ({kernel: dict(vars(item)) for kernel, item in part.items()} for part in (resources, codes))
    return {"ptx": ptx, "log": text, "lowered_names": lowered, "resources": kept, "machine_code": code}


def _header_options() -> list[str]:
    """Where the compiler finds the toolkit's headers (fp16, mma, cooperative groups, …)."""
    version, chosen = compiler_version().split()[-1], chosen_library()
    if chosen is None and tuple(map(int, version.split(".")[:2])) >= _CARRIES_HEADERS:
        return [f"--use-bundled-headers={cache_folder() / f'headers-{version}'}"]  # which it unpacks there, once
    for home in [chosen.resolve().parents[1]] if chosen else homes():
        include = home / "include"
        if (include / "cuda_fp16.h").is_file():
            return [f"-I{each}" for each in (include, include / "cccl") if each.is_dir()]
    return []


def _unpacked(entry: dict[str, Any], name: str, version: str, *, from_cache: bool) -> CompiledSource:
    shown = name.replace('"', "'").replace("\n", " ")
    codes = entry["machine_code"]
    return CompiledSource(
        name=name,
        ptx=entry["ptx"].replace(f'"{_PLACEHOLDER}"', f'"{shown}"'),
        log=entry["log"].replace(_PLACEHOLDER, name),
        lowered_names=MappingProxyType(dict(entry["lowered_names"])),
        resources=MappingProxyType({k: KernelResources(**item) for k, item in entry["resources"].items()}),
        machine_code=MappingProxyType(
            {k: MachineCode(**{name: tuple(column) for name, column in item.items()}) for k, item in codes.items()}
        ),
        compiler=version,
        from_cache=from_cache,
    )


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise CompileError(f"{name}: holds characters that are not Unicode text; save the file as UTF-8") from None


def _output(size_of: Any, write: Any, program: Any) -> bytes:
    result, size = size_of(program)
    if int(result) or not size:
        return b""
    buffer = bytes(size + 8)  # long enough not to be a bytes object that Python shares: the library writes into it
    write(program, buffer)
    return buffer[:size]


def _expect_success(result: Any, name: str, doing: str) -> None:
    if int(result):
        raise CompileError(f"{name}: {doing} the compilation failed ({result})")


_DIAGNOSTIC = re.compile(r"^(.*)\((\d+)\): (?:catastrophic )?error(?: #[\w-]+)?: (.*)$", re.M)
#: How headers of a wheel begin, besides its name.
_OF_WHEEL = {"cccl": "cub", "curand": "curand", "cutlass": "cute"}
_HOST_CODE = re.compile(r"JIT mode|\bcuda[A-Z]\w+|namespace \"std\" has no member|cannot open source file")


def _failure(log: str, name: str, kernels: tuple[str, ...], attempt: _Attempt) -> CompileError:
    """The compiler's first error with its place, and the number of errors."""
    if match := re.search(r"nvrtc: error: (.*)", log):
        if str(cache_folder()) in match[1]:  # NVRTC cannot write its headers there
            return CompileError(f"{name}: {match[1]}; set {CACHE_VARIABLE} to a folder that can be written to")
        option = re.search(r"option (\S+)", match[1])
        what = f"compile option {option[1]!r} is unknown to NVRTC" if option else match[1]
        return CompileError(
            f"{name}: {what}; it takes those of nvcc that concern device code, such as -DNAME=VALUE, -Ifolder, "
            "-std=c++17, -use_fast_math, -fmad=false, -maxrregcount=32"
        )
    found = list(_DIAGNOSTIC.finditer(log))
    if not found:
        return CompileError(f"{name}: does not compile: {' '.join(log.split())[:2000]}")
    file, line, message = found[0].groups()
    if file == "__nv_name_map":
        known = kernel_names(attempt.text)
        remedy = "write the arguments of the template, as in name<float>" if "template" in message else ""
        remedy = remedy or (nearest(kernels[0], known) if known else "the source defines no __global__ function")
        return CompileError(f"{name}: kernel {', '.join(map(repr, kernels))}: {message}; {remedy}")
    errors = len(found)
    more = f" (and {errors - 1} more error{'s' if errors > 2 else ''})" if errors > 1 else ""
    remedy = ""
    missing = re.match(r'cannot open source file "(\w+)', message)
    wheel = next((name for name in HEADER_WHEELS if missing and missing[1].startswith((name, _OF_WHEEL[name]))), None)
    if wheel:
        package = HEADER_WHEELS[wheel][0]
        remedy = f'; it is in the package {package}: install it, and write include = ["{wheel}"] in the workload file'
    else:
        if missing and re.search(r'"[^"]+\.\w+"', message):  # those of the standard library have no ending
            remedy = '; name the folder of your headers, include = ["FOLDER"] in the workload file'
        if any(_HOST_CODE.search(item[3]) for item in found):
            remedy += (
                "; host code and its headers are not compiled: put the kernels into a file of their own, or host "
            )
            remedy += "host code between #ifndef __CUDACC_RTC__ and #endif"
    return CompileError(f"{_shown(attempt.places.get(file, file))}:{line}: {message}{more}{remedy}")


def _shown(file: str) -> str:
    """The compiler's place of a header as one would type it here."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_absolute() and path.is_relative_to(Path.cwd()) else file
