"""Texture and surface objects, and what fetches from them give.

Coordinates, filters and address modes follow the CUDA programming guide
(appendix "Texture Fetching"). The weights of linear filters have 8 bits of
fraction, as on hardware; sums are rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import KernelFault
from .spaces import GLOBAL_WINDOW

FILTERS = ("point", "linear")
ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")
#: Types of a channel.
CHANNEL_TYPES = ("uint8", "int8", "uint16", "int16", "float16", "uint32", "int32", "float32")
#: A block of a CUDA array's memory: 64 bytes of 8 rows, in which 16 bytes of 2 rows make a sector.
_BLOCK_WIDTH_BYTES, _BLOCK_ROWS = 64, 8
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class TextureObject:
    """An image in global memory and how it is read. `extent` is (width, height, depth or layers), 1 where absent."""

    address: int
    extent: tuple[int, int, int]
    channel_type: str
    channels: int
    row_bytes: int
    #: In tiles, as CUDA arrays are; else linear or pitched memory.
    is_array: bool = True
    filter: str = "point"
    address_modes: tuple[str, str, str] = ("clamp", "clamp", "clamp")
    normalised_coordinates: bool = False
    #: Integers are read as numbers from 0 or -1 to 1.
    normalised_values: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    @property
    def texel_bytes(self) -> int:
        return self.channels * np.dtype(self.channel_type).itemsize

    @property
    def size_bytes(self) -> int:
        _, height, depth = self.extent
        return self.row_bytes * height * depth

    def offsets(self, x: Integers, y: Integers, z: Integers) -> Integers:
        """Bytes from `address` to texels."""
        return (z * self.extent[1] + y) * self.row_bytes + x * self.texel_bytes

    def tiled(self, x_bytes: Integers, y: Integers, z: Integers) -> Integers:
        """Addresses as the hardware has them: neighbours in both dimensions share a sector and a line."""
        if not self.is_array or self.extent[1] == 1:
            return self.address + (z * self.extent[1] + y) * self.row_bytes + x_bytes
        per_row = -(-self.row_bytes // _BLOCK_WIDTH_BYTES)
        rows = -(-self.extent[1] // _BLOCK_ROWS)
        block = (z * rows + y // _BLOCK_ROWS) * per_row + x_bytes // _BLOCK_WIDTH_BYTES
        inner_x, inner_y = x_bytes % _BLOCK_WIDTH_BYTES, y % _BLOCK_ROWS
        sector = (inner_y // 2) * 4 + inner_x // 16
        return self.address + block * 512 + sector * 32 + inner_y % 2 * 16 + inner_x % 16


@dataclass(frozen=True, eq=False)
class Texture:
    """A kernel argument: an array of 1 to 3 dimensions, the width last, and then its channels if it has several."""

    array: NDArray[Any]
    channels: int = 1
    filter: str = "point"
    address_mode: str = "clamp"
    normalised_coordinates: bool = False
    normalised_values: bool = False

    @property
    def nbytes(self) -> int:
        return self.array.nbytes

    def at(self, address: int) -> TextureObject:
        """The object that describes it once its array lies at an address."""
        shape = self.array.shape[:-1] if self.channels > 1 else self.array.shape
        name = self.array.dtype.name
        channels_fit = self.channels in (1, 2, 4) and (self.channels == 1 or self.array.shape[-1] == self.channels)
        if name not in CHANNEL_TYPES or not channels_fit or not 1 <= len(shape) <= 3 or 0 in shape:
            raise KernelFault(
                f"an array of {name} and shape {self.array.shape} cannot be a texture of {self.channels} channels; "
                f"it needs 1, 2 or 4 of {', '.join(CHANNEL_TYPES)} in 1 to 3 dimensions"
            )
        if self.filter not in FILTERS or self.address_mode not in ADDRESS_MODES:
            raise KernelFault(
                f"filter {self.filter!r}, address mode {self.address_mode!r}: use {', '.join(FILTERS)}; "
                f"{', '.join(ADDRESS_MODES)}"
            )
        width, height, depth = (*shape[::-1], 1, 1)[:3]
        return TextureObject(
            address,
            (width, height, depth),
            name,
            self.channels,
            width * self.channels * self.array.itemsize,
            filter=self.filter,
            address_modes=(self.address_mode,) * 3,
            normalised_coordinates=self.normalised_coordinates,
            normalised_values=self.normalised_values,
        )


@dataclass(frozen=True)
class Fetch:
    """Values of each channel and lane, as 32 bits, and the addresses of the lanes' first texels."""

    values: NDArray[np.uint32]
    addresses: Integers


