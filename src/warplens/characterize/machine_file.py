"""From raw data to a machine description. Every value names the measurement that it comes from."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import FileError
from ..machine import Gpu, Source, parameters
from ..machine.classes import INSTRUCTION_CLASSES, PRODUCT_COLUMNS, product_class
from ..machine.schema import SECTIONS
from . import analysis, products
from .analysis import Mix, Raw, Statistic
from .energy import power_values
from .measure import SCHEMA
from .observations import departure_values, fetch_values, observations, sustained_clock

_DATA = Path(__file__).parent / "data"

#: class of instructions -> operation that stands for it.
CLASS_OPERATIONS = {
    "int32": "int32_add",
    "int32_mad": "int32_mad",
    "int32_div": "int32_div",
    "fp32": "fp32_fma",
    "fp32_div": "fp32_div",
    "fp64": "fp64_fma",
    "fp64_div": "fp64_div",
    "fp16": "fp16_fma2",
    "sfu": "sfu_ex2",
    "tensor": "matrix_m16n8k16",
    "shared": "load_shared",
    "atomic_shared": "atomic_shared",
}
#: Operations whose λ the source text of a class mentions too.
RELATED = {
    "int32": ("int32_logic", "int32_add_logic"),
    "sfu": ("sfu_rsqrt",),
    "shared": ("load_shared_16B", "store_shared"),
}
#: Names of the subsystems, by the operation that identifies each.
SUBSYSTEM_NAMES = {"fp32_fma": "compute", "int32_add": "int32", "sfu_ex2": "sfu", "load_shared": "shared"}


#: Names that the driver gives to cards -> the machine that ships for each.
CARDS = {
    r"V100": "v100",
    r"A100.*PCIE.*40GB": "a100-40gb-pcie",
    r"A100.*40GB": "a100-40gb",
    r"A100.*80GB": "a100-80gb",
    r"H100.*PCIe": "h100-pcie",
    r"H100": "h100-sxm",
    r"H200": "h200",
    r"B200": "b200",
    r"L40S": "l40s",
    r"RTX A4000": "rtx-a4000",
    r"RTX A6000": "rtx-a6000",
    r"RTX 2080 Ti": "rtx2080ti",
    r"TITAN RTX$": "titan-rtx",
    r"RTX 3060$": "rtx3060",
    r"RTX 3080$": "rtx3080",
    r"RTX 3090$": "rtx3090",
    r"RTX 4080$": "rtx4080",
    r"RTX 4090$": "rtx4090",
    r"RTX 5090$": "rtx5090",
}


@dataclass(frozen=True)
class SourcedValue:
    """A parameter and where it comes from."""

    value: Any
    source: Source


def read_raw(path: Path) -> dict[str, Any]:
    """Raw data that a run of characterize wrote."""
    try:
        raw = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise FileError(f"{path}: not JSON ({error}); give the raw data that `warplens characterize` wrote") from None
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA or "chains" not in raw:
        raise FileError(f"{path}: not raw data of `warplens characterize` of this version; measure again")
    return raw


def measured_values(raw: Raw) -> dict[str, SourcedValue]:
    """All values that follow from the raw data, by parameter path."""
    found = {**_properties(raw), **_issue(raw), **_launches(raw), **_instructions(raw)}
    return {**found, **_memory(raw), **_scattered(raw), **_paths(raw), **_power(raw)}


def _measured(value: Any, text: str) -> SourcedValue:
    return SourcedValue(value, Source("measured", text))


def _properties(raw: Raw) -> dict[str, SourcedValue]:
    """What the driver reports."""
    found = raw["device"]
    gpu = raw["provenance"]["gpu"]
    reported = Source("datasheet", f"what the driver reports for the {gpu}")
    seen = " / ".join(f"{clock / 1e9:.4g}" for clock in raw["provenance"]["sm_clock_hz"])
    clock = f"boost clock that the driver reports for the {gpu}; {seen} GHz seen while measuring"
    values = {
        "compute_capability": _capability(raw),
        "sms": found["sms"],
        "warp_size": found["warp_size"],
        "max_warps": found["threads_per_sm"] // found["warp_size"],
        "max_blocks": found["blocks_per_sm"],
        "registers": found["registers_per_sm"],
        "shared_memory_bytes": found["shared_memory_per_sm_bytes"],
        "llc.size_bytes": found["l2_bytes"],
        "occupancy.max_threads_per_block": found["threads_per_block"],
        "occupancy.registers_per_block": found["registers_per_block"],
        "occupancy.shared_memory_per_block_bytes": found["shared_memory_per_block_bytes"],
        "occupancy.shared_memory_reserved_bytes": found["shared_memory_reserved_bytes"],
    }
    boost = SourcedValue(1e3 * found["clock_khz"], Source("datasheet", clock))
    return {
        **{path: SourcedValue(value, reported) for path, value in values.items()},
        "clock_hz": boost,
        "clocks.boost_hz": boost,
    }


def _capability(raw: Raw) -> str:
    return ".".join(str(raw["device"][f"compute_capability_{part}"]) for part in ("major", "minor"))


def _issue(raw: Raw) -> dict[str, SourcedValue]:
    every, one = analysis.issue_limit(raw), analysis.warp_issue_limit(raw)
    schedulers = round(every.value / one.value)
    text = f"one warp issues {one} instructions a cycle, an SM {every}"
    return {
        "schedulers": _measured(schedulers, text),
        "issue_width": _measured(round(every.value) / schedulers, text),
    }


def _launches(raw: Raw) -> dict[str, SourcedValue]:
    clock_hz = statistics.median(raw["provenance"]["sm_clock_hz"])
    launch, block = analysis.launch_cost(raw)
    queued = Statistic.of(raw["launches"]["queued_seconds"])
    counts = [row["blocks"] for row in raw["launches"]["by_blocks"]]
    alone = f"of one block: {queued} s"
    overhead = f"empty kernels, one block on every SM, queued one behind the other: {launch} s; {alone}"
    blocks = f"what a block adds to an empty kernel, from {counts[-2]} to {counts[-1]} of them: {block:.4g} s"
    start = analysis.block_start(raw)
    sizes = ", ".join(f"{row['resident']} of {row['threads']} threads" for row in raw["blocks"])
    turn = f"blocks that end at different times, on each SM {sizes}: from an end to the next start {start} cycles"
    return {
        "launch_overhead_cycles": _measured(round(launch.value * clock_hz), overhead),
        "block_start_cycles": _measured(round(start.value), turn),
        "block_launch_cycles": _measured(_digits(block * clock_hz), blocks),
    }


def _instructions(raw: Raw) -> dict[str, SourcedValue]:
    limit = round(analysis.issue_limit(raw).value)
    pairs = analysis.mixes(raw)
    subsystems = {name: SUBSYSTEM_NAMES.get(found, found) for name, found in analysis.subsystems(pairs).items()}
    found: dict[str, SourcedValue] = {}

    def put(name: str, latency: float, interval: float, latency_text: str, interval_text: str) -> None:
        """λ and Λ as multiples of an issue slot (Lemeire et al., section 4.3)."""
        rounded = f"to the nearest 1/{limit} cycle"
        path = f"instructions.{name}"
        found[f"{path}.latency_cycles"] = _measured(round(latency * limit) / limit, f"{latency_text}; {rounded}")
        found[f"{path}.interval_cycles"] = _measured(round(interval * limit) / limit, f"{interval_text}; {rounded}")

    of_warpgroups = {product_class(columns): products.operation(columns) for columns in PRODUCT_COLUMNS}
    has_products = products.operation(PRODUCT_COLUMNS[0]) in analysis.operations(raw)
    for name, operation in (CLASS_OPERATIONS | (of_warpgroups if has_products else {})).items():
        latency, interval = analysis.latency(raw, operation), analysis.interval(raw, operation)
        alone = "warpgroup" if name in of_warpgroups else "warp"
        chain = f"{operation}: a chain in one {alone}, {latency} cycles"
        more = "".join(f"; {each} {analysis.interval(raw, each).value:.3g}" for each in RELATED.get(name, ()))
        least = f"{operation}: all occupancies and chains, least {interval} cycles{more}"
        put(name, latency.value, interval.value, chain, least)
        own = INSTRUCTION_CLASSES[name].parent if name.endswith("_div") else None
        operation = CLASS_OPERATIONS[own] if own else operation
        if operation in subsystems:
            found[f"instructions.{name}.subsystem"] = _measured(subsystems[operation], _mix_text(pairs, operation))
    uniform = Source(
        "assumed",
        "a pipe of its own in each partition (NVIDIA's developer forum, 315200); its rate: that of integer additions",
    )
    interval = found["instructions.int32.interval_cycles"].value
    found["instructions.uniform.interval_cycles"] = SourcedValue(interval, uniform)
    found["instructions.uniform.subsystem"] = SourcedValue("uniform", uniform)
    own_unit = "matrix instructions were not mixed with others; tensor cores are units of their own"
    for name in ("tensor", *(of_warpgroups if has_products else ())):
        found[f"instructions.{name}.subsystem"] = SourcedValue("tensor", Source("assumed", own_unit))
    # The two directions of a conversion run in different units; a class has one timing.
    there, back = "float_to_int", "int_to_float"
    times = [(analysis.latency(raw, each), analysis.interval(raw, each)) for each in (there, back)]
    put(
        "conversion",
        sum(latency.value for latency, _ in times) / 2,
        sum(interval.value for _, interval in times) / 2,
        f"mean of {there}, {times[0][0]}, and {back}, {times[1][0]} cycles",
        f"mean of {there}, {times[0][1]}, and {back}, {times[1][1]} cycles",
    )
    found["instructions.conversion.subsystem"] = _measured(subsystems[there], _mix_text(pairs, there))
    start, slope, error = analysis.barrier_cost(raw)
    line = f"{start:.4g} + {slope:.4g} cycles for each warp of the block fits 1 to 32 warps to {100 * error:.2g} %"
    put("barrier", start + slope, slope, f"one warp; {line}", f"what a warp adds; {line}")
    latency = analysis.latency(raw, CLASS_OPERATIONS["int32"])
    other = f"moves, branches and the like are not measured: the latency of int32_add, {latency} cycles"
    found["instructions.comp.latency_cycles"] = SourcedValue(
        round(latency.value * limit) / limit, Source("assumed", other)
    )
    found["instructions.comp.interval_cycles"] = SourcedValue(
        1 / limit, Source("assumed", f"not measured: one of {limit} issue slots")
    )
    latency, interval = analysis.atomic_times(raw)
    path = "instructions.atomic_global"
    text = f"coalesced addition with its result, lines spread over L2, one SM and one warp: {latency} cycles"
    found[f"{path}.latency_cycles"] = _measured(round(latency.value), text)
    text = f"coalesced addition with its result, all SMs: {interval} cycles of an SM for a warp instruction"
    found[f"{path}.interval_cycles"] = _measured(_digits(interval.value), text)
    return found


def _mix_text(pairs: Sequence[Mix], operation: str) -> str:
    """The mixes that decided on a subsystem."""
    parts = []
    for pair in pairs:
        if operation in (pair.first, pair.second):
            other = pair.first if operation == pair.second else pair.second
            parts.append(f"{'with' if pair.shared else 'apart from'} {other}")
    return f"instruction mixes of {operation}: {', '.join(dict.fromkeys(parts))}"


def _memory(raw: Raw) -> dict[str, SourcedValue]:
    traffic = raw["bandwidth"]
    first = analysis.plateaus(*analysis.latency_curve(raw, cached=True))[0]
    by_sm = raw["latency"]["l2_by_sm"]["cycles"]
    near, *farther = analysis.plateaus(*analysis.latency_curve(raw, cached=False))
    l2 = sum(by_sm) / len(by_sm)
    dram = analysis.dram_latency(raw)
    steps = "; ".join(
        f"{plateau.cycles:.0f} in rings of {plateau.first_bytes >> 20} to {plateau.last_bytes >> 20} MiB"
        for plateau in farther
    )
    hits = analysis.bytes_per_cycle(next(row for row in traffic["l1"] if row["words"] == 4))
    wide = [row for row in traffic["l2_by_sms"] if row["words"] == 4]
    one = Statistic.of([b / s for b, s in zip(wide[0]["bytes"], wide[0]["seconds"], strict=True)])
    every = analysis.bandwidth(wide[-1])
    read, write, copy = (analysis.bandwidth(traffic["dram"][key]) for key in ("read", "write", "copy"))
    at_least = "at the greatest throughput from DRAM, times its unloaded latency (Little's law): at least so many"
    values: dict[str, tuple[Any, str]] = {
        "l1.size_bytes": (
            first.last_bytes,
            f"largest ring of a pointer chase that stays in L1 ({first.last_bytes >> 10} KiB), with no shared memory "
            "carved out: less is left to kernels that use it",
        ),
        "l1.sector_bytes": (
            analysis.sector_bytes(raw, "l1"),
            f"least distance of a neighbour that misses again; in L2 it is {analysis.sector_bytes(raw, 'l2')} bytes",
        ),
        "l1.latency_cycles": (
            round(first.cycles),
            f"pointer chase of 8-byte loads, {first.cycles:.4g} cycles; an SM reads {hits} bytes a cycle",
        ),
        "l1.mshrs": (
            int(analysis.in_flight(raw, "32 sectors")),
            f"scattered loads, each of a line of its own: lines in flight {at_least}",
        ),
        "llc.latency_cycles": (
            round(l2),
            f"pointer chase past L1 in 4 MiB: mean of all SMs {l2:.4g} cycles, from {min(by_sm):.4g} to "
            f"{max(by_sm):.4g}; one SM sees {near.cycles:.0f} up to {near.last_bytes >> 20} MiB, {steps}",
        ),
        "dram.latency_cycles": (
            round(dram.value - l2),
            f"pointer chase of cold lines in pages touched before: {dram} cycles, less the {l2:.4g} of an L2 hit",
        ),
        "dram.bandwidth_bytes_per_s": (
            _digits(read.value),
            f"read of 1 GiB, {read} B/s; write {write.value:.3g}, copy {copy.value:.3g} B/s",
        ),
        "noc.bandwidth_bytes_per_s": (
            _digits(every.value),
            f"read past L1 of data in L2 by all SMs, 16 bytes a lane: {every} B/s",
        ),
        "noc.sm_bandwidth_bytes_per_s": (
            _digits(one.value),
            f"the same by one SM alone: {one} B/s",
        ),
        "noc.queue_entries": (
            int(analysis.in_flight(raw, "512 bytes")),
            f"coalesced loads of 16 bytes a lane: sectors in flight {at_least}; no queue was seen to be full",
        ),
    }
    return {path: _measured(*value) for path, value in values.items()}


def _scattered(raw: Raw) -> dict[str, SourcedValue]:
    """How the L1 and the network serve uncoalesced accesses, and what writes cost."""
    clock_hz = statistics.median(raw["provenance"]["sm_clock_hz"])
    sms, line = raw["device"]["sms"], 128
    lines, banked = analysis.l1_lines_per_cycle(raw), analysis.l1_is_banked(raw)
    error = analysis.pattern_error(raw, round(lines), banked=banked)
    text = (
        f"loads that hit, {len(raw['patterns'])} patterns of offsets: 32 lines, different banks: "
        f"{32 / lines:.4g} cycles; the larger of lines / {round(lines)} and words of a bank fits to "
        f"{100 * error:.2g} %"
    )
    found = {"l1.lines_per_cycle": _measured(round(lines), text), "l1.banked": _measured(banked, text)}
    words = {"request": "LOADS", "store": "STORES", "atomic": "ADDITIONS"}
    for name, kind in words.items():
        one, every = (analysis.scattered_cycles(raw, kind, 4, every=every) for every in (False, True))
        what = f"{kind.lower()} of a word, each of a line of its own in L2"
        found[f"noc.sm_{name}_cycles"] = _measured(_digits(one.value), f"{what}, by one SM: {one} cycles")
        found[f"noc.{name}_cycles"] = _measured(
            _digits(every.value / sms), f"{what}, by all SMs: {every} cycles of an SM"
        )
    one, every = (analysis.scattered_cycles(raw, "STORES", line, every=every) for every in (False, True))
    what = f"stores of {line} bytes in a row, in L2"
    found["noc.sm_write_bandwidth_bytes_per_s"] = _measured(
        _digits(line / one.value * clock_hz), f"{what}, by one SM: {one} cycles for each"
    )
    found["noc.write_bandwidth_bytes_per_s"] = _measured(
        _digits(line * sms / every.value * clock_hz), f"{what}, by all SMs: {every} cycles of an SM for each"
    )
    read, copy = (analysis.bandwidth(raw["bandwidth"]["dram"][key]).value for key in ("read", "copy"))
    text = (
        f"what a copy of as much read as written, {copy:.4g} B/s, leaves to the writes beside reads at {read:.4g} B/s"
    )
    found["dram.write_factor"] = _measured(_digits(2.0 * read / copy - 1.0), text)
    request = analysis.scattered_cycles(raw, "LOADS", 4, every=False).value
    for part, level in (("llc", "l2"), ("dram", "dram")):
        cycles = analysis.spread_cycles(raw, level, request)
        text = (
            "a warp's load of 32 lines beside one of one line, less their turns at the SM's port; for each doubling"
        )
        found[f"{part}.spread_cycles"] = _measured(_digits(cycles), text)
    found["llc.fetch_bytes"] = _measured(
        analysis.sector_bytes(raw, "l2"), "least distance of a neighbour that misses L2 again"
    )
    return found


def _paths(raw: Raw) -> dict[str, SourcedValue]:
    """Departure delays, and from raw data that have them instruction caches and the clock under load."""
    values = departure_values(raw)
    if "paths" in raw:
        values |= {**fetch_values(raw), "clocks.sustained_hz": sustained_clock(raw)}
    return {
        path: _measured(int(value) if path.endswith("_bytes") else _digits(value), text)
        for path, (value, text) in values.items()
    }


def _power(raw: Raw) -> dict[str, SourcedValue]:
    """Power and energies, from raw data that have them."""
    values = power_values(raw["energy"]) if "energy" in raw else {}
    text = "the driver's energy counter over micro-benchmarks (measure_energy.py)"
    return {f"power.{name}": _measured(_digits(value), text) for name, value in values.items()}


def _digits(value: float) -> float:
    return float(f"{value:.4g}")


# -- the file --------------------------------------------------------------------------


def merged_values(raw: Raw, base: Gpu) -> dict[str, SourcedValue]:
    """The measured values, and the base machine's values for everything else.

    A value of another GPU is an assumption for this one; its source says so.
    """
    same = shipped_card(raw) == base.name
    found = measured_values(raw)
    for path in parameters():
        value = base.get(path)
        if value is None:
            continue
        source = base.sources[path]
        if path in found:
            if same and source.is_bounded:  # a benchmark of its own gives other values too
                mine = found[path].source
                bounded = replace(mine, text=f"{mine.text}; {source.text}", least=source.least, most=source.most)
                found[path] = SourcedValue(found[path].value, bounded)
            continue
        if not same:
            source = Source("assumed", f"not measured: as {base.name} ({source.text})")
        found[path] = SourcedValue(value, source)
    if "l1.ways" in found and "l1.line_bytes" in found:  # a cache holds whole sets
        size, set_bytes = found["l1.size_bytes"], found["l1.ways"].value * found["l1.line_bytes"].value
        found["l1.size_bytes"] = SourcedValue(size.value // set_bytes * set_bytes, size.source)
    return {path: found[path] for path in parameters() if path in found}


def machine_toml(raw: Raw, base: Gpu, name: str) -> str:
    """The text of the machine description."""
    origin = raw["provenance"]
    values = merged_values(raw, base)
    described = f"{origin['gpu']} (compute capability {_capability(raw)}), measured by micro-benchmarks; "
    lines = [
        "# Made by `warplens characterize` from raw data: change the measurements, not this file.",
        f"# {origin['gpu']}, driver {origin['driver']}, {origin['compiler']}, {origin['date']}",
        f"name = {_text(name)}",
        f"description = {_text(described + 'intervals are per SM.')}",
        "",
    ]
    names: dict[Source, str] = {}
    tables: dict[str, list[str]] = {"": []}
    for path, item in values.items():
        table, _, leaf = path.rpartition(".")
        key = names.setdefault(replace(item.source, machine=""), path.replace(".", "_"))
        tables.setdefault(table, []).append(f"{leaf} = {{ value = {_literal(item.value)}, source = {_text(key)} }}")
    order = ["", *SECTIONS, *(f"instructions.{each}" for each in INSTRUCTION_CLASSES)]
    for table in sorted(tables, key=order.index):
        lines += [f"[{table}]"] * bool(table) + tables[table] + [""]
    for source, key in names.items():
        ends = {"least": source.least, "most": source.most}
        bounds = [f"{end} = {_literal(value)}" for end, value in ends.items() if value is not None]
        lines += [f"[sources.{key}]", f"kind = {_text(source.kind)}", f"text = {_text(source.text)}", *bounds, ""]
    found = observations(raw)
    if found:
        lines += ["# Also measured, for no model yet:", *(f"# {each}" for each in found), ""]
    return "\n".join(lines)


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _literal(value: Any) -> str:
    if isinstance(value, bool | str):
        return json.dumps(value)
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e9):
        return str(int(value))
    return f"{value:.6g}"


def summary(raw: Raw, base: Gpu) -> list[Mapping[str, Any]]:
    """Rows to print: what was measured, beside the value of the base machine."""
    rows: list[Mapping[str, Any]] = []
    for path, item in measured_values(raw).items():
        if item.source.kind == "measured":
            rows.append({"path": path, "value": item.value, "base": base.get(path), "text": item.source.text})
    return rows


def shipped_card(raw: Raw) -> str | None:
    """The machine that ships for the card that was measured."""
    name = raw["provenance"]["gpu"]
    return next((machine for pattern, machine in CARDS.items() if re.search(pattern, name, re.I)), None)


@dataclass(frozen=True)
class Difference:
    """A number that was measured, beside the one of another description."""

    path: str
    measured: float
    other: float

    @property
    def relative(self) -> float:
        return self.measured / self.other - 1.0


def differences(raw: Raw, other: Gpu) -> list[Difference]:
    """Numbers that both have, those that are farthest apart first."""
    found = []
    for path, item in measured_values(raw).items():
        value = other.get(path)
        if item.source.kind == "measured" and isinstance(value, int | float) and value:
            found.append(Difference(path, float(item.value), float(value)))
    return sorted(found, key=lambda each: -abs(each.relative))


@dataclass(frozen=True)
class Bundled:
    """Raw data that ship with warplens, and a published description of the same GPU for the rest."""

    raw: Path
    base: Path


def bundled(name: str) -> Bundled | None:
    """The raw data that ship under a name, or None."""
    found = Bundled(_DATA / f"{name}-raw.json", _DATA / f"{name}-published.toml")
    return found if name.isidentifier() and found.raw.is_file() else None
