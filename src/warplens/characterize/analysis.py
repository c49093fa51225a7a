"""From raw data to quantities: λ and Λ, plateaus of latency, subsystems, misses in flight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

#: Points of a curve belong to one plateau if they are this close to its median.
PLATEAU_TOLERANCE = 0.03
#: A throughput counts as saturated from this fraction of the maximum.
SATURATION = 0.95

Raw = Mapping[str, Any]


@dataclass(frozen=True)
class Statistic:
    """Median of the repeats, and their spread relative to it."""

    value: float
    spread: float
    count: int

    @staticmethod
    def of(values: Iterable[float]) -> Statistic:
        numbers = np.asarray(list(values), float)
        middle = float(np.median(numbers))
        return Statistic(middle, float(np.ptp(numbers)) / abs(middle) if middle else 0.0, len(numbers))

    def __str__(self) -> str:
        return f"{self.value:.4g} (median of {self.count}, spread {100 * self.spread:.2g} %)"


# -- λ and Λ ---------------------------------------------------------------------------


@dataclass(frozen=True)
class OccupancySweep:
    """Cycles of one SM for one warp instruction, by occupancy."""

    warps: tuple[int, ...]
    cycles: tuple[Statistic, ...]

    @property
    def instructions_per_cycle(self) -> np.ndarray[Any, Any]:
        return np.array([1 / each.value for each in self.cycles])


def sweep(raw: Raw, operation: str, chains: int) -> OccupancySweep:
    """The occupancy sweep of an operation. Subtracting a short loop from a long one removes the loop's own cycles."""
    by_warps: dict[int, dict[int, Sequence[float]]] = {}
    for row in raw["chains"]:
        if row["operation"] == operation and row["chains"] == chains:
            by_warps.setdefault(row["warps"], {})[row["length"]] = row["cycles"]
    found = []
    for warps, loops in sorted(by_warps.items()):
        (short, few), (long, many) = sorted(loops.items())
        found.append((warps, Statistic.of((np.subtract(many, few)) / (long - short) / warps)))
    return OccupancySweep(tuple(w for w, _ in found), tuple(s for _, s in found))


def operations(raw: Raw) -> list[str]:
    return list(dict.fromkeys(row["operation"] for row in raw["chains"]))


def chain_counts(raw: Raw, operation: str) -> list[int]:
    return sorted({row["chains"] for row in raw["chains"] if row["operation"] == operation})


def latency(raw: Raw, operation: str) -> Statistic:
    """Λ: one dependence chain in one warp (or the fewest warps that the operation needs)."""
    alone = sweep(raw, operation, 1)
    return replace(alone.cycles[0], value=alone.warps[0] * alone.cycles[0].value)


def interval(raw: Raw, operation: str) -> Statistic:
    """λ: the fewest cycles per instruction over all occupancies and numbers of independent chains."""
    candidates = [s for chains in chain_counts(raw, operation) for s in sweep(raw, operation, chains).cycles]
    return min(candidates, key=lambda each: each.value)


def saturating_warps(warps: Sequence[int], throughput: Sequence[float]) -> int:
    """The lowest occupancy that reaches nearly the highest throughput."""
    enough = np.asarray(throughput) >= SATURATION * np.max(throughput)
    return int(np.asarray(warps)[int(np.argmax(enough))])


def issue_limit(raw: Raw) -> Statistic:
    """The most warp instructions that an SM issues per cycle, over all chains."""
    least = min((interval(raw, operation) for operation in operations(raw)), key=lambda each: each.value)
    return Statistic(1 / least.value, least.spread, least.count)


def warp_issue_limit(raw: Raw) -> Statistic:
    """The most instructions that a single warp issues per cycle: what one scheduler issues."""
    firsts = [sweep(raw, op, chains).cycles[0] for op in operations(raw) for chains in chain_counts(raw, op)]
    least = min(firsts, key=lambda each: each.value)
    return Statistic(1 / least.value, least.spread, least.count)


# -- subsystems ------------------------------------------------------------------------

MIX_MODELS = ("one subsystem", "two subsystems", "two subsystems, issue limit")


def mix_throughput(model: str, beta: Any, first: float, second: float, limit: float) -> Any:
    """Instructions of the first kind per cycle (Lemeire et al., eqs. 43 to 45), for β of them per one of the second.

    In eqs. 44 and 45 the second pipeline bounds β instructions of the first kind, so its bound is β/λ₂.
    """
    beta = np.asarray(beta, float)
    if model == "one subsystem":
        return beta / (beta * first + second)
    bound = np.minimum(1 / first, beta / second)
    return bound if model == "two subsystems" else np.minimum(bound, beta / (beta + 1) * limit)


@dataclass(frozen=True)
class Mix:
    """The measured curve of a pair of instructions, and the error of each model of subsystems."""

    first: str
    second: str
    betas: tuple[int, ...]
    measured: tuple[float, ...]
    total: tuple[float, ...]
    """Instructions of both kinds per cycle."""
    errors: Mapping[str, float]
    """Root mean square of the relative error, by model."""

    @property
    def shared(self) -> bool:
        """Whether both kinds share one subsystem, or use two that only the issue limit couples."""
        return self.errors["one subsystem"] < self.errors["two subsystems, issue limit"]


