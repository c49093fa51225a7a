"""Loops in which warps wait for others: they ask for the same word of global memory again and again."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..traces import CLASS_IDS, IRREGULAR, StaticTable, WarpGroup

#: Parts of opcodes whose loads see what others write: of PTX and of machine code.
_SEEING = ("volatile", "acquire", "relaxed", "strong")
#: Turns of a loop, and its instructions at most.
FEWEST_TURNS, MOST_INSTRUCTIONS = 4, 64


def seeing_accesses(static: StaticTable) -> NDArray[np.bool_]:
    """Accesses that see what other threads write meanwhile: volatile loads, and atomics whose result is read."""
    sees = np.array([any(part in opcode.lower() for part in _SEEING) for opcode in static.opcode], dtype=bool)
    returns = np.zeros(len(static), dtype=bool)
    results = np.repeat(np.arange(len(static)), np.diff(static.destination_offsets))
    returns[results[np.isin(static.destinations, static.sources)]] = True
    loads = (static.class_id == CLASS_IDS["load_global"]) & sees
    atomics = (static.class_id == CLASS_IDS["atomic_global"]) & returns
    return (loads | atomics) & (static.access_bytes > 0)


def spins(group: WarpGroup, static: StaticTable) -> bool:
    """Whether a warp asks for one word several times in a row, in a short loop."""
    return bool(spinning(group, static).any())


def spinning(group: WarpGroup, static: StaticTable) -> NDArray[np.bool_]:
    """Which executions are of such a loop: those from its first access to its last."""
    chosen = seeing_accesses(static)
    none = np.zeros(len(group.static), dtype=bool)
    at = np.flatnonzero(chosen[group.static])
    if not len(at):
        return none
    place = np.cumsum(static.access_bytes[group.static] > 0) - 1
    warp = np.searchsorted(group.start, at, side="right") - 1
    order = np.lexsort((at, group.static[at], warp))
    at, warp = at[order], warp[order]
    which, base, stride = group.static[at], group.base[place[at]], group.stride[place[at]]
    again = (np.diff(warp) == 0) & (np.diff(which.astype(np.int64)) == 0) & (base[1:] == base[:-1])
    again &= stride[1:] != IRREGULAR  # Lanes of several places have no base.
    again &= np.diff(at) <= MOST_INSTRUCTIONS
    again &= np.diff(place[at]) == 1  # A loop that accesses other words meanwhile does its work.
    turns = FEWEST_TURNS - 1
    if len(again) < turns:
        return none
    first = np.flatnonzero(np.lib.stride_tricks.sliding_window_view(again, turns).all(axis=1))
    edges = np.zeros(len(group.static) + 1, dtype=np.int64)
    np.add.at(edges, at[first], 1)
    np.add.at(edges, at[first + turns] + 1, -1)
    found: NDArray[np.bool_] = np.cumsum(edges)[:-1] > 0
    return found
