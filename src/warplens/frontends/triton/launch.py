"""Launches of Triton kernels on the CPU, against NumPy arrays."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import KernelFault
from ..cuda.module import CudaRun
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

    given = [_as_array(each) for each in arguments]
    named = {key: _as_array(each) for key, each in options.items()}
    bound = _bound(kernel, given, named)
    compiled = compile_triton(kernel, given, named, architecture)
    extents = _extents(grid, {**bound, **named})
    module = parse_ptx(compiled.ptx, name=_file(kernel))
    values = [bound[name] for name in compiled.parameters]
    parameters = module.functions[compiled.entry].parameters
    # Triton appends pointers to memory of its own; each program has a part of the first.
    scratch = [np.zeros(max(compiled.scratch_bytes * math.prod(extents), 16), np.uint8)]
    values += (scratch + [np.zeros(16, np.uint8)] * len(parameters))[: len(parameters) - len(values)]
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
        **limits,
    )
    constants = {name: each for name, each in {**bound, **named}.items() if not isinstance(each, np.ndarray)}
    return TritonRun(execution.with_source(_source(kernel), compiled.ptx), compiled, constants)


def stand_in(argument: Any) -> Any:
    """For a tensor that is not on the CPU, an array of its shape and type; anything else as it is."""
    if isinstance(argument, np.ndarray) or not (hasattr(argument, "data_ptr") and hasattr(argument, "shape")):
        return argument
    from ..cuda.dtypes import find_dtype

    dtype, _ = find_dtype(str(argument.dtype).rpartition(".")[2])
    return np.ones(tuple(argument.shape), dtype)


def _as_array(argument: Any) -> Any:
    """The NumPy array of a tensor on the CPU, which shares its memory; anything else as it is."""
    if isinstance(argument, np.ndarray) or not hasattr(argument, "data_ptr"):
        return argument
    try:
        return argument.numpy()
    except (TypeError, RuntimeError) as error:
        raise KernelFault(f"a {type(argument).__name__} cannot be used here ({error}); pass a NumPy array") from None


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
    try:
        return Path(_file(kernel)).read_text(encoding="utf-8")
    except OSError:
        return None
