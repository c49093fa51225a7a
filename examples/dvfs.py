"""Scale the clock: every model, CRISP from one simulated run, and the detailed simulator at each clock.

    python examples/dvfs.py [KERNEL]

KERNEL is one of the Accel-Sim data, matmul by default. Numbers are times relative to
the machine's own clock, 1.4 GHz.
"""

from __future__ import annotations

import sys

from warplens import load_workload, simulate
from warplens.sweeps import dvfs
from warplens_studies.validate import accelsim

CLOCKS = "0.7GHz,1GHz,1.4GHz,1.7GHz,2GHz"


def main() -> None:
    workload = load_workload(accelsim.trace_path(sys.argv[1] if len(sys.argv) > 1 else "matmul"))
    clocks, seconds = dvfs(workload, accelsim.GPU, CLOCKS)
    runs = [simulate(workload, accelsim.GPU, "detailed", overrides={"clock": clock}) for clock in clocks]
    times = {"detailed": [run.seconds for run in runs], **seconds}
    own = clocks.tolist().index(1.4e9)
    print(f"{'GHz':22s}" + "".join(f" {clock / 1e9:7.1f}" for clock in clocks))
    for name, values in times.items():
        print(f"{name:22s}" + "".join(f" {value / values[own]:7.3f}" for value in values))


if __name__ == "__main__":
    main()
