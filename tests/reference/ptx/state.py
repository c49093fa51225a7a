"""What a launch is made of while it runs, and what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from warplens.frontends.ptx.program import Function

from .memory import Space


@dataclass(frozen=True)
class Record:
    """An executed warp instruction. Addresses are those of the lanes in the mask, in order."""

    line: int
    mask: int
    addresses: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Copy:
    """An asynchronous copy under way: the bytes that it writes, and what it does in the end."""

    target: Space
    bytes: range
    arrive: Callable[[], None]


@dataclass
class Thread:
    index: tuple[int, int, int]
    lane: int
    #: The running functions, innermost last, and their registers.
    functions: list[Function] = field(default_factory=list)
    frames: list[dict[str, int]] = field(default_factory=list)
    #: Parameters and local variables of the running functions.
    parameters: list[dict[str, Space]] = field(default_factory=list)
    local: Space = field(default_factory=lambda: Space("local"))
    #: Groups of asynchronous copies under way, the open one last.
    copies: list[list[Copy]] = field(default_factory=lambda: [[]])

    @property
    def registers(self) -> dict[str, int]:
        return self.frames[-1]


@dataclass
class Side:
    """Lanes that run together: where they are and where they meet others."""

    at: int
    lanes: set[int]
    meeting: int
    #: At a barrier, until the other lanes have come too or exited.
    waits: bool = False


Barrier = tuple[str, int, dict[int, bool]]


@dataclass
class Run:
    """Records of each (block, warp), and how many thread instructions ran."""

    records: dict[tuple[int, int], list[Record]]
    thread_instructions: int
