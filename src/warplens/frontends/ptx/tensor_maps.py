"""Tensor maps: how TMA finds a box of a tensor, in the 128 bytes that a kernel passes around.

CUDA leaves the bytes opaque. warplens has its own, which `TensorMap.packed` and
`tensormap.replace` write.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import KernelFault

MAP_BYTES = 128
#: Bytes of each element type, in the order of `tensormap.replace`.
_TYPE_BYTES = (1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 4, 4)
_FORMAT = struct.Struct("<QBBBBB?xx5I4x4Q5I5I6h")
#: Most pixels of a column, and most that the bounding box of an im2col map may skip along a dimension.
_MOST_PIXELS, _MOST_STEP = 1024, 8
_MOST_ADDRESS = 1 << 62
#: Chunks of 16 bytes in a row of each swizzle: none, 32, 64, 128 bytes.
_SWIZZLE_CHUNKS = (1, 2, 4, 8)
_CHUNK = 16


@dataclass(frozen=True)
class TensorMap:
    """A tensor that is copied in boxes or in columns of pixels (im2col): innermost dimension first.

    Strides are in bytes, from the second dimension on. A column has `box[1]` pixels with
    `box[0]` channels each. They lie in a bounding box between the first and the last
    dimension, whose corners count from the tensor's first and last pixel.
    """

    address: int
    rank: int
    element_type: int
    dimensions: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...] = (1, 1, 1, 1, 1)
    swizzle: int = 0
    interleave: int = 0
    fill: int = 0
    im2col: bool = False
    lower: tuple[int, ...] = (0, 0, 0)
    upper: tuple[int, ...] = (0, 0, 0)

    @classmethod
    def unpacked(cls, content: bytes) -> TensorMap:
        address, rank, kind, interleave, swizzle, fill, im2col, *numbers = _FORMAT.unpack(content[: _FORMAT.size])
        ends = ((0, 5), (5, 9), (9, 14), (14, 19), (19, 22), (22, 25))
        dimensions, strides, box, steps, *corners = (tuple(numbers[start:end]) for start, end in ends)
        layout = (swizzle, interleave, fill, im2col, *corners)
        return cls(address, rank + 1, kind, dimensions, strides, box, steps, *layout)

    @property
    def packed(self) -> bytes:
        def filled(values: Sequence[int], count: int, rest: int) -> list[int]:
            return [*values, *[rest] * count][:count]

        numbers = [*filled(self.dimensions, 5, 1), *filled(self.strides, 4, 0), *filled(self.box, 5, 1)]
        numbers += [*filled(self.element_strides, 5, 1), *filled(self.lower, 3, 0), *filled(self.upper, 3, 0)]
        head = (self.address, self.rank - 1, self.element_type, self.interleave, self.swizzle, self.fill, self.im2col)
        return _FORMAT.pack(*head, *numbers).ljust(MAP_BYTES, b"\0")

    def replaced(self, field: str, ordinal: int, value: int) -> TensorMap:
        """After `tensormap.replace`; ValueError for a field that there is not."""
        whole: dict[str, tuple[str, Any]] = {
            "global_address": ("address", value),
            "rank": ("rank", value + 1),
            "elemtype": ("element_type", value),
            "swizzle_mode": ("swizzle", value),
            "interleave_layout": ("interleave", value),
            "fill_mode": ("fill", value),
        }
        lists = {
            "box_dim": "box",
            "global_dim": "dimensions",
            "global_stride": "strides",
            "element_stride": "element_strides",
        }
        if field in whole:
            name, found = whole[field]
            return replace(self, **{name: found})
        numbers = list(getattr(self, lists[field]))
        numbers[ordinal] = value
        listed: Any = tuple(numbers)
        return replace(self, **{lists[field]: listed})

    # -- boxes ----------------------------------------------------------------------------------

    @property
    def element_bytes(self) -> int:
        return _TYPE_BYTES[self.element_type]

    @cached_property
    def box_bytes(self) -> int:
        return math.prod(self.box[: 2 if self.im2col else self.rank]) * self.element_bytes

    def problem(self) -> str | None:
        """What is wrong with the map, if anything."""
        if self.element_type >= len(_TYPE_BYTES) or self.rank > 5:
            return "has an unknown element type or more than five dimensions"
        skips = not self.im2col and any(step != 1 for step in self.element_strides[: self.rank])
        if self.interleave or self.fill or skips:
            return "is interleaved, fills with NaN or skips elements, which is not supported"
        row = self.box[0] * self.element_bytes
        if self.im2col and (problem := self._column_problem(row)):
            return problem
        if not self.im2col and (row % _CHUNK or any(not 1 <= each <= 256 for each in self.box[: self.rank])):
            return f"has a box of {self.box[: self.rank]}: 1 to 256 each, and rows a multiple of 16 bytes"
        if self.swizzle and (self.swizzle > 3 or row > _CHUNK * _SWIZZLE_CHUNKS[self.swizzle]):
            return "has rows longer than its swizzle"
        if self.address % 16 or any(each % 16 for each in self.strides[: self.rank - 1]):
            return "has an address or a stride that is not a multiple of 16 bytes"
        if any(each == 0 for each in self.dimensions[: self.rank]):
            return "has a dimension of 0"
        return None

    def _column_problem(self, row: int) -> str | None:
        if not 3 <= self.rank <= 5:
            return f"is im2col with {self.rank} dimensions, where 3 to 5 are needed"
        if not 1 <= self.box[0] <= 256 or row % _CHUNK or not 1 <= self.box[1] <= _MOST_PIXELS:
            return (
                f"has {self.box[1]} pixels of {self.box[0]} channels: 1 to {_MOST_PIXELS} pixels, 1 to 256 channels, "
                "and a multiple of 16 bytes of them"
            )
        if any(not 1 <= step <= _MOST_STEP for step in self.element_strides[: self.rank]):
            return f"has element strides {self.element_strides[: self.rank]}: 1 to {_MOST_STEP} each"
        if any(last < first for first, last in self._bounds):
            return "has an empty bounding box"
        return None

    @cached_property
    def _bounds(self) -> list[tuple[int, int]]:
        """First and last place of a column's pixels along each dimension between the channels and the images."""
        sizes = self.dimensions[1 : self.rank - 1]
        return [(low, size - 1 + high) for low, high, size in zip(self.lower, self.upper, sizes, strict=False)]

    def columns(self, corner: Sequence[int], offsets: Sequence[int]) -> NDArray[np.int64] | str:
        """Addresses of a column's pixels (-1: outside the tensor), from a corner of the filter on."""
        bounds, steps = self._bounds, self.element_strides[1 : self.rank - 1]
        at = list(corner[1:])
        if any(not first <= place <= last for place, (first, last) in zip(at, bounds, strict=False)):
            return f"has no pixel {tuple(at)} in its bounding box, {bounds}"
        found = []
        for _ in range(self.box[1]):
            place = [base + offset for base, offset in zip(at, (*offsets, 0), strict=True)]
            sizes = self.dimensions[1 : self.rank]
            inside = all(0 <= each < size for each, size in zip(place, sizes, strict=True))
            distance = sum(each * stride for each, stride in zip(place, self.strides, strict=False))
            if inside and self.address + distance >= _MOST_ADDRESS:
                return "leads out of memory"
            found.append(self.address + distance if inside else -1)
            for axis, (first, last) in enumerate(bounds):
                at[axis] += steps[axis]
                if at[axis] <= last:
                    break
                at[axis] = first
            else:
                at[-1] += 1
        return np.array(found, dtype=np.int64)

    def rows(self, corner: Sequence[int]) -> NDArray[np.int64]:
        """Addresses of where the box's rows begin in the tensor (-1: outside it)."""
        shape = self.box[: self.rank]
        address = np.full(1, self.address, dtype=np.int64)
        inside = np.ones(1, dtype=bool)
        for axis in range(1, self.rank):
            index = corner[axis] + np.arange(shape[axis], dtype=np.int64)
            kept = (index >= 0) & (index < self.dimensions[axis])
            address = (address[None, :] + (index * self.strides[axis - 1])[:, None]).reshape(-1)
            inside = (inside[None, :] & kept[:, None]).reshape(-1)
        return np.where(inside, address, -1)

    def inner(self, start: int) -> tuple[int, int]:
        """The first and the last element of a row that lie inside the tensor, if the row begins at `start`."""
        first = min(max(-start, 0), self.box[0])
        return first, max(min(self.dimensions[0] - start, self.box[0]), first)


