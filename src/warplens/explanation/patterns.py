"""How the lanes of an access lie to each other, and where their addresses come from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..analysis.def_use import UNKNOWN
from .scene import Scene

#: Part of the steps from lane to lane that must agree for an access to count as strided.
REGULAR = 0.5


@dataclass(frozen=True)
class Pattern:
    """Lanes of an instruction at a stride (0 where most lanes share an address); None: they are scattered."""

    stride_bytes: int | None
    #: Least and greatest address that was seen.
    low: int
    high: int


def pattern_of(scene: Scene, index: int) -> Pattern:
    """What most steps from lane to lane are, in sampled thread blocks."""
    lanes = scene.addresses(np.arange(len(scene.static)) == index)
    address = lanes.address.astype(np.int64)
    steps = np.abs(np.diff(address)[lanes.owner[1:] == lanes.owner[:-1]])
    seen = address[address > 0]
    low, high = (int(seen.min()), int(seen.max())) if len(seen) else (0, 0)
    if not len(steps):
        return Pattern(None, low, high)
    values, counts = np.unique(steps, return_counts=True)
    regular = counts.max() >= REGULAR * len(steps)
    return Pattern(int(values[np.argmax(counts)]) if regular else None, low, high)


def from_memory(scene: Scene, index: int) -> bool:
    """Whether an instruction works on loaded values."""
    return _loads_among(scene, scene.flow.behind([index]))


def gathers(scene: Scene, index: int) -> bool:
    """Whether the address of an access, its first operand, follows from a loaded value."""
    first = next(iter(scene.flow.producers.get(index, ())), frozenset())
    return _loads_among(scene, (first - {UNKNOWN}) | scene.flow.behind(first - {UNKNOWN}))


def _loads_among(scene: Scene, indices: Iterable[int]) -> bool:
    loads = scene.kind("load_global", "load_shared", "load_local", "atomic_global", "atomic_shared")
    return any(loads[index] for index in indices)
