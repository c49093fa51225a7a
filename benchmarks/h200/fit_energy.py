"""Turns what measure_energy.py measured into the power of a machine file, and checks it on the suite.

    python benchmarks/h200/fit_energy.py parameters out/energy.json   # the [power] table of h200.toml
    python benchmarks/h200/fit_energy.py check out/energy.json        # the suite, with the power of h200.toml

Parameters come from micro-benchmarks alone (warplens.characterize.energy). `warplens characterize --energy` puts them
into the description of any GPU.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from warplens.characterize.energy import power_values


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
    for row in json.loads(path.read_text(encoding="utf-8"))["rows"]:
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
    for name, value in power_values(json.loads(path.read_text(encoding="utf-8"))).items():
        print(f'{name} = {{ value = {value:.4g}, source = "power" }}')


if __name__ == "__main__":
    main()
