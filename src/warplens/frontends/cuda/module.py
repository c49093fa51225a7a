"""CUDA C++ in Python: compile a source, launch its kernels on NumPy arrays, get traces."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ...errors import FileError
from ...tomlfile import read_at_most
from ...traces import MemoryTrace
from .compile import DEFAULT_ARCHITECTURE, CompiledSource, compile_cuda

if TYPE_CHECKING:
    from ..ptx import Execution, PtxModule


@overload
def cuda(
    source: str | Path, *, options: Sequence[str] = (), architecture: str = ..., name: str | None = None
) -> CudaModule: ...
@overload
def cuda(source: Callable[..., Any], *, architecture: str = ...) -> PythonKernel: ...
def cuda(
    source: str | Path | Callable[..., Any],
    *,
    options: Sequence[str] = (),
    architecture: str = DEFAULT_ARCHITECTURE,
    name: str | None = None,
) -> CudaModule | PythonKernel:
    """A CUDA C++ or PTX source: its text, or the path of a .cu or .ptx file. No GPU is needed.

    A Python function for numba-cuda (extra `python-kernels`) becomes a kernel with `launch`.

    >>> import numpy, warplens
    >>> double = warplens.cuda('extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }')
    >>> x = numpy.arange(4, dtype=numpy.float32)
    >>> run = double.kernel("twice").launch(1, 4, x)
    >>> x.tolist()
    [0.0, 2.0, 4.0, 6.0]
    """
    if callable(source):
        return PythonKernel(source, architecture)
    text, folder = str(source), None
    if isinstance(source, Path) or (len(text) < 4096 and "\n" not in text and text.endswith((".cu", ".ptx", ".cuh"))):
        path = Path(source)
        try:
            text, folder = read_at_most(path, 64 << 20, "a source").decode("utf-8"), path.parent
        except (OSError, UnicodeDecodeError) as error:
            raise FileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
        name = name or str(path)
    return CudaModule(text, name or "kernel.cu", tuple(options), architecture, folder)


@dataclass(frozen=True)
class CudaModule:
    """A source whose kernels can be launched."""

    text: str = field(repr=False)
    name: str
    options: tuple[str, ...] = ()
    architecture: str = DEFAULT_ARCHITECTURE
    folder: Path | None = None

    def kernel(self, name: str) -> CudaKernel:
        """A kernel by its name; a template needs its arguments, as in `scale<float>`."""
        return CudaKernel(self, name)


@dataclass(frozen=True)
class CudaKernel:
    """One kernel, compiled when first needed."""

    module: CudaModule
    name: str

    @property
    def _is_ptx(self) -> bool:
        return self.module.name.endswith(".ptx") or self.module.text.lstrip().startswith((".version", "//\n// Gen"))

    @cached_property
    def compiled(self) -> CompiledSource | None:
        """The result of NVRTC; None if the source is PTX."""
        if self._is_ptx:
            return None
        module = self.module
        return compile_cuda(
            module.text,
            name=module.name,
            options=module.options,
            architecture=module.architecture,
            kernels=(self.name,),
            folder=module.folder,
        )

    @cached_property
    def ptx(self) -> PtxModule:
        from ..ptx import parse_ptx

        return parse_ptx(self.compiled.ptx if self.compiled else self.module.text, name=self.module.name)

    @property
    def entry(self) -> str:
        """Name in the PTX."""
        return self.compiled.lowered_names[self.name] if self.compiled else self.name

    @property
    def registers_per_thread(self) -> int | None:
        return self.compiled.registers.get(self.entry) if self.compiled else None

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        *arguments: Any,
        dynamic_shared_memory_bytes: int = 0,
        constants: Mapping[str, Any] | None = None,
        record: bool = True,
        blocks: int | Sequence[range] | None = None,
        **limits: Any,
    ) -> CudaRun:
        """Run the kernel on the CPU. Arrays are changed as a GPU would change them.

        `constants` sets `__constant__` variables by name; `blocks` runs at most so many
        thread blocks, from the middle of the grid, or those of some ranges.
        `warplens.frontends.ptx.execute` describes the other limits.
        """
        from ..ptx import execute

        execution = execute(
            self.ptx,
            self.entry,
            grid,
            block,
            arguments,
            dynamic_shared_memory_bytes=dynamic_shared_memory_bytes,
            constants=constants,
            record=record,
            blocks=blocks,
            registers_per_thread=self.registers_per_thread,
            machine_code=self.compiled.machine_code.get(self.entry) if self.compiled else None,
            name=self.name,
            **limits,
        )
        if self.compiled is None:
            return CudaRun(execution.with_source(None, self.module.text))
        return CudaRun(execution.with_source(self.module.text, self.compiled.ptx))


@dataclass(frozen=True)
class PythonKernel:
    """A Python function, plain or decorated with `@numba.cuda.jit`, compiled for the types of each launch."""

    function: Callable[..., Any]
    architecture: str = DEFAULT_ARCHITECTURE

    def kernel(self, name: str = "") -> PythonKernel:
        """Itself: a function is one kernel."""
        return self

    def launch(
        self,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        *arguments: Any,
        record: bool = True,
        blocks: int | Sequence[range] | None = None,
        **limits: Any,
    ) -> CudaRun:
        """Run the kernel on the CPU. Arrays are changed as a GPU would change them."""
        from ..ptx import execute, parse_ptx
        from .python import compile_python_kernel, flatten_arguments

        typed = [each if isinstance(each, np.ndarray | np.generic) else np.asarray(each)[()] for each in arguments]
        plain: Any = getattr(self.function, "py_func", self.function)
        name = getattr(plain, "__name__", "kernel")
        made = compile_python_kernel(self.function, typed, architecture=self.architecture, where=name)
        execution = execute(
            parse_ptx(made.ptx, name=plain.__code__.co_filename),
            made.entry,
            grid,
            block,
            flatten_arguments(typed),
            record=record,
            blocks=blocks,
            name=name,
            **limits,
        )
        return CudaRun(execution.with_source(_file_text(plain.__code__.co_filename), made.ptx))


def _file_text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None


@dataclass(frozen=True)
class CudaRun:
    """A launch that has been run."""

    execution: Execution

    @property
    def instructions(self) -> int:
        """Warp instructions that were executed."""
        return self.execution.instructions

    @property
    def seconds(self) -> float:
        """Time that the execution on the CPU took."""
        return self.execution.seconds

    @property
    def printed(self) -> str:
        """What the kernel printed, in the order of its blocks."""
        return self.execution.printed

    def trace(self) -> MemoryTrace:
        """The recorded trace: an input of `warplens.predict` and `warplens.simulate`."""
        return self.execution.trace
