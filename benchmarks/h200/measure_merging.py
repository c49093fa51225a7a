"""What only a profiler can count of stores: those that merge before they leave an SM, and what DRAM gets of them.

On the machine with the GPU (cuda-bindings and ncu; clocks are left as they are):

    ncu --clock-control none --csv --page raw --print-units base --metrics "$(python3 benchmarks/h200/measure_merging.py metrics)" \
        --log-file $OUT/ncu.csv python3 benchmarks/h200/measure_merging.py run

and here, to make the committed table of it:

    python benchmarks/h200/measure_merging.py collect ncu.csv benchmarks/h200/merging.csv

`again`: each warp of an SM stores to a line of its own, `steps` times, `pause` cycles apart; lanes lie `apart` bytes
apart. `box`: blocks of `x` by `y` by `z` threads copy, read or write a box of 400³ doubles.
"""  # noqa: E501

from __future__ import annotations

import csv
import ctypes
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

METRICS = {
    "elapsed_cycles": "sm__cycles_elapsed.max",
    "stored_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "stored_hits": "l1tex__t_sectors_pipe_lsu_mem_global_op_st_lookup_hit.sum",
    "l2_write_sectors": "lts__t_sectors_op_write.sum",
    "l2_write_requests": "lts__t_requests_srcunit_tex_op_write.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
}
STEPS, EDGE = 512, 400
#: Warps of each SM, and bytes between lanes.
PLACES = ((1, 4), (1, 32), (16, 4), (32, 4), (2, 32), (4, 32))
PAUSES = (0, 16, 32, 64, 96, 128, 192, 256, 384, 512, 1024)
BOXES = ((8, 8, 4), (16, 8, 2), (32, 8, 1), (8, 32, 1), (64, 4, 1), (256, 1, 1))
DOES = {"copy": 3, "read": 1, "write": 2}
SOURCE = """
extern "C" __global__ void again(char *base, int apart, int pause, int steps) {
    unsigned warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    volatile unsigned *at = (volatile unsigned *)(base + (size_t)warp * 32 * apart + lane * apart);
    for (int step = 0; step < steps; ++step) {
        long long begin = clock64();
        *at = step;
        while (clock64() - begin < pause) {}
    }
}
extern "C" __global__ void box(double *to, const double *from, int edge, int bx, int by, int bz, int does) {
    int across = (edge + bx - 1) / bx, down = (edge + by - 1) / by;
    int x = blockIdx.x % across * bx + threadIdx.x % bx, y = blockIdx.x / across % down * by + threadIdx.x / bx % by;
    int z = blockIdx.x / (across * down) * bz + threadIdx.x / (bx * by);
    if (x >= edge || y >= edge || z >= edge) return;
    long long at = ((long long)z * edge + y) * edge + x;
    double value = does & 1 ? from[at] : 1.5;
    if (does & 2 || value == 0.123) to[at] = value;
}
"""


def launches() -> list[tuple[str, ...]]:
    found = [
        ("again", str(warps), str(apart), str(pause), "", "", "", "") for warps, apart in PLACES for pause in PAUSES
    ]
    return found + [("box", "", "", "", *map(str, each), does) for each in BOXES for does in DOES]


def run() -> None:
    from warplens.characterize.device import Device

    device = Device()
    functions = device.load(SOURCE, ["again", "box"])
    to, source = (ctypes.c_void_p(device.allocate(EDGE**3 * 8)) for _ in range(2))
    for name, warps, apart, pause, *_ in launches():
        if name == "again":
            device.launch(functions[name], device.sms, 32 * int(warps), [to, int(apart), int(pause), STEPS])
    for x, y, z in BOXES:
        for does in DOES.values():
            blocks = math.prod(-(-EDGE // each) for each in (x, y, z))
            device.launch(functions["box"], blocks, x * y * z, [to, source, EDGE, x, y, z, does])
    device.synchronize()


def collect(report: Path, table: Path) -> None:
    rows = list(csv.DictReader(line for line in report.read_text().splitlines() if line.startswith('"')))[1:]
    if len(rows) != len(launches()):
        raise SystemExit(f"{len(rows)} rows of ncu for {len(launches())} launches")
    with table.open("w", newline="") as file:
        file.write("# NVIDIA H200, Nsight Compute, --clock-control none, caches flushed before each launch\n")
        file.write("# command: in benchmarks/h200/measure_merging.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["kernel", "warps", "apart", "pause", "x", "y", "z", "does", *METRICS])
        for launch, row in zip(launches(), rows, strict=True):
            writer.writerow([*launch, *(f"{float(row[name].replace(',', '')):g}" for name in METRICS.values())])


if __name__ == "__main__":
    if sys.argv[1:] == ["metrics"]:
        print(",".join(METRICS.values()))
    elif sys.argv[1:] == ["run"]:
        run()
    else:
        collect(*map(Path, sys.argv[2:4]))
