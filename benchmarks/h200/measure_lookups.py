"""Lookups of L2 tags for each request, by the share of the requests that hit, counted by Nsight Compute.

    ncu --clock-control none --csv --page raw --print-units base --log-file ncu.csv \
        --metrics "$(python3 measure_lookups.py metrics)" -k regex:passes python3 measure_lookups.py run
    python3 measure_lookups.py table ncu.csv > lookups.csv

Every SM reads 128 KiB of its own past its L1, `passes` times; Nsight Compute flushes the caches before a launch, so
all but the first pass hit. `scattered` loads one sector of a line with each lane, `coalesced` a line with each warp.
`shared` lets all SMs read the same 16 MiB instead, `passes` sixteenths each, from another place on.
"""

from __future__ import annotations

import csv
import ctypes
import sys
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.characterize.device import Device, kernel_source

METRICS = {
    "requests": "lts__t_requests_srcunit_tex.sum",
    "sectors": "lts__t_sectors_srcunit_tex.sum",
    "tag_lookups": "lts__t_tag_requests.sum",
    "hit_percent": "lts__t_sector_hit_rate.pct",
    "dram_read_bytes": "dram__bytes_read.sum",
    "cycles": "gpc__cycles_elapsed.max",
}
SOURCE = r"""
template <int LANES>
__global__ void passes(Record *records, const char *base, unsigned lines, unsigned own, unsigned step, int passes) {
    unsigned lane = threadIdx.x & 31, sum = 0;
    unsigned worker = (threadIdx.x >> 5) * (32 / LANES) + lane / LANES, workers = (blockDim.x >> 5) * (32 / LANES);
    for (int pass = 0; pass < passes; ++pass)
        for (unsigned at = worker; at < own; at += workers)
            sum += load_words<PAST_L1, 1>(base + ((at + blockIdx.x * step) % lines) * 128ull + 4 * lane);
    if (sum == 1) records[0].value = sum;
}
"""
CASES = list(product(("scattered", "coalesced"), ("own", "shared"), (1, 2, 3, 4, 8)))


def run() -> None:
    device = Device()
    names = {"scattered": "passes<1>", "coalesced": "passes<32>"}
    kernels = device.load(kernel_source("memory") + SOURCE, list(names.values()))
    lines, own = (16 << 20) // 128, 1024
    base = ctypes.c_void_p(device.allocate((1 << 20) + device.sms * own * 128))
    for pattern, place, passes in CASES:
        if place == "own":
            parts = [device.sms * own, own, own, passes]
        else:
            parts = [lines, lines // 16 * passes, lines // device.sms, 1]
        arguments = [device.records, base, *(ctypes.c_uint(part) for part in parts[:3]), parts[3]]
        device.launch(kernels[names[pattern]], device.sms, 1024, arguments)
        device.synchronize()


def table(report: Path) -> None:
    rows = list(csv.DictReader(line for line in report.read_text().splitlines() if line.startswith('"')))[1:]
    print("pattern,place,passes," + ",".join(METRICS))
    for case, row in zip(CASES, rows, strict=True):
        values = (f"{float(row[name].replace(',', '')):g}" for name in METRICS.values())
        print(*case, *values, sep=",")


if __name__ == "__main__":
    if sys.argv[1:] == ["metrics"]:
        print(",".join(METRICS.values()))
    elif sys.argv[1:] == ["run"]:
        run()
    else:
        table(Path(sys.argv[2]))
