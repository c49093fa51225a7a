"""Arguments of a launch, as rows of a workload file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import MissingPackageError, nearest
from ..frontends.cuda.arguments import (
    FILLS,
    MOST_ARGUMENT_BYTES,
    Argument,
    ArrayArgument,
    BufferArgument,
    DescribedArgument,
    PointersArgument,
    ScalarArgument,
    StructArgument,
    scalar_of,
)
from ..frontends.cuda.dtypes import DTYPE_NAMES, DTYPES, NARROW, find_dtype, is_whole
from ..frontends.ptx.tensor_maps import SWIZZLES
from ..frontends.ptx.textures import ADDRESS_MODES, FILTERS
from .load import _Reader

_MOST_DIMENSIONS = 8


def whole(row: _Reader, key: str, default: int | None, least: int, most: int) -> Any:
    """A whole number, read as an integer: a float cannot hold 64 bits."""
    value = row.take(key, default)
    if value is default:
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise row.fail(key, f"{value!r} is not a whole number")
    if not least <= value <= most:
        raise row.fail(key, f"{value} must be at least {least} and at most {most}")
    return value


#: Arrays of a workload file that arguments point into, by name.
Buffers = Mapping[str, ArrayArgument]


def read_buffers(table: _Reader | None) -> Buffers:
    """The table `[buffers]`: arrays by name."""
    found: dict[str, ArrayArgument] = {}
    for name in list(table.table) if table else ():
        assert table is not None
        row = table.table_of(name)
        argument = read_argument(row) if row is not None else None
        if not isinstance(argument, ArrayArgument):
            raise table.fail(name, "is no array; give it a dtype and a shape")
        found[name] = argument
    return MappingProxyType(found)


def read_argument(row: _Reader, buffers: Buffers = MappingProxyType({})) -> Argument:
    """A scalar, an array, a place in a buffer, an array of pointers, a texture, or a struct with such members."""
    if members := row.rows("members"):
        row.done()
        return StructArgument(tuple(read_argument(member, buffers) for member in members))
    if targets := row.rows("pointers"):
        row.done()
        return PointersArgument(tuple(_target(target, buffers) for target in targets))
    if (texture := row.table_of("texture")) is not None:
        return _texture(texture, row, buffers)
    if (tiles := row.table_of("tiles")) is not None:
        return _tiles(tiles, row, buffers)
    if (columns := row.table_of("im2col")) is not None:
        return _im2col(columns, row, buffers)
    if "buffer" in row.table:
        return _in_buffer(row, buffers)
    fill = (
        row.text("fill", _default_fill(row.table), choices=FILLS) if "fill" in row.table else _default_fill(row.table)
    )
    dtype, lanes = _dtype(row)
    shape = _shape(row)
    if dtype is None and fill not in ("file", "function"):
        raise row.fail("dtype", f"is missing; valid: {', '.join(DTYPE_NAMES)}")
    if lanes > 1:
        if not shape:
            raise row.fail("dtype", "is a vector: give an array of them a shape, and one by value its members")
        shape = (*shape, lanes)
    if not fill:
        assert dtype is not None
        argument: ScalarArgument | ArrayArgument = ScalarArgument(_scalar(row, "value", dtype))
    else:
        if shape is None and fill not in ("file", "function"):
            raise row.fail("shape", f'is missing; fill = "{fill}" needs one, for example shape = [1024]')
        place = f"{row.file.where(row.prefix)}: {row.prefix}"
        values = {key: value for key in FILLS[fill] for key, value in _fill_values(row, fill, key, dtype).items()}
        argument = ArrayArgument(dtype=dtype, shape=shape, fill=fill, is_vector=lanes > 1, where=place, **values)
        if argument.nbytes > MOST_ARGUMENT_BYTES:
            raise row.fail("shape", f"{argument.nbytes:,} bytes; at most {MOST_ARGUMENT_BYTES:,} can be held")
        if fill == "random" and argument.low >= argument.high:
            raise row.fail("high", f"{argument.high} must be above low = {argument.low}")
    for key in row.table:
        if owners := [f'fill = "{name}"' for name, keys in FILLS.items() if key in keys]:
            raise row.fail(
                key, f"belongs to {' or '.join(owners)}, not to {f'fill = {fill!r}' if fill else 'a scalar'}"
            )
    row.done()
    return argument


def _texture(table: _Reader, row: _Reader, buffers: Buffers) -> DescribedArgument:
    """A texture or surface object: how the array of the rest of a row is read."""
    target = _target(row, buffers)
    array = target.buffer if isinstance(target, BufferArgument) else target
    given = whole(table, "channels", None, 1, 4)
    channels = given or (array.shape[-1] if array.is_vector and array.shape else 1)
    options = (
        ("channels", channels),
        ("filter", table.text("filter", "point", choices=FILTERS)),
        ("address_mode", table.text("address", "clamp", choices=ADDRESS_MODES)),
        *((name, table.flag(name, False)) for name in ("normalised_coordinates", "normalised_values")),
    )
    table.done()
    return DescribedArgument(target, "texture", options)


def _tiles(table: _Reader, row: _Reader, buffers: Buffers) -> DescribedArgument:
    """A tensor map: which boxes of the array of the rest of a row TMA copies."""
    target = _target(row, buffers)
    box = table.take("box")
    if not isinstance(box, list) or not all(isinstance(each, int) and 1 <= each <= 256 for each in box):
        raise table.fail("box", "must list a whole number from 1 to 256 for each dimension, the outermost first")
    swizzle_bytes = _swizzle_bytes(table)
    table.done()
    return DescribedArgument(target, "tiles", (("box", tuple(box)), ("swizzle_bytes", swizzle_bytes)))


def _im2col(table: _Reader, row: _Reader, buffers: Buffers) -> DescribedArgument:
    """A tensor map of images: which columns of pixels TMA copies for a convolution."""
    target = _target(row, buffers)
    options: list[tuple[str, Any]] = [
        ("pixels", whole(table, "pixels", None, 1, 1024)),
        ("channels", whole(table, "channels", None, 1, 256)),
    ]
    for name, value in options:
        if value is None:
            raise table.fail(name, f"is missing; {name} = 64, for example")
    for name, default in (("lower", None), ("upper", None), ("strides", [])):
        listed = table.take(name, default)
        if not isinstance(listed, list) or not all(isinstance(each, int) for each in listed):
            raise table.fail(
                name, "must list a whole number for each of depth, height and width, the outermost first"
            )
        options.append((name, tuple(listed)))
    options.append(("swizzle_bytes", _swizzle_bytes(table)))
    table.done()
    return DescribedArgument(target, "im2col", tuple(options))


def _swizzle_bytes(table: _Reader) -> int:
    found = whole(table, "swizzle_bytes", 0, 0, 128)
    if found not in SWIZZLES:
        raise table.fail("swizzle_bytes", f"{found} is not one of {', '.join(map(str, SWIZZLES))}")
    return int(found)


def _dtype(row: _Reader) -> tuple[np.dtype[Any] | None, int]:
    """(dtype, elements of a vector of it) that a row names."""
    if "dtype" not in row.table:
        row.take("dtype")
        return None, 1
    name = row.text("dtype")
    if name not in DTYPE_NAMES:
        raise row.fail("dtype", f"{name!r} is unknown; {nearest(name, (*DTYPES, *NARROW))}")
    try:
        return find_dtype(name)
    except MissingPackageError as error:
        raise row.fail("dtype", str(error)) from None


def _in_buffer(row: _Reader, buffers: Buffers) -> BufferArgument:
    name = row.text("buffer")
    if name not in buffers:
        remedy = nearest(name, buffers) if buffers else f"add a table [buffers.{name}] with dtype and shape"
        raise row.fail("buffer", f"{name!r} is no buffer; {remedy}")
    offset = whole(row, "offset", 0, 0, 2**48)
    shape = buffers[name].shape
    if shape is not None and offset >= math.prod(shape):
        raise row.fail("offset", f"{offset} lies beyond the {math.prod(shape)} elements of buffer {name!r}")
    row.done()
    return BufferArgument(buffers[name], offset)


def _target(row: _Reader, buffers: Buffers) -> ArrayArgument | BufferArgument:
    target = read_argument(row, buffers)
    if not isinstance(target, ArrayArgument | BufferArgument):
        raise row.fail("", "is no array; a pointer points to an array or into a buffer")
    return target


def _default_fill(table: dict[str, Any]) -> str:
    """The fill of a row without the key `fill`; empty for a scalar."""
    for key in ("file", "function"):
        if key in table:
            return key
    if "shape" not in table:
        return ""
    return "constant" if "value" in table else "zeros"


def _shape(row: _Reader) -> tuple[int, ...] | None:
    value = row.take("shape")
    if value is None:
        return None
    values = value if isinstance(value, list) else [value]
    if not 1 <= len(values) <= _MOST_DIMENSIONS:
        raise row.fail("shape", f"has {len(values)} dimensions; give 1 to {_MOST_DIMENSIONS}")
    for extent in values:
        if isinstance(extent, bool) or not isinstance(extent, int) or not 1 <= extent <= MOST_ARGUMENT_BYTES:
            raise row.fail("shape", f"{extent!r} must be a whole number from 1 to {MOST_ARGUMENT_BYTES}")
    return tuple(values)


def _scalar(row: _Reader, key: str, dtype: np.dtype[Any]) -> np.generic:
    value = row.take(key)
    if value is None:
        raise row.fail(key, "is missing; give a value, or a shape for an array")
    try:
        return scalar_of(dtype, value)
    except ValueError as error:
        raise row.fail(key, str(error)) from None


def _fill_values(row: _Reader, fill: str, key: str, dtype: np.dtype[Any] | None) -> dict[str, Any]:
    """The fields of an `ArrayArgument` that one key of the row gives."""
    if key in ("file", "function"):
        value = row.text(key)
        name, function = value, ""
        if key == "function":
            name, _, function = value.rpartition(":")
            if not function.isidentifier():
                raise row.fail(key, f'{value!r} must be "file.py:function"')
        if not name:
            raise row.fail(key, f'names no file; write {key} = "{"x.npy" if key == "file" else "file.py:function"}"')
        return {"path": Path(row.file.path).parent / name, "function": function}
    assert dtype is not None
    if key == "seed":
        return {"seed": whole(row, "seed", 0, 0, 2**63 - 1)}
    if key == "value":
        return {"value": _scalar(row, "value", dtype)}
    value = row.take(key)
    if value is None:
        if key == "high" and is_whole(dtype):
            raise row.fail("high", "is missing; random integers lie in [low, high)")
        return {}
    if dtype.kind == "b":
        raise row.fail(key, f'does not apply to dtype = "bool" with fill = "{fill}"')
    integral = is_whole(dtype)
    if isinstance(value, bool) or not isinstance(value, int if integral else int | float) or not math.isfinite(value):
        raise row.fail(key, f"{value!r} is not a {'whole' if integral else 'finite'} number")
    try:
        # The end of a range may lie one beyond the largest integer; a step may be negative.
        if key in ("low", "start") or (key == "high" and not integral):
            scalar_of(dtype, value)
        elif key == "high":
            scalar_of(dtype, value - 1)
        elif abs(value) > 2**63:
            raise ValueError(f"{value!r} is too large")
    except ValueError as error:
        raise row.fail(key, str(error)) from None
    return {key: value}
