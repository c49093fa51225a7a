"""How much predictions move when a number that a machine only assumes is wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..api import predict
from ..machine import Gpu, Parameter, parameters
from ..suite.execution import run_on_cpu

#: Kernels of the suite: streaming, tiling in shared memory, a stencil, irregular rows, atomics, uncoalesced stores.
KERNELS = ("vector_add", "matmul_tiled", "hotspot", "spmv_csr", "histogram_global", "transpose_naive")
SIZE = "medium"
#: By how much a number is taken to be off.
OFF = 0.3
#: A cache keeps whole sets, so sizes do not change with these alone.
_STRUCTURE = ("ways", "line_bytes", "sector_bytes", "banks", "channels", "warp_size", "schedulers")


@dataclass(frozen=True)
class Effect:
    """Change of the predicted time, as a part of it, when a number is `OFF` too small or too large."""

    parameter: Parameter
    value: float
    changes: Mapping[str, float]
    """The larger of the two changes, by kernel."""

    @property
    def mean(self) -> float:
        return float(np.mean(list(self.changes.values())))

    @property
    def most(self) -> tuple[str, float]:
        """The kernel that moves most, and how much."""
        return max(self.changes.items(), key=lambda item: item[1])


def assumed_numbers(gpu: Gpu) -> list[Parameter]:
    """Numbers that nobody has published of this machine and that can be off by a part of themselves."""
    return [
        parameters()[path]
        for path, source in gpu.sources.items()
        if source.is_guess
        and source.kind != "datasheet"
        and parameters()[path].kind in (int, float)
        and not path.endswith(_STRUCTURE)
        and gpu.get(path) > 0
    ]


def effects(gpu: Gpu, *, progress: Callable[[int, int, str], None] | None = None) -> list[Effect]:
    """What each assumed number does to the predictions of `warplens` for some kernels of the suite."""
    wanted = assumed_numbers(gpu)
    overrides = _one_at_a_time(gpu, wanted)
    changes: dict[str, NDArray[np.float64]] = {}
    for done, kernel in enumerate(KERNELS):
        if progress is not None:
            progress(done, len(KERNELS), kernel)
        trace = run_on_cpu(kernel, SIZE, record=True).trace
        seconds = np.broadcast_to(predict(trace, gpu, "warplens", overrides=overrides).seconds, 2 * len(wanted) + 1)
        moved = np.abs(seconds[1:] / seconds[0] - 1.0).reshape(-1, 2)
        changes[kernel] = moved.max(axis=1)
    return [
        Effect(each, gpu.get(each.path), {kernel: float(moved[at]) for kernel, moved in changes.items()})
        for at, each in enumerate(wanted)
    ]


def _one_at_a_time(gpu: Gpu, wanted: Sequence[Parameter]) -> dict[str, Any]:
    """A batch of machines: the first as it is, then two for each number."""
    overrides = {}
    for at, each in enumerate(wanted):
        value = gpu.get(each.path)
        values = np.full(2 * len(wanted) + 1, float(value))
        values[2 * at + 1 : 2 * at + 3] = [_rounded(gpu, each, value * factor) for factor in (1.0 - OFF, 1.0 + OFF)]
        overrides[each.key] = values
    return overrides


def _rounded(gpu: Gpu, parameter: Parameter, value: float) -> float:
    """The nearest value that the parameter can have."""
    level, _, leaf = parameter.path.partition(".")
    if leaf == "size_bytes":
        unit = (gpu.get(f"{level}.ways") or 1) * (gpu.get(f"{level}.line_bytes") or 1)
        return float(max(round(value / unit), 1) * unit)
    return max(round(value), 1) if parameter.kind is int else value
