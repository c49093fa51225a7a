"""Suite kernels executed on the CPU and checked against their references."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from warplens.frontends.cuda.module import CudaKernel, cuda
from warplens.suite.catalog import SIZES, ArgumentComparison, SuiteKernel, SuiteLaunch, compare, get_kernel
from warplens.suite.kernel import Sized

if TYPE_CHECKING:
    from warplens.frontends.ptx import Execution
    from warplens.traces import MemoryTrace, TraceWriter, WarpGroup


@dataclass(frozen=True, eq=False)
class SuiteRun:
    """One execution of a suite kernel, and how its result compares with the reference."""

    kernel: SuiteKernel
    size: str
    launch: SuiteLaunch
    """As prepared: its arrays hold the inputs."""
    arguments: tuple[Any, ...]
    """The arguments after the execution."""
    execution: Execution
    comparisons: tuple[ArgumentComparison, ...]

    @property
    def ok(self) -> bool:
        return all(each.ok for each in self.comparisons)

    @property
    def max_ulps(self) -> float:
        """Largest error of any element against the reference (see `ArgumentComparison.max_ulps`)."""
        return max(each.max_ulps for each in self.comparisons)

    @property
    def thread_instructions_per_second(self) -> float:
        return self.execution.thread_instructions / self.execution.seconds

    @property
    def trace(self) -> MemoryTrace:
        return self.execution.trace


def compiled_kernel(kernel: SuiteKernel) -> CudaKernel:
    """The kernel as NVRTC compiles it, once per process."""
    return _compiled(kernel.source_text(), kernel.source, kernel.options, kernel.entry)


@cache
def _compiled(text: str, name: str, options: tuple[str, ...], entry: str) -> CudaKernel:
    return cuda(text, name=name, options=options).kernel(entry)


def run_on_cpu(
    kernel: SuiteKernel | str,
    size: str = "small",
    *,
    record: bool = False,
    consume: Callable[[WarpGroup], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    workers: int | None = None,
) -> SuiteRun:
    """Execute a kernel of the suite on the CPU and compare every argument with its NumPy reference.

    With `record` the run has a trace, unless `consume` takes its groups.
    `progress(done, all)` reports the thread blocks.
    """
    kernel = get_kernel(kernel) if isinstance(kernel, str) else kernel
    launch = kernel.prepare(size)
    arguments = launch.copied_arguments()
    run = compiled_kernel(kernel).launch(
        launch.grid,
        launch.block,
        *arguments,
        dynamic_shared_memory_bytes=launch.dynamic_shared_memory_bytes,
        constants=launch.constants,
        record=record,
        consume=consume,
        progress=progress,
        workers=workers,
    )
    return SuiteRun(kernel, size, launch, arguments, run.execution, tuple(compare(kernel, launch, arguments)))


def write_trace(kernel: SuiteKernel | str, size: str, writer: TraceWriter, *, launch_index: int = 0) -> SuiteRun:
    """Execute a kernel of the suite and add its trace, under its name in the suite, to a `.wlt` file."""
    run = run_on_cpu(kernel, size, record=True, consume=writer.write)
    header = replace(run.execution.header, kernel=run.kernel.name, launch_index=launch_index)
    writer.end_launch(header, run.execution.static)
    return run


def size_parameters(kernel: SuiteKernel) -> dict[str, dict[str, Any]]:
    """What each size of a kernel means: the names and values of its generator's parameters."""
    assert isinstance(kernel.prepare, Sized)
    names = list(inspect.signature(kernel.prepare.make).parameters)
    return {size: dict(zip(names, getattr(kernel.prepare, size), strict=True)) for size in SIZES}
