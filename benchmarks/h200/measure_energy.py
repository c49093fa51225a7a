"""Measures power on a GPU: of micro-benchmarks, which give a machine its energies, and of the suite, to check them.

    python3 benchmarks/h200/measure_energy.py $OUT/energy.json

The driver's energy counter changes a few times a second, so each loop runs for more than a second without a gap (a
CUDA graph, launched again and again), and the power is that between two changes of the counter. A kernel of the suite
runs between a restoring of its arguments and a flush of the L2; the same loop without the kernel is subtracted.
Clocks and limits of the card are left as they are.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from launching import SUITE, Prepared, prepared

SECONDS = 1.2
#: Power settles in this time; what the counter says before does not count.
SETTLING = 0.35
MOST_SECONDS = 200
FLUSH_BYTES = 160 * 2**20
#: Instructions of an unrolled iteration, and iterations of a launch.
UNROLLED, STEPS = 64, 2000

#: name -> (one instruction of chain K in inline PTX, type, first value)
CHAINS = {
    "fp32": ("fma.rn.f32 %0, %0, %0, %1;", "float"),
    "fp32_add": ("add.rn.f32 %0, %0, %1;", "float"),
    "int32": ("add.s32 %0, %0, %3;", "int"),
    "int32_mad": ("mad.lo.s32 %0, %0, %1, %2;", "int"),
    "int32_logic": ("lop3.b32 %0, %0, %1, %3, 0x96;", "int"),
    "fp64": ("fma.rn.f64 %0, %0, %0, %1;", "double"),
    "fp16": ("fma.rn.f16x2 %0, %0, %0, %1;", "int"),
    # Exponential and logarithm go to and fro, as a number's two forms do; one of them alone would settle.
    "sfu": ("ex2.approx.ftz.f32 %0, %0; lg2.approx.ftz.f32 %0, %0;", "float"),
    "conversion": ("{.reg .f32 f; cvt.rn.f32.s32 f, %0; cvt.rni.s32.f32 %0, f;}", "int"),
    "shuffle": ("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;", "int"),
}
#: Instructions of a step, where it is not one.
PER_STEP = {"sfu": 2, "conversion": 2}
LETTERS = {"float": "f", "int": "r", "double": "d"}

COMMON = r"""
extern "C" __global__ void __launch_bounds__(1024, 2) spin(int *out, int n) {
    for (int i = 0; i < n; ++i) __nanosleep(1000);
    if (n < 0) *out = n;
}
// Addresses follow the turn, or the assembler would load each word once.
extern "C" __global__ void __launch_bounds__(1024, 2) load_shared(int *out, int n) {
    __shared__ int words[9 * 1024];
    for (int k = 0; k < 9; ++k) words[k * 1024 + threadIdx.x] = (k * 1024 + threadIdx.x) * 2654435761u;
    __syncthreads();
    unsigned at = (unsigned)__cvta_generic_to_shared(words + threadIdx.x), sum = 0;
#pragma unroll 1
    for (int i = 0; i < n; ++i) {
        unsigned turn = at + (i & 3) * 128;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            unsigned got;
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(got) : "r"(turn + 4096 * k));
            sum += got;
        }
    }
    if (sum == 12345) out[threadIdx.x] = sum;
}
extern "C" __global__ void __launch_bounds__(1024, 2) matrix(int *out, int n) {
    float d[4][4] = {};
    unsigned a = threadIdx.x * 2654435761u & 0x3bff3bff, b = threadIdx.x * 40503u & 0x3bff3bff;
    for (int i = 0; i < n; ++i) {
#pragma unroll
        for (int k = 0; k < 64; ++k) {
            float *c = d[k % 4];
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%4,%5}, {%6,%6}, {%0,%1,%2,%3};"
                         : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a), "r"(b), "r"(a ^ b));
        }
    }
    if (d[0][0] + d[1][1] + d[2][2] + d[3][3] == 12345.f) out[threadIdx.x] = 1;
}
// 32 lines of the L1 for each warp in a turn: 128 KiB for a block, the same for all blocks.
extern "C" __global__ void __launch_bounds__(1024, 2) read_l1(const unsigned *from, int *out, int n, int stride) {
    unsigned sum = 0;
#pragma unroll 1
    for (int i = 0; i < n; ++i) {
        const unsigned *turn = from + threadIdx.x * stride % 1024 + (i & 3) * 32;
#pragma unroll
        for (int k = 0; k < 32; ++k) {
            unsigned got;
            asm volatile("ld.global.ca.u32 %0, [%1];" : "=r"(got) : "l"(turn + 1024 * k));
            sum += got;
        }
    }
    if (sum == 12345) *out = sum;
}
// Every thread reads 16 bytes at a time, `passes` times `count` of them by the grid.
extern "C" __global__ void __launch_bounds__(1024, 2) read_far(const uint4 *from, int *out, size_t count, int passes) {
    unsigned sum = 0;
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (int p = 0; p < passes; ++p)
        for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i + 3 * step < count; i += 4 * step) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                uint4 got;
                asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(got.x), "=r"(got.y), "=r"(got.z), "=r"(got.w) : "l"(from + i + k * step));
                sum ^= got.x;
            }
        }
    if (sum == 12345) *out = sum;
}
extern "C" __global__ void __launch_bounds__(1024, 2) write_far(uint4 *to, int *out, size_t count, int passes) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (int p = 0; p < passes; ++p)
        for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
            to[i] = make_uint4(i * 2654435761u, p, i, ~i);
}
// One sector of every line, each lane its own, or two lanes a sector: `passes` times `count` lines by the grid.
extern "C" __global__ void __launch_bounds__(1024, 2) read_sectors(const unsigned *from, int *out, size_t count, int passes) {
    unsigned sum = 0;
    size_t step = (size_t)gridDim.x * blockDim.x, first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (int p = 0; p < passes; ++p)
        for (size_t i = first; i < count; i += step) {
            unsigned got;
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(got) : "l"(from + 32 * i));
            sum ^= got;
        }
    if (sum == 12345) *out = sum;
}
extern "C" __global__ void __launch_bounds__(1024, 2) write_sectors(uint4 *to, int *out, size_t count, int passes) {
    size_t step = (size_t)gridDim.x * blockDim.x, first = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (int p = 0; p < passes; ++p)
        for (size_t i = first; i < 2 * count; i += step)
            to[8 * (i / 2) + i % 2] = make_uint4(i * 2654435761u, p, i, ~i);
}
// The first `lanes` lanes of each warp compute, the others wait at the end.
extern "C" __global__ void __launch_bounds__(1024, 2) some_lanes(int *out, int n, int lanes) {
    float x[4], a = -1.9f;
    for (int k = 0; k < 4; ++k) x[k] = 0.1f + threadIdx.x * 1e-4f + 0.1f * k;
    if (threadIdx.x % 32 < lanes)
        for (int i = 0; i < n; ++i) {
#pragma unroll
            for (int k = 0; k < 64; ++k) asm volatile("fma.rn.f32 %0, %0, %0, %1;" : "+f"(x[k % 4]) : "f"(a));
        }
    if (x[0] + x[1] + x[2] + x[3] == 12345.f) out[threadIdx.x] = 1;
}
extern "C" __global__ void __launch_bounds__(1024, 2) scramble(unsigned *to, size_t count) {
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) to[i] = (unsigned)(i ^ i >> 15) * 2654435761u;
}
"""  # noqa: E501


def chain_source(name: str) -> str:
    """A kernel with four independent chains of one instruction per thread."""
    instruction, kind = CHAINS[name]
    letter = LETTERS[kind]
    start = {
        "float": "0.1f + threadIdx.x * 1e-4f",
        "double": "0.1 + threadIdx.x * 1e-4",
        "int": "0x3c013c01 ^ threadIdx.x * 2654435761u",
    }[kind]
    # x² − 1.9 never settles, so that the bits of a floating-point chain go on changing.
    factor = {"float": "-1.9f", "double": "-1.9", "int": "0xbf9abf9a" if name == "fp16" else "0x3bff3bfd"}[kind]
    step = "1" if kind == "int" else "0.1"
    # The next chain's value: sums of constants would be folded.
    inputs = f'"{letter}"(a), "{letter}"(b), "{letter}"(x[(k + 1) % 4])'
    return f"""
