"""Measures the kernels of examples/cuda that use Hopper's units, beside their predictions from source.

On the machine with the GPU (CuPy, ncu and the toolkit's headers; clocks are left as they are, caches are flushed):

    python3 benchmarks/h200/measure_examples.py measure $OUT/examples.json

and here, to compare the results (compare_examples.py compares the times):

    python benchmarks/h200/measure_examples.py compare examples.json
"""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from launching import profiled

FOLDER = Path(__file__).parents[2] / "examples" / "cuda"
METRICS = {
    "duration_ns": "gpu__time_duration.sum",
    "elapsed_cycles": "sm__cycles_elapsed.max",
    "warp_instructions": "smsp__inst_executed.sum",
    "registers": "launch__registers_per_thread",
    "dram_bytes": "dram__bytes.sum",
    "l2_sectors": "lts__t_sectors.sum",
    "l1_wavefronts": "l1tex__data_pipe_lsu_wavefronts.sum",
}
REPEATS = 5
INCLUDES = ("/usr/local/cuda/include", "/usr/local/cuda/include/cccl")
#: Larger launches: what replaces what in the workload files.
LARGE: dict[str, tuple[tuple[str, str], ...]] = {
    "wmma": (("[256, 256]", "[1024, 1024]"), ("value = 256", "value = 1024"), ("grid = [2, 8]", "grid = [8, 32]")),
    "mma_pipeline": (
        ("[256, 512]", "[1024, 1024]"),
        ("[256, 256]", "[1024, 1024]"),
        ("value = 256", "value = 1024"),
        ("value = 512", "value = 1024"),
        ("grid = [4, 4]", "grid = [16, 16]"),
    ),
    "warp_specialised": (
        ("[256, 512]", "[2048, 1024]"),
        ("[256, 256]", "[2048, 2048]"),
        ("value = 256", "value = 2048"),
        ("value = 512", "value = 1024"),
        ("grid = [2, 4]", "grid = [16, 32]"),
    ),
    "attention": (
        ("[512, 64]", "[8192, 64]"),
        ("value = 256", "value = 1024"),
        ("grid = [4, 2]", "grid = [16, 8]"),
    ),
    "block_sort": (("[32768]", "[524288]"), ("grid = [64]", "grid = [1024]")),
    "cluster_sum": (("[65536]", "[4194304]"), ("[8]", "[512]"), ("grid = [32]", "grid = [2048]")),
}


def launches() -> Iterator[tuple[str, Any]]:
    """(name, launch), each as the examples have it and larger."""
    from warplens.workload.source import load_cuda_launch

    for name, changes in LARGE.items():
        yield name, load_cuda_launch(FOLDER / f"{name}.toml")
        text = (FOLDER / f"{name}.toml").read_text()
        for old, new in changes:
            text = text.replace(old, new)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / f"{name}.cu").write_text((FOLDER / f"{name}.cu").read_text())
            path = Path(folder) / "large.toml"
            path.write_text(text)
            yield f"{name}-large", load_cuda_launch(path)


def tensor_map(tiles: Any, address: int) -> np.ndarray:
    """A map as the driver encodes it."""
    found = tiles.at(address)
    room = np.zeros(256, np.uint8)
    place = room[-room.ctypes.data % 64 :][:128]
    kinds = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7, 9: 8, 10: 9}  # PTX's numbers to the driver's
    lists = [
        (ctypes.c_uint64 * found.rank)(*found.dimensions),
        (ctypes.c_uint64 * max(found.rank - 1, 1))(*found.strides),
        (ctypes.c_uint32 * found.rank)(*found.box),
        (ctypes.c_uint32 * found.rank)(*[1] * found.rank),
    ]
    encode = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled
    status = encode(
        ctypes.c_void_p(place.ctypes.data),
        ctypes.c_int(kinds[found.element_type]),
        ctypes.c_uint32(found.rank),
        ctypes.c_void_p(address),
        *lists,
        ctypes.c_int(0),
        ctypes.c_int(found.swizzle),
        ctypes.c_int(0),
        ctypes.c_int(0),
    )
    if status:
        raise RuntimeError(f"cuTensorMapEncodeTiled: error {status}")
    return place.copy()


