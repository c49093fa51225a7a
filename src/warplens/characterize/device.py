"""The GPU in this machine, through the CUDA driver: memory, launches, and the records that kernels leave."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import MissingPackageError, WarplensError
from ..frontends.cuda.compile import nvrtc_library

_KERNELS = Path(__file__).parent / "kernels"

#: As `struct Record` of common.cuh, one per warp.
RECORD = np.dtype(
    [
        ("start_cycle", "<i8"),
        ("end_cycle", "<i8"),
        ("start_ns", "<i8"),
        ("end_ns", "<i8"),
        ("sm", "<u4"),
        ("value", "<u4"),
    ]
)

#: name -> attribute of the CUDA driver
ATTRIBUTES = {
    "sms": "MULTIPROCESSOR_COUNT",
    "warp_size": "WARP_SIZE",
    "compute_capability_major": "COMPUTE_CAPABILITY_MAJOR",
    "compute_capability_minor": "COMPUTE_CAPABILITY_MINOR",
    "clock_khz": "CLOCK_RATE",
    "memory_clock_khz": "MEMORY_CLOCK_RATE",
    "memory_bus_bits": "GLOBAL_MEMORY_BUS_WIDTH",
    "l2_bytes": "L2_CACHE_SIZE",
    "threads_per_sm": "MAX_THREADS_PER_MULTIPROCESSOR",
    "threads_per_block": "MAX_THREADS_PER_BLOCK",
    "blocks_per_sm": "MAX_BLOCKS_PER_MULTIPROCESSOR",
    "registers_per_sm": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "registers_per_block": "MAX_REGISTERS_PER_BLOCK",
    "shared_memory_per_sm_bytes": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "shared_memory_per_block_bytes": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "shared_memory_reserved_bytes": "RESERVED_SHARED_MEMORY_PER_BLOCK",
}


def kernel_source(name: str) -> str:
    """The source of a kernel file, after the declarations that all files share."""
    return (_KERNELS / "common.cuh").read_text("utf-8") + (_KERNELS / f"{name}.cu").read_text("utf-8")


def compile_cubin(source: str, names: Sequence[str], architecture: str) -> tuple[bytes, dict[str, str]]:
    """A cubin, and the mangled name of every kernel that was asked for.

    A cubin rather than PTX, because a driver older than the compiler rejects its PTX.
    """
    nvrtc = nvrtc_library()
    result, program = nvrtc.nvrtcCreateProgram(source.encode(), b"characterize.cu", 0, [], [])
    _check(result, "starting the compiler")
    try:
        for name in names:
            _check(nvrtc.nvrtcAddNameExpression(program, name.encode())[0], f"naming {name}")
        options = [f"-arch={architecture}".encode(), b"-std=c++17"]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if int(result):
            _, size = nvrtc.nvrtcGetProgramLogSize(program)
            log = b" " * size
            nvrtc.nvrtcGetProgramLog(program, log)
            raise WarplensError(f"the micro-benchmarks do not compile: {log.decode(errors='replace').strip()[:2000]}")
        lowered = {name: nvrtc.nvrtcGetLoweredName(program, name.encode())[1].decode() for name in names}
        _, size = nvrtc.nvrtcGetCUBINSize(program)
        code = b" " * size
        _check(nvrtc.nvrtcGetCUBIN(program, code)[0], "reading machine code")
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return code, lowered


def _check(result: Any, what: str) -> None:
    if int(result):
        raise WarplensError(f"CUDA: {what} failed: {getattr(result, 'name', result)}")


@dataclass(frozen=True)
class Span:
    """What the warps of one launch recorded."""

    cycles: np.ndarray[Any, Any]
    """From the first start to the last end on each SM that took part."""
    seconds: float
    """From the first start to the last end on the whole GPU."""
    clock_hz: float
    """Cycles over time of the warp that ran longest."""


class Device:
    """One GPU, its context and its loaded kernels."""

    def __init__(self, ordinal: int = 0) -> None:
        try:
            from cuda.bindings import driver
        except ImportError:
            raise MissingPackageError(
                "the GPU is reached through cuda-bindings, which is not installed; `pip install cuda-bindings`"
            ) from None
        self._driver = driver
        try:
            (result,) = driver.cuInit(0)
        except RuntimeError as error:  # there is no driver library
            raise WarplensError(f"no CUDA driver in this machine ({str(error).splitlines()[0]}); {_REMEDY}") from None
        if int(result):
            raise WarplensError(f"no usable CUDA GPU in this machine ({result.name}); {_REMEDY}")
        count = self._call("cuDeviceGetCount")
        if ordinal >= count:
            raise WarplensError(f"GPU {ordinal} does not exist: this machine has {count} (numbered from 0)")
        self.ordinal = ordinal
        self._device = self._call("cuDeviceGet", ordinal)
        self._call("cuCtxSetCurrent", self._call("cuDevicePrimaryCtxRetain", self._device))
        self.name = self._call("cuDeviceGetName", 128, self._device).split(b"\0")[0].decode()
        self.driver_version: int = self._call("cuDriverGetVersion")
        prefix = "CU_DEVICE_ATTRIBUTE_"
        self.attributes: dict[str, int] = {
            name: self._call("cuDeviceGetAttribute", getattr(driver.CUdevice_attribute, prefix + key), self._device)
            for name, key in ATTRIBUTES.items()
        }
        self._modules: list[Any] = []
        self._events = (self._call("cuEventCreate", 0), self._call("cuEventCreate", 0))
        self.sms = self.attributes["sms"]
        self.max_warps = self.attributes["threads_per_sm"] // self.attributes["warp_size"]
        self._records = self.allocate(self.sms * 2 * self.max_warps * RECORD.itemsize)
        self._record_capacity = self.sms * 2 * self.max_warps

    @property
    def architecture(self) -> str:
        return "sm_{compute_capability_major}{compute_capability_minor}".format(**self.attributes)

    def _call(self, function: str, *arguments: Any) -> Any:
        result, *values = getattr(self._driver, function)(*arguments)
        _check(result, function)
        return values[0] if values else None

    # -- memory ------------------------------------------------------------------------

    def allocate(self, size_bytes: int) -> int:
        """Zeroed memory; it lives as long as the process."""
        pointer = self._call("cuMemAlloc", size_bytes)
        self._call("cuMemsetD8", pointer, 0, size_bytes)
        return int(pointer)

    def fill(self, pointer: int, size_bytes: int, value: int = 0) -> None:
        self._call("cuMemsetD8", pointer, value, size_bytes)

    def upload(self, pointer: int, values: np.ndarray[Any, Any]) -> None:
        values = np.ascontiguousarray(values)
        self._call("cuMemcpyHtoD", pointer, values.ctypes.data, values.nbytes)

    def free(self, pointer: int) -> None:
        """Give memory back before the process ends."""
        self._call("cuMemFree", pointer)

    def free_bytes(self) -> int:
        """Memory that nobody has taken."""
        result, free, _ = self._driver.cuMemGetInfo()
        _check(result, "cuMemGetInfo")
        return int(free)

    def symbol(self, name: str) -> int:
        """The address of a variable in the kernels that were loaded last."""
        result, pointer, _ = self._driver.cuModuleGetGlobal(self._modules[-1], name.encode())
        _check(result, f"finding {name}")
        return int(pointer)

    def linear_texture(self, pointer: int, size_bytes: int) -> int:
        """A texture object over 32-bit words."""
        driver = self._driver
        resource = driver.CUDA_RESOURCE_DESC()
        resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
        resource.res.linear.devPtr = pointer
        resource.res.linear.format = driver.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT32
        resource.res.linear.numChannels = 1
        resource.res.linear.sizeInBytes = size_bytes
        return int(self._call("cuTexObjectCreate", resource, driver.CUDA_TEXTURE_DESC(), None))

    @property
    def records(self) -> Any:
        """Where kernels leave their records: their first argument."""
        return ctypes.c_void_p(self._records)

    # -- launches ----------------------------------------------------------------------

    def load(self, source: str, names: Sequence[str], features: str = "") -> dict[str, Any]:
        """Kernels compiled for this GPU, by name expression; `features` is an architecture suffix such as "a"."""
        code, lowered = compile_cubin(source, names, self.architecture + features)
        module = self._call("cuModuleLoadData", code)
        self._modules.append(module)
        functions = {name: self._call("cuModuleGetFunction", module, text.encode()) for name, text in lowered.items()}
        attribute = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        for function in functions.values():
            self._call("cuFuncSetAttribute", function, attribute, self.attributes["shared_memory_per_block_bytes"])
        return functions

    def prefer_l1(self, function: Any) -> None:
        """Give the L1 as much as possible of the memory that it shares with shared memory."""
        attribute = self._driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
        self._call("cuFuncSetAttribute", function, attribute, 0)

    def shared_memory_for(self, blocks_per_sm: int) -> int:
        """Dynamic shared memory per block that limits an SM to `blocks_per_sm` blocks."""
        return self.attributes["shared_memory_per_sm_bytes"] // (blocks_per_sm + 1) + 1024

    def launch(self, function: Any, grid: int, block: int, arguments: Sequence[Any], shared_bytes: int = 0) -> None:
        """Starts a kernel. Integers are passed as 32 bits, NumPy and ctypes scalars with their own types."""
        values = tuple(a.value if hasattr(a, "value") else a for a in arguments)
        types = tuple(type(a) if hasattr(a, "value") else ctypes.c_int for a in arguments)
        self._call("cuLaunchKernel", function, grid, 1, 1, block, 1, 1, shared_bytes, 0, (values, types), 0)

    def synchronize(self) -> None:
        self._call("cuCtxSynchronize")

    def timed(self, start: Any) -> float:
        """Seconds that the launches of `start()` take, between two CUDA events."""
        before, after = self._events
        self._call("cuEventRecord", before, 0)
        start()
        self._call("cuEventRecord", after, 0)
        self._call("cuEventSynchronize", after)
        return float(self._call("cuEventElapsedTime", before, after)) * 1e-3

    def recorded(
        self,
        function: Any,
        grid: int,
        block: int,
        arguments: Sequence[Any],
        shared_bytes: int = 0,
        *,
        count: int | None = None,
    ) -> np.ndarray[Any, Any]:
        """Run a kernel whose first parameter is an array of records; returns the records."""
        count = grid * ((block + 31) // 32) if count is None else count
        assert count <= self._record_capacity
        self.launch(function, grid, block, [self.records, *arguments], shared_bytes)
        records = np.empty(count, RECORD)
        self._call("cuMemcpyDtoH", records.ctypes.data, self._records, records.nbytes)
        return records


def query_smi(fields: str, ordinal: int) -> str:
    """What nvidia-smi says of a GPU; this changes nothing."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    command = [program, f"--query-gpu={fields}", "--format=csv,noheader", "-i", str(ordinal)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


_REMEDY = "characterize runs on a machine with an NVIDIA GPU and its driver"


def span_of(records: np.ndarray[Any, Any]) -> Span:
    """Cycles from the first start to the last end on each SM, and seconds on the whole GPU."""
    sms, places = np.unique(records["sm"], return_inverse=True)
    first = np.full(len(sms), np.iinfo(np.int64).max)
    last = np.full(len(sms), np.iinfo(np.int64).min)
    np.minimum.at(first, places, records["start_cycle"])
    np.maximum.at(last, places, records["end_cycle"])
    seconds = float(records["end_ns"].max() - records["start_ns"].min()) * 1e-9
    longest = int(np.argmax(records["end_ns"] - records["start_ns"]))
    cycles = float(records["end_cycle"][longest] - records["start_cycle"][longest])
    own_seconds = float(records["end_ns"][longest] - records["start_ns"][longest]) * 1e-9
    return Span(last - first, seconds, cycles / own_seconds if own_seconds > 0 else 0.0)