def mixes(raw: Raw) -> list[Mix]:
    """All pairs, in the order they were measured."""
    limit = issue_limit(raw).value
    names = {row[place] for row in raw["mixes"] for place in ("first", "second")}
    intervals = {name: interval(raw, name).value for name in names}
    found = []
    for first, second in dict.fromkeys((row["first"], row["second"]) for row in raw["mixes"]):
        rows = [row for row in raw["mixes"] if (row["first"], row["second"]) == (first, second)]
        betas = np.array([row["beta"] for row in rows])
        groups = np.array([row["repeats"] * row["warps"] / np.median(row["cycles"]) for row in rows])
        measured = betas * groups
        times = intervals[first], intervals[second]
        errors = {
            model: float(np.sqrt(np.mean((mix_throughput(model, betas, *times, limit) / measured - 1) ** 2)))
            for model in MIX_MODELS
        }
        total = tuple(float(x) for x in measured + groups)
        found.append(Mix(first, second, tuple(map(int, betas)), tuple(map(float, measured)), total, errors))
    return found


def subsystems(pairs: Sequence[Mix]) -> dict[str, str]:
    """Subsystem of every operation in the mixes: shared with the first operation that contends with it, or its own.

    A subsystem is named after its first operation.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        found.setdefault(pair.first, pair.first)
        if pair.shared:
            found.setdefault(pair.second, found[pair.first])
        elif all(not other.shared for other in pairs if other.second == pair.second):
            found.setdefault(pair.second, pair.second)
    return found


# -- latency curves ------------------------------------------------------------------------


@dataclass(frozen=True)
class Plateau:
    """A range of sizes with the same latency."""

    first_bytes: int
    last_bytes: int
    cycles: float


def latency_curve(raw: Raw, *, cached: bool) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Ring sizes, and the cycles of one step in each."""
    rows = [row for row in raw["latency"]["curve"] if row["cached"] == cached]
    return np.array([row["bytes"] for row in rows]), np.array([np.median(row["cycles"]) for row in rows])


def plateaus(
    sizes: Any, cycles: Any, *, least_points: int = 4, tolerance: float = PLATEAU_TOLERANCE
) -> list[Plateau]:
    """Ranges of neighbouring sizes with nearly the same latency, in order."""
    found: list[Plateau] = []
    start = 0
    for end in range(1, len(sizes) + 1):
        stretch = np.asarray(cycles[start:end])
        middle = float(np.median(stretch))
        if end < len(sizes) and abs(cycles[end] / middle - 1) <= tolerance:
            continue
        if end - start >= least_points:
            found.append(Plateau(int(sizes[start]), int(sizes[end - 1]), middle))
        start = end
    return found


def sector_bytes(raw: Raw, level: str) -> int:
    """Bytes that one miss fetches: the shortest distance at which a neighbour also misses."""
    rows = [row for row in raw["sectors"] if row["level"] == level]
    cycles = np.array([np.median(row["cycles"]) for row in rows])
    apart = cycles > (cycles.min() + cycles.max()) / 2
    return int(rows[int(np.argmax(apart))]["distance_bytes"])


# -- traffic -------------------------------------------------------------------------------


def bandwidth(row: Mapping[str, Sequence[float]]) -> Statistic:
    """Bytes per second of a run on the whole GPU."""
    return Statistic.of(np.divide(row["bytes"], row["seconds"]))


def bytes_per_cycle(row: Mapping[str, Sequence[float]]) -> Statistic:
    """Bytes per cycle of one SM."""
    return Statistic.of(np.divide(row["bytes"], np.multiply(row["cycles"], row["sms"])))


@dataclass(frozen=True)
class Flight:
    """Throughput of one SM by the sectors it has in flight."""

    sectors: np.ndarray[Any, Any]
    sectors_per_cycle: np.ndarray[Any, Any]


def flight(raw: Raw, pattern: str, level: str) -> Flight:
    rows = [row for row in raw["misses"] if (row["pattern"], row["level"]) == (pattern, level)]
    sectors = np.array([row["sectors"] for row in rows])
    rates = np.array([row["sectors"] * row["rounds"] / np.median(row["cycles"]) for row in rows])
    order = np.argsort(sectors, kind="stable")
    return Flight(sectors[order], rates[order])


def dram_latency(raw: Raw) -> Statistic:
    return Statistic.of(raw["latency"]["dram_cold"]["cycles"])


def in_flight(raw: Raw, pattern: str) -> float:
    """Sectors in flight between one SM and DRAM at peak throughput, by Little's law with the unloaded latency.

    Latency grows under load, so this is a lower bound.
    """
    return float(flight(raw, pattern, "dram").sectors_per_cycle.max() * dram_latency(raw).value)


