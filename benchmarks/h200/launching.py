"""Kernels prepared for a GPU with CuPy, for the scripts beside this one."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.suite.catalog import SUITE
from warplens.suite.kernel import SuiteLaunch


@dataclass(frozen=True)
class Prepared:
    """A kernel with its inputs on the GPU."""

    name: str
    launch: SuiteLaunch
    function: Any
    inputs: list[Any]

    def __call__(self, shared_bytes: int | None = None) -> None:
        """Launch on fresh copies of the inputs, and wait."""
        import cupy

        arguments = [a.copy() if isinstance(a, cupy.ndarray) else a for a in self.inputs]
        shared = self.launch.dynamic_shared_memory_bytes if shared_bytes is None else shared_bytes
        self.function(self.launch.grid, self.launch.block, arguments, shared_mem=shared)
        cupy.cuda.Device().synchronize()


def prepared(name: str, launch: SuiteLaunch) -> Prepared:
    """Compile a kernel of the suite and upload what it reads."""
    kernel = SUITE[name]
    return uploaded(name, launch, kernel.source_text(), kernel.entry, ("-std=c++17", *kernel.options))


def uploaded(name: str, launch: SuiteLaunch, source: str, entry: str, options: tuple[str, ...]) -> Prepared:
    """Compile a source and upload what its kernel reads."""
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()
    module = cupy.RawModule(code=source, options=options, backend="nvrtc")
    for symbol, values in launch.constants.items():
        cupy.ndarray(values.shape, values.dtype, module.get_global(symbol))[...] = cupy.asarray(values)
    inputs = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in launch.arguments]
    return Prepared(name, launch, module.get_function(entry), inputs)


if __name__ == "__main__":  # KERNEL SIZE: one launch, for a tracer to record
    prepared(sys.argv[1], SUITE[sys.argv[1]].prepare(sys.argv[2]))()