class Loaded:
    """A launch with its arrays on the GPU. The driver launches it: CuPy does not pass tensor maps by value."""

    def __init__(self, launch: Any) -> None:
        import cupy

        from warplens.frontends.ptx.tensor_maps import Tiles
        from warplens.workload.source import launch_parameters

        options = ["-std=c++17", *(f"-I{folder}" for folder in INCLUDES)]
        options += [f"--gpu-architecture={launch.architecture or 'sm_90a'}", "-DINFINITY=__int_as_float(0x7f800000)"]
        module = cupy.RawModule(code=launch.text, options=tuple(options), backend="nvrtc")
        self.launch, self.function = launch, module.get_function(launch.kernel)
        self.function.max_dynamic_shared_size_bytes = launch.dynamic_shared_memory_bytes
        self.arrays: list[Any] = []
        self.values: list[np.ndarray] = []
        for each in launch_parameters(launch):
            array = getattr(each, "array", each)
            if not np.ndim(array):
                self.values.append(np.asarray(array))
                continue
            self.arrays.append(cupy.asarray(array))
            address = self.arrays[-1].data.ptr
            self.values.append(tensor_map(each, address) if isinstance(each, Tiles) else np.array(address, np.uint64))

    def __call__(self) -> None:
        import cupy

        pointers = (ctypes.c_void_p * len(self.values))(*[each.ctypes.data for each in self.values])
        extents = [ctypes.c_uint(each) for each in (*self.launch.grid, *self.launch.block)]
        function = ctypes.c_void_p(self.function.kernel.ptr)
        shared = ctypes.c_uint(self.launch.dynamic_shared_memory_bytes)
        driver = ctypes.CDLL("libcuda.so.1")
        status = driver.cuLaunchKernel(function, *extents, shared, None, pointers, None)
        if status:
            raise RuntimeError(f"cuLaunchKernel: error {status}")
        cupy.cuda.Device().synchronize()


def once(name: str) -> None:
    """One launch, for a tracer to record."""
    Loaded(next(launch for each, launch in launches() if each == name))()


def run_all(plan: Path) -> None:
    """Launch everything for ncu, and write down the order and the results of the small launches."""
    import cupyx.profiler

    done: dict[str, Any] = {"launched": [], "failed": {}, "results": {}}
    for name, launch in launches():
        try:
            loaded = Loaded(launch)
            loaded()
            if not name.endswith("-large"):
                done["results"][name] = [each.get().reshape(-1)[:4096].tolist() for each in loaded.arrays]
            for _ in range(REPEATS):
                with cupyx.profiler.profile():
                    loaded()
                done["launched"].append(name)
        except Exception as error:  # one that fails must not end the others
            done["failed"][name] = f"{type(error).__name__}: {error}"[:500]
        plan.write_text(json.dumps(done))
        print(name, done["failed"].get(name, ""), file=sys.stderr, flush=True)


def measure(output: Path) -> None:
    """Run everything under ncu, and keep the metrics of every launch."""
    output.write_text(json.dumps(profiled(__file__, output, METRICS)))


def compare(measured: Path) -> None:
    """Print how far the results of both machines are apart."""
    from warplens.machine import load_gpu
    from warplens.workload.source import launch_parameters, record_launch

    document = json.loads(measured.read_text())
    for name, launch in launches():
        if name not in document["results"]:
            continue
        built = launch_parameters(launch)
        record_launch(launch, load_gpu("h200"), parameters=built)
        own = [getattr(each, "array", each) for each in built if np.ndim(getattr(each, "array", each))]
        pairs = zip(own, document["results"][name], strict=True)
        worst = max(float(np.abs(a.reshape(-1)[:4096].astype(float) - b).max()) for a, b in pairs)
        print(f"{name:24} results differ by {worst:g}", flush=True)


if __name__ == "__main__":
    command, argument = sys.argv[1:3]
    if command == "once":
        once(argument)
    else:
        {"measure": measure, "launch": run_all, "compare": compare}[command](Path(argument))
