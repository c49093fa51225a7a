"""Energies of a machine, from the power of micro-benchmarks by the driver's energy counter.

Each benchmark keeps one unit busy: what its power exceeds that of idle warps by is the energy of its instructions or
bytes. Bytes from farther away pass the nearer levels, whose energy goes off.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FileError

CLASSES = ("int32", "fp32", "fp64", "fp16", "sfu", "conversion")
SECTOR_BYTES, LINE_BYTES = 32, 128
WAYS = ("read", "write")
#: Sectors that a warp's access touches: 4 bytes per lane side by side, or a line for each lane, or 16 bytes per lane.
ASIDE, APART, WIDE = 4, 32, 16
#: Every benchmark that a value comes from.
NEEDED = (
    *("idle", "spin", *CLASSES, "int32_mad", "int32_logic", "matrix", "load_shared", "l1_read", "l1_scattered"),
    *(f"{level}_{way}" for level in ("l2", "dram") for way in WAYS),
    *(f"l2_{way}_sectors" for way in WAYS),
)


def read_energy(path: Path, gpu: str) -> dict[str, Any]:
    """What benchmarks/h200/measure_energy.py wrote of a GPU, without the kernels that it measured beside."""
    try:
        document = json.loads(path.read_text("utf-8"))
        rows = [row for row in document["rows"] if row["kind"] in ("micro", "idle")]
        found = {"gpu": str(document["gpu"]), "limit_watts": float(document["limit_watts"]), "rows": rows}
        missing = sorted(set(NEEDED) - {row["name"] for row in rows})
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (UnicodeDecodeError, json.JSONDecodeError, LookupError, TypeError, ValueError) as error:
        raise FileError(f"{path}: not what measure_energy.py writes ({error!r})") from None
    if missing:
        raise FileError(f"{path}: lacks the micro-benchmarks {', '.join(missing)}; measure again")
    if found["gpu"] != gpu:
        raise FileError(f"{path}: measured on {found['gpu']!r}, the other benchmarks on {gpu!r}")
    return found


def power_values(document: Mapping[str, Any]) -> dict[str, float]:
    """Values of the table `power`, by name."""
    micro = {row["name"]: row for row in document["rows"] if row["kind"] in ("micro", "idle")}
    active = micro["spin"]["watts"]

    def added(name: str, per: str) -> float:
        """Picojoules above idle warps of the same run, per instruction or byte."""
        row = micro[name]
        return float((row["watts"] - row.get("active_watts", active)) * row["seconds"] / row[per] * 1e12)

    def alone(name: str) -> float:
        """Picojoules of an access, without the additions beside it."""
        row = micro[name]
        others = row["others"] / row["warp_instructions"]
        return added(name, "warp_instructions") - float(others) * added("int32", "warp_instructions")

    energies = {name: added(name, "warp_instructions") for name in CLASSES}
    integers = [added(name, "warp_instructions") for name in ("int32", "int32_mad", "int32_logic")]
    energies["int32"] = float(np.mean(integers))
    energies["comp"] = integers[-1]
    energies["tensor"] = added("matrix", "warp_instructions")
    energies["shared"] = alone("load_shared")
    sector = (alone("l1_scattered") - alone("l1_read")) / (APART - ASIDE)
    energies["mem"] = alone("l1_read") - ASIDE * sector
    near = (energies["mem"] / WIDE + sector) / SECTOR_BYTES
    farther = {name: float(np.mean([added(f"{name}_{way}", "bytes") for way in WAYS])) for name in ("l2", "dram")}
    # A request for a line costs `request` + 128 bytes, one for a sector `request` + 32. Lanes of a sector: 1 or 2.
    lines = [LINE_BYTES * (added(f"l2_{way}", "bytes") - near) for way in WAYS]
    passing = {"read": energies["mem"] / APART + sector, "write": energies["mem"] / WIDE + sector}
    sectors = [SECTOR_BYTES * added(f"l2_{way}_sectors", "bytes") - passing[way] for way in WAYS]
    byte = float(np.mean(np.subtract(lines, sectors))) / (LINE_BYTES - SECTOR_BYTES)
    return {
        "idle_watts": float(micro["idle"]["watts"]),
        "active_watts": float(active),
        "limit_watts": float(document["limit_watts"]),
        **{f"{name}_picojoules": value for name, value in energies.items()},
        "l1_picojoules_per_byte": sector / SECTOR_BYTES,
        "llc_picojoules_per_byte": byte,
        "llc_picojoules_per_request": float(np.mean(lines)) - LINE_BYTES * byte,
        "dram_picojoules_per_byte": farther["dram"] - farther["l2"],
    }