def fetch(
    texture: TextureObject, content: NDArray[np.uint8], coordinates: list[NDArray[Any]], *, layered: bool = False
) -> Fetch:
    """Read a texture at coordinates (x, y, z as far as it has them), integers or floats; the layer counts as z."""
    extent = list(texture.extent)
    axes = [_Axis(texture, number, each, layered and number == 2) for number, each in enumerate(coordinates)]
    axes += [_Axis(texture, number, np.zeros_like(axes[0].first), True) for number in range(len(axes), 3)]
    total: NDArray[Any] | None = None
    smooth = any(axis.second is not None for axis in axes)
    for corner in range(8 if smooth else 1):
        picked = [axis.side(corner >> number & 1) for number, axis in enumerate(axes)]
        if any(each is None for each in picked):
            continue
        found = _texels(texture, content, extent, [each[0] for each in picked if each is not None])
        if not smooth:
            total = found
            break
        for each in picked:
            found = found * (each[1] if each is not None else 1.0)
        total = found if total is None else total + found
    assert total is not None
    places = [np.clip(axis.first, 0, extent[number] - 1) for number, axis in enumerate(axes)]
    addresses = texture.tiled(places[0] * texture.texel_bytes, places[1], places[2])
    return Fetch(_words(total), addresses)


def gather(
    texture: TextureObject, content: NDArray[np.uint8], coordinates: list[NDArray[Any]], channel: int
) -> Fetch:
    """One channel of the four texels that a linear filter would mix, counter-clockwise from the lower left."""
    smooth = replace(texture, filter="linear")
    x, y = (_Axis(smooth, number, each, False) for number, each in enumerate(coordinates))
    assert x.second is not None and y.second is not None
    depth = np.zeros_like(x.first)
    corners = [(x.first, y.second), (x.second, y.second), (x.second, y.first), (x.first, y.first)]
    found = [_texels(texture, content, list(texture.extent), [*each, depth])[channel] for each in corners]
    places = [np.clip(axis.first, 0, axis.count - 1) for axis in (x, y)]
    return Fetch(_words(np.array(found)), texture.tiled(places[0] * texture.texel_bytes, places[1], depth))


class _Axis:
    """Indices along one dimension: the texel itself, or the two that a linear filter mixes."""

    def __init__(self, texture: TextureObject, number: int, given: NDArray[Any], is_layer: bool) -> None:
        self.count = texture.extent[number]
        self.mode = texture.address_modes[number]
        self.second: Integers | None = None
        if given.dtype.kind != "f":
            self.first = given.astype(np.int64)
            if is_layer:
                self.first = np.clip(self.first, 0, self.count - 1)
            self.mode = self.mode if is_layer else "border"
            return
        place = np.where(np.isfinite(given), given, 0).astype(np.float64)
        if texture.normalised_coordinates:
            place = self._within(place) * self.count
        elif self.mode in ("wrap", "mirror"):
            self.mode = "clamp"  # these need normalised coordinates
        if texture.filter == "linear":
            place = np.clip(place - 0.5, -(2.0**31), 2.0**31)
            self.first = np.floor(place).astype(np.int64)
            self.second = self.first + 1
            self.part = np.floor((place - self.first) * 256 + 0.5) / 256
        else:
            self.first = np.floor(np.clip(place, -(2.0**31), 2.0**31)).astype(np.int64)
        self.first = self._folded(self.first)
        if self.second is not None:
            self.second = self._folded(self.second)

    def _within(self, place: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.mode == "wrap":
            return place - np.floor(place)
        if self.mode == "mirror":
            whole = np.floor(place)
            return np.where(whole % 2 == 0, place - whole, 1 - (place - whole))
        return place

    def _folded(self, index: Integers) -> Integers:
        if self.mode == "wrap":
            return index % self.count
        if self.mode == "border":
            return index
        return np.clip(index, 0, self.count - 1)

    def side(self, which: int) -> tuple[Integers, Any] | None:
        if self.second is None:
            return None if which else (self.first, 1.0)
        return (self.second, self.part) if which else (self.first, 1 - self.part)


def _texels(
    texture: TextureObject, content: NDArray[np.uint8], extent: list[int], place: list[Integers]
) -> NDArray[Any]:
    """Channels (4 × lanes) of texels; those outside are the border's."""
    inside = np.all([(each >= 0) & (each < count) for each, count in zip(place, extent, strict=True)], axis=0)
    x, y, z = (np.where(inside, each, 0) for each in place)
    start = texture.address - GLOBAL_WINDOW
    kind = np.dtype(texture.channel_type)
    numbers = content[start : start + texture.size_bytes].view(kind)
    first = texture.offsets(x, y, z) // kind.itemsize
    found = np.zeros((4, len(x)), np.float64 if kind.kind == "f" or texture.normalised_values else np.int64)
    found[3] = 1
    for channel in range(texture.channels):
        values = numbers[first + channel].astype(found.dtype)
        if texture.normalised_values and kind.kind in "ui":
            values = np.maximum(values / np.iinfo(kind).max, -1.0)
        found[channel] = np.where(inside, values, texture.border[channel])
    return found


def _words(values: NDArray[Any]) -> NDArray[np.uint32]:
    """Floats in single precision, or integers, as 32 bits."""
    if values.dtype.kind == "f":
        return values.astype(np.float32).view(np.uint32)
    return (values & 0xFFFFFFFF).astype(np.uint32)
