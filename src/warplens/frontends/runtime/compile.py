"""CUDA programs from their sources: nvcc of the compiler packages, or an installed one, linked with the stand-in."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ...errors import CompileError, FileError, MissingPackageError, install_command
from ..cuda.toolkit import find_program, packages
from .build import LIBRARY, host_compiler

#: How names of sources and of what may be linked with them end.
SOURCE_ENDINGS = (".cu", ".cpp", ".cc", ".cxx", ".c", ".o", ".a")
_MOST_WORDS = 4000
_MISSING_CURAND = re.compile(r"(curand\w*\.h)\S*: No such file")
_ARCHITECTURE = re.compile(r"--?(gpu-architecture|arch|generate-code|gencode)\b")
#: Functions that older programs call and CUDA 13 no longer has, and those that took their place.
_RENAMED = {
    "cudaThreadSynchronize": "cudaDeviceSynchronize",
    "cudaThreadExit": "cudaDeviceReset",
    "cudaThreadSetCacheConfig": "cudaDeviceSetCacheConfig",
    "cudaThreadGetCacheConfig": "cudaDeviceGetCacheConfig",
    "cudaThreadSetLimit": "cudaDeviceSetLimit",
    "cudaThreadGetLimit": "cudaDeviceGetLimit",
}


def find_nvcc() -> str:
    """nvcc of NVIDIA's packages, else of an installed toolkit."""
    for home in packages():
        path = home / "bin" / "nvcc"
        if path.is_file() and os.access(path, os.X_OK) and (home / "include" / "cuda_runtime.h").is_file():
            return str(path)
    found = find_program("nvcc")
    if found is None:
        raise MissingPackageError(
            f"compiling programs needs nvcc; install its packages: {install_command('programs')}, or a CUDA toolkit"
        )
    return found


def compile_program(
    sources: Sequence[Path], folder: Path, stand_in: Path, architecture: int, options: Sequence[str] = ()
) -> Path:
    """The program made of some sources, in a folder. It holds PTX, and machine code that tells its registers."""
    for each in sources:
        if not each.is_file():
            raise FileError(f"{each}: there is no such file")
    target = folder / sources[0].stem
    nvcc = find_nvcc()
    chosen = any(_ARCHITECTURE.match(each) for each in options)

    def run(target_options: Sequence[str]) -> subprocess.CompletedProcess[str]:
        command = [
            nvcc, "-O3", "-lineinfo", "-w", *target_options, "-ccbin", host_compiler(), "-cudart", "none",
            *_includes(nvcc), *(f"-D{old}={new}" for old, new in _RENAMED.items()), *options,
            *(str(each) for each in sources), "-o", str(target),
            str(stand_in / LIBRARY), "-Xlinker", f"-rpath={stand_in}", "-lm", "-lpthread",
        ]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)

    ran = run([] if chosen else [f"-arch=sm_{architecture}"])
    if ran.returncode and not chosen and f"not supported on .target 'sm_{architecture}'" in ran.stderr + ran.stdout:
        # wgmma and its kind are of one architecture alone; -arch=sm_90a would compile for sm_90 too
        ran = run(["-gencode", f"arch=compute_{architecture}a,code=[sm_{architecture}a,compute_{architecture}a]"])
    if ran.returncode:
        words = (ran.stderr or ran.stdout).strip()[:_MOST_WORDS]
        names = ", ".join(str(each) for each in sources)
        remedy = "--nvcc 'OPTIONS' passes options to it"
        if missing := _MISSING_CURAND.search(words):
            remedy = f"{missing[1]} comes with a package: python -m pip install nvidia-curand"
        raise CompileError(f"{names}: nvcc says:\n{words}\n{remedy}")
    return target


def _includes(nvcc: str) -> list[str]:
    """Headers of Thrust and CUB lie in a folder of their own since CUDA 13."""
    home = Path(nvcc).resolve().parent.parent
    return [f"-I{place}" for place in (home / "include" / "cccl", home / "include") if place.is_dir()]
