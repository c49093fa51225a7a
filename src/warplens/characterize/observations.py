"""What the raw data of paths.cu say: parameters of a machine, and facts that no model uses yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from .analysis import Raw, Statistic

#: A step of this ratio ends a plateau of a curve: of instruction fetch, and of latencies.
FETCH_STEP, LATENCY_STEP = 1.5, 1.08


@dataclass(frozen=True)
class Observation:
    """Something measured that no parameter of a machine holds."""

    what: str
    value: float
    unit: str

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def __str__(self) -> str:
        return f"{self.what}: {self.value:.4g} {self.unit}"


@dataclass(frozen=True)
class Plateau:
    """A level part of a curve: where it ends, and its median."""

    last: float
    cycles: float


def plateaus(sizes: Sequence[float], cycles: Sequence[float], step: float) -> list[Plateau]:
    """The level parts of a rising curve."""
    ends = [index for index, (one, other) in enumerate(pairwise(cycles)) if other > step * one]
    starts = [0, *(end + 1 for end in ends)]
    stops = [*(end + 1 for end in ends), len(cycles)]
    return [Plateau(sizes[b - 1], float(np.median(cycles[a:b]))) for a, b in zip(starts, stops, strict=True)]


def _curve(rows: Sequence[Mapping[str, Any]], key: str) -> tuple[list[float], list[float]]:
    return [row[key] for row in rows], [Statistic.of(row["cycles"]).value for row in rows]


# -- parameters ------------------------------------------------------------------------


def fetch_values(raw: Raw) -> dict[str, tuple[float, str]]:
    """Instruction caches and what fetching beyond them costs; nothing where the curve does not show two of them."""
    rows = raw["paths"]["fetch"]
    one, many = ([row for row in rows if row["warps"] == warps] for warps in (rows[0]["warps"], rows[-1]["warps"]))
    found = plateaus(*_curve(one, "bytes"), FETCH_STEP)
    if len(found) != 3:
        return {}
    near, behind, beyond = found
    text = ", ".join(f"{each.cycles:.3g} cycles up to {each.last / 1024:g} KiB" for each in found)
    text = f"bodies of FFMAs on all SMs, one warp, warm: {text}"
    warps = many[0]["warps"]
    crowded = [np.median(row["cycles"]) / warps for row in many if near.last < row["bytes"] <= behind.last]
    interval = float(np.median(crowded))
    return {
        "code_cache_bytes": (near.last, text),
        "far_code_cache_bytes": (behind.last, text),
        "fetch_cycles": (behind.cycles, text),
        "far_fetch_cycles": (beyond.cycles, text),
        "fetch_interval_cycles": (interval, f"the same, {warps} warps: {interval:.3g} cycles for each instruction"),
    }


def departure_values(raw: Raw) -> dict[str, tuple[float, str]]:
    """Fewest cycles between memory warps of one SM (Hong & Kim): of lines in a row, and of single sectors."""

    def least(pattern: str) -> float:
        """Cycles of a sector."""
        return min(
            float(np.median(row["cycles"])) / row["rounds"] / row["sectors"]
            for row in raw["misses"]
            if row["pattern"] == pattern and row["level"] == "dram"
        )

    text = "one SM, loads from DRAM, most in flight: cycles for each"
    return {
        "dram.departure_coalesced_cycles": (4.0 * least("128 bytes"), f"{text} warp load of 128 bytes"),
        "dram.departure_uncoalesced_cycles": (least("32 sectors"), f"{text} sector of a warp load of 32"),
    }


def sustained_clock(raw: Raw) -> tuple[float, str]:
    """The clock after a second of FP32 multiply-adds on all SMs, and those of other loads."""
    clocks = {row["load"]: float(np.median(row["clock_hz"])) for row in raw["paths"]["loads"]}
    told = ", ".join(f"{name} {clock / 1e9:.4g} GHz" for name, clock in clocks.items())
    return clocks["fp32_fma"], f"at the end of a second of load: {told}"


# -- facts -----------------------------------------------------------------------------


def observations(raw: Raw) -> list[Observation]:
    """Facts beside the machine's parameters; none in raw data of earlier versions."""
    return list(_observations(raw)) if "paths" in raw else []


def _observations(raw: Raw) -> Iterator[Observation]:
    paths = raw["paths"]
    for name in ("constant", "texture"):
        found = plateaus(*_curve(paths[name]["latency"], "bytes"), LATENCY_STEP)
        for each in found[:-1]:
            yield Observation(f"{name} latency, up to {each.last / 1024:g} KiB", each.cycles, "cycles")
        yield Observation(f"{name} latency beyond", found[-1].cycles, "cycles")
    for row in paths["constant"]["reads"]:
        yield Observation(f"constant load, {row['groups']} words a warp", _median(row), "cycles of an SM")
    yield Observation("texture fetch of 32 texels in a row", _median(paths["texture"]["reads"]), "cycles of an SM")
    for row in paths["ports"]:
        yield Observation(f"multiply-add from {row['sources']} registers", _median(row), "cycles of an SM")
    for row in paths["additions"]:
        where = f"{row['space']}, {row['pattern']}, {row['sms']} SMs"
        yield Observation(f"atomic addition, {where}", _median(row), "cycles of an SM")
    yield from _halves(paths["lines"]["cycles"])
    pages = paths["pages"]
    page_mib = pages[0]["page_bytes"] >> 20
    found = plateaus(*_curve(pages, "pages"), LATENCY_STEP)
    for each in found:
        yield Observation(f"L2 latency, pages up to {each.last * page_mib:g} MiB", each.cycles, "cycles")
    for row in paths["loads"]:
        clock = float(np.median(row["clock_hz"]))
        said = f" ({row['nvidia_smi']})" if row["nvidia_smi"] else ""
        yield Observation(f"clock under load, {row['load']}{said}", clock / 1e6, "MHz")


def _median(row: Mapping[str, Any]) -> float:
    return Statistic.of(row["cycles"]).value


def _halves(cycles: Sequence[float]) -> Iterator[Observation]:
    """Lines of the nearer and the farther part of the L2: the split that leaves the least variance."""
    ordered = np.sort(cycles)
    within = [ordered[:n].var() * n + ordered[n:].var() * (len(ordered) - n) for n in range(1, len(ordered))]
    cut = int(np.argmin(within)) + 1
    yield Observation("L2 latency of one SM, nearer lines", float(np.median(ordered[:cut])), "cycles")
    yield Observation("L2 latency of one SM, farther lines", float(np.median(ordered[cut:])), "cycles")
    yield Observation("farther lines", 100.0 * (len(ordered) - cut) / len(ordered), "%")
