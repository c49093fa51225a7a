"""The section of a report that shows a sweep: heat maps, fronts, and how far models agree on designs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import InputError, OverrideError
from ..formatting import show_number
from ..models import BEST
from ..sweeps import questions
from ..sweeps.space import canonical_key
from ..sweeps.store import read_sweep
from .curves import sweep_curves
from .sweep import front, heat_maps, shown
from .view import Table, View

#: Models whose maps and fronts are shown, kernels that are, and parameters that are costs.
MOST_MODELS, MOST_KERNELS, MOST_COSTS = 6, 4, 2


@dataclass(frozen=True)
class SweepSection:
    """A sweep in words, pictures and a table of agreement."""

    name: str
    headline: tuple[str, ...]
    views: tuple[View, ...]
    agreement: Table
    fastest: Table
    absent: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        return {
            "sweep": self.name,
            "headline": list(self.headline),
            "views": [view.to_dict() for view in self.views],
            "absent": dict(self.absent),
        }


def sweep_section(path: Path, wanted: Collection[str]) -> SweepSection:
    """What the table of a sweep says."""
    table = read_sweep(path)
    good = table.filter(pc.is_null(table.column("error")))
    if not good.num_rows:
        raise InputError(f"{path}: every configuration of this sweep failed")
    keys, models = varied_keys(good), _models(good)
    kernels = list(dict.fromkeys(good.column("kernel").to_pylist()))
    made = [view for view in sweep_views(good) if view.name in wanted]
    absent: dict[str, str] = {}
    if "heat-map" in wanted and len(keys) < 2:
        absent["heat-map"] = f"the sweep varies {len(keys)} parameter, and a map needs two"
    costs = [key for key in keys if not key.endswith("latency")][:MOST_COSTS]
    if "pareto" in wanted:
        if costs:
            made += [front(table, costs, model) for model in models[:2]]
        else:
            absent["pareto"] = "the sweep varies no parameter that one pays for"
    return SweepSection(
        path.name,
        _headline(good, table, kernels, keys),
        tuple(made),
        _agreement(table, models[0]),
        _fastest(good, keys),
        absent,
    )


def sweep_views(table: pa.Table) -> list[View]:
    """Maps over the first two parameters that vary, or curves over the only one; one for each kernel."""
    good = table.filter(pc.is_null(table.column("error")))
    keys, models = varied_keys(good), _models(good)
    kernels = list(dict.fromkeys(good.column("kernel").to_pylist()))[:MOST_KERNELS]
    if len(keys) >= 2:
        return [heat_maps(good, keys[0], keys[1], kernel, models) for kernel in kernels]
    return [sweep_curves(good, keys[0], kernel, models) for kernel in kernels] if keys else []


def varied_keys(table: pa.Table) -> list[str]:
    """Parameters with more than one value, in the order of the table."""
    found = []
    for name in table.column_names:
        try:
            canonical_key(name)
        except (InputError, OverrideError):
            continue
        column = table.column(name)
        number = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
        if number and len(pc.unique(column)) > 1:
            found.append(name)
    return found


def _models(table: pa.Table) -> list[str]:
    names = list(dict.fromkeys(table.column("model").to_pylist()))
    first = [name for name in BEST if name in names]
    return [*first, *(name for name in names if name not in first)][:MOST_MODELS]


def _headline(good: pa.Table, table: pa.Table, kernels: list[str], keys: list[str]) -> tuple[str, ...]:
    configurations = len(pc.unique(table.column("configuration")))
    failed = table.num_rows - good.num_rows
    told = [f"{configurations} configurations of {', '.join(kernels)}, over {', '.join(keys) or 'no parameter'}"]
    if failed:
        told.append(f"{failed} of {table.num_rows} rows have an error")
    model = _models(good)[0]
    for line in questions.fastest(good):
        if line["model"] == model:
            where = ", ".join(f"{key} = {shown(key, line[key])}" for key in keys)
            gain = line["speed"] / line["least_speed"]
            told.append(f"{line['kernel']} is fastest at {where}: {gain:.3g}× the slowest ({model})")
    return tuple(told)


def _agreement(table: pa.Table, judge: str) -> Table:
    """Every model against one."""
    rows = [
        (each.one, *(None if np.isnan(value) else value for value in (each.kendall, each.spearman)), each.regret)
        for each in questions.ranking_agreement(table)
        if each.other == judge
    ]
    return Table(("design chosen by", "Kendall τ", "Spearman ρ", f"speed lost if {judge} is right"), tuple(rows))


def _fastest(table: pa.Table, keys: list[str]) -> Table:
    rows = []
    for line in questions.fastest(table):
        gain = show_number(line["speed"] / line["least_speed"])
        rows.append((line["kernel"], line["model"], *(shown(key, line[key]) for key in keys), line["ipc"], gain))
    return Table(("kernel", "model", *keys, "IPC", "over slowest"), tuple(rows))
