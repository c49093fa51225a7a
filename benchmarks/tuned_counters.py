"""Executed instructions of a tuned convolution, as its machine code has them and as a GPU counted them; its clock.

    python benchmarks/tuned_counters.py DIR

DIR is a checkout of https://github.com/AutoTuningAssociation/benchmark_hub, whose raw results of KTT have hardware
counters of an RTX 2080 Ti. WARPLENS_NVRTC names the library of the package nvidia-cuda-nvrtc-cu11.
"""

from __future__ import annotations

import gzip
import json
import statistics
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from warplens.analysis.machine_form import machine_form
from warplens.machine import load_gpu
from warplens.traces.rewrite import joined
from warplens.tuning import read_space
from warplens.tuning.evaluate import Work

RESULTS = "KTConvolutionOutput_2080Ti.json.gz"
SPACE = "currently_unused/kernels/convolution.json"
#: block_size_x, block_size_y, tile_size_x, tile_size_y, read_only
CONFIGURATIONS = (
    *((48, 2, 7, 4, 0), (64, 2, 8, 3, 1), (64, 1, 8, 3, 0), (32, 4, 8, 3, 0), (96, 1, 4, 1, 0)),
    *((32, 8, 4, 4, 0), (48, 4, 4, 4, 1), (96, 2, 4, 4, 0), (32, 2, 7, 3, 0), (64, 1, 6, 1, 0)),
)
NAMES = ("BLOCK_SIZE_X", "BLOCK_SIZE_Y", "TILE_SIZE_X", "TILE_SIZE_Y", "READ_ONLY")
INSTRUCTIONS = "smsp__inst_executed.sum"
SPILLS = "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"
ISSUING = "smsp__issue_active.avg.pct_of_peak_sustained_active"
ACTIVE = "smsp__cycles_active.avg.pct_of_peak_sustained_elapsed"
SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared.avg.pct_of_peak_sustained_elapsed"
TIME = "microseconds"
LONG_US = 3000.0
_SECTORS_OF_A_WARP = 4
_SMS, _PARTITIONS = 68, 4


def counted(path: Path) -> dict[tuple[int, ...], dict[str, float]]:
    """Counters by configuration, and the time in microseconds."""
    with gzip.open(path) as file:
        results = json.load(file)["Results"]
    found = {}
    for row in results:
        given: dict[str, Any] = {each["Name"]: each["Value"] for each in row["Configuration"]}
        if row["Status"] == "Ok" and not given["PADDING"]:
            result = row["ComputationResults"][0]
            counters = {each["Name"]: each["Value"] for each in result["ProfilingData"]["Counters"]}
            found[tuple(given[name] for name in NAMES)] = {**counters, TIME: result["Duration"]}
    return found


def clock_mhz(counters: dict[str, float]) -> float:
    """Cycles of a launch, which the share of cycles with an instruction tells, over its time."""
    active = counters[INSTRUCTIONS] / (counters[ISSUING] / 100.0) / (_SMS * _PARTITIONS)
    return active / (counters[ACTIVE] / 100.0) / counters[TIME]


def executed(sources: Path, configuration: tuple[int, ...]) -> Counter[str]:
    """Warp instructions of a launch by opcode, from half a wave of its blocks."""
    space = read_space(sources / SPACE, sources=sources)
    width, height, across, down, read_only = configuration
    chosen = {"block_size_x": width, "block_size_y": height, "tile_size_x": across, "tile_size_y": down}
    fixed = {"filter_height": 15, "filter_width": 15, "read_only": read_only, "use_padding": 0}
    workload, _ = Work(space, load_gpu("rtx2080ti"), "search").workload({**chosen, **fixed})
    trace = workload.require_trace("counting")
    form = machine_form(joined(list(trace.groups())), trace)
    assert form is not None
    scale = trace.header.blocks / trace.header.extra.get("recorded_blocks", trace.header.blocks)
    found: Counter[str] = Counter()
    for row in form.group.static.tolist():
        found[form.static.opcode[row].partition(".")[0]] += 1
    return Counter({opcode: round(count * scale) for opcode, count in found.items()})


def main() -> None:
    sources = Path(sys.argv[1])
    known = counted(next(sources.rglob(RESULTS)))
    low, middle, high = statistics.quantiles(map(clock_mhz, known.values()), n=4)
    long = statistics.median(clock_mhz(each) for each in known.values() if each[TIME] > LONG_US)
    print(
        f"clock: {middle:.0f} MHz in the median of {len(known)}, {low:.0f} to {high:.0f} for half of them;", end=" "
    )
    print(f"{long:.0f} MHz for those above {LONG_US / 1e3:g} ms, whose start matters less")
    print(f"shared memory: at most {max(each[SHARED] for each in known.values()):.1f} % of one wavefront a cycle")
    for configuration in CONFIGURATIONS:
        counters, own = known[configuration], executed(sources, configuration)
        spills = f"{_SECTORS_OF_A_WARP * own['LDL'] / counters[SPILLS]:.3f}" if counters[SPILLS] else "none"
        told = f"{sum(own.values()) / 1e6:.1f} of {counters[INSTRUCTIONS] / 1e6:.1f} million instructions"
        print(*configuration, f"{told}; spilled loads over those counted: {spills}")


if __name__ == "__main__":
    main()
