"""Launches of Triton kernels on the CPU, against NumPy arrays."""

from __future__ import annotations

import inspect
import linecache
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import KernelFault, PtxError
from ..cuda.module import CudaRun
from .arguments import Parameters, tensors_of
from .compile import CompiledTriton, compile_triton

Grid = int | Sequence[int] | Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class TritonRun(CudaRun):
    """A launch of a Triton kernel that has been run."""

    compiled: CompiledTriton
    constants: Mapping[str, Any]
    """Values of the kernel's constants, and options such as num_warps."""

    @property
    def ptx(self) -> str:
        return self.compiled.ptx


def launch_triton(
    kernel: Any,
    grid: Grid,
    arguments: Sequence[Any],
    options: Mapping[str, Any],
    *,
    architecture: str = "sm_90",
    **limits: Any,
) -> TritonRun:
    """Run a `@triton.jit` function. Arrays are changed as a GPU would change them.

    `options` are its keyword arguments, num_warps and num_stages among them.
    `warplens.frontends.ptx.execute` describes `limits`.
    """
    from ..ptx import execute, parse_ptx

    bound = _bound(kernel, arguments, options)
    compiled = compile_triton(kernel, arguments, options, architecture)
    extents = _extents(grid, {**bound, **options})
    extents = (extents[0] * compiled.num_ctas, *extents[1:])
    module = parse_ptx(compiled.ptx, name=_file(kernel))
    passed = Parameters(compiled.descriptors)
    values = [each for name, kind in compiled.parameters.items() for each in passed.of(bound[name], kind)]
    parameters = module.functions[compiled.entry].parameters
    # Triton appends pointers to memory of its own; each program has a part of the first.
    scratch = [np.zeros(max(compiled.scratch_bytes * math.prod(extents), 16), np.uint8)]
    values += (scratch + [np.zeros(16, np.uint8)] * len(parameters))[: len(parameters) - len(values)]
    try:
        execution = execute(
            module,
            compiled.entry,
            extents,
            32 * compiled.num_warps,
            values,
            dynamic_shared_memory_bytes=compiled.shared_memory_bytes,
            registers_per_thread=compiled.registers_per_thread,
            machine_code=compiled.machine_code,
            name=compiled.entry,
            cluster=(compiled.num_ctas, 1, 1) if compiled.num_ctas > 1 else None,
            **limits,
        )
    except PtxError as error:
        told = str(error).removeprefix(f"{module.name}: line ")
        other = ', that is warplens.triton(kernel, "h200")' if told.endswith("sm_90a") else ""
        where = f"{module.name}: {compiled.entry}, compiled for {architecture}"
        raise PtxError(f"{where}: PTX line {told}{other}") from None
    constants = {name: each for name, each in {**bound, **options}.items() if not list(tensors_of([each]))}
    execution = execution.with_source(_source(kernel), compiled.ptx)
    header = replace(execution.header, extra={**execution.header.extra, "language": "triton"})
    return TritonRun(replace(execution, header=header), compiled, constants)


def _bound(kernel: Any, arguments: Sequence[Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of the kernel by name, defaults included."""
    signature = inspect.signature(kernel.fn)
    own = {key: value for key, value in options.items() if key in signature.parameters}
    try:
        found = signature.bind(*arguments, **own)
    except TypeError as error:
        raise KernelFault(f"{kernel.fn.__name__}: {error}") from None
    found.apply_defaults()
    return dict(found.arguments)


def _extents(grid: Grid, meta: dict[str, Any]) -> tuple[int, ...]:
    made = grid(meta) if callable(grid) else grid
    values = tuple(int(each) for each in ((made,) if isinstance(made, int | np.integer) else made))
    if not 1 <= len(values) <= 3 or min(values) < 1:
        raise KernelFault(f"grid {values}: needs 1 to 3 numbers of at least 1")
    return values


def _file(kernel: Any) -> str:
    return inspect.getsourcefile(kernel.fn) or kernel.fn.__name__


def _source(kernel: Any) -> str | None:
    """The text of its file, or of its cell in a notebook."""
    return "".join(linecache.getlines(_file(kernel))) or None
