"""Measures on a GPU what the first loads of a launch cost, and how much shared memory the driver carves out.

    ncu --clock-control none --csv --page raw --print-units base --metrics "$(python3 benchmarks/h200/measure_first_touch.py metrics)" \
        -k 'regex:touch|reserve' --log-file first.ncu.csv python3 benchmarks/h200/measure_first_touch.py run

and, to make the tables of it:

    python3 benchmarks/h200/measure_first_touch.py table first.ncu.csv FOLDER

`first_touch.csv`: all warps of `blocks` blocks of 256 threads read `loads` pieces of an array, all side by side in
one (`apart` 0) or each piece `apart` bytes behind the last; one after the other (`chain`) or all at once. ncu empties
the caches before each launch. `carve_outs.csv`: the shared memory of an SM for blocks of `threads` threads with
`shared_bytes` each.
"""  # noqa: E501

from __future__ import annotations

import csv
import ctypes
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

METRICS = {
    "elapsed_cycles": "sm__cycles_elapsed.max",
    "active_cycles": "sm__cycles_active.avg",
    "dram_read_bytes": "dram__bytes_read.sum",
    "config_bytes": "launch__shared_mem_config_size",
    "registers": "launch__registers_per_thread",
}
LOADS, APART, REPEATS = (1, 2, 4, 8, 16), (0, 1 << 21, 1 << 25), 3
SHARED_BYTES = (0, 16, 1024, 2048, 3072, 4096, 5120, 6144, 8192, 12288, 16384, 24576, 32768, 49152)
RESERVED = [(threads, shared) for threads in (32, 64, 128, 192, 256, 384, 512, 1024) for shared in SHARED_BYTES]
SOURCE = r"""
template <int LOADS, bool CHAIN>
__global__ void __launch_bounds__(256) touch(const unsigned *from, long long apart, unsigned *to) {
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        unsigned got = *(const volatile unsigned *)((const char *)(from + at) + i * apart);
        sum += got;
        if (CHAIN) at += got;  // zero: the next address waits for it
    }
    if (sum) *to = sum;
}
extern "C" __global__ void reserve(unsigned *to) {
    extern __shared__ unsigned words[];
    if (to && threadIdx.x == 5000) *to = words[0];
}
"""


def _touches() -> list[tuple[int, int, int, int]]:
    """(blocks for each SM, loads, apart, chain)"""
    return [(b, n, a, c) for b in (1, 8) for n in LOADS for a in APART for c in (0, 1)] * REPEATS


def run() -> None:
    from warplens.characterize.device import Device

    device = Device()
    names = [f"touch<{loads}, {chain}>" for loads in LOADS for chain in (0, 1)]
    kernels = device.load(SOURCE, [*names, "reserve"])
    base = ctypes.c_void_p(device.allocate(max(LOADS) * max(APART) + (64 << 20)))
    to = ctypes.c_void_p(device.allocate(4))
    for blocks, loads, apart, chain in _touches():
        # Pieces side by side: each block's own.
        step = ctypes.c_longlong(apart or blocks * device.sms * 1024)
        device.launch(kernels[f"touch<{loads}, {chain}>"], blocks * device.sms, 256, [base, step, to])
    for threads, shared in RESERVED:
        device.launch(kernels["reserve"], device.sms, threads, [to], shared)
    device.synchronize()


def table(report: str, folder: str) -> None:
    lines = [line for line in Path(report).read_text().splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))[1:]  # the first one holds units
    values = [[row[metric].replace(",", "") for metric in METRICS.values()] for row in rows]
    count = len(_touches())
    with (Path(folder) / "first_touch.csv").open("w") as file:
        print("blocks,loads,apart,chain,elapsed_cycles,active_cycles,dram_read_bytes", file=file)
        for launch, row in zip(_touches(), values[:count], strict=True):
            print(*launch, *row[:3], sep=",", file=file)
    with (Path(folder) / "carve_outs.csv").open("w") as file:
        print("threads,shared_bytes,registers,carve_out_bytes", file=file)
        for launch, row in zip(RESERVED, values[count:], strict=True):
            print(*launch, row[4], row[3], sep=",", file=file)


def main() -> None:
    if sys.argv[1] == "metrics":
        print(",".join(METRICS.values()))
    elif sys.argv[1] == "run":
        run()
    else:
        table(*sys.argv[2:])


if __name__ == "__main__":
    main()