@dataclass(frozen=True, eq=False)
class Box:
    """A box of a tensor at a place: the same whoever copies it."""

    map: TensorMap
    #: Addresses of its rows; -1 outside the tensor.
    rows: NDArray[np.int64]
    #: Addresses of what lies inside the tensor, `size` bytes of each row, and where those are in the row.
    used: NDArray[np.int64]
    size: int
    columns: slice
    row_bytes: int

    def chunks(self, start: int) -> NDArray[np.int64]:
        """Where each 16 bytes of the box lie in shared memory, in units of 16 bytes."""
        return _chunks(self.map.swizzle, self.map.box_bytes // _CHUNK, start // _CHUNK)

    @cached_property
    def extremes(self) -> tuple[int, ...]:
        """The least and the greatest address of a row that is used, if there is one."""
        return (int(self.used.min()), int(self.used.max())) if len(self.used) else ()

    @cached_property
    def is_even(self) -> bool:
        """Whether all of it lies inside the tensor, in rows that are equally far apart."""
        return self.map.rank <= 2 and bool((self.rows >= 0).all()) and self.size == self.row_bytes


@lru_cache(maxsize=4096)
def box_of(content: bytes, corner: tuple[int, ...], offsets: tuple[int, ...] | None = None) -> Box | str:
    """The box that a map and the coordinates of its corner name, or what is wrong with them.

    `offsets` are those of a copy in im2col mode. Blocks copy the same boxes again and again.
    """
    found = _map_of(content)
    if isinstance(found, str):
        return found
    if len(corner) != found.rank:
        return f"has {found.rank} dimensions, not {len(corner)}"
    if found.im2col != (offsets is not None):
        return f"is {'im2col' if found.im2col else 'tiled'}, and the copy is not"
    rows = found.rows(corner) if offsets is None else found.columns(corner, offsets)
    if isinstance(rows, str):
        return rows
    first, last = found.inner(corner[0])
    size = (last - first) * found.element_bytes
    rows = np.where((rows >= 0) & (size > 0), rows + (corner[0] + first) * found.element_bytes, -1)
    columns = slice(first * found.element_bytes, last * found.element_bytes)
    used = rows[rows >= 0]
    return Box(found, rows, used, size, columns, found.box[0] * found.element_bytes)


@lru_cache(maxsize=256)
def _chunks(swizzle: int, count: int, first: int) -> NDArray[np.int64]:
    plain = first + np.arange(count, dtype=np.int64)
    return plain ^ ((plain >> 3) & (_SWIZZLE_CHUNKS[swizzle] - 1))


@lru_cache(maxsize=256)
def _map_of(content: bytes) -> TensorMap | str:
    found = TensorMap.unpacked(content)
    return found.problem() or found


#: Swizzles by the bytes of their rows.
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
_TYPES = {
    "uint8": 0,
    "uint16": 1,
    "uint32": 2,
    "int32": 3,
    "uint64": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 9,
    "bfloat16": 10,
}


@dataclass(frozen=True, eq=False)
class Tiles:
    """A kernel argument: the tensor map of an array, of which TMA copies boxes. Extents stand outermost first."""

    array: NDArray[Any]
    box: tuple[int, ...]
    swizzle_bytes: int = 0

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def at(self, address: int) -> TensorMap:
        """The map once the array lies at an address."""
        array = self.array
        kind = _element_type(array)
        if kind is None or self.swizzle_bytes not in SWIZZLES or not 1 <= array.ndim == len(self.box) <= 5:
            raise KernelFault(
                f"tiles of {list(self.box)} with a swizzle of {self.swizzle_bytes} bytes do not fit an array of "
                f"{array.dtype.name} and shape {list(array.shape)}: give a box of as many dimensions (1 to 5), and a "
                f"swizzle of {', '.join(map(str, SWIZZLES))} bytes"
            )
        layout = array.shape[::-1], array.strides[-2::-1], self.box[::-1]
        return _checked(array, TensorMap(address, array.ndim, kind, *layout, swizzle=SWIZZLES[self.swizzle_bytes]))


@dataclass(frozen=True, eq=False)
class Im2col:
    """A kernel argument: the tensor map of images (N, D, H, W, C; D and H may be missing) for convolutions.

    TMA copies columns of `pixels` with `channels` each. Corners of the bounding box
    and strides have one number for each of D, H and W, outermost first.
    """

    array: NDArray[Any]
    pixels: int
    channels: int
    lower: tuple[int, ...]
    upper: tuple[int, ...]
    strides: tuple[int, ...] = ()
    swizzle_bytes: int = 0

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def at(self, address: int) -> TensorMap:
        """The map once the array lies at an address."""
        array = self.array
        kind, strides = _element_type(array), self.strides or (1,) * len(self.lower)
        fits = 3 <= array.ndim <= 5 and len(self.lower) == len(self.upper) == len(strides) == array.ndim - 2
        if kind is None or self.swizzle_bytes not in SWIZZLES or not fits:
            raise KernelFault(
                f"an im2col map with corners {list(self.lower)} and {list(self.upper)}, strides {list(strides)} and "
                f"a swizzle of {self.swizzle_bytes} bytes does not fit an array of {array.dtype.name} and shape "
                f"{list(array.shape)}: give images of 3 to 5 dimensions (N, D, H, W, C), corners and strides of two "
                f"less, and a swizzle of {', '.join(map(str, SWIZZLES))} bytes"
            )
        layout = array.shape[::-1], array.strides[-2::-1], (self.channels, self.pixels), (1, *strides[::-1], 1)
        swizzle = SWIZZLES[self.swizzle_bytes]
        corners = self.lower[::-1], self.upper[::-1]
        return _checked(array, TensorMap(address, array.ndim, kind, *layout, swizzle, 0, 0, True, *corners))


@dataclass(frozen=True, eq=False)
class Mapped:
    """A kernel argument: a tensor map that is known but for the address of its tensor."""

    array: NDArray[Any]
    map: TensorMap

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def at(self, address: int) -> TensorMap:
        """The map once the array lies at an address."""
        return _checked(self.array, replace(self.map, address=address))


def _element_type(array: NDArray[Any]) -> int | None:
    return _TYPES.get(array.dtype.name, {1: 0, 2: 1, 4: 2, 8: 4}.get(array.itemsize))


def _checked(array: NDArray[Any], found: TensorMap) -> TensorMap:
    if problem := found.problem():
        shape = list(found.dimensions[::-1])
        raise KernelFault(f"the tensor map of an array of shape {shape} {problem}")
    return found
