"""Measures on a GPU how often lanes that walk along rows of their own find their lines in the L1.

On the machine with the GPU (cuda.bindings, ncu):

    ncu --clock-control none --csv --page raw --print-units base \\
        --metrics "$(python3 benchmarks/h200/measure_l1_rows.py metrics)" \\
        --log-file $OUT/ncu.csv python3 benchmarks/h200/measure_l1_rows.py rows

and here, to make the committed table of it:

    python benchmarks/h200/measure_l1_rows.py collect ncu.csv benchmarks/h200/l1_rows.csv

What the cache simulation says of the same launches, executed on the CPU for a few SMs with their share of the rest:

    python benchmarks/h200/measure_l1_rows.py compare benchmarks/h200/l1_rows.csv

Each lane reads the words of a row, `pitch` bytes after its neighbour's, in order and twice; `ahead` loads are on
their way at a time. `shared_kib` of shared memory are taken from the L1.
"""

from __future__ import annotations

import csv
import ctypes
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

METRICS = {
    "elapsed_cycles": "sm__cycles_elapsed.max",
    "sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "hits": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "l2_sectors": "lts__t_sectors_srcunit_tex_op_read.sum",
}
#: Threads of a block, blocks on an SM.
SIZES = ((128, 1), (192, 1), (224, 1), (256, 1), (128, 4), (256, 2), (256, 3), (256, 4), (256, 8))
PITCHES, AHEAD, SPACES = (128, 136, 1152), (1, 2, 4, 8), (227, 160, 0)
SOURCE = r"""
template <int AHEAD>
__global__ void rows(unsigned *to, const char *base, int pitch) {
    const char *row = base + (size_t)(blockIdx.x * blockDim.x + threadIdx.x) * pitch;
    unsigned sum = 0;
#pragma unroll 1
    for (int step = 0; step < 64; step += AHEAD) {
        unsigned got[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i)
            asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(got[i]) : "l"(row + (step + i) % 32 * 4 + sum));
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) sum += got[i];
    }
    if (sum) *to = sum;
}
"""


def launches() -> list[tuple[int, ...]]:
    return [
        (space, threads, blocks, pitch, ahead)
        for space in SPACES
        for threads, blocks in SIZES
        for pitch in PITCHES
        for ahead in AHEAD
    ]


def rows() -> None:
    from warplens.characterize.device import Device

    device = Device()
    functions = device.load(SOURCE, [f"rows<{ahead}>" for ahead in AHEAD])
    base, to = (ctypes.c_void_p(device.allocate(size)) for size in (512 << 20, 4096))
    for space, threads, blocks, pitch, ahead in launches():
        shared = max((space << 10) - 1024 * blocks, 0) // blocks  # the system takes 1 KiB of each block
        device.launch(functions[f"rows<{ahead}>"], device.sms * blocks, threads, [to, base, pitch], shared)
    device.synchronize()


def collect(report: Path, table: Path) -> None:
    found = list(csv.DictReader(line for line in report.read_text().splitlines() if line.startswith('"')))[1:]
    if len(found) != len(launches()):
        raise SystemExit(f"{len(found)} rows of ncu for {len(launches())} launches")
    with table.open("w", newline="") as file:
        file.write("# NVIDIA H200, Nsight Compute, --clock-control none, caches flushed before each launch\n")
        file.write("# command: in benchmarks/h200/measure_l1_rows.py\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["shared_kib", "threads", "blocks", "pitch", "ahead", *METRICS])
        for launch, row in zip(launches(), found, strict=True):
            writer.writerow([*launch, *(f"{float(row[name].replace(',', '')):g}" for name in METRICS.values())])


def compare(table: Path) -> None:
    """Print hit ratios, counted and simulated, and how far they are apart."""
    import numpy as np

    import warplens
    from warplens.machine import load_gpu
    from warplens.workload import workload_of_trace
    from warplens.workload.traced import cache_misses

    whole, sms = load_gpu("h200"), 4
    part = sms / whole.sms
    noc = replace(
        whole.noc,
        bandwidth_bytes_per_s=whole.noc.bandwidth_bytes_per_s * part,
        write_bandwidth_bytes_per_s=whole.noc.write_bandwidth_bytes_per_s * part,
        request_cycles=whole.noc.request_cycles / part,
    )
    dram = replace(whole.dram, bandwidth_bytes_per_s=whole.dram.bandwidth_bytes_per_s * part)
    llc = replace(whole.llc, size_bytes=int(whole.llc.size_bytes * part) // 4096 * 4096, banks=3)
    gpu = replace(whole, sms=sms, noc=noc, dram=dram, llc=llc)
    module = warplens.cuda(SOURCE)
    base, to = np.zeros(16 << 20, np.uint8), np.zeros(4096, np.uint8)
    off = []
    for row in csv.DictReader(line for line in table.read_text().splitlines() if not line.startswith("#")):
        space, threads, blocks, pitch, ahead = (int(text) for text in list(row.values())[:5])
        shared = max((space << 10) - 1024 * blocks, 0) // blocks
        kernel = module.kernel(f"rows<{ahead}>")
        run = kernel.launch(sms * blocks, threads, to, base, pitch, dynamic_shared_memory_bytes=shared)
        found = cache_misses(workload_of_trace(run.trace()), gpu)
        loads = found.kinds == 1
        ours = found.column("l1_hits")[loads].sum() / found.column("requests")[loads].sum()
        counted = float(row["hits"]) / float(row["sectors"])
        off.append(abs(ours - counted))
        print(f"{space:4} KiB, {blocks} x {threads:3} threads, {pitch:4} bytes, {ahead}: {counted:.3f} {ours:.3f}")
    print(f"{len(off)} launches: {np.mean(off):.3f} apart in the mean, {sum(each > 0.15 for each in off)} above 0.15")


if __name__ == "__main__":
    if sys.argv[1:] == ["metrics"]:
        print(",".join(METRICS.values()))
    elif sys.argv[1:] == ["rows"]:
        rows()
    elif sys.argv[1] == "compare":
        compare(Path(sys.argv[2]))
    else:
        collect(*map(Path, sys.argv[2:4]))
