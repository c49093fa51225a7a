"""The detailed simulator on examples that work in the background, beside the model and an H200 (examples.csv).

    python benchmarks/h200/compare_simulator.py docs/simulators/detailed.md

renews the table of the page. The simulator has no launch: the machine's time for it is added, as in the model. The
column "without" is the same launch with instructions that the simulator does not know: warps wait for nothing that
works in the background, and barriers of a cluster are those of a block.
"""

from __future__ import annotations

import csv
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from compare_examples import KEPT, runs

from warplens.traces import CLASS_IDS, LaunchTrace
from warplens.traces.rewrite import changed

#: Launches of CUDA with mbarriers, asynchronous copies, products of warpgroups or clusters.
EXAMPLES = ("mma_pipeline", "warp_specialised", "attention", "cluster_sum")
SIZES = ("", "-large")
BEGIN, END = "<!-- examples -->", "<!-- /examples -->"
NAMES = "example", "H200", "model", "error, %", "without", "error, %", "simulator", "error, %", "SYNC, %"
#: How instructions begin that copy, compute or wait in the background; and a name of an access that is no wait.
UNKNOWN, ACCESS = ("mbarrier.", "cp.async", "wgmma."), "CAST"
HEADER = f"| {' | '.join(NAMES)} |\n| --- |{' --: |' * (len(NAMES) - 1)}\n"


def without_waits(trace: LaunchTrace) -> LaunchTrace:
    """A launch whose instructions in the background have no names."""
    static = trace.static
    classes = np.where(static.class_id == CLASS_IDS["barrier_cluster"], CLASS_IDS["barrier"], static.class_id)
    names = tuple(ACCESS if each.startswith(UNKNOWN) and "wait" in each else each for each in static.opcode)
    names = tuple("" if each.startswith(UNKNOWN) else each for each in names)
    return changed(trace, static=replace(static, opcode=names, class_id=classes.astype(static.class_id.dtype)))


def renew(page: Path) -> None:
    """Put the table between the page's markers."""
    import warplens

    gpu = warplens.load_gpu("h200")
    with KEPT.open() as kept:
        measured_of = {row["example"]: row for row in csv.DictReader(kept) if row["kind"] == "cuda"}
    launch = float(gpu.launch_cycles)
    rows = [measured_of[name + size] for name in EXAMPLES for size in SIZES]
    lines = []
    for row, run in runs(rows):
        measured = float(row["elapsed_cycles"])
        simulated = warplens.simulate(run, gpu, "detailed")
        before = warplens.simulate(without_waits(run), gpu, "detailed")
        cells = [f"{measured:.0f}"]
        found = float(warplens.predict(run, gpu).cycles), *(each.cycles + launch for each in (before, simulated))
        for cycles in found:
            cells += [f"{cycles:.0f}", f"{100 * (cycles / measured - 1):+.0f}"]
        busy = simulated.cpi - simulated.stack["IDLE"]
        cells.append(f"{100 * simulated.stack['SYNC'] / busy:.0f}")
        lines.append(f"| {' | '.join((row['example'], *cells))} |\n")
        print(lines[-1], end="", flush=True)
    above, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    below = rest.partition(END)[2]
    page.write_text(f"{above}{BEGIN}\n\n{HEADER}{''.join(lines)}\n{END}{below}", encoding="utf-8")


if __name__ == "__main__":
    renew(Path(sys.argv[1]))
