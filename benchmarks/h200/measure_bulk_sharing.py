"""Measures how fast SMs copy from the L2 to shared memory (cp.async.bulk, TMA) when some copy the same lines.

    python3 benchmarks/h200/measure_bulk_sharing.py > benchmarks/h200/bulk_sharing.csv

As measure_sharing.py, with one thread for each SM that keeps STAGES copies of STAGE bytes under way. `mib` is what
all SMs together read, again and again; `loads` rows read the same with plain loads past the L1.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))
from measure_sharing import SOURCE as LOADS

from warplens.characterize.device import Device, kernel_source, span_of

READ_BYTES, STAGE_BYTES, STAGES = 4 << 20, 16384, 10
SOURCE = (
    r"""
__global__ void __launch_bounds__(32, 1)
copy(Record *records, const char *base, unsigned part_bytes, int group, int groups, int near, int skew) {
    extern __shared__ __align__(1024) char room[];
    unsigned long long *full = (unsigned long long *)(room + STAGES * STAGE);
    unsigned sm, place = 0;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    unsigned part = near ? sm / group : sm % groups;
    place = near ? sm % group : sm / groups;
    const char *from = base + (size_t)part * part_bytes;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; ++i)
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"((unsigned)__cvta_generic_to_shared(full + i)));
        asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async;" ::: "memory");
    }
    __syncwarp();
    long long begin = clock64();
    while (clock64() - begin < (long long)skew * place) {}
    Timer timer;
    timer.start();
    if (threadIdx.x == 0) {
        unsigned at = 0, count = READ / STAGE;
        for (unsigned n = 0; n < count + STAGES; ++n) {
            unsigned slot = n % STAGES, barrier = (unsigned)__cvta_generic_to_shared(full + slot);
            if (n >= STAGES)
                asm volatile("{ .reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [%0], %1; "
                             "@!done bra again; }" :: "r"(barrier), "r"((n / STAGES - 1) & 1) : "memory");
            if (n < count) {
                asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;"
                             :: "r"(barrier), "r"(STAGE) : "memory");
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                             :: "r"((unsigned)__cvta_generic_to_shared(room + slot * STAGE)), "l"(from + at),
                                "r"(STAGE), "r"(barrier) : "memory");
                at += STAGE;
                if (at >= part_bytes) at = 0;
            }
        }
    }
    __syncwarp();
    timer.stop(records, room[threadIdx.x]);
}
""".replace("READ", str(READ_BYTES))
    .replace("STAGES", str(STAGES))
    .replace("STAGE", str(STAGE_BYTES))
)


def main() -> None:
    device = Device()
    copy = device.load(kernel_source("memory") + SOURCE, ["copy"])["copy"]
    share = device.load(kernel_source("memory") + LOADS, ["share"])["share"]
    base = ctypes.c_void_p(device.allocate(128 << 20))
    print("by,mib,group,order,skew,cycles,bytes_per_cycle_and_sm", flush=True)
    for by, function, threads, shared in (
        ("copies", copy, 32, STAGES * (STAGE_BYTES + 8)),
        ("loads", share, 1024, 0),
    ):
        for mib in (4, 8, 16, 32):
            for group in (1, 2, 8, 16, 33, 66, 132):
                groups = -(-device.sms // group)
                part = max((mib << 20) // groups // STAGE_BYTES, 1) * STAGE_BYTES
                for near in (1, 0) if 1 < group < device.sms else (1,):
                    for skew in (0, 200, 1000) if group > 1 else (0,):
                        arguments = [base, ctypes.c_uint(part), group, groups, near, skew]
                        found = []
                        for _ in range(4):
                            records = device.recorded(function, device.sms, threads, arguments, shared)
                            found.append(float(np.median(span_of(records).cycles)))
                        cycles = min(found[1:])
                        order = "near" if near else "far"
                        print(by, mib, group, order, skew, f"{cycles:.0f}", f"{READ_BYTES / cycles:.2f}", sep=",",
                              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
