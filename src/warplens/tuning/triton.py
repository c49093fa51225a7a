"""`warplens.triton`: Triton kernels launched as Triton launches them, on the CPU, and predicted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..api import predict
from ..errors import InputError, WarplensError
from ..frontends.cuda.compile import DEFAULT_ARCHITECTURE
from ..frontends.triton import TritonRun, launch_triton, stand_in
from ..machine import Gpu, load_gpu
from ..models import Prediction
from ..traces import LaunchTrace

#: Waves of thread blocks that predictions for tuning run; the others are assumed to be like them.
TUNING_WAVES = 2


def triton(kernel: Any, gpu: Gpu | str | Path | None = None, **limits: Any) -> TritonKernel:
    """A Triton kernel to be launched on the CPU: `warplens.triton(kernel, "h200")[grid](x, y, BLOCK=128)`.

    `kernel` is decorated with `@triton.jit`, and perhaps `@triton.autotune` and `@triton.heuristics`. It is
    compiled for `gpu` (without one for sm_90); neither a GPU nor PyTorch is needed. `limits` are those of
    `CudaKernel.launch`, for example `blocks`.
    """
    machine = gpu if isinstance(gpu, Gpu) or gpu is None else load_gpu(gpu)
    return TritonKernel(kernel, machine, limits)


@dataclass(frozen=True)
class TunedConfig:
    """A configuration of `@triton.autotune` and what is predicted for it."""

    config: Any
    prediction: Prediction | None
    failure: str = ""

    @property
    def seconds(self) -> float:
        return float(self.prediction.seconds) if self.prediction else float("inf")


@dataclass(frozen=True)
class TritonKernel:
    """A Triton kernel and the GPU that it is compiled for."""

    kernel: Any
    gpu: Gpu | None = None
    limits: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, grid: Any) -> Callable[..., TritonRun]:
        """The kernel with its grid: numbers, or a function of its constants."""

        def launch(*arguments: Any, **options: Any) -> TritonRun:
            chosen = options
            if len(self._configs()) > 1:
                best = self.tune(grid, *arguments, **options)[0]
                if best.prediction is None:
                    raise InputError(f"no configuration of the kernel can be used: {best.failure}")
                chosen = {**options, **best.config.all_kwargs()}
            elif self._configs():
                chosen = {**options, **self._configs()[0].all_kwargs()}
            return self._launch(grid, arguments, chosen)

        return launch

    def tune(self, grid: Any, *arguments: Any, **options: Any) -> list[TunedConfig]:
        """Predictions for every configuration of `@triton.autotune`, the fastest first. Arrays stay as they are.

        As many thread blocks run as two waves of the GPU have, unless `blocks` says how many.
        """
        if self.gpu is None:
            raise InputError('configurations are compared on a GPU: warplens.triton(kernel, "h200")')
        found = []
        for config in self._configs() or [None]:
            chosen = {**options, **(config.all_kwargs() if config is not None else {})}
            try:
                made = self._predict(grid, arguments, chosen)
            except WarplensError as error:
                found.append(TunedConfig(config, None, str(error)))
            else:
                found.append(TunedConfig(config, made))
        return sorted(found, key=lambda each: each.seconds)

    def perf_model(self, grid: Any) -> Callable[..., float]:
        """A function for `prune_configs_by={"perf_model": …}` of `@triton.autotune`: predicted milliseconds."""
        names = _jit_function(self.kernel).arg_names

        def milliseconds(**given: Any) -> float:
            values = {name: stand_in(each) for name, each in given.items()}
            arguments = [values.pop(name) for name in names if name in values and not _is_constant(self.kernel, name)]
            return 1e3 * float(self._predict(grid, arguments, values).seconds)

        return milliseconds

    def _configs(self) -> list[Any]:
        found: Any = self.kernel
        while not hasattr(found, "configs") and hasattr(found, "values") and hasattr(found, "fn"):
            found = found.fn
        return list(getattr(found, "configs", ()))

    def _predict(self, grid: Any, arguments: Any, options: Mapping[str, Any]) -> Prediction:
        assert self.gpu is not None
        copies = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        waves = {} if "blocks" in self.limits else {"blocks": _blocks(self.gpu)}
        run = self._launch(grid, copies, options, **waves)
        trace: LaunchTrace = run.trace()
        return predict(trace, self.gpu)

    def _launch(self, grid: Any, arguments: Any, options: Mapping[str, Any], **limits: Any) -> TritonRun:
        kernel, chosen = self.kernel, dict(options)
        while not hasattr(kernel, "arg_names") or hasattr(kernel, "values") or hasattr(kernel, "configs"):
            for name, rule in getattr(kernel, "values", {}).items():  # @triton.heuristics
                chosen[name] = rule({**dict(zip(kernel.arg_names, arguments, strict=False)), **chosen})
            kernel = kernel.fn
        capability = self.gpu.compute_capability if self.gpu else None
        architecture = f"sm_{capability.replace('.', '')}" if capability else DEFAULT_ARCHITECTURE
        return launch_triton(kernel, grid, arguments, chosen, architecture=architecture, **{**self.limits, **limits})


def _blocks(gpu: Gpu) -> int:
    return int(TUNING_WAVES * np.max(gpu.sms) * 2)


def _jit_function(kernel: Any) -> Any:
    while hasattr(kernel, "configs") or hasattr(kernel, "values"):
        kernel = kernel.fn
    return kernel


def _is_constant(kernel: Any, name: str) -> bool:
    return any(each.name == name and each.is_constexpr for each in _jit_function(kernel).params)
