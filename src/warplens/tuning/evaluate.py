"""Predicts configurations of a tuning space: compile, run some thread blocks, solve the model."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from ..api import place
from ..errors import WarplensError
from ..explanation.limits import limiter_of, occupancy_of, speed_of_light
from ..explanation.scene import MODEL, Scene
from ..frontends.cuda.arguments import Argument, Built
from ..machine import Gpu
from ..models import get_model, solve
from ..sweeps.evaluate import Rows
from ..workload import Workload, workload_of_trace
from ..workload.source import RecordLimit, for_gpu, record_launch
from .space import Configuration, TuningSpace

#: How many waves of thread blocks run, by stage: a part to compare all configurations, a whole one for the best.
#: Blocks that share data meet it cold in a small part, which then looks slower than the kernel is.
WAVES = {"search": 0.5, "full": 1.0}
STAGES = tuple(WAVES)

RESULTS = {
    "seconds": pa.float64(),
    "seconds_low": pa.float64(),
    "seconds_high": pa.float64(),
    "cycles": pa.float64(),
    "ipc": pa.float64(),
    "limiter": pa.string(),
    "busy": pa.float64(),
    "compute": pa.float64(),
    "l1": pa.float64(),
    "l2": pa.float64(),
    "dram": pa.float64(),
    "occupancy": pa.float64(),
    "occupancy_limiter": pa.string(),
    "registers": pa.int64(),
    "shared_memory_bytes": pa.int64(),
}
#: Before the name of a parameter in a column.
PREFIX = "parameters."


def schema_of(space: TuningSpace) -> pa.Schema:
    """A row per configuration and stage."""
    fields: list[tuple[str, Any]] = [("configuration", pa.int64()), ("gpu", pa.string()), ("stage", pa.string())]
    fields += [*RESULTS.items(), ("error", pa.string()), ("warnings", pa.string())]
    return pa.schema([*fields, *((PREFIX + name, _type(values)) for name, values in space.parameters.items())])


def _type(values: Sequence[Any]) -> pa.DataType:
    if all(isinstance(each, bool) for each in values):
        return pa.bool_()
    if all(isinstance(each, int) and not isinstance(each, bool) for each in values):
        return pa.int64()
    return pa.float64() if all(isinstance(each, int | float) for each in values) else pa.string()


@dataclass(frozen=True, eq=False)
class Work:
    """What workers need to predict configurations of a space at one stage; can be sent to other processes."""

    space: TuningSpace
    machine: Gpu
    stage: str
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, configurations: Rows) -> pa.Table:
        """One row per configuration. They have the same launch: the first is predicted, and stands for all."""
        indices = [int(each) for each in configurations]
        found: dict[str, Any] = {}
        try:
            found = self._predicted(self.space.configurations[indices[0]])
        except Exception as error:  # one impossible configuration must not end the search
            known = isinstance(error, WarplensError)
            found["error"] = str(error) if known else f"{type(error).__name__}: {error}"
        schema = schema_of(self.space)
        columns: dict[str, list[Any]] = {name: [found.get(name)] * len(indices) for name in (*RESULTS, "error")}
        columns["warnings"] = ["; ".join(found.get("warnings", ()))] * len(indices)
        columns |= {"configuration": indices}
        columns |= {"gpu": [self.machine.name] * len(indices), "stage": [self.stage] * len(indices)}
        for name in self.space.parameters:
            values = [self.space.configurations[each][name] for each in indices]
            text = schema.field(PREFIX + name).type == pa.string()
            columns[PREFIX + name] = [str(each) for each in values] if text else values
        return pa.table({name: pa.array(columns[name], schema.field(name).type) for name in schema.names}, schema)

    def workload(self, configuration: Configuration) -> tuple[Workload, Gpu]:
        """The traced launch of a configuration, placed on the machine."""
        launch = for_gpu(self.space.launch(configuration), self.machine)
        if launch.record == RecordLimit():
            launch = dataclasses.replace(launch, record=RecordLimit(waves=WAVES[self.stage], from_first=True))
        built = None if launch.language == "python" else [_built(*each) for each in enumerate(launch.arguments)]
        # Other processes run other configurations on the other cores.
        execution = record_launch(launch, self.machine, parameters=built, results=False, workers=1)
        return place(workload_of_trace(execution.trace), self.machine, self.overrides)

    def _predicted(self, configuration: Configuration) -> dict[str, Any]:
        workload, machine = self.workload(configuration)
        model = get_model(MODEL)
        made = solve(workload, machine, model)
        limiter = limiter_of(Scene(workload, machine, model, made))
        room = occupancy_of(workload, machine)
        return {
            "seconds": float(made.seconds),
            "seconds_low": float(made.terms["cycles_low"] / made.cycles * made.seconds),
            "seconds_high": float(made.terms["cycles_high"] / made.cycles * made.seconds),
            "cycles": float(made.cycles),
            "ipc": float(made.ipc),
            "limiter": limiter.resource,
            "busy": limiter.busy,
            **speed_of_light(made),
            "occupancy": room.achieved,
            "occupancy_limiter": room.limiter,
            "registers": workload.launch.registers_per_thread,
            "shared_memory_bytes": workload.launch.shared_memory_per_block_bytes,
            "warnings": made.warnings,
        }


@functools.lru_cache(maxsize=16)
def _built(position: int, argument: Argument) -> Built:
    """An argument at a position of a launch. Configurations share it: a kernel's results go nowhere."""
    found = argument.build()
    if isinstance(found, np.ndarray):
        found.flags.writeable = False
    return found
