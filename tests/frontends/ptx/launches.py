"""Compiled kernels with small launches."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from warplens.frontends.ptx.tensor_maps import Tiles

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, eq=False)
class Launched:
    """A kernel of a file in `data`, and how it is launched."""

    file: str
    grid: int
    block: int
    arguments: list[object]
    dynamic_shared_memory_bytes: int = 0

    @property
    def text(self) -> str:
        """The file's PTX without .loc lines, so that records have lines of the PTX, and without debug sections."""
        return _text(self.file)

    @property
    def dimensions(self) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
        return (self.grid, 1, 1), (self.block, 1, 1)


@cache
def _text(file: str) -> str:
    text = re.sub(r"(?m)^\s*\.loc\s.*$", "", (DATA / f"{file}.ptx").read_text())
    return text.partition("\t.file")[0]


def shape() -> np.void:
    fields = np.dtype([("width", "i4"), ("scale", "f4"), ("kind", "i2"), ("weight", "f8")], align=True)
    return np.array([(3, 1.5, 2, 2.25)], fields)[0]


def launches() -> dict[str, Launched]:
    """Fresh arguments each time, always the same values."""
    random = np.random.default_rng(5)

    def integers(low: int, high: int, count: int, kind: type) -> np.ndarray:
        return random.integers(low, high, count).astype(kind)

    reals = [random.random(100, np.float32) for _ in range(2)]
    halves = [random.random(64).astype(np.float16), random.random(128).astype(np.float16)]
    a, b = (random.random(count).astype(np.float16) for count in (256, 128))
    return {
        "saxpy": Launched("kernels", 3, 40, [100, np.float32(2.5), *reals]),
        "block_sum": Launched("kernels", 2, 64, [integers(-99, 99, 300, np.int32), np.zeros(2, np.int32), 300]),
        "collatz": Launched("kernels", 3, 32, [integers(1, 999, 70, np.uint32), np.zeros(70, np.uint32), 70]),
        "dispatch": Launched(
            "more",
            2,
            33,
            [integers(-99, 99, 66, np.int32), integers(-99, 99, 66, np.int32), np.zeros(66, np.int32), shape()],
        ),
        "halves": Launched("more", 1, 64, [*halves, np.zeros(128, np.float16), np.zeros(64, np.float32)], 256),
        "tensor": Launched("tensor", 1, 32, [a, b, np.zeros(128, np.float32), np.zeros(128, np.float16)]),
        "sparse": Launched("sparse", 1, 32, [random.random(576).astype(np.float16), np.zeros(384, np.float32)]),
        "shapes": Launched("calls", 1, 48, [integers(0, 9, 48, np.int32)]),
        "exchange": Launched("cluster", 4, 40, [integers(0, 99, 160, np.uint32), np.zeros(160, np.uint32)]),
        "histogram": Launched(
            "more", 1, 48, [integers(0, 256, 200, np.uint8), np.zeros(16, np.uint32), 200, np.zeros(1, np.uint64)]
        ),
    }


def asynchronous() -> Launched:
    """TMA, bulk copies, mbarriers and a product of a warpgroup, which the oracle does not cover."""
    a, b = (np.random.default_rng(7).random(shape).astype(np.float16) for shape in ((64, 64), (256,)))
    return Launched("asynchronous", 1, 128, [b, np.zeros(512, np.float32), Tiles(a, (64, 32), 64)])
