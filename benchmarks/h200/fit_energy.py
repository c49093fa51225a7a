"""Turns what measure_energy.py measured into the power of a machine file, and checks it on the suite.

    python benchmarks/h200/fit_energy.py parameters out/energy.json   # the [power] table of h200.toml
    python benchmarks/h200/fit_energy.py check out/energy.json        # the suite, with the power of h200.toml

Parameters come from micro-benchmarks alone. Each keeps one unit busy; what its power exceeds that of idle warps by
is the energy of its instructions or bytes. Bytes from farther away pass the nearer levels, whose energy goes off.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

CLASSES = ("int32", "fp32", "fp64", "fp16", "sfu", "conversion")
SECTOR_BYTES, LINE_BYTES = 32, 128
WAYS = ("read", "write")
#: Sectors that a warp's access touches: 4 bytes per lane side by side, or a line for each lane, or 16 bytes per lane.
ASIDE, APART, WIDE = 4, 32, 16

Rows = dict[str, dict[str, Any]]


def read(path: Path) -> tuple[dict[str, Any], Rows, list[dict[str, Any]]]:
    """(The document, micro-benchmarks by name, all rows)."""
    document = json.loads(path.read_text(encoding="utf-8"))
    rows = document["rows"]
    return document, {row["name"]: row for row in rows if row["kind"] in ("micro", "idle")}, rows


def parameters(path: Path) -> dict[str, float]:
    """Values of the table `power`."""
    document, micro, _ = read(path)
    active = micro["spin"]["watts"]

    def added(name: str, per: str) -> float:
        """Picojoules above idle warps of the same run, per instruction or byte."""
        row = micro[name]
        return (row["watts"] - row.get("active_watts", active)) * row["seconds"] / row[per] * 1e12

    def alone(name: str) -> float:
        """Picojoules of an access, without the additions beside it."""
        row = micro[name]
        others = row["others"] / row["warp_instructions"]
        return added(name, "warp_instructions") - others * added("int32", "warp_instructions")

    found = {
        "idle_watts": micro["idle"]["watts"],
        "active_watts": active,
        "limit_watts": document["limit_watts"],
    }
    energies = {name: added(name, "warp_instructions") for name in CLASSES}
    integers = [added(name, "warp_instructions") for name in ("int32", "int32_mad", "int32_logic")]
    energies["int32"] = float(np.mean(integers))
    energies["comp"] = integers[-1]
    energies["tensor"] = added("matrix", "warp_instructions")
    energies["shared"] = alone("load_shared")
    sector = (alone("l1_scattered") - alone("l1_read")) / (APART - ASIDE)
    energies["mem"] = alone("l1_read") - ASIDE * sector
    found |= {f"{name}_picojoules": value for name, value in energies.items()}
    near = (energies["mem"] / WIDE + sector) / SECTOR_BYTES
    farther = {name: float(np.mean([added(f"{name}_{way}", "bytes") for way in WAYS])) for name in ("l2", "dram")}
    # A request for a line costs `request` + 128 bytes, one for a sector `request` + 32. Lanes of a sector: 1 or 2.
    lines = [LINE_BYTES * (added(f"l2_{way}", "bytes") - near) for way in WAYS]
    passing = {"read": energies["mem"] / APART + sector, "write": energies["mem"] / WIDE + sector}
    sectors = [SECTOR_BYTES * added(f"l2_{way}_sectors", "bytes") - passing[way] for way in WAYS]
    byte = float(np.mean(np.subtract(lines, sectors))) / (LINE_BYTES - SECTOR_BYTES)
    return found | {
        "l1_picojoules_per_byte": sector / SECTOR_BYTES,
        "llc_picojoules_per_byte": byte,
        "llc_picojoules_per_request": float(np.mean(lines)) - LINE_BYTES * byte,
        "dram_picojoules_per_byte": farther["dram"] - farther["l2"],
    }


def check(path: Path) -> None:
    """Predicted beside measured energy of the suite, from SASS, by the model `warplens`."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "studies" / "src"))
    from warplens.machine import load_gpu
    from warplens.models import get_model, solve
    from warplens.models.energy import energy_of
    from warplens_studies.validate.h200_profiles import shipped_profiles
    from warplens_studies.validate.metrics import rank_correlation

    gpu, model = load_gpu("h200"), get_model("warplens")
    workloads, _ = shipped_profiles("sass", "medium")
    pairs = []
    for row in read(path)[2]:
        if row["kind"] != "suite" or row["joules"] <= 0:
            continue
        workload = workloads[row["name"]]
        found = energy_of(workload, gpu, model, solve(workload, gpu, model))
        assert found is not None
        # A second check without the error of the time: static power over the measured seconds.
        timed = found.joules - found.parts["static"] + row["seconds"] * gpu.power.active_watts
        pairs.append((row["joules"], found.joules, timed))
        off, off_timed = (each / row["joules"] - 1 for each in (found.joules, timed))
        print(f"{row['name']:28} {1e3 * row['joules']:9.3f} mJ, {off:+.0%}; with the measured time {off_timed:+.0%}")
    measured, predicted, timed = np.array(pairs).T
    for words, values in (("predicted", predicted), ("with the measured time", timed)):
        error, rank = np.mean(np.abs(values / measured - 1)), rank_correlation(values.tolist(), measured.tolist())
        print(f"{words}: mean error {error:.1%}, rank {rank:.3f}, {len(pairs)} kernels")


def main() -> None:
    command, path = sys.argv[1], Path(sys.argv[2])
    if command == "check":
        check(path)
        return
    print("[power]")
    for name, value in parameters(path).items():
        print(f'{name} = {{ value = {value:.4g}, source = "power" }}')


if __name__ == "__main__":
    main()
