"""Small edits of kernels of the suite: other text, compiler options or launches (data/h200/edits.toml).

The script that measures them (benchmarks/h200/measure_edits.py) imports this file alone, on a machine with few
packages.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from warplens.suite.catalog import SUITE
from warplens.suite.kernel import SuiteLaunch

SIZE = "medium"
_FILE = Path(__file__).parent / "data" / "h200" / "edits.toml"


@dataclass(frozen=True)
class Version:
    """A kernel as it is compiled and launched."""

    source: str
    options: tuple[str, ...]
    launch: SuiteLaunch


@dataclass(frozen=True)
class Edit:
    """A change of a kernel of the suite."""

    name: str
    kernel: str
    what: str
    replace: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()
    block: tuple[int, int, int] | None = None
    blocks_times: int = 1
    """Thread blocks along x, over those before the edit."""

    def apply(self, before: Version) -> Version:
        source = before.source
        for old, new in self.replace:
            if old not in source:
                raise ValueError(f"{_FILE.name}: {self.name}: {old!r} is not in {SUITE[self.kernel].source}")
            source = source.replace(old, new)
        x, y, z = before.launch.grid
        launch = replace(before.launch, grid=(x * self.blocks_times, y, z), block=self.block or before.launch.block)
        return Version(source, (*before.options, *self.options), launch)


@cache
def edits() -> Mapping[str, Edit]:
    """By name, those of one kernel together."""
    found = {}
    for name, row in tomllib.loads(_FILE.read_text(encoding="utf-8")).items():
        pairs = tuple((old, new) for old, new in row.pop("replace", ()))
        block = row.pop("block", None)
        options = tuple(row.pop("options", ()))
        found[name] = Edit(name, replace=pairs, options=options, block=block and tuple(block), **row)
    return found


@cache
def unedited(kernel: str) -> Version:
    """A kernel as the suite has it."""
    known = SUITE[kernel]
    return Version(known.source_text(), ("-std=c++17", *known.options), known.prepare(SIZE))