extern "C" __global__ void __launch_bounds__(1024, 2) chain_{name}(int *out, int n) {{
    {kind} x[4], a = {factor}, b = {start};
    for (int k = 0; k < 4; ++k) x[k] = ({kind})({start}) + ({kind})({step} * k);
    for (int i = 0; i < n; ++i) {{
#pragma unroll
        for (int k = 0; k < {UNROLLED}; ++k) asm volatile("{instruction}" : "+{letter}"(x[k % 4]) : {inputs});
    }}
    if ((int)(x[0] + x[1] + x[2] + x[3]) == 12345) out[threadIdx.x] = 1;
}}
"""


class Driver:
    """NVML through its C library: energy, clocks and power limit of GPU 0."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.call("nvmlInit_v2")
        self.device = ctypes.c_void_p()
        self.call("nvmlDeviceGetHandleByIndex_v2", 0, ctypes.byref(self.device))

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code:
            raise RuntimeError(f"{name}: NVML error {code}")

    def number(self, name: str, kind: Any, *arguments: Any) -> int:
        value = kind()
        self.call(name, self.device, *arguments, ctypes.byref(value))
        return int(value.value)

    @property
    def joules(self) -> float:
        return self.number("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong) / 1000.0

    def clock_mhz(self, which: int = 1) -> int:
        return self.number("nvmlDeviceGetClockInfo", ctypes.c_uint, which)

    @property
    def celsius(self) -> int:
        return self.number("nvmlDeviceGetTemperature", ctypes.c_uint, 0)


def power_of(driver: Driver, seconds: float, busy: Callable[[], bool]) -> dict[str, Any]:
    """Watts between two changes of the energy counter while `busy()`, and the clocks seen."""
    began, changes, clocks = time.perf_counter(), [], []
    last = driver.joules
    while busy() and (now := time.perf_counter()) - began < seconds + 5.0:
        found = driver.joules
        if found != last:
            changes.append((now - began, found))
            clocks.append(driver.clock_mhz())
            last = found
        time.sleep(0.001)
    settled = [change for change in changes if change[0] >= SETTLING] or changes
    (first, before), (end, after) = settled[0], settled[-1]
    watts = (after - before) / (end - first) if end > first else float("nan")
    middle = sorted(clocks)[len(clocks) // 2] if clocks else None
    seen = {"clock_mhz": middle, "celsius": driver.celsius}
    return {"watts": watts, "over_seconds": end - first, "changes": len(settled), **seen}


def looped(driver: Driver, body: Callable[[Any], None], seconds: float = SECONDS) -> dict[str, Any]:
    """Power and seconds of `body(stream)`, repeated without gaps for some seconds."""
    import cupy

    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        body(stream)
        stream.synchronize()
        before, after = cupy.cuda.Event(), cupy.cuda.Event()

        def captured(count: int) -> Any:
            stream.begin_capture()
            for _ in range(count):
                body(stream)
            return stream.end_capture()

        def timed(graph: Any, launches: int) -> float:
            before.record(stream)
            for _ in range(launches):
                graph.launch(stream)
            after.record(stream)
            after.synchronize()
            return cupy.cuda.get_elapsed_time(before, after) * 1e-3

        alone = timed(captured(1), 3) / 3
        count = max(1, min(200, int(0.02 / alone)))
        graph = captured(count)
        once = timed(graph, 1)
        launches = max(2, int(seconds / once))
        before.record(stream)
        for _ in range(launches):
            graph.launch(stream)
        after.record(stream)
        found = power_of(driver, seconds, lambda: not after.done)
        after.synchronize()
        each = cupy.cuda.get_elapsed_time(before, after) * 1e-3 / (launches * count)
    return found | {"seconds": each, "joules": found["watts"] * each, "repeats": launches * count}


def micro(driver: Driver, names: Sequence[str] | None = None, seconds: float = SECONDS) -> Iterator[dict[str, Any]]:
    """Power of the micro-benchmarks, with warp instructions or bytes of a launch."""
    import cupy

    source = COMMON + "".join(chain_source(name) for name in CHAINS)
    module = cupy.RawModule(code=source, options=("-std=c++17",), backend="nvrtc")
    sms = cupy.cuda.runtime.getDeviceProperties(0)["multiProcessorCount"]
    grid, block = (2 * sms,), (1024,)
    warps = 2 * sms * 32
    out = cupy.zeros(1024, cupy.int32)
    far = cupy.empty(2**31, cupy.uint32)  # 8 GiB
    module.get_function("scramble")((2 * sms,), (1024,), (far, cupy.uint64(far.size)))

    def kernel(name: str, *arguments: Any, blocks: tuple[int, ...] = grid, threads: tuple[int, ...] = block) -> Any:
        function = module.get_function(name)
        return lambda _: function(blocks, threads, arguments)

    steps = cupy.int32(STEPS)
    jobs: dict[str, tuple[Any, dict[str, float]]] = {
        "spin": (kernel("spin", out, cupy.int32(5000)), {}),
        "spin_one_warp": (kernel("spin", out, cupy.int32(5000), blocks=(sms,), threads=(32,)), {}),
    }
    for name in CHAINS:
        slow = 4 if name in ("sfu", "conversion", "shuffle", "fp64") else 1
        counted = {"warp_instructions": float(warps * UNROLLED * (STEPS // slow) * PER_STEP.get(name, 1))}
        jobs[name] = (kernel(f"chain_{name}", out, cupy.int32(STEPS // slow)), counted)
    for lanes in (1, 16):
        counted = {"warp_instructions": float(warps * UNROLLED * STEPS)}
        jobs[f"fp32_{lanes}_lanes"] = (kernel("some_lanes", out, steps, cupy.int32(lanes)), counted)
    few = {"warp_instructions": float(4 * sms * UNROLLED * STEPS)}
    jobs["fp32_few_warps"] = (kernel("chain_fp32", out, steps, blocks=(sms,), threads=(128,)), few)
    # The assembler adds two loads with one instruction; a turn of the loop has five more.
    shared = {"warp_instructions": float(warps * 64 * STEPS), "others": float(warps * 8 * STEPS) * 9}
    jobs["load_shared"] = (kernel("load_shared", out, cupy.int32(8 * STEPS)), shared)
    jobs["matrix"] = (
        kernel("matrix", out, cupy.int32(500)),
        {"warp_instructions": float(warps * 64 * 500), "flops": float(warps * 64 * 500) * 16 * 8 * 16 * 2},
    )
    l1 = {"warp_instructions": float(warps * 32 * STEPS), "others": float(warps * STEPS) * 21}
    jobs["l1_read"] = (kernel("read_l1", far, out, steps, cupy.int32(1)), l1)
    jobs["l1_scattered"] = (
        kernel("read_l1", far, out, cupy.int32(STEPS // 8), cupy.int32(32)),
        {name: count / 8 for name, count in l1.items()},
    )
    for level, size, passes in (("l2", 24 * 2**20, 40), ("dram", 8 * 2**30, 1)):
        count, moved = cupy.uint64(size // 16), {"bytes": float(size) * passes}
        jobs[f"{level}_read"] = (kernel("read_far", far, out, count, cupy.int32(passes)), moved)
        jobs[f"{level}_write"] = (kernel("write_far", far, out, count, cupy.int32(passes)), moved)
        count, moved = cupy.uint64(size // 128), {"bytes": float(size // 4) * passes}
        jobs[f"{level}_read_sectors"] = (kernel("read_sectors", far, out, count, cupy.int32(passes)), moved)
        jobs[f"{level}_write_sectors"] = (kernel("write_sectors", far, out, count, cupy.int32(passes)), moved)
    jobs["spin_hot"] = jobs["spin"]  # after the others: leakage grows with the temperature
    for name in names or jobs:
        body, counts = jobs[name]
        yield {"kind": "micro", "name": name, **counts, **looped(driver, body, seconds)}


def suite(driver: Driver, name: str, kernel: Prepared) -> dict[str, Any]:
    """Energy and time of one launch with a flushed L2."""
    import cupy

    originals = [a for a in kernel.inputs if isinstance(a, cupy.ndarray)]
    work = [a.copy() for a in originals]
    placed = iter(work)
    arguments = [next(placed) if isinstance(a, cupy.ndarray) else a for a in kernel.inputs]
    flush = cupy.empty(FLUSH_BYTES, cupy.uint8)
    copy = cupy.cuda.runtime.memcpyAsync

    def between(stream: Any) -> None:
        for to, origin in zip(work, originals, strict=True):
            copy(to.data.ptr, origin.data.ptr, origin.nbytes, 3, stream.ptr)
        cupy.cuda.runtime.memsetAsync(flush.data.ptr, 1, flush.nbytes, stream.ptr)

    def whole(stream: Any) -> None:
        between(stream)
        shared = kernel.launch.dynamic_shared_memory_bytes
        kernel.function(kernel.launch.grid, kernel.launch.block, arguments, shared_mem=shared)

    both, rest = looped(driver, whole), looped(driver, between, 0.9)
    own = {key: both[key] - rest[key] for key in ("joules", "seconds")}
    return {"kind": "suite", "name": name, "size": "medium", **own, "with_kernel": both, "between": rest}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--most-seconds", type=float, default=MOST_SECONDS)
    parser.add_argument("--micro", nargs="*", help="only these micro-benchmarks")
    parser.add_argument("--kernels", nargs="*", default=list(SUITE))
    options = parser.parse_args()
    import cupy

    driver, rows, began = Driver(), [], time.monotonic()

    def keep(row: dict[str, Any]) -> None:
        rows.append(row)
        limit = driver.number("nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint) / 1000.0
        about = {"gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(), "limit_watts": limit}
        options.path.write_text(json.dumps({**about, "rows": rows}, indent=1))
        watts = row.get("watts") or row["with_kernel"]["watts"]
        print(f"{time.monotonic() - began:6.1f} s {row['name']} {watts:.1f} W", file=sys.stderr, flush=True)

    keep({"kind": "idle", "name": "idle", **idle(driver)})
    for row in micro(driver, options.micro):
        keep(row)
    keep({"kind": "idle", "name": "idle_after", **idle(driver)})
    cupy.get_default_memory_pool().free_all_blocks()
    with ThreadPoolExecutor(6) as pool:
        ahead = {name: pool.submit(SUITE[name].prepare, "medium") for name in options.kernels}
        for name in options.kernels:
            if time.monotonic() - began > options.most_seconds:
                print(f"time is up: {name} and the rest are left out", file=sys.stderr)
                break
            try:
                keep(suite(driver, name, prepared(name, ahead.pop(name).result())))
            except Exception as error:  # one kernel must not cost the others
                print(f"{name}: {error}", file=sys.stderr, flush=True)
        for future in ahead.values():
            future.cancel()


def idle(driver: Driver) -> dict[str, Any]:
    """Power with a context and nothing to run."""
    end = time.perf_counter() + 2.0
    return power_of(driver, 2.0, lambda: time.perf_counter() < end)


if __name__ == "__main__":
    main()
