"""Triton kernels to PTX: Triton's own compiler, told of a GPU that need not be there.

Triton asks its active driver which GPU to compile for and which device it is on. `_Target` answers both, so
that specialisation on alignment, constants and options is Triton's own.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from ...errors import CompileError, MissingPackageError, install_command
from ..cuda.cubin import read_cubin
from ..cuda.machine_code import MachineCode, read_machine_code

T = TypeVar("T")
#: Oldest architecture that Triton compiles for.
OLDEST = 80


@dataclass(frozen=True)
class CompiledTriton:
    """PTX of a kernel for the types and constants of one launch."""

    ptx: str
    entry: str
    parameters: tuple[str, ...]
    """Arguments that are parameters of the PTX, in order; constants are not."""
    num_warps: int
    shared_memory_bytes: int
    scratch_bytes: int
    """Global memory that each program needs besides."""
    registers_per_thread: int | None
    machine_code: MachineCode | None = None


def compile_triton(
    kernel: Any, arguments: Sequence[Any], options: Mapping[str, Any], architecture: str
) -> CompiledTriton:
    """Compile a `@triton.jit` function for the arguments of a launch; `options` are its keyword arguments."""
    arch = max(int(re.sub(r"\D", "", architecture)), OLDEST)
    name = getattr(kernel, "__name__", "kernel")
    try:
        with _target(arch), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on defaults of later versions of Triton
            wrapped = [_wrapped(each) for each in arguments]
            made = kernel.run(
                *wrapped, grid=(1,), warmup=True, **{key: _wrapped(each) for key, each in options.items()}
            )
    except MissingPackageError:
        raise
    except Exception as error:
        raise CompileError(f"{name} does not compile with Triton: {_reason(error)}") from error
    metadata = made.metadata
    if getattr(metadata, "num_ctas", 1) > 1:
        raise CompileError(f"{name}: num_ctas = {metadata.num_ctas}: clusters of thread blocks are not covered")
    types = made.src.signature
    odd = [key for key, kind in types.items() if not isinstance(kind, str) or kind.startswith("tensordesc")]
    if odd:
        raise CompileError(
            f"{name}: {', '.join(odd)}: tuples and host-made tensor descriptors are not covered; make the descriptor "
            "in the kernel (tl.make_tensor_descriptor)"
        )
    used = _of_cubin(read_cubin, made, metadata.name)
    return CompiledTriton(
        ptx=made.asm["ptx"],
        entry=metadata.name,
        parameters=tuple(key for key, kind in types.items() if kind != "constexpr"),
        num_warps=metadata.num_warps,
        shared_memory_bytes=metadata.shared,
        scratch_bytes=getattr(metadata, "global_scratch_size", 0),
        registers_per_thread=used.registers_per_thread if used else None,
        machine_code=_of_cubin(read_machine_code, made, metadata.name),
    )


class _Target:
    """What Triton asks its driver about when it compiles."""

    def __init__(self, target: Any) -> None:
        self.target = target

    def get_current_target(self) -> Any:
        return self.target

    def get_current_device(self) -> int:
        """Triton keeps compiled kernels by device; ours differ by architecture."""
        return -int(self.target.arch)

    def get_current_stream(self, device: int) -> int:
        return 0


@contextmanager
def _target(arch: int) -> Iterator[None]:
    try:
        from triton.backends.compiler import GPUTarget
        from triton.runtime.driver import driver
    except ImportError:
        raise MissingPackageError(
            f"Triton kernels need Triton; install it with: {install_command('triton')}"
        ) from None
    before = driver._active
    driver.set_active(_Target(GPUTarget("cuda", arch, 32)))
    try:
        yield
    finally:
        driver._active = before


class _Pointer:
    """An array as Triton's compiler sees a tensor: a dtype, and an address whose alignment it relies on."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.dtype = array.dtype.name
        root: Any = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        self.offset = array.ctypes.data - root.ctypes.data  # whole arrays are aligned here, wherever NumPy put them

    def data_ptr(self) -> int:
        return (1 << 40) + self.offset


def _wrapped(argument: Any) -> Any:
    if isinstance(argument, np.ndarray):
        return _Pointer(argument)
    return argument.item() if isinstance(argument, np.generic) else argument


def _of_cubin(read: Callable[[bytes], Mapping[str, T]], made: Any, entry: str) -> T | None:
    """What a reader finds in the cubin for a kernel."""
    try:
        return read(made.asm["cubin"]).get(entry) if made.asm.get("cubin") else None
    except ValueError:
        return None


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1] if lines else ''}"[:500]
