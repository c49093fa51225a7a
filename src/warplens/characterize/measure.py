"""The whole run: every micro-benchmark once, and its provenance."""

from __future__ import annotations

import ctypes
import datetime
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .._version import __version__
from ..errors import WarplensError
from ..frontends.cuda.compile import nvrtc_library
from .device import Device, query_smi, span_of
from .instructions import (
    MIXES,
    OPERATIONS,
    InstructionBench,
    ResidentWarps,
    chain_name,
    measure_barriers,
    measure_chains,
    measure_mixes,
    measure_products,
)
from .memory import PATTERNS, RING_BYTES, MemoryBench
from .paths import PathBench
from .patterns import measure_blocks, measure_patterns, measure_scattered

SCHEMA = 2
REPEATS = 5
DIGITS = 6
#: The matrix instruction that is timed came with Ampere.
LEAST_CAPABILITY = 8
#: Bytes of a region that must stay in L2, together with the data read beside it.
LEAST_L2_BYTES = 40 << 20
#: Number of progress reports: compilation, each operation, mix, ring and pattern, and thirteen more.
REPORTS = 1 + len(OPERATIONS) + len(MIXES) + len(RING_BYTES) + len(PATTERNS) + 13


def measure(command: str, *, ordinal: int = 0, report: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """Raw data of one run. Times on an SM are in cycles of its own clock, times of the whole GPU in seconds."""
    started = time.perf_counter()
    device = Device(ordinal)
    if device.attributes["compute_capability_major"] < LEAST_CAPABILITY:
        raise WarplensError(
            f"{device.name} has compute capability {device.architecture[3:-1]}.{device.architecture[-1]}; "
            f"the micro-benchmarks need {LEAST_CAPABILITY}.0 or more"
        )
    report(f"{device.name}: compiling")
    instructions = InstructionBench(device, REPEATS)
    memory = MemoryBench(device, REPEATS, report)
    clocks = [_settled_clock(instructions)]
    before = _query_clocks(ordinal)
    raw: dict[str, Any] = {
        "chains": measure_chains(instructions, report) + measure_products(instructions, report),
        "mixes": measure_mixes(instructions, report),
        "barriers": measure_barriers(instructions),
    }
    clocks.append(_settled_clock(instructions))
    raw["latency"] = memory.measure_latency()
    raw["sectors"] = memory.measure_sectors()
    raw["misses"] = memory.measure_misses()
    raw["atomics"] = memory.measure_atomics()
    raw["bandwidth"] = memory.measure_bandwidth()
    raw["patterns"] = measure_patterns(memory)
    raw["scattered"] = measure_scattered(memory)
    raw["blocks"] = measure_blocks(memory)
    raw["launches"] = memory.measure_launches()
    raw["paths"] = PathBench(instructions, memory).measure()
    clocks.append(_settled_clock(instructions))
    provenance = {
        "gpu": device.name,
        "driver": _driver(device, ordinal),
        "compiler": _compiler(),
        "warplens": __version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": command,
        "repeats": REPEATS,
        "sm_clock_hz": clocks,
        "clocks_before": before,
        "clocks_after": _query_clocks(ordinal),
        "seconds": time.perf_counter() - started,
    }
    return _rounded({"schema": SCHEMA, "provenance": provenance, "device": device.attributes, **raw})


def _settled_clock(bench: InstructionBench) -> float:
    """SM clock under load, from a kernel of a few milliseconds timed in cycles and in seconds."""
    device = bench.device
    function = bench.function(chain_name("int32_add", 1, 192))
    shared = device.shared_memory_for(1)
    threads = ResidentWarps(8, 1).threads
    spans = [
        span_of(device.recorded(function, device.sms, threads, [20_000, ctypes.c_uint(1)], shared)) for _ in range(5)
    ]
    return float(np.median([span.clock_hz for span in spans[1:]]))


def _compiler() -> str:
    _, major, minor = nvrtc_library().nvrtcVersion()
    return f"NVRTC {major}.{minor}"


def _driver(device: Device, ordinal: int) -> str:
    cuda = f"CUDA {device.driver_version // 1000}.{device.driver_version % 1000 // 10}"
    version = query_smi("driver_version", ordinal)
    return f"{version}, {cuda}" if version else cuda


def _query_clocks(ordinal: int) -> str:
    """The clocks that nvidia-smi reports; this changes none."""
    return query_smi("clocks.sm,clocks.mem,clocks.max.sm", ordinal)


def _rounded(value: Any) -> Any:
    """Numbers rounded to six digits, more than the measurements support."""
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    if isinstance(value, float | np.floating):
        return float(f"{float(value):.{DIGITS}g}")
    return int(value) if isinstance(value, np.integer) else value
