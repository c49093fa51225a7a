"""Builds the stand-in for CUDA's libraries once, from `shim/` into the cache folder, with the host's compiler."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from functools import partial
from importlib.resources import files
from pathlib import Path

from ...errors import MissingPackageError
from ...result_cache import content_hash
from ..native_library import built_once, call_compiler

#: Names under which programs look for CUDA's runtime; their symbols carry them as versions.
RUNTIME_NAMES = ("libcudart.so.11.0", "libcudart.so.12", "libcudart.so.13")
#: Other names of the stand-in itself.
OTHER_NAMES = ("libcudart.so", "libcuda.so", "libcuda.so.1")
LIBRARY = "libwarplens-cuda.so"
_WHAT = "the stand-in for CUDA"
_OPTIONS = ("-std=c++17", "-O1", "-fPIC", "-fvisibility=hidden", "-shared", "-pthread", f"-Wl,-soname,{LIBRARY}")


def host_compiler() -> str:
    """The C++ compiler of this machine; the error says how to get one."""
    for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    raise MissingPackageError(
        "running programs needs a C++ compiler for their host code, and there is none: install g++ "
        "(apt install g++, dnf install gcc-c++) or name one in CXX"
    )


def build_stand_in() -> Path:
    """The folder with the stand-in under all names that programs look for, from the cache or built now."""
    if not sys.platform.startswith("linux") or platform.machine() not in ("x86_64", "aarch64"):
        raise MissingPackageError(
            f"programs can be run on Linux on x86-64 and ARM64 only, not on {sys.platform} {platform.machine()}"
        )
    compiler = host_compiler()
    sources = sorted(
        (each for each in files(__package__).joinpath("shim").iterdir() if each.name.endswith((".cpp", ".h"))),
        key=lambda each: each.name,
    )
    contents = {each.name: each.read_bytes() for each in sources}
    version = subprocess.run([compiler, "--version"], capture_output=True, check=False).stdout
    key = content_hash([*contents, *contents.values(), version, *_OPTIONS, *RUNTIME_NAMES])[:32]
    build = partial(_compile, compiler, [name for name in contents if name.endswith(".cpp")])
    return built_once(_WHAT, ("cuda-stand-in", key), contents, LIBRARY, build)


def _compile(compiler: str, sources: list[str], folder: Path) -> None:
    """The library, and one for each name of the runtime that has its versions and leads to it."""
    call_compiler(_WHAT, [compiler, *_OPTIONS, *sources, "-o", f"out/{LIBRARY}", "-ldl"], folder)
    for name in OTHER_NAMES:
        (folder / "out" / name).symlink_to(LIBRARY)
    (folder / "empty.cpp").write_text("")
    for name in RUNTIME_NAMES:
        (folder / "versions").write_text(f"{name} {{ }};\n")
        linking = ["-Wl,--version-script=versions", f"-Wl,-soname,{name}", "-Wl,--no-as-needed", f"out/{LIBRARY}"]
        command = [compiler, "-shared", "empty.cpp", "-o", f"out/{name}", *linking, "-Wl,-rpath,$ORIGIN"]
        call_compiler(_WHAT, command, folder)
