"""Triton kernels to PTX: Triton's own compiler, told of a GPU that need not be there.

Triton asks its active driver which GPU to compile for and which device it is on. `_Target` answers both, so
that specialisation on alignment, constants and options is Triton's own.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from typing import Any, TypeVar

from ...errors import CompileError, MissingPackageError, install_command
from ..cuda.cubin import read_cubin
from ..cuda.machine_code import MachineCode, read_machine_code
from .arguments import for_compiler

T = TypeVar("T")
#: Oldest architecture that Triton compiles for.
OLDEST = 80
_LOC = re.compile(r"(\s*\.loc\s+\d+\s+)(\d+)")


@dataclass(frozen=True)
class CompiledTriton:
    """PTX of a kernel for the types and constants of one launch."""

    ptx: str
    entry: str
    parameters: Mapping[str, Any]
    """The compiler's types of the arguments, in order; "constexpr" are no parameters of the PTX."""
    descriptors: tuple[Mapping[str, Any], ...]
    """Layouts of the tensor maps that stand for descriptors made on the host."""
    num_warps: int
    num_ctas: int
    """Thread blocks of a cluster, which is a program."""
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
    written = io.StringIO()
    wrapped = [for_compiler(each) for each in arguments]
    named = {key: for_compiler(each) for key, each in options.items()}
    try:
        with _target(arch), warnings.catch_warnings(), redirect_stdout(written):
            warnings.simplefilter("ignore")  # on defaults of later versions of Triton
            made = kernel.run(*wrapped, grid=(1,), warmup=True, **named)
    except MissingPackageError:
        raise
    except Exception as error:
        raise CompileError(f"{name} does not compile with Triton: {reason_of(error)}") from error
    print(written.getvalue(), end="")  # of tl.static_print; an error has the whole PTX, of which its reason is told
    metadata = made.metadata
    used = _of_cubin(read_cubin, made, metadata.name)
    return CompiledTriton(
        ptx=_with_own_lines(made.asm["ptx"]),
        entry=metadata.name,
        parameters=made.src.signature,
        descriptors=tuple(getattr(metadata, "tensordesc_meta", None) or ()),
        num_warps=metadata.num_warps,
        num_ctas=getattr(metadata, "num_ctas", 1),
        shared_memory_bytes=metadata.shared,
        scratch_bytes=getattr(metadata, "global_scratch_size", 0),
        registers_per_thread=used.registers_per_thread if used else None,
        machine_code=_of_cubin(read_machine_code, made, metadata.name),
    )


def _with_own_lines(ptx: str) -> str:
    """PTX whose inline assembly has the line that it stands for: LLVM adds the lines of the assembly to it."""
    lines = ptx.split("\n")
    own: int | None = None  # lines of assembly before this one, where there is assembly
    for index, line in enumerate(lines):
        text = line.strip()
        if text == "// begin inline asm":
            own = 0
        elif text == "// end inline asm":
            own = None
        elif own is not None and (found := _LOC.match(line)):
            lines[index] = f"{found[1]}{max(int(found[2]) - own, 1)}{line[found.end() :]}"
        elif own is not None:
            own += 1
    return "\n".join(lines)


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


def _of_cubin(read: Callable[[bytes], Mapping[str, T]], made: Any, entry: str) -> T | None:
    """What a reader finds in the cubin for a kernel."""
    try:
        return read(made.asm["cubin"]).get(entry) if made.asm.get("cubin") else None
    except ValueError:
        return None


def reason_of(error: BaseException) -> str:
    """Why Triton does not compile a kernel: the innermost of its errors, with its place in the Python file."""
    place = ""
    while error.__cause__ is not None:
        place = _place(error) or place
        error = error.__cause__
    place = _place(error) or place
    lines = [line.strip() for line in str(getattr(error, "error_message", None) or error).splitlines()]
    refused = [line for line in lines if line.startswith("ptxas") and "error" in line]
    told = refused[:1] or [line for line in lines if line][-1:]
    return f"{place}{type(error).__name__}: {''.join(told)}"[:500]


def _place(error: BaseException) -> str:
    """Where in a Python file an error of Triton's compiler is: it counts lines from the function's first one."""
    from triton.runtime.jit import _triton_jit_function_registry as functions

    source, line = getattr(error, "src", None), getattr(getattr(error, "node", None), "lineno", None)
    if source is None or line is None:
        return ""
    found = next((each for each in functions.values() if each.src == source), None)
    if found is None:
        return ""
    first = getattr(found, "def_file_line_number", found.starting_line_number)
    return f"{found.fn.__code__.co_filename}: line {first + line - 1}: "
