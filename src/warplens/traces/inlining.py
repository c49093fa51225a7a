"""Where inlined code comes from: a compact table in a trace's header, for instructions of other files.

The line of a static instruction is that of the user's file. Code from headers
has besides a chain of places, from the innermost outwards to the one that the
user's line calls. Equal chains are kept once, and runs of instructions with the
same chain as one entry. A trace without the table has no such code.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from .schema import LaunchHeader

#: A file, without the folder that it lies in, and a line.
Place = tuple[str, int]
Chain = tuple[Place, ...]

KEY = "inlined"


def packed_chains(chains: Sequence[Chain]) -> dict[str, Any]:
    """What a header's `extra` has for the chains of static instructions, one each; nothing where all are empty."""
    if not any(chains):
        return {}
    distinct = list(dict.fromkeys(chains))
    files = list(dict.fromkeys(file for chain in distinct for file, _ in chain))
    number = {chain: index for index, chain in enumerate(distinct)}
    return {
        KEY: {
            "files": files,
            "chains": [[[files.index(file), line] for file, line in chain] for chain in distinct],
            "runs": [[number[chain], sum(1 for _ in run)] for chain, run in itertools.groupby(chains)],
        }
    }


def chains_of(header: LaunchHeader, count: int) -> list[Chain]:
    """The chain of each of `count` static instructions; all are empty where the table is missing or damaged."""
    table = header.extra.get(KEY)
    try:
        found = _unpacked(table, count) if isinstance(table, Mapping) else []
    except (KeyError, TypeError, ValueError, IndexError):
        found = []
    return [*found, *[()] * (count - len(found))]


def _unpacked(table: Mapping[str, Any], count: int) -> list[Chain]:
    files = [str(file).replace("\\", "/").rsplit("/", 1)[-1] for file in table["files"]]
    chains = [tuple((files[file], int(line)) for file, line in chain) for chain in table["chains"]]
    found: list[Chain] = []
    for chain, length in table["runs"]:
        found += [chains[chain]] * min(int(length), count - len(found))
    return found
