"""What only a profiler can measure: launches with cold caches (instructions, TLBs, data), and write-backs.

On the machine with the GPU (cuda-bindings and ncu; clocks are left as they are, caches are flushed before each launch):

    ncu --clock-control none --csv --page raw --print-units base --metrics "$(python3 benchmarks/h200/measure_cold.py metrics)" \
        --log-file $OUT/ncu.csv python3 benchmarks/h200/measure_cold.py run

and here, to make the committed table and the values that h200-published.toml takes from it:

    python benchmarks/h200/measure_cold.py collect ncu.csv src/warplens/characterize/data/h200-profiled.csv
"""  # noqa: E501

from __future__ import annotations

import csv
import ctypes
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from warplens.machine import load_gpu

METRICS = {
    "elapsed_cycles": "sm__cycles_elapsed.max",
    "active_cycles": "sm__cycles_active.avg",
    "duration_ns": "gpu__time_duration.sum",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
}
REPEATS = 5
STEPS = (32, 128, 512)
WRITTEN_MIB = (8, 16, 32, 64, 128, 256, 512)
SOURCE = """
extern "C" __global__ void nothing() {}
template <int STEPS> __global__ void cold(float *to, const float *from) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = from[i];
#pragma unroll
    for (int step = 0; step < STEPS; ++step) asm volatile("fma.rn.f32 %0, %0, 0f3F7FF000, 0f3A000000;" : "+f"(x));
    to[i] = x;
}
extern "C" __global__ void written(uint4 *to, unsigned long long count) {
    for (unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        to[i] = uint4{1u, 2u, 3u, 4u};
}
"""


def run() -> None:
    from warplens.characterize.device import Device

    device = Device()
    functions = device.load(SOURCE, ["nothing", "written", *(f"cold<{steps}>" for steps in STEPS)])
    buffers = [ctypes.c_void_p(device.allocate(max(WRITTEN_MIB) << 20)) for _ in range(2)]
    for _ in range(REPEATS):
        device.launch(functions["nothing"], device.sms, 32, [])
        for steps in STEPS:
            device.launch(functions[f"cold<{steps}>"], device.sms, 32, buffers)
        for size in WRITTEN_MIB:
            device.launch(functions["written"], 2 * device.sms, 1024, [buffers[0], ctypes.c_ulonglong(size << 16)])
    device.synchronize()


def collect(report: Path, table: Path) -> None:
    lines = [line for line in report.read_text().splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))[1:]  # the first one holds units
    names = ["nothing", *(f"cold {steps}" for steps in STEPS), *(f"written {size} MiB" for size in WRITTEN_MIB)]
    if len(rows) != REPEATS * len(names):
        raise SystemExit(f"{len(rows)} rows of ncu for {REPEATS * len(names)} launches")
    with table.open("w", newline="") as file:
        file.write("# NVIDIA H200, Nsight Compute, --clock-control none, caches flushed before each launch\n")
        file.write("# command: in benchmarks/h200/measure_cold.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["launch", "repeat", *METRICS])
        for place, name in enumerate(names):
            for repeat in range(REPEATS):
                row = rows[repeat * len(names) + place]
                writer.writerow([name, repeat, *(row[metric].replace(",", "") for metric in METRICS.values())])
    values(table)


def values(table: Path) -> None:
    """Print the results of the table: cycles beyond those of the instructions, and bytes not written back."""
    with table.open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))

    def median(name: str, metric: str) -> float:
        return statistics.median(float(row[metric]) for row in rows if row["launch"] == name)

    gpu = load_gpu("h200")
    latency = float(gpu.llc.latency_cycles + gpu.dram.latency_cycles)
    print(f"nothing: {median('nothing', 'elapsed_cycles'):.0f} cycles")
    for steps in STEPS:
        elapsed = median(f"cold {steps}", "elapsed_cycles")
        own = latency + steps * float(gpu.timing("fp32").latency_cycles) + float(gpu.launch_overhead_cycles)
        print(f"cold {steps}: {elapsed:.0f} cycles, {elapsed - own:.0f} more than launch, load and steps take")
    for size in WRITTEN_MIB:
        kept = (size << 20) - median(f"written {size} MiB", "dram_write_bytes")
        print(f"written {size} MiB: {kept / 1e6:.1f} MB not written back")


if __name__ == "__main__":
    what, *paths = sys.argv[1:]
    if what == "metrics":
        print(",".join(METRICS.values()))
    else:
        {"run": run, "collect": collect}[what](*map(Path, paths))
