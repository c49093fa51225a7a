"""Machine descriptions: TOML files to `Gpu`, with variants (`base = …`) and overrides."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import MachineError, OverrideError, UnknownNameError, nearest
from ..tomlfile import TomlFile, exists, read_toml
from ..units import parse_number
from .checks import check_consistency, check_value
from .classes import INSTRUCTION_CLASSES
from .fields import UNIT_SUFFIXES, Parameter
from .schema import (
    REQUIRED,
    SECTIONS,
    Gpu,
    InstructionTiming,
    parameters,
    parameters_by_key,
)
from .sources import SOURCE_KINDS, Source

_DATA = Path(__file__).parent / "data"
#: What is common to the SMs of a compute capability: limits, instruction timings, the L1.
_CAPABILITIES = _DATA / "capabilities"
#: Names of chips for the card that most people mean: the cards of the large clouds, and of most publications.
SHORT_NAMES = MappingProxyType({"a100": "a100-40gb", "h100": "h100-sxm"})
_UNSTATED = Source("unstated", "the description gives no source")
_OVERRIDE = Source("override", "set by the user")


def gpu_names() -> list[str]:
    """Names of the machines that ship with warplens."""
    return sorted(path.stem for path in _DATA.glob("*.toml"))


def compute_capabilities() -> list[str]:
    """Compute capabilities whose SMs are described."""
    return sorted((path.stem for path in _CAPABILITIES.glob("*.toml")), key=lambda text: float(text))


def load_gpu(name: str | Path, overrides: Mapping[str, Any] | None = None) -> Gpu:
    """A machine by its name, or from a TOML file; `overrides` as in `--set` (`{"l1.mshrs": 64}`)."""
    path = _resolve(str(name))
    gpu = _shipped(path) if path.parent == _DATA else _load(path, ())
    return with_overrides(gpu, overrides) if overrides else gpu


@cache
def _shipped(path: Path) -> Gpu:
    """A machine that ships with warplens; its file stays the same, so it is read once."""
    return _load(path, ())


def _resolve(name: str, relative_to: Path | None = None) -> Path:
    bundled = _DATA / f"{SHORT_NAMES.get(name, name)}.toml"
    if "/" not in name and "\\" not in name and exists(bundled):
        return bundled
    path = Path(name) if relative_to is None else relative_to / name
    if name and (path.suffix == ".toml" or exists(path)):
        return path
    known = nearest(name, [*gpu_names(), *SHORT_NAMES])
    more = 'or give a .toml file; with base = "NAME" it needs only what differs from that machine'
    raise UnknownNameError(f"no machine is named {name!r}; {known} ({more})")


def _load(path: Path, chain: tuple[Path, ...]) -> Gpu:
    file = read_toml(path)
    resolved = path.resolve()
    if resolved in chain:
        raise MachineError(f"{file.where('base')}: machines are based on each other in a circle")
    data = dict(file.data)
    values, sources = _of_base(file, data, path, (*chain, resolved))
    name = _text(file, data, "name", path.stem)
    description = _text(file, data, "description", "")
    declared = _declared_sources(file, data.pop("sources", {}))
    own, own_sources = _own(file, data, declared)
    if any(each.startswith("clocks.") for each in own):  # published clocks are those of one card
        values = {each: value for each, value in values.items() if not each.startswith("clocks.")}
        sources = {each: source for each, source in sources.items() if each in values}
    capability = own.get("compute_capability")
    if capability is not None and capability != values.get("compute_capability"):
        _put_capability(file, capability, values, sources)
    values |= own
    sources |= own_sources
    missing = [key for key in REQUIRED if key not in values]
    if missing:
        raise MachineError(f"{file.path}: machine {name!r} lacks {', '.join(missing)}; add them or name a base")
    gpu = _build(name, description, values, sources, nominal_clock_hz=values["clock_hz"], overrides={})
    check_consistency(gpu, where=file.where)
    return gpu


def _of_base(
    file: TomlFile, data: dict[str, Any], path: Path, chain: tuple[Path, ...]
) -> tuple[dict[str, Any], dict[str, Source]]:
    """Values and sources of the base. What is not common to a compute capability is marked as the base's own."""
    if "base" not in data:
        return {}, {}
    base_name = data.pop("base")
    if not isinstance(base_name, str):
        raise MachineError(f"{file.where('base')}: base: must be the name or path of a machine")
    try:
        base_path = _resolve(base_name, path.parent)
    except UnknownNameError as error:
        raise UnknownNameError(f"{file.where('base')}: base: {error}") from None
    base = _load(base_path, chain)
    common = {} if base.compute_capability is None else _capability(base.compute_capability)[1]
    sources = {
        each: source
        if source.machine or common.get(each) == source
        else dataclasses.replace(source, machine=base.name)
        for each, source in base.sources.items()
    }
    return dict(base.given), sources


