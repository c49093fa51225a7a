"""Coalescing byte by byte, and the memory events of a warp: plain dictionaries and lists."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from warplens.traces import StaticInstruction

from .traces import Step

LOADS = ("load_global", "load_local", "async_copy", "mem")
STORES = ("store_global", "store_local")


def kind_of(row: StaticInstruction) -> str:
    """load, store, atomic, barrier or nothing."""
    if row.instruction_class == "barrier":
        return "barrier"
    if not row.access_bytes:
        return "nothing"
    if row.instruction_class in LOADS:
        return "load"
    if row.instruction_class in STORES:
        return "store"
    return "atomic" if row.instruction_class == "atomic_global" else "nothing"


def lines_touched(addresses: Sequence[int], width: int, line_bytes: int) -> dict[int, set[int]]:
    """Line -> its granules (32nds of a line) that some lane touches; lines in the order of their first touch.

    A lane at address 0 makes no access.
    """
    found: dict[int, set[int]] = {}
    for address in addresses:
        if address == 0:
            continue
        for byte in range(address, address + width):
            found.setdefault(byte // line_bytes, set()).add(byte % line_bytes // (line_bytes // 32))
    return found


@dataclass
class Event:
    """A memory instruction or barrier of a warp, and where it stands if memory took no time.

    `instructions` and `gap` count from the event before it; `dependence` is the
    last event whose data some instruction up to here needs, `tail` the time since
    that need. `runs` are those of instructions before it that need not wait for
    each other's results.
    """

    row: int
    kind: str
    instructions: int
    gap: float
    dependence: int
    tail: float
    lines: dict[int, set[int]] = field(default_factory=dict)
    runs: int = 0


def events_of(
    warp: Sequence[Step],
    rows: Sequence[StaticInstruction],
    line_bytes: int,
    latency: Callable[[str], float],
    stalls: Mapping[int, float] = MappingProxyType({}),
    taken: float = 0.0,
) -> list[Event]:
    """Events of one warp, which issues in order, one instruction a cycle or as `stalls` of rows and branches say."""
    found: list[Event] = []
    computed: dict[int, float] = {}  # register -> time at which its value is there
    loaded: dict[int, int] = {}  # register -> event that brings its value
    now = last_event = 0.0
    instructions = runs = 0
    newest, needed_at = -1, 0.0
    for place, step in enumerate(warp):
        row = rows[step.row]
        sources = [register for register in row.sources if register < 255]
        issue = max([now, *(computed.get(register, 0.0) for register in sources)])
        wanted = max((loaded[register] for register in sources if register in loaded), default=-1)
        if wanted > newest:
            newest, needed_at = wanted, issue
        kind = kind_of(row)
        runs += kind == "nothing" and (runs == 0 or issue > now)
        now = issue + stalls.get(step.row, 1.0)
        behind = warp[place + 1].row if place + 1 < len(warp) else step.row + 1
        if row.instruction_class == "control" and behind != step.row + 1:
            now += taken
        instructions += 1
        if kind != "nothing":
            lines = lines_touched(step.addresses, row.access_bytes, line_bytes) if kind != "barrier" else {}
            # The package keeps these times in single precision.
            gap, tail = float(np.float32(issue - last_event)), float(np.float32(issue - needed_at))
            found.append(Event(step.row, kind, instructions, gap, newest, tail, lines, runs))
            last_event = issue
            instructions = runs = 0
        for register in row.destinations:
            if register < 255:
                computed.pop(register, None)
                loaded.pop(register, None)
                if kind in ("load", "atomic"):
                    loaded[register] = len(found) - 1
                else:
                    computed[register] = issue + latency(row.instruction_class)
    return found
