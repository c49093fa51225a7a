"""Design spaces: values of parameters, and the configurations they make together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, OverrideError, nearest
from ..machine import find_parameter
from ..machine.schema import parameters_by_key
from ..units import parse_number
from ..workload.launch import LAUNCH_KEYS

#: Most configurations of one sweep.
MOST_CONFIGURATIONS = 100_000_000
#: How the values of several parameters are combined.
MODES = ("grid", "zip", "sample")


@dataclass(frozen=True)
class Axis:
    """The values of one parameter: an array of numbers, or a list of texts or of true and false.

    A `continuous` axis has two values: the ends of a range, from which samples are drawn.
    """

    key: str
    values: Any
    continuous: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def is_numeric(self) -> bool:
        return isinstance(self.values, np.ndarray)

    @property
    def is_count(self) -> bool:
        return self.key not in LAUNCH_KEYS and find_parameter(self.key).kind is int


@dataclass(frozen=True)
class Space:
    """Configurations as columns: the value of every varied parameter in each of them."""

    columns: Mapping[str, Any]
    size: int

    def configuration(self, index: int) -> dict[str, Any]:
        """The overrides of one configuration, as `predict` takes them."""
        return {key: _plain(column[index]) for key, column in self.columns.items()}


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# -- axes --------------------------------------------------------------------------------


def parse_axis(text: str) -> Axis:
    """`KEY=a,b,c` or `KEY=a:b:step` (both ends included), as typed after `--vary`."""
    key, equals, values = text.partition("=")
    if not equals or not key.strip() or not values.strip():
        raise OverrideError(f"--vary {text!r}: write KEY=a,b,c or KEY=a:b:step, for example l1.mshrs=32,64,128")
    return make_axis(key.strip(), values.strip())


def make_axis(key: str, values: Any) -> Axis:
    """The values of a parameter given as text, as one value or as several."""
    name = canonical_key(key)
    if isinstance(values, str):
        return _axis_of_text(name, values)
    if isinstance(values, int | float | bool | np.generic):
        values = [values]
    if not isinstance(values, Iterable):
        raise OverrideError(f"{name}: {values!r} is not a list of values")
    return _axis_of_values(name, list(values))


def canonical_key(key: str) -> str:
    """The short form of a key; the error for an unknown key suggests the nearest."""
    if key in LAUNCH_KEYS:
        return key
    by_key = parameters_by_key()
    if key not in by_key:
        valid = {param.key for param in by_key.values()} | set(LAUNCH_KEYS)
        raise OverrideError(f"unknown parameter {key!r}; {nearest(key, valid)}")
    return by_key[key].key


def unit_of(key: str) -> str | None:
    """bytes, bytes_per_s, hz, cycles, or None for a count."""
    return _unit_and_kind(key)[0]


def _unit_and_kind(key: str) -> tuple[str | None, type]:
    if key in LAUNCH_KEYS:
        return None, float
    parameter = find_parameter(key)
    return parameter.unit, parameter.kind


def _axis_of_text(key: str, text: str) -> Axis:
    if text.count(":") == 1 and "," not in text and _unit_and_kind(key)[1] in (int, float):
        ends = [_number(key, part) for part in text.split(":")]
        if ends[0] == ends[1]:
            raise OverrideError(f"{key}: {text!r}: both ends are the same")
        return Axis(key, np.array(sorted(ends)), continuous=True)
    values: list[Any] = []
    for part in text.split(","):
        values += _range(key, part) if ":" in part else [part.strip()]
    return _axis_of_values(key, values)


def _axis_of_values(key: str, values: list[Any]) -> Axis:
    if not values:
        raise OverrideError(f"{key}: no values are given")
    kind = _unit_and_kind(key)[1]
    if kind in (int, float):
        return Axis(key, np.array([_number(key, value) for value in values], dtype=np.float64))
    if kind is bool:
        words = {"true": True, "false": False}
        return Axis(key, [words.get(str(value).lower(), value) for value in values])
    return Axis(key, [str(value) for value in values])


def _number(key: str, value: Any) -> float:
    unit, _ = _unit_and_kind(key)
    try:
        if isinstance(value, str):
            return parse_number(value, unit)
        if isinstance(value, bool | np.bool_):
            raise ValueError(f"{value!r} is not a number")
        return float(value)
    except (TypeError, ValueError) as error:
        raise OverrideError(f"{key}: {error}") from None


def _range(key: str, text: str) -> list[float]:
    """`a:b:step`, both ends included; the last step may be shorter."""
    parts = text.split(":")
    if len(parts) != 3:
        raise OverrideError(f"{key}: {text!r}: write a range as first:last:step")
    first, last, step = (_number(key, part) for part in parts)
    if step == 0 or (last - first) / step < 0:
        raise OverrideError(f"{key}: {text!r}: steps of {parts[2].strip()} do not lead from the first to the last")
    count = (last - first) / step
    if count > MOST_CONFIGURATIONS:
        raise OverrideError(f"{key}: {text!r}: that is more than {MOST_CONFIGURATIONS} values")
    values = [first + index * step for index in range(int(count * (1 + 1e-12)) + 1)]
    if abs(values[-1] - last) <= 1e-9 * abs(step):
        values[-1] = last
    else:
        values.append(last)
    return values


# -- spaces ---------------------------------------------------------------------------------


def make_space(
    vary: Mapping[str, Any] | Sequence[Axis], *, mode: str = "grid", sample: int | None = None, seed: int = 0
) -> Space:
    """All combinations of the values (grid), the i-th values of all together (zip), or a Latin hypercube."""
    axes = [make_axis(key, values) for key, values in vary.items()] if isinstance(vary, Mapping) else list(vary)
    keys = [axis.key for axis in axes]
    for key in keys:
        if keys.count(key) > 1:
            raise OverrideError(f"{key} is varied twice; give all its values at once")
    if mode not in MODES:
        raise InputError(f"{mode!r} is not a kind of design space; {nearest(mode, MODES)}")
    if sample is not None:
        if mode == "zip":
            raise InputError("a space is either zipped or sampled")
        return _latin_hypercube(axes, sample, seed)
    open_ended = [axis.key for axis in axes if axis.continuous]
    if open_ended:
        raise OverrideError(f"{open_ended[0]}: a range without a step is for samples; write first:last:step")
    return _zipped(axes) if mode == "zip" else _grid(axes)


def _grid(axes: Sequence[Axis]) -> Space:
    size = 1
    for axis in axes:
        size *= len(axis)
    _check_size(size)
    columns, repeat = {}, size
    for axis in axes:
        repeat //= len(axis)
        index = np.arange(size) // repeat % len(axis)
        columns[axis.key] = _take(axis, index)
    return Space(columns, size)


def _zipped(axes: Sequence[Axis]) -> Space:
    lengths = {axis.key: len(axis) for axis in axes}
    if len(set(lengths.values()) - {1}) > 1:
        told = ", ".join(f"{key} has {length}" for key, length in lengths.items())
        raise OverrideError(f"zipped parameters need the same number of values; {told}")
    size = max(lengths.values(), default=1)
    index = np.arange(size)
    return Space({axis.key: _take(axis, index % len(axis)) for axis in axes}, size)


def _latin_hypercube(axes: Sequence[Axis], size: int, seed: int) -> Space:
    """One sample in each of `size` equal parts of every axis; each axis is shuffled independently."""
    if size < 1:
        raise InputError(f"a sample needs at least 1 configuration, not {size}")
    _check_size(size)
    generator = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for axis in axes:
        part = (generator.permutation(size) + generator.random(size)) / size
        if axis.continuous:
            low, high = axis.values
            # A count takes each whole number of its range with the same probability.
            if axis.is_count:
                columns[axis.key] = np.clip(np.floor(low + part * (high - low + 1)), low, high)
            else:
                columns[axis.key] = low + part * (high - low)
        else:
            columns[axis.key] = _take(axis, np.minimum((part * len(axis)).astype(np.int64), len(axis) - 1))
    return Space(columns, size)


def _take(axis: Axis, index: NDArray[np.int64]) -> Any:
    if axis.is_numeric:
        return axis.values[index]
    return [axis.values[each] for each in index]


def _check_size(size: int) -> None:
    if size > MOST_CONFIGURATIONS:
        raise InputError(f"{size} configurations are more than {MOST_CONFIGURATIONS}; use --sample N")