def _own(
    file: TomlFile, data: dict[str, Any], declared: Mapping[str, Source]
) -> tuple[dict[str, Any], dict[str, Source]]:
    """Values that a file gives itself, and their sources."""
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    for dotted, raw in _flatten(file, data):
        try:
            values[dotted], sources[dotted] = _read(parameters()[dotted], raw, declared)
        except ValueError as error:
            raise MachineError(f"{file.where(dotted)}: {dotted}: {error}") from None
    return values, sources


@cache
def _capability(name: str) -> tuple[Mapping[str, Any], Mapping[str, Source]]:
    """What the SMs of a compute capability have in common, and its sources; nothing where it is not described."""
    if name not in compute_capabilities():
        return {}, {}
    file = read_toml(_CAPABILITIES / f"{name}.toml")
    data = dict(file.data)
    return _own(file, data, _declared_sources(file, data.pop("sources")))


def _put_capability(file: TomlFile, name: str, values: dict[str, Any], sources: dict[str, Source]) -> None:
    """Let the SM be that of a compute capability: nothing stays of the instructions and limits of another one."""
    common, common_sources = _capability(name)
    if not common:
        where = file.where("compute_capability")
        raise MachineError(
            f"{where}: compute_capability: {name!r} is not described; {nearest(name, compute_capabilities())}"
        )
    for path in [path for path in values if path.startswith(("instructions.", "occupancy."))]:
        del values[path], sources[path]
    values |= common
    sources |= common_sources


def _text(file: TomlFile, data: dict[str, Any], key: str, default: str) -> str:
    value = data.pop(key, default)
    if not isinstance(value, str):
        raise MachineError(f"{file.where(key)}: {key}: must be text")
    return value


def _declared_sources(file: TomlFile, table: Any) -> dict[str, Source]:
    found = {}
    if not isinstance(table, dict):
        raise MachineError(f"{file.where('sources')}: sources: must be a table")
    for name, entry in table.items():
        where = file.where(f"sources.{name}")
        bounds = {key: entry[key] for key in ("least", "most") if isinstance(entry, dict) and key in entry}
        if not isinstance(entry, dict) or set(entry) != {"kind", "text", *bounds}:
            raise MachineError(f"{where}: sources.{name}: needs kind and text, and may have least and most")
        if not all(type(each) in (int, float) and math.isfinite(each) for each in bounds.values()):
            raise MachineError(f"{where}: sources.{name}: least and most must be numbers")
        if entry["kind"] not in SOURCE_KINDS:
            raise MachineError(f"{where}: sources.{name}: kind must be one of {', '.join(SOURCE_KINDS)}")
        found[name] = Source(entry["kind"], str(entry["text"]), **bounds)
    return found


def _flatten(file: TomlFile, data: dict[str, Any]) -> list[tuple[str, Any]]:
    """(path, raw value) of every parameter in a file. Unknown keys are errors."""
    rows: list[tuple[str, Any]] = []

    def walk(table: dict[str, Any], prefix: str) -> None:
        for key, raw in table.items():
            dotted = prefix + key
            is_table = dotted in SECTIONS or dotted == "instructions" or prefix == "instructions."
            if dotted in parameters():
                rows.append((dotted, raw))
            elif is_table and not isinstance(raw, dict):
                raise MachineError(f"{file.where(dotted)}: {dotted}: must be a table")
            elif is_table and (prefix != "instructions." or key in INSTRUCTION_CLASSES):
                walk(raw, dotted + ".")
            else:
                raise MachineError(f"{file.where(dotted)}: unknown key {dotted!r}; {_remedy(dotted, prefix)}")

    walk(data, "")
    return rows


def _remedy(dotted: str, prefix: str) -> str:
    if prefix == "instructions.":
        return "instruction classes: " + ", ".join(INSTRUCTION_CLASSES)
    siblings = [p for p in parameters() if p.startswith(prefix) and "." not in p[len(prefix) :]]
    return nearest(dotted, siblings + ([] if prefix else [*SECTIONS, "instructions", "sources", "base"]))


def _read(param: Parameter, raw: Any, declared: Mapping[str, Source]) -> tuple[Any, Source]:
    source = _UNSTATED
    if isinstance(raw, dict):
        if "value" not in raw or set(raw) - {"value", "source"}:
            raise ValueError("must be a value, or a table of value and source")
        if "source" in raw:
            if not isinstance(raw["source"], str) or raw["source"] not in declared:
                raise ValueError(f"source {raw['source']!r} is not declared under [sources]")
            source = declared[raw["source"]]
        raw = raw["value"]
    return _coerce(param, raw), source


