"""Fetches from textures, one texel at a time with exact fractions, from the CUDA programming guide."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np

Number = Fraction | int


def fetch(
    image: np.ndarray, x: Number, y: Number, z: Number, smooth: bool, mode: str, normalised: bool, scaled: bool
) -> list[Number]:
    """Channels at (x, y, z) of an image of shape (depth, height, width, channels)."""
    ways: list[list[tuple[int | None, Fraction]]] = []
    for coordinate, count in ((x, image.shape[2]), (y, image.shape[1]), (z, image.shape[0])):
        ways.append(axis(Fraction(coordinate), count, smooth, mode, normalised))
    total: list[Number] = [0] * image.shape[3]
    for i, a in ways[0]:
        for j, b in ways[1]:
            for k, c in ways[2]:
                for channel in range(image.shape[3]):
                    value: Number = 0
                    if i is not None and j is not None and k is not None:
                        value = number(image[k, j, i, channel], scaled)
                    total[channel] += a * b * c * value
    return total


def axis(
    coordinate: Fraction, count: int, smooth: bool, mode: str, normalised: bool
) -> list[tuple[int | None, Fraction]]:
    """Texels along one axis, None outside, with their weights."""
    if normalised:
        if mode == "wrap":
            coordinate -= floor(coordinate)
        elif mode == "mirror":
            part = coordinate - floor(coordinate)
            coordinate = part if floor(coordinate) % 2 == 0 else 1 - part
        coordinate *= count
    elif mode in ("wrap", "mirror"):
        mode = "clamp"
    if not smooth:
        return [(fold(floor(coordinate), count, mode), Fraction(1))]
    coordinate -= Fraction(1, 2)
    first = floor(coordinate)
    weight = Fraction(floor((coordinate - first) * 256 + Fraction(1, 2)), 256)
    return [(fold(first, count, mode), 1 - weight), (fold(first + 1, count, mode), weight)]


def fold(index: int, count: int, mode: str) -> int | None:
    if mode == "wrap":
        return index % count
    if 0 <= index < count:
        return index
    return None if mode == "border" else max(0, min(index, count - 1))


def number(value: np.generic, scaled: bool) -> Number:
    if value.dtype.kind == "f":
        return Fraction(float(value))
    if not scaled:
        return int(value)
    return max(Fraction(int(value), int(np.iinfo(value.dtype).max)), Fraction(-1))
