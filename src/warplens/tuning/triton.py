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
from ..frontends.triton import Kept, TritonRun, launch_triton, stand_in
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
            if len(self._configs()) > 1:
                best = self.tune(grid, *arguments, **options)[0]
                if best.prediction is None:
                    raise InputError(f"no configuration of the kernel can be used: {best.failure}")
                return self._launch(grid, arguments, options, best.config)
            return self._launch(grid, arguments, options, *self._configs())

        return launch

    def tune(self, grid: Any, *arguments: Any, **options: Any) -> list[TunedConfig]:
        """Predictions for every configuration of `@triton.autotune`, the fastest first. Arrays stay as they are.

        As many thread blocks run as two waves of the GPU have, unless `blocks` says how many.
        """
        if self.gpu is None:
            raise InputError('configurations are compared on a GPU: warplens.triton(kernel, "h200")')
        found = []
        for config in self._pruned(arguments, options):
            try:
                made = self._predict(grid, arguments, options, config)
            except WarplensError as error:
                found.append(TunedConfig(config, None, str(error)))
            else:
                found.append(TunedConfig(config, made))
        return sorted(found, key=lambda each: each.seconds)

    def perf_model(self, grid: Any) -> Callable[..., float]:
        """A function for `prune_configs_by={"perf_model": …}` of `@triton.autotune`: predicted milliseconds."""

        def milliseconds(**given: Any) -> float:
            values = {name: stand_in(each) for name, each in given.items()}
            return 1e3 * float(self._predict(grid, (), values).seconds)

        return milliseconds

    @property
    def _tuner(self) -> Any:
        """What `@triton.autotune` made, if it is there."""
        found: Any = self.kernel
        while not hasattr(found, "configs") and hasattr(found, "values") and hasattr(found, "fn"):
            found = found.fn
        return found if hasattr(found, "configs") else None

    def _configs(self) -> list[Any]:
        return list(self._tuner.configs) if self._tuner is not None else []

    def _pruned(self, arguments: Any, options: Mapping[str, Any]) -> list[Any]:
        """The configurations that `early_config_prune` leaves of them; None stands for a kernel without any."""
        configs = self._configs()
        prune = getattr(self._tuner, "early_config_prune", None) if len(configs) > 1 else None
        if prune is None:
            return configs or [None]
        named = dict(zip(_jit_function(self.kernel).arg_names, arguments, strict=False))
        return list(prune(configs, named, **options))

    def _predict(self, grid: Any, arguments: Any, options: Mapping[str, Any], *config: Any) -> Prediction:
        assert self.gpu is not None
        kept = Kept([*arguments, *options.values()])
        waves = {} if "blocks" in self.limits else {"blocks": _blocks(self.gpu)}
        try:
            run = self._launch(grid, arguments, options, *config, **waves)
        finally:
            kept.put_back()
        trace: LaunchTrace = run.trace()
        return predict(trace, self.gpu)

    def _launch(
        self, grid: Any, arguments: Any, options: Mapping[str, Any], config: Any = None, **limits: Any
    ) -> TritonRun:
        kernel, chosen = self.kernel, dict(options)
        named = dict(zip(_jit_function(kernel).arg_names, arguments, strict=False))
        if config is not None:
            chosen |= config.all_kwargs()
            if config.pre_hook is not None:
                config.pre_hook({**named, **chosen})
        while kernel is not _jit_function(kernel):
            for name, rule in getattr(kernel, "values", {}).items():  # @triton.heuristics
                chosen[name] = rule({**named, **chosen})
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