def _coerce(param: Parameter, raw: Any) -> Any:
    """A raw value (a number, or text with a unit) checked against the schema."""
    if isinstance(raw, str) and param.kind in (int, float):
        return check_value(param, parse_number(raw, param.unit))
    if isinstance(raw, str) and param.kind is bool:
        words = {"true": True, "false": False}
        if raw.lower() not in words:
            raise ValueError(f"{raw!r} is not true or false")
        return words[raw.lower()]
    return check_value(param, raw)


def _build(
    name: str,
    description: str,
    values: Mapping[str, Any],
    sources: Mapping[str, Source],
    *,
    nominal_clock_hz: float,
    overrides: Mapping[str, Any],
    original: Gpu | None = None,
) -> Gpu:
    tables: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    instructions: dict[str, dict[str, Any]] = {}
    top: dict[str, Any] = {}
    for path, value in values.items():
        head, _, rest = path.partition(".")
        if head == "instructions":
            class_name, _, leaf = rest.partition(".")
            instructions.setdefault(class_name, {})[leaf] = value
        elif rest:
            tables[head][rest] = value
        else:
            top[head] = value
    return Gpu(
        name=name,
        description=description,
        **top,
        **{section: owner(**tables[section]) for section, owner in SECTIONS.items()},
        instructions=MappingProxyType({n: InstructionTiming(**t) for n, t in instructions.items()}),
        sources=MappingProxyType(dict(sources)),
        nominal_clock_hz=nominal_clock_hz,
        overrides=MappingProxyType(dict(overrides)),
        original=original,
    )


def gpu_of_values(values: Mapping[str, Any]) -> Gpu:
    """A machine from stored values by TOML path, without checks."""
    return _build("", "", values, {}, nominal_clock_hz=values.get("clock_hz", 0.0), overrides={})


# -- overrides -----------------------------------------------------------------------


def split_override(text: str) -> tuple[str, str]:
    """`KEY=VALUE` to its two parts."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise OverrideError(f"--set {text!r}: write KEY=VALUE, for example l1.mshrs=64")
    return key.strip(), value.strip()


def find_parameter(key: str) -> Parameter:
    """The machine parameter that a `--set` key names."""
    by_key = parameters_by_key()
    if key not in by_key:
        valid = {p.key for p in by_key.values()} | {"launch.warps_per_sm", "launch.blocks_per_sm"}
        if key in valid:
            raise OverrideError(f"{key} belongs to the launch of a workload, not to a machine")
        raise OverrideError(f"unknown parameter {key!r}; {nearest(key, valid)}")
    return by_key[key]


def with_overrides(gpu: Gpu, overrides: Mapping[str, Any]) -> Gpu:
    """A copy of `gpu` with other values; arrays make it a batch of machines."""
    if not overrides:
        return gpu
    values = dict(gpu.given)
    sources = dict(gpu.sources)
    applied = dict(gpu.overrides)
    for key, raw in overrides.items():
        param = find_parameter(key)
        try:
            values[param.path] = _coerce(param, _clock(gpu, raw) if param.path == "clock_hz" else raw)
        except ValueError as error:
            unit = f" (in {param.path.rpartition('.')[2]})" if param.unit in UNIT_SUFFIXES else ""
            raise OverrideError(f"{param.key}: {error}{unit}") from None
        sources[param.path] = _OVERRIDE
        applied[param.key] = values[param.path]
    if len({value.size for value in values.values() if isinstance(value, np.ndarray)}) > 1:
        raise OverrideError("the arrays of a batch of machines must have the same length")
    changed = _build(
        gpu.name,
        gpu.description,
        values,
        sources,
        nominal_clock_hz=gpu.nominal_clock_hz,
        overrides=applied,
        original=gpu.original or gpu,
    )
    check_consistency(changed)
    return changed


def _clock(gpu: Gpu, raw: Any) -> Any:
    """A clock, or one of the published clocks by its name."""
    if isinstance(raw, str) and raw == "power":
        raise ValueError("what the power limit sustains depends on the kernel: `predict` and `tune` work it out")
    if not isinstance(raw, str) or not raw.isalpha():
        return raw
    published = gpu.published_clocks
    if raw not in published:
        names = f"{', '.join(published)} or " if published else ""
        raise ValueError(f"machine {gpu.name!r} gives no {raw} clock; write {names}a number such as 1.4GHz")
    return published[raw]


def machine_of_batch(gpu: Gpu, index: int) -> Gpu:
    """One machine of a batch. Only overrides hold arrays."""
    if not any(isinstance(value, np.ndarray) for value in gpu.overrides.values()):
        return gpu
    assert gpu.original is not None
    chosen = {key: value[index] if isinstance(value, np.ndarray) else value for key, value in gpu.overrides.items()}
    return with_overrides(gpu.original, chosen)
