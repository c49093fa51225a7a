"""Measures on a GPU which data each half of its L2 keeps, and what it costs to reach the other one.

    python3 benchmarks/h200/measure_halves.py FOLDER

with CuPy and ncu. Atomics run where a line is at home: SMs to which the same lines are near form a half.

halves.csv has a pass over `mebibytes` after another one, `before`. Each SM reads or writes a part of its own (`own`),
that of another SM of its half (`near`) or of the other one (`far`), or everything (`all`). `dram_mib` are read from
DRAM, `crossing_mib` go from one half to the other.

half_latencies.csv has the cycles of an atomic and of a load of one thread, by whether the line is at home in the
thread's half, and by who has loaded the line since it was written.
"""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

METRICS = {"dram_mib": "dram__bytes_read.sum", "crossing_mib": "lts__t_sectors_srcunit_ltcfabric.sum"}
SIZES_MIB = (8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 56)
CASES = (
    *(("", "read own"), ("read own", "read own"), ("read own", "read near"), ("read own", "read far")),
    *(("read all", "read all"), ("write own", "read own"), ("write own", "read far"), ("read far", "write own")),
)
LINES, STRIDE = 512, 4096 + 128
HEADER = "# NVIDIA H200, driver 580.159.04; command: in measure_halves.py\n"
SOURCE = r"""
__device__ unsigned sm() { unsigned i; asm volatile("mov.u32 %0, %%smid;" : "=r"(i)); return i; }

extern "C" __global__ void walk(uint4 *base, const int *part_of, size_t part, int parts, int all, int write) {
    uint4 sum = {};
    size_t first = part_of[sm()] * part, count = all ? part * parts : part;
    for (size_t i = threadIdx.x; i < count; i += blockDim.x) {
        uint4 *at = base + (first + i) % (part * parts);
        if (write) __stcg(at, sum);
        else { uint4 v = __ldcg(at); sum.x ^= v.x ^ v.y ^ v.z ^ v.w; }
    }
    if (sum.x == 0x12345) base[0] = sum;
}

// One thread of one SM: the cycles of atomics on lines, each by itself. All data are 0.
extern "C" __global__ void atomics(unsigned *base, const int *offsets, int *cycles, int lines, int who) {
    if (sm() != who || threadIdx.x) return;
    unsigned v = 0;
    for (int i = 0; i < lines; ++i) {
        unsigned *at = base + __ldca(offsets + i) + v;
        long long began = clock64();
        v = atomicAdd(at, 0);
        asm volatile("shfl.sync.idx.b32 %0, %0, 0, 31, 1;" : "+r"(v));  // waits for it
        cycles[i] = (int)(clock64() - began + v);
    }
}

// The same for loads, in sum: each waits for the one before.
extern "C" __global__ void loads(unsigned *base, const int *offsets, int *cycles, int lines, int who) {
    if (sm() != who || threadIdx.x) return;
    unsigned v = 0;
    for (int i = 0; i < lines; ++i) v += __ldca(offsets + i);  // into the L1
    v *= 0u;
    long long began = clock64();
#pragma unroll 8
    for (int i = 0; i < lines; ++i) v = __ldcg(base + __ldca(offsets + i) + v);
    cycles[0] = v;
    __threadfence();
    cycles[0] = (int)(clock64() - began + v);
}
"""