def spread_cycles(raw: Raw, level: str, request_cycles: float) -> float:
    """What the last line of a load takes longer each time their number doubles: 32 scattered ones beside one."""
    alone, many = (
        np.median(row["cycles"]) / row["rounds"]
        for pattern in ("one sector", "32 sectors")
        for row in raw["misses"]
        if (row["pattern"], row["level"], row["warps"], row["loads"]) == (pattern, level, 1, 1)
    )
    return float(many - alone - 31.0 * request_cycles) / 5.0


# -- accesses that are not side by side, blocks --------------------------------------------


BANKS, WORD_BYTES, LINE_BYTES = 32, 4, 128


def bank_words(offsets: Sequence[int]) -> int:
    """Words that the busiest bank has to deliver."""
    words = np.unique(np.asarray(offsets) // WORD_BYTES)
    return int(np.bincount(words % BANKS).max())


def line_count(offsets: Sequence[int]) -> int:
    return len({offset // LINE_BYTES for offset in offsets})


def l1_is_banked(raw: Raw) -> bool:
    """Whether 32 words of 32 lines take longer from one bank than from 32 banks."""
    cycles = {
        bank_words(row["offsets"]): Statistic.of(row["cycles"]).value
        for row in raw["patterns"]
        if line_count(row["offsets"]) == BANKS
    }
    return cycles[BANKS] >= SATURATION * BANKS > cycles[1]


def l1_lines_per_cycle(raw: Raw) -> float:
    """Lines that the L1 looks up per cycle, from the load with the most lines and no bank conflict."""
    rows = [row for row in raw["patterns"] if bank_words(row["offsets"]) == 1]
    most = max(rows, key=lambda row: line_count(row["offsets"]))
    return line_count(most["offsets"]) / Statistic.of(most["cycles"]).value


def pattern_error(raw: Raw, lines_per_cycle: float, *, banked: bool) -> float:
    """Largest relative error over the patternsif a load takes the larger of its line and bank times."""
    errors = []
    for row in raw["patterns"]:
        lines = np.ceil(line_count(row["offsets"]) / lines_per_cycle)
        words = bank_words(row["offsets"]) if banked else 1
        errors.append(abs(max(lines, words) / Statistic.of(row["cycles"]).value - 1))
    return float(max(errors))


def scattered_cycles(raw: Raw, what: str, size_bytes: int, *, every: bool) -> Statistic:
    """Cycles between requests of an SM, each to a different line, with one SM active or all."""
    rows = [row for row in raw["scattered"] if (row["what"], row["bytes"]) == (what, size_bytes) and row["apart"]]
    chosen = max(rows, key=lambda row: row["sms"]) if every else min(rows, key=lambda row: row["sms"])
    return Statistic.of(chosen["cycles"])


def block_start(raw: Raw) -> Statistic:
    """Cycles from the end of a block to the start of its successor, over all block sizes."""
    return Statistic.of([cycles for row in raw["blocks"] for cycles in row["cycles"]])


def barrier_cost(raw: Raw) -> tuple[float, float, float]:
    """Cycles of a barrier as a line in the number of warps: intercept, slope, and largest relative error."""
    loops: dict[int, dict[int, float]] = {}
    for row in raw["barriers"]:
        loops.setdefault(row["warps"], {})[row["length"]] = float(np.median(row["cycles"]))
    warps = np.array(sorted(loops))
    cycles = []
    for each in warps:
        (short, few), (long, many) = sorted(loops[each].items())
        cycles.append((many - few) / (long - short))
    slope, start = np.polyfit(warps, cycles, 1)
    error = np.max(np.abs((start + slope * warps) / cycles - 1))
    return float(start), float(slope), float(error)


def atomic_times(raw: Raw) -> tuple[Statistic, Statistic]:
    """Λ (one warp on one SM) and λ (all SMs) of a coalesced atomic addition."""
    rows = raw["atomics"]
    alone = next(row for row in rows if (row["sms"], row["warps"], row["chains"]) == (1, 1, 1))
    most = max(row["sms"] for row in rows)
    together = [
        Statistic.of(np.divide(row["cycles"], row["steps"] * row["warps"] * row["chains"]))
        for row in rows
        if row["sms"] == most
    ]
    single = Statistic.of(np.divide(alone["cycles"], alone["steps"]))
    return single, min(together, key=lambda each: each.value)


def launch_cost(raw: Raw) -> tuple[Statistic, float]:
    """Seconds of an empty kernel with one block per SM, queued behind another kernel; seconds per further block."""
    rows = raw["launches"]["by_blocks"]
    blocks = np.array([row["blocks"] for row in rows], float)
    seconds = np.array([np.median(row["seconds"]) for row in rows])
    slope = (seconds[-1] - seconds[-2]) / (blocks[-1] - blocks[-2])
    filling = next(row for row in rows if row["blocks"] == raw["device"]["sms"])
    return Statistic.of(filling["seconds"]), float(slope)
