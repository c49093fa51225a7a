"""Time at 1.4 GHz over that at 2 GHz, as in Fig. 13 of the MDM paper, on the kernels of the Accel-Sim data.

    python examples/dvfs.py [KERNEL...]

The reference is the detailed simulator at both clocks. CRISP measures one run
of it at 2 GHz and predicts the other; MDM and GPUMech predict both.
"""

from __future__ import annotations

import sys

import numpy as np

from warplens import load_workload, simulate
from warplens.sweep import dvfs
from warplens.sweep.crisp import counters_of
from warplens.validate import accelsim

SLOW, FAST = 1.4e9, 2.0e9
MODELS = ("crisp", "mdm", "gpumech")


def main() -> None:
    errors: dict[str, list[float]] = {name: [] for name in MODELS}
    print(f"{'kernel':20s} {'simulated':>9s}" + "".join(f" {name:>9s}" for name in MODELS))
    for kernel in sys.argv[1:] or accelsim.kernels():
        workload = load_workload(accelsim.trace_path(kernel))
        runs = [simulate(workload, accelsim.GPU, "detailed", overrides={"clock": clock}) for clock in (SLOW, FAST)]
        real = runs[0].seconds / runs[1].seconds
        _, seconds = dvfs(workload, accelsim.GPU, [SLOW, FAST], ["mdm", "gpumech"])
        ratios = {name: float(times[0] / times[1]) for name, times in seconds.items()}
        slow, fast = counters_of(runs[1]).seconds([SLOW, FAST])
        ratios["crisp"] = float(slow / fast)
        for name in MODELS:
            errors[name].append(abs(ratios[name] / real - 1.0))
        print(f"{kernel:20s} {real:9.3f}" + "".join(f" {ratios[name]:9.3f}" for name in MODELS))
    print(f"{'mean error':20s} {'':9s}" + "".join(f" {100 * np.mean(errors[name]):8.1f}%" for name in MODELS))


if __name__ == "__main__":
    main()