class Gpu:
    def __init__(self) -> None:
        import cupy

        self.cupy = cupy
        module = cupy.RawModule(code=SOURCE, backend="nvrtc")
        self.walk, self.atomics, self.loads = map(module.get_function, ("walk", "atomics", "loads"))
        self.sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
        self.data = cupy.zeros(64 << 20, dtype=cupy.uint8)
        self.other = cupy.zeros(512 << 20, dtype=cupy.uint8)
        self.offsets = cupy.arange(LINES, dtype=cupy.int32) * (STRIDE // 4)
        self.walk.max_dynamic_shared_size_bytes = 200 << 10  # one block for each SM

    def launch_walk(self, data: Any, bytes_: int, parts: np.ndarray, everything: bool, write: bool) -> None:
        part = bytes_ // 16 // self.sms
        arguments = (data, self.cupy.asarray(parts.astype(np.int32)), np.uint64(part), self.sms, everything, write)
        plain = tuple(np.int32(each) if isinstance(each, int) else each for each in arguments)
        self.walk((self.sms,), (1024,), plain, shared_mem=200 << 10)
        self.cupy.cuda.Device().synchronize()

    def flush(self) -> None:
        self.launch_walk(self.other, self.other.nbytes, np.arange(self.sms), False, False)

    def latencies(self, who: int, offsets: Any, kernel: Any) -> np.ndarray:
        found = self.cupy.zeros(len(offsets), dtype=self.cupy.int32)
        kernel((self.sms * 4,), (32,), (self.data, offsets, found, np.int32(len(offsets)), np.int32(who)))
        return found.get().astype(float)

    def halves(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(half of each SM, half in which each line is at home, cycles of atomics)."""
        for who in range(2):
            self.latencies(who, self.offsets, self.atomics)  # misses
        runs = [[self.latencies(who, self.offsets, self.atomics) for _ in range(3)] for who in range(self.sms)]
        table = np.median(runs, axis=1)
        left = table - table.mean(1, keepdims=True) - table.mean(0) + table.mean()
        u, _, v = np.linalg.svd(left, full_matrices=False)
        sm_half, line_half = (u[:, 0] > 0).astype(int), (v[0] > 0).astype(int)
        near = np.median(table[np.ix_(sm_half == 0, line_half == 0)])
        if near > np.median(table[np.ix_(sm_half == 0, line_half == 1)]):
            line_half = 1 - line_half
        return sm_half, line_half, table


def launch(plan: Path) -> None:
    """Everything, with those launches profiled that count."""
    gpu = Gpu()
    cupy = gpu.cupy
    sm_half, line_half, table = gpu.halves()
    same = sm_half[:, None] == line_half
    rows = [("atomic", "", *(float(np.median(table[same == near])) for near in (True, False)))]
    chosen = [int(np.flatnonzero(sm_half == half)[k]) for k in (0, 5) for half in (0, 1)]  # two of each half
    lists = [gpu.offsets[cupy.asarray(np.flatnonzero(line_half == half))] for half in (0, 1)]
    kinds: dict[str, list[list[float]]] = {}
    for who in chosen:
        beside = next(s for s in chosen if s != who and sm_half[s] == sm_half[who])
        across = next(s for s in chosen if sm_half[s] != sm_half[who])
        for name, earlier in (("nobody", []), ("itself", [who]), ("its half", [beside]), ("other half", [across])):
            gpu.latencies(chosen[0], gpu.offsets, gpu.atomics)  # leaves each line at home alone
            times = []
            for offsets in (lists[sm_half[who]], lists[1 - sm_half[who]]):
                for each in (*earlier, who):
                    total = gpu.latencies(each, offsets, gpu.loads)[0]
                times.append(total / len(offsets))
            kinds.setdefault(name, []).append(times)
    rows += [("load", name, *np.median(found, axis=0).tolist()) for name, found in kinds.items()]

    own = np.arange(gpu.sms)
    near, far = own.copy(), own.copy()
    members = [np.flatnonzero(sm_half == half) for half in (0, 1)]
    for half in (0, 1):
        near[members[half]] = np.roll(members[half], 1)
    pairs = min(map(len, members))  # SMs that one half has more than the other keep their own part
    far[members[0][:pairs]], far[members[1][:pairs]] = members[1][:pairs], members[0][:pairs]
    maps = {"own": own, "near": near, "far": far, "all": own}
    done = []
    for before, then in CASES:
        for size in SIZES_MIB:
            gpu.flush()
            for at, words in enumerate((before, then)):
                if not words:
                    continue
                how, whose = words.split()
                if at:
                    cupy.cuda.profiler.start()
                gpu.launch_walk(gpu.data, size << 20, maps[whose], whose == "all", how == "write")
                if at:
                    cupy.cuda.profiler.stop()
            done.append((before, then, size))
    plan.write_text(json.dumps({"latencies": rows, "launched": done, "halves": [len(m) for m in members]}))


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def main() -> None:
    if sys.argv[1] == "launch":
        launch(Path(sys.argv[2]))
        return
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    plan, report = out / "plan.json", out / "ncu.csv"
    options = ["--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off", "--csv"]
    options += ["--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS.values())]
    command = ["ncu", *options, "--log-file", str(report), sys.executable, __file__, "launch", str(plan)]
    subprocess.run(command, check=True)
    found = json.loads(plan.read_text())
    lines = [line for line in report.read_text().splitlines() if line.startswith('"')]
    measured = list(csv.DictReader(io.StringIO("\n".join(lines))))[1:]
    assert len(measured) == len(found["launched"]), (len(measured), len(found["launched"]))
    with (out / "halves.csv").open("w") as file:
        file.write(HEADER)
        file.write("before,then,mebibytes," + ",".join(METRICS) + "\n")
        for (before, then, size), row in zip(found["launched"], measured, strict=True):
            read = _number(row[METRICS["dram_mib"]]) / 2**20
            crossing = _number(row[METRICS["crossing_mib"]]) * 32 / 2**20
            file.write(f"{before},{then},{size},{read:.2f},{crossing:.2f}\n")
    with (out / "half_latencies.csv").open("w") as file:
        file.write(HEADER)
        file.write("access,loaded_before_by,near_cycles,far_cycles\n")
        file.writelines(f"{access},{by},{near:.0f},{far:.0f}\n" for access, by, near, far in found["latencies"])


if __name__ == "__main__":
    main()
