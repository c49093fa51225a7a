"""Measures what clusters of thread blocks cost: their starts, their barriers and accesses to one another's memory.

    python3 benchmarks/h200/measure_clusters.py > benchmarks/h200/clusters.csv

Rows, by blocks of a cluster, threads of a block and blocks that an SM holds (0: as many as fit):

- `block`: nanoseconds that a block adds to an empty kernel (events; 16384 to 65536 blocks);
- `turn`: cycles of an SM from the end of a block to the start of the next in its place, median;
- `turn_last`: the same, 90th percentile;
- `barrier`: cycles of `barrier.cluster.arrive` and `wait`, all warps in step;
- `load`, `atomic`: cycles of a dependent access to the shared memory of the next block of the cluster.

A cluster of one block is none: its kernels are compiled without.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import cupy
import numpy as np

SIZES = (1, 2, 4, 8)
REPEATS = 9
SOURCE = r"""
#if CLUSTER > 1
#define CLUSTERED __cluster_dims__(CLUSTER, 1, 1)
#else
#define CLUSTERED
#endif

__device__ void meet() {
#if CLUSTER > 1
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#else
    __syncthreads();
#endif
}

extern "C" __global__ void CLUSTERED empty(int *out) { if (out == nullptr && threadIdx.x > 2000) *out = 1; }

// Clusters end at different times, blocks of one at the same.
extern "C" __global__ void CLUSTERED turns(long long *out) {
    extern __shared__ char room[];
    long long begin = clock64();
    unsigned number = blockIdx.x / CLUSTER;
    long long wanted = 4000 + (number * 2654435761u >> 20) % 4000;
    while (clock64() - begin < wanted) {}
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned sm;
        asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
        out[3 * blockIdx.x] = sm;
        out[3 * blockIdx.x + 1] = begin;
        out[3 * blockIdx.x + 2] = clock64();
    }
}

extern "C" __global__ void CLUSTERED barriers(long long *out, int count) {
    meet();
    long long begin = clock64();
    for (int i = 0; i < count; ++i) meet();
    long long cycles = clock64() - begin;
    if (threadIdx.x == 0) out[blockIdx.x] = cycles;
}

extern "C" __global__ void CLUSTERED chains(long long *out, int count, int atomics) {
    __shared__ unsigned words[32];
    words[threadIdx.x % 32] = 0;
    meet();
    unsigned own = (unsigned)__cvta_generic_to_shared(words), other = own, value = 0;
#if CLUSTER > 1
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(own), "r"((rank + 1) % CLUSTER));
#endif
    long long begin = clock64();
    if (threadIdx.x == 0)
        for (int i = 0; i < count; ++i) {
            unsigned from = other + value;
            if (atomics)
                asm volatile("atom.shared::cluster.add.u32 %0, [%1], 0;" : "=r"(value) : "r"(from) : "memory");
            else
                asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(from) : "memory");
        }
    long long cycles = clock64() - begin;
    meet();
    if (threadIdx.x == 0) out[blockIdx.x] = cycles + value;
}
"""


def row(*values: Any) -> None:
    print(*values, sep=",", flush=True)


def seconds(kernel: Any, grid: int, threads: int, *arguments: Any) -> float:
    found = []
    for _ in range(REPEATS):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        kernel((grid,), (threads,), arguments)
        end.record()
        end.synchronize()
        found.append(cupy.cuda.get_elapsed_time(begin, end) * 1e-3)
    return statistics.median(found)


def between_blocks(records: np.ndarray, resident: int) -> np.ndarray:
    """Cycles from each end of a block on an SM to the start in its place: the n-th end, the n-th later start."""
    found = []
    for sm in np.unique(records[:, 0]):
        mine = records[records[:, 0] == sm]
        starts, ends = np.sort(mine[:, 1])[resident:], np.sort(mine[:, 2])
        found.append(starts - ends[: len(starts)])
    return np.concatenate(found)


def main() -> None:
    device = cupy.cuda.Device()
    sms = device.attributes["MultiProcessorCount"]
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    print(f"# {name}, driver {cupy.cuda.runtime.driverGetVersion()}; command: in measure_clusters.py")
    row("what", "cluster", "threads", "resident", "value")
    out = cupy.zeros(1 << 20, dtype=cupy.int64)
    nothing = np.uint64(out.data.ptr)
    for size in SIZES:
        module = cupy.RawModule(
            code=SOURCE, options=(f"-DCLUSTER={size}", "--gpu-architecture=sm_90"), backend="nvrtc"
        )
        empty, turns, barriers, chains = map(module.get_function, ("empty", "turns", "barriers", "chains"))
        for threads in (32, 256, 1024):
            few, many = (seconds(empty, blocks, threads, nothing) for blocks in (16384, 65536))
            row("block", size, threads, 0, f"{(many - few) / (65536 - 16384) * 1e9:.4g}")
        for threads, resident in ((64, 1), (64, 8), (256, 1), (256, 8), (1024, 2)):
            shared = 224 * 1024 // resident - 2048
            turns.max_dynamic_shared_size_bytes = shared
            blocks = sms * resident * 8 // size * size
            out[:] = 0
            turns((blocks,), (threads,), (out,), shared_mem=shared)
            records = out[: 3 * blocks].get().reshape(-1, 3)
            gaps = between_blocks(records, resident)
            row("turn", size, threads, resident, f"{np.median(gaps):.0f}")
            row("turn_last", size, threads, resident, f"{np.percentile(gaps, 90):.0f}")
        for threads in (32, 256, 1024):
            cycles = []
            for count in (64, 320):
                barriers((size,), (threads,), (out, np.int32(count)))
                cycles.append(float(out[:size].max()))
            row("barrier", size, threads, 1, f"{(cycles[1] - cycles[0]) / 256:.1f}")
        for what, atomics in (("load", 0), ("atomic", 1)):
            cycles = []
            for count in (64, 320):
                chains((size,), (32,), (out, np.int32(count), np.int32(atomics)))
                cycles.append(float(out[:size].max()))
            row(what, size, 32, 1, f"{(cycles[1] - cycles[0]) / 256:.1f}")


if __name__ == "__main__":
    sys.exit(main())
