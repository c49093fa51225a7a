"""Questions about a kernel around one machine: sensitivities, successive limits, occupancy and clocks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..api import Input, place, predict
from ..errors import InputError
from ..machine import Gpu, find_parameter
from ..models import MODELS, Prediction, get_model
from ..models.energy import over_clocks
from ..workload import Workload, resident
from .space import canonical_key, make_axis

#: Parameters that an architect can improve, if the machine gives them.
KEYS = (
    "sms",
    "clock",
    "schedulers",
    "l1.size",
    "l1.mshrs",
    "l1.latency",
    "llc.size",
    "llc.latency",
    "noc.bandwidth",
    "dram.bandwidth",
    "dram.latency",
)
#: Factor for the slope of a continuous parameter.
SMALL_STEP = 1.01
#: Smallest gain that makes another step worthwhile.
WORTH_WHILE = 0.01
#: How far steps improve a parameter, and a clock that no GPU reaches: nobody can build what lies beyond.
MOST_IMPROVED, MOST_CLOCK_HZ = 4.0, 4e9
#: Fraction of the best performance that counts as saturated.
SATURATED = 0.95


@dataclass(frozen=True)
class Sensitivity:
    """One parameter around its value: the slope of log speed over log value, and the speed at half and double.

    Speeds are relative to the original machine; None if the changed machine
    cannot be predicted (`error` says why) or is the same.
    """

    key: str
    value: float
    elasticity: float | None
    at_half: float | None
    at_double: float | None
    error: str = ""

    @property
    def swing(self) -> float:
        """Range of the speed, as a factor."""
        found = [abs(math.log(speed)) for speed in (self.at_half, self.at_double) if speed]
        return max(found, default=0.0)


def sensitivity(
    workload: Input,
    gpu: Gpu | str | None = None,
    model: str = "mdm",
    *,
    keys: Sequence[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    slopes: bool = True,
) -> list[Sensitivity]:
    """Local elasticities, and the speed at half and double of each parameter, most influential first.

    Without `slopes` there are no elasticities. They cost two cache simulations
    for each parameter that changes the hits.
    """
    fixed = {canonical_key(key): value for key, value in (overrides or {}).items()}
    placed, machine = place(workload, gpu, fixed)
    own = speed_of(predict(workload, gpu, model, overrides=fixed, options=options))

    def speed(key: str, value: float) -> float:
        made = predict(workload, gpu, model, overrides={**fixed, key: value}, options=options)
        return speed_of(made) / own

    found = []
    for key in [canonical_key(key) for key in keys] if keys is not None else _given(machine):
        value = _value(placed, machine, key)
        slope, error = None, ""
        try:
            if slopes:
                lower, upper = _neighbours(machine, key, value)
                slope = math.log(speed(key, upper) / speed(key, lower)) / math.log(upper / lower)
        except InputError as problem:
            error = str(problem)
        ends: list[float | None] = []
        for factor in (0.5, 2.0):
            other = _scaled(key, value, factor)
            try:
                ends.append(None if other == value else speed(key, other))
            except InputError as problem:
                ends.append(None)
                error = error or str(problem)
        found.append(Sensitivity(key, value, slope, ends[0], ends[1], error))
    return sorted(found, key=lambda each: -each.swing)


def speed_of(prediction: Prediction) -> float:
    """Warp instructions per second: comparable even if machines with more SMs get more work."""
    return float(prediction.cycles * prediction.ipc / prediction.seconds)


def _given(machine: Gpu) -> list[str]:
    return [key for key in KEYS if machine.get(find_parameter(key).path)]


def _value(workload: Workload, machine: Gpu, key: str) -> float:
    if key == "launch.warps_per_sm":
        return float(resident(workload.launch, machine).warps_per_sm)
    if key == "launch.blocks_per_sm":
        return float(resident(workload.launch, machine).blocks_per_sm)
    value = machine.get(find_parameter(key).path)
    if value is None or isinstance(value, str | bool) or value == 0:
        raise InputError(f"{key}: machine {machine.name!r} gives no number above 0 to change")
    return float(value)


def _scaled(key: str, value: float, factor: float) -> float:
    whole = not key.startswith("launch.") and find_parameter(key).kind is int
    return max(1.0, float(round(value * factor))) if whole else value * factor


def _neighbours(machine: Gpu, key: str, value: float) -> tuple[float, float]:
    """The nearest values below and above, for a slope."""
    if key in ("l1.size", "llc.size"):  # one set more or less
        cache = machine.with_defaults.l1 if key == "l1.size" else machine.with_defaults.llc
        step = float(cache.ways * (cache.line_bytes or 1))
        return max(value - step, step), value + step
    if not key.startswith("launch.") and find_parameter(key).kind is int:
        return max(value - 1.0, 1.0), value + 1.0
    return value / SMALL_STEP, value * SMALL_STEP


# -- what limits it next ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Limit:
    """One improvement: the parameter whose doubling (for a latency, halving) helps most, and by how much."""

    key: str
    value: float
    #: Speed after the step, relative to the step before and to the original machine.
    gain: float
    speed: float
    #: Largest CPI category before the step, if the model has a stack.
    category: str


def limits(
    workload: Input,
    gpu: Gpu | str | None = None,
    model: str = "mdm",
    *,
    keys: Sequence[str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    steps: int = 6,
) -> list[Limit]:
    """What limits the kernel, what limits it once that is improved, and so on until no step is worthwhile."""
    changed = {canonical_key(key): value for key, value in (overrides or {}).items()}
    placed, machine = place(workload, gpu, changed)
    chosen = [canonical_key(key) for key in keys] if keys is not None else _given(machine)
    own = {key: _value(placed, machine, key) for key in chosen}
    values = dict(own)
    first = now = predict(workload, gpu, model, overrides=changed)
    found: list[Limit] = []
    while len(found) < steps:
        best: tuple[str, float, Prediction] | None = None
        for key, value in values.items():
            better = _scaled(key, value, 0.5 if key.endswith(".latency") else 2.0)
            if not _can_be_built(key, better, own[key]):
                continue
            try:
                made = predict(workload, gpu, model, overrides={**changed, key: better})
            except InputError:
                continue
            if best is None or speed_of(made) > speed_of(best[2]):
                best = key, better, made
        if best is None or speed_of(best[2]) / speed_of(now) < 1.0 + WORTH_WHILE:
            break
        key, value, made = best
        category = max(now.stack.items(), key=lambda item: item[1])[0] if now.stack else ""
        gain, speed = speed_of(made) / speed_of(now), speed_of(made) / speed_of(first)
        found.append(Limit(key, value, gain, speed, category))
        changed[key] = values[key] = value
        now = made
    return found


def _can_be_built(key: str, value: float, own: float) -> bool:
    if key == "clock" and value > MOST_CLOCK_HZ:
        return False
    return max(value / own, own / value) <= MOST_IMPROVED


# -- warps and clocks ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Saturation:
    """Speed by resident warps per SM, and the fewest warps that nearly reach the best (GPUMech §VII)."""

    warps: NDArray[np.float64]
    ipc: NDArray[np.float64]
    point: float


def saturation_point(
    workload: Input,
    gpu: Gpu | str | None = None,
    model: str = "gpumech",
    *,
    overrides: Mapping[str, Any] | None = None,
) -> Saturation:
    """The fewest resident warps from which the kernel keeps 95 % of its best IPC."""
    placed, machine = place(workload, gpu, overrides)
    per_block = float(resident(placed.launch, machine).warps_per_block)
    step = per_block if placed.launch.threads_per_block is not None else 1.0
    warps = np.arange(step, float(machine.max_warps) + 1e-9, step)
    if not len(warps):
        raise InputError(f"{placed.name}: a block has more warps than fit on an SM of {machine.name!r}")
    made = predict(workload, gpu, model, overrides={**(overrides or {}), "launch.warps_per_sm": warps})
    ipc = np.asarray(made.ipc, dtype=np.float64)
    enough = ipc >= SATURATED * ipc.max()
    last_short = np.flatnonzero(~enough)
    before_peak = last_short[last_short < int(np.argmax(ipc))]
    return Saturation(warps, ipc, float(warps[before_peak[-1] + 1] if len(before_peak) else warps[0]))


def dvfs(
    workload: Input,
    gpu: Gpu | str | None = None,
    clocks: str | Iterable[float] = "0.5,0.75,1,1.25,1.5",
    models: Sequence[str] | None = None,
    *,
    overrides: Mapping[str, Any] | None = None,
) -> tuple[NDArray[np.float64], dict[str, NDArray[np.float64]]]:
    """(clocks in Hz, seconds by model) for the models that can use the input.

    Clocks are values with units; numbers below 100 are factors of the machine's own clock.
    """
    placed, machine = place(workload, gpu, overrides)
    values = make_axis("clock", clocks).values
    hertz = np.where(values < 100.0, values * float(machine.clock_hz), values)
    found = {}
    for name in models if models is not None else MODELS:
        options = {"simulate": True} if name == "crisp" else None
        if models is None and get_model(name, options).missing(placed, machine):
            continue
        made = predict(workload, gpu, name, overrides={**(overrides or {}), "clock": hertz}, options=options)
        found[name] = np.asarray(made.seconds, dtype=np.float64)
    return hertz, found


@dataclass(frozen=True)
class ClockEnergy:
    """Time and energy of a launch over clocks, by a model."""

    model: str
    clock_hz: NDArray[np.float64]
    seconds: NDArray[np.float64]
    joules: NDArray[np.float64]
    voltage_known: bool
    """Whether the machine says how its voltage follows the clock; if not, it is the same at all clocks."""

    @property
    def energy_delay(self) -> NDArray[np.float64]:
        """Joules × seconds."""
        return self.joules * self.seconds

    @property
    def least_energy_hz(self) -> float:
        return float(self.clock_hz[np.argmin(self.joules)])

    @property
    def least_energy_delay_hz(self) -> float:
        return float(self.clock_hz[np.argmin(self.energy_delay)])


def clock_energy(
    workload: Input,
    gpu: Gpu | str | None,
    clocks: Iterable[float],
    models: Sequence[str],
    *,
    overrides: Mapping[str, Any] | None = None,
) -> list[ClockEnergy]:
    """Energy over clocks in Hz for each model; an error where the machine gives no power."""
    placed, machine = place(workload, gpu, overrides)
    hertz, found = np.asarray(list(clocks), dtype=np.float64), []
    for name in models:
        curve = over_clocks(placed, machine, get_model(name), hertz)
        if curve is None:
            raise InputError(f"machine {machine.name!r} gives no power.active_watts, or the input no instruction mix")
        found.append(ClockEnergy(name, hertz, *curve, machine.power.voltage_slope is not None))
    return found
