"""Machine parameters that the page can change: sliders, their stops, and accepted values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InputError
from ..machine import Gpu, find_parameter, warps_of_block, with_overrides
from ..machine.schema import SCHEDULERS
from ..workload import Workload, resident
from ..workload.launch import LAUNCH_KEYS
from .errors import FieldError

#: Octaves that a slider reaches to either side of a machine's own value, and stops in an octave.
_OCTAVES, _STOPS_PER_OCTAVE = 3, 4
WARPS = "launch.warps_per_sm"


@dataclass(frozen=True)
class Control:
    """One parameter: how it is called, in which unit it is shown, and up to which value (in that unit) it goes."""

    key: str
    label: str
    group: str
    unit: str = ""
    scale: float = 1.0
    most: float = 1e6
    simulates: bool = False
    """Whether caches have to be simulated again; times and bandwidths leave what hits as it is."""


#: In the order of the page. Largest values keep a cache simulation within memory.
CONTROLS = (
    Control("sms", "SMs", "Cores", most=1024, simulates=True),
    Control("clock", "Core clock", "Cores", "MHz", 1e6, most=5000),
    Control(WARPS, "Resident warps per SM", "Cores", most=1024, simulates=True),
    Control("scheduler", "Warp scheduler", "Cores", simulates=True),
    Control("l1.size", "L1 size", "L1 cache", "KiB", 2**10, most=1024, simulates=True),
    Control("l1.mshrs", "L1 MSHRs", "L1 cache", most=65_536, simulates=True),
    Control("l1.latency", "L1 latency", "L1 cache", "cycles", most=100_000),
    Control("llc.size", "LLC size", "Last-level cache", "MiB", 2**20, most=1024, simulates=True),
    Control("llc.latency", "LLC latency", "Last-level cache", "cycles", most=100_000),
    Control("noc.bandwidth", "NoC bandwidth", "Last-level cache", "GB/s", 1e9, most=1e6),
    Control("dram.bandwidth", "DRAM bandwidth", "DRAM", "GB/s", 1e9, most=1e6),
    Control("dram.latency", "DRAM latency", "DRAM", "cycles", most=100_000),
)
_BY_KEY = {control.key: control for control in CONTROLS}


def checked_changes(given: Any, field: str) -> dict[str, Any]:
    """Changes of a machine as a page sends them: numbers in the units of the schema, by key."""
    if not isinstance(given, dict) or len(given) > len(CONTROLS):
        raise FieldError(field, "must be an object of parameters and values")
    found = {}
    for key, value in given.items():
        place = f"{field}.{key}"
        control = _BY_KEY.get(key)
        if control is None:
            raise FieldError(field, f"no parameter of the page is called {str(key)[:60]!r}")
        if key == "scheduler":
            if value not in SCHEDULERS:
                raise FieldError(place, f"must be one of {', '.join(SCHEDULERS)}")
        elif isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise FieldError(place, "is not a number above 0")
        elif value > control.most * control.scale:
            raise FieldError(place, f"is more than {control.most:g} {control.unit}".rstrip())
        found[key] = value
    return found


def check_machine(gpu: Gpu, changes: Mapping[str, Any], field: str) -> None:
    """Blame each value that the schema refuses on its own field."""
    for key, value in changes.items():
        if key in LAUNCH_KEYS:
            continue
        parameter = find_parameter(key)
        if parameter.kind is int and value != int(value):
            raise FieldError(f"{field}.{key}", "is not a whole number")
        if key.endswith(".size"):  # sizes have to do with each other; they are looked at together
            continue
        try:
            with_overrides(gpu, {key: value})
        except InputError as error:
            raise FieldError(f"{field}.{key}", _without_place(str(error))) from None
    for level in ("l1", "llc"):
        cache = gpu.l1 if level == "l1" else gpu.llc
        size = changes.get(f"{level}.size")
        way = way_bytes(gpu, level)
        if size is not None and cache.ways is not None and size % way:
            raise FieldError(f"{field}.{level}.size", f"must be a multiple of {way:,} bytes: ways × line size")


def blamed(error: InputError, field: str) -> FieldError:
    """An error of a whole machine or launch, at the field that its message names."""
    text = str(error)
    for control in CONTROLS:
        path = control.key if control.key in LAUNCH_KEYS else find_parameter(control.key).path
        if re.search(rf"(?<![\w.]){re.escape(path)}\b", text) or (control.key in LAUNCH_KEYS and control.key in text):
            return FieldError(f"{field}.set.{control.key}", _without_place(text))
    return FieldError(f"{field}.gpu", _without_place(text))


def _without_place(text: str) -> str:
    """A message without the machine and the parameter, which the page shows by its place."""
    return re.sub(r"^(machine '[^']*': )?([a-z0-9_]+(\.[a-z0-9_]+)*: )?", "", text)


def way_bytes(gpu: Gpu, level: str) -> int:
    cache = gpu.with_defaults.l1 if level == "l1" else gpu.with_defaults.llc
    return int(cache.ways * (cache.line_bytes or gpu.l1.line_bytes or 1))


def described(own: tuple[Workload, Gpu], now: tuple[Workload, Gpu]) -> list[dict[str, Any]]:
    """Every control: its value without and with the visitor's changes, and the stops of its slider."""
    rows = []
    named, changed = own[1], now[1]
    without: Any
    value: Any
    stops: list[Any]
    for control in CONTROLS:
        if control.key == "scheduler":
            without, value, stops = named.scheduler, changed.scheduler, list(SCHEDULERS)
        elif control.key == WARPS:
            without, value = _resident_warps(own[0], changed), _resident_warps(*now)
            threads = own[0].launch.threads_per_block
            per_block = 1 if threads is None else int(warps_of_block(changed, threads))
            stops = [float(per_block * n) for n in range(1, int(changed.max_warps) // per_block + 1)]
        else:
            path = find_parameter(control.key).path
            without, value = named.get(path), changed.get(path)
            stops = _stops(control, without, named)
        rows.append({"key": control.key, "own": without, "value": value, "stops": stops})
    return rows


def _resident_warps(workload: Workload, gpu: Gpu) -> float | None:
    """None where the launch does not fit."""
    try:
        return float(resident(workload.launch, gpu).warps_per_sm)
    except InputError:
        return None


def _stops(control: Control, own: Any, gpu: Gpu) -> list[float]:
    """Values around a machine's own, evenly spaced on a logarithmic scale; those that the schema takes."""
    if not own:
        return []
    step = 1.0 if find_parameter(control.key).kind is int or not control.scale > 1 else control.scale / 10
    if control.key.endswith(".size"):
        step = float(way_bytes(gpu, control.key.partition(".")[0]))
    found = {float(own)}
    for index in range(-_OCTAVES * _STOPS_PER_OCTAVE, _OCTAVES * _STOPS_PER_OCTAVE + 1):
        value = float(own) * 2 ** (index / _STOPS_PER_OCTAVE)
        if index % _STOPS_PER_OCTAVE:
            value = float(f"{value / control.scale:.2g}") * control.scale  # 38, not 38.05
        found.add(max(round(value / step), 1) * step)
    return sorted(value for value in found if value <= control.most * control.scale)


def catalogue() -> list[dict[str, Any]]:
    """What the page needs to lay the controls out."""
    return [
        {"key": each.key, "label": each.label, "group": each.group, "unit": each.unit, "scale": each.scale,
         "most": each.most, "simulates": each.simulates}
        for each in CONTROLS
    ]  # fmt: skip
