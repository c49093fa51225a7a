"""Texture and surface objects that a program creates, see `shim/textures.cpp`."""

from __future__ import annotations

import struct

from ..ptx.textures import ADDRESS_MODES, FILTERS, TextureObject

_DESCRIPTION = struct.Struct("<5q10i4f")
_KINDS = {0: "int", 1: "uint", 2: "float"}


def texture_of(data: bytes) -> TextureObject:
    """The object that a message describes; ValueError where there is no such one."""
    if len(data) != _DESCRIPTION.size:
        raise ValueError(f"a description of {len(data)} bytes")
    address, width, height, depth, row_bytes, *numbers = _DESCRIPTION.unpack(data)
    bits, channels, kind, is_array, x, y, z, filtered, normalised_values, normalised_coordinates, *border = numbers
    if kind not in _KINDS or bits not in (8, 16, 32) or channels not in (1, 2, 4):
        raise ValueError(f"{channels} channels of {bits} bits")
    return TextureObject(
        address,
        (width, height, depth),
        f"{_KINDS[kind]}{bits}",
        channels,
        row_bytes,
        is_array=bool(is_array),
        filter=FILTERS[filtered],
        address_modes=(ADDRESS_MODES[x], ADDRESS_MODES[y], ADDRESS_MODES[z]),
        normalised_coordinates=bool(normalised_coordinates),
        normalised_values=bool(normalised_values),
        border=(border[0], border[1], border[2], border[3]),
    )
