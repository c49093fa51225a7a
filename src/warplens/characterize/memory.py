"""Runs the kernels of memory.cu: latency by size, bandwidth, misses in flight, atomics and launches."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .device import Device, kernel_source, span_of

KIB, MIB = 1 << 10, 1 << 20
LINE_BYTES = 128
PAGE_BYTES = 2 * MIB
#: Sizes of rings for the latency curve.
RING_KIB = (
    8, 16, 32, 64, 96, 128, 160, 176, 192, 200, 204, 208, 210, 212, 214, 216, 218, 220, 222, 224, 228, 232, 240, 248,
    256, 272, 320, 512, 1024, 2048,
)  # fmt: skip
RING_MIB = (4, 8, 12, 16, 20, 24, 26, 28, 30, 32, 36, 40, 44, 48, 52, 56, 60, 64, 80, 96, 128, 256, 512, 1024)
RING_BYTES = (*(size * KIB for size in RING_KIB), *(size * MIB for size in RING_MIB))
#: Rings up to this size are also read through the L1. Every launch starts with an empty L1, so it walks them first.
L1_WALK_BYTES = 512 * KIB
#: Rings up to this size are walked once before the timing, so that the L2 cache holds what it can.
L2_WALK_BYTES = 128 * MIB
TIMED_STEPS = 8192
#: Region of single cold loads: few enough pages for the TLB, small compared with the L2.
COLD_BYTES = 32 * MIB
FLUSH_BYTES = 512 * MIB
DISTANCES = (8, 16, 24, 32, 40, 48, 56, 64, 72, 96, 120, 128, 192, 256)

#: Loads that one SM can have in flight: pattern -> (words a lane, lanes, [(warps, loads)]).
_SETTINGS = tuple((warps, loads) for loads in (1, 2, 4, 8) for warps in (1, 2, 4, 8, 16, 24, 32))
PATTERNS: dict[str, tuple[int, int, tuple[tuple[int, int], ...]]] = {
    "one sector": (0, 1, tuple((warps, 1) for warps in (1, 4, 16))),
    "32 sectors": (0, 32, _SETTINGS),
    "128 bytes": (1, 32, _SETTINGS),
    "512 bytes": (4, 32, _SETTINGS),
}
LOADS = (1, 2, 4, 8)
SCATTERED = ("LOADS", "LOADS_THROUGH_L1", "STORES", "ADDITIONS")
#: The kernel that holds the GPU while launches queue up, and the number of launches.
HOLD_CYCLES = 20_000_000
LAUNCHES = 500


def kernel_names() -> list[str]:
    """Every kernel of memory.cu that is run."""
    return [
        *(f"chase<{cache}>" for cache in ("CACHED", "PAST_L1")),
        *(f"read_stream<{cache},{words}>" for cache in ("CACHED", "PAST_L1") for words in (1, 4)),
        *(f"read_l1<{words}>" for words in (1, 4)),
        *(f"misses<{words},{loads}>" for words in (0, 1, 4) for loads in LOADS),
        *(f"atomics<{chains}>" for chains in (1, 4)),
        *(f"scattered<{what}>" for what in SCATTERED),
        *("link", "read_l1_pattern", "write_stream", "copy_stream", "short_blocks", "hold", "nothing"),
    ]


def ring(size_bytes: int, generator: np.random.Generator) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Offsets (from, to) of one ring through all lines of a region, in random order."""
    order = generator.permutation(size_bytes // LINE_BYTES).astype(np.uint32) * np.uint32(LINE_BYTES)
    return order, np.roll(order, -1)


def paired_ring(
    distance_bytes: int, pairs: int, spacing_bytes: int, generator: np.random.Generator
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A ring that visits each place, then its neighbour at the given distance, then the next place."""
    places = generator.permutation(pairs).astype(np.uint32) * np.uint32(spacing_bytes)
    sources = np.empty(2 * pairs, np.uint32)
    sources[0::2], sources[1::2] = places, places + np.uint32(distance_bytes)
    return sources, np.roll(sources, -1)


class MemoryBench:
    """Times kernels of memory.cu."""

    def __init__(self, device: Device, repeats: int, report: Callable[[str], None]) -> None:
        self.device = device
        self.repeats = repeats
        self.report = report
        self.functions = device.load(kernel_source("memory"), kernel_names())
        for name in ("chase<CACHED>", "read_l1<1>", "read_l1<4>", "read_l1_pattern"):
            device.prefer_l1(self.functions[name])
        self.generator = np.random.default_rng(1)
        self.buffer = device.allocate(max(RING_BYTES))
        self.other = device.allocate(FLUSH_BYTES)
        self.starts = device.allocate(8 * device.sms)
        self.offsets = [device.allocate(4 * (max(RING_BYTES) // LINE_BYTES)) for _ in range(2)]

    def link(self, pair: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]) -> int:
        """Writes a ring into the buffer; returns the address to start from."""
        for pointer, values in zip(self.offsets, pair, strict=True):
            self.device.upload(pointer, values)
        count = len(pair[0])
        pointers = [ctypes.c_void_p(p) for p in (self.buffer, *self.offsets)]
        self.device.launch(self.functions["link"], min(1024, count // 256 + 1), 256, [*pointers, count])
        return self.buffer + int(pair[0][0])

    def flush(self) -> None:
        """Fills the L2 cache with other data. It only reads: dirty lines would have to be written back first."""
        self.read(self.other, FLUSH_BYTES, 1, grid=self.device.sms)

    def chase(
        self, starts: list[int], steps: int, *, cached: bool, warm_steps: int = 0, pages: int = 0
    ) -> np.ndarray[Any, Any]:
        """Cycles of one step on each SM; every start gets its own SM."""
        self.device.upload(self.starts, np.array(starts, np.uint64))
        arguments: list[Any] = [ctypes.c_void_p(self.starts), warm_steps, steps]
        arguments += [ctypes.c_ulonglong(self.buffer + 64), pages, ctypes.c_ulonglong(PAGE_BYTES)]
        function = self.functions["chase<CACHED>" if cached else "chase<PAST_L1>"]
        records = self.device.recorded(function, len(starts), 1, arguments)
        return np.asarray(span_of(records).cycles / steps)

    def read(
        self, pointer: int, size_bytes: int, passes: int, *, grid: int, words: int = 4, threads: int = 1024
    ) -> dict[str, float]:
        """One run of `read_stream`: bytes, cycles and seconds. Every thread completes all iterations."""
        turn = threads * words * 4 * 8 * grid
        size_bytes = max(size_bytes // turn, 1) * turn
        arguments: list[Any] = [ctypes.c_void_p(pointer), ctypes.c_ulonglong(size_bytes), passes]
        function = self.functions[f"read_stream<PAST_L1,{words}>"]
        records = self.device.recorded(function, grid, threads, arguments, self.device.shared_memory_for(1))
        return _traffic(records, size_bytes * passes)

    def repeated(self, run: Callable[[], dict[str, float]]) -> dict[str, list[float]]:
        """Repeat a run after a warm-up; one list of values per column."""
        run()
        rows = [run() for _ in range(self.repeats)]
        return {key: [row[key] for row in rows] for key in rows[0]}

    # -- latency -----------------------------------------------------------------------

    def measure_latency(self) -> dict[str, Any]:
        """Cycles of one dependent load against the size of the ring, through the L1 cache and past it."""
        rows = []
        for size in RING_BYTES:
            self.report(f"latency of a ring of {size >> 10} KiB")
            lines = size // LINE_BYTES
            offsets = ring(size, self.generator)
            first = self.link(offsets)
            if size > L2_WALK_BYTES:
                self.flush()
            for cached in (True, False):
                if cached and size > L1_WALK_BYTES:
                    continue
                warm = lines if size <= L1_WALK_BYTES else 0
                if not warm and size <= L2_WALK_BYTES:
                    self.chase([first], lines, cached=False)
                # Each repeat continues where the previous one ended; otherwise it would hit in the cache.
                starts = [self.buffer + int(offsets[0][r * TIMED_STEPS % lines]) for r in range(self.repeats)]
                values = [float(self.chase([s], TIMED_STEPS, cached=cached, warm_steps=warm)[0]) for s in starts]
                rows.append({"bytes": size, "cached": cached, "cycles": values})
        return {"curve": rows, "l2_by_sm": self._latency_by_sm(), "dram_cold": self._cold_latency()}

    def _latency_by_sm(self) -> dict[str, Any]:
        """L2 latency of every SM. All chase at once, each from a different place in one ring."""
        size = 4 * MIB
        offsets = ring(size, self.generator)
        self.link(offsets)
        lines, sms = size // LINE_BYTES, self.device.sms
        self.read(self.buffer, size, 2, grid=sms)
        starts = [self.buffer + int(offsets[0][n * lines // sms]) for n in range(sms)]
        runs = [self.chase(starts, TIMED_STEPS, cached=False) for _ in range(self.repeats)]
        return {"bytes": size, "cycles": [float(value) for value in np.median(runs, axis=0)]}

    def _cold_latency(self) -> dict[str, Any]:
        """DRAM latency: loads of lines that no cache holds, in pages that the TLB holds."""
        start = self.link(ring(COLD_BYTES, self.generator))
        values = []
        for _ in range(self.repeats):
            self.flush()
            cycles = self.chase([start], TIMED_STEPS, cached=False, pages=COLD_BYTES // PAGE_BYTES)
            values.append(float(cycles[0]))
        return {"bytes": COLD_BYTES, "steps": TIMED_STEPS, "cycles": values}

    def measure_sectors(self) -> list[dict[str, Any]]:
        """Cycles of a step if every second load follows one of its neighbour: shows how much one miss fetches."""
        rows = []
        pairs, spacing = 2048, 4096
        pages = pairs * spacing // PAGE_BYTES
        for level in ("l1", "l2"):
            for distance in DISTANCES:
                start = self.link(paired_ring(distance, pairs, spacing, self.generator))
                values = []
                for _ in range(self.repeats):
                    if level == "l2":
                        self.flush()
                    else:
                        self.read(self.buffer, pairs * spacing, 1, grid=64, words=1)
                    cycles = self.chase([start], 2 * pairs, cached=level == "l1", pages=pages)
                    values.append(float(cycles[0]))
                rows.append({"level": level, "distance_bytes": distance, "cycles": values})
        return rows

    # -- bandwidth ---------------------------------------------------------------------

    def measure_bandwidth(self) -> dict[str, Any]:
        """Reads from L1, L2 (by SMs and by size) and DRAM; writes and copies."""
        sms = self.device.sms
        self.report("bandwidth of L1 and L2")
        l1 = [{"words": words, **self.repeated(partial(self._read_l1, words))} for words in (1, 4)]
        by_sms = []
        for count in sorted({n for n in (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, sms // 2, sms) if n <= sms}):
            for words in (1, 4):
                run = partial(self.read, self.buffer, 8 * MIB, 4 * count, grid=count, words=words)
                by_sms.append({"words": words, **self.repeated(run)})
        turn = sms * 512 * 16 * 8
        by_size = []
        for turns in (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16):
            run = partial(self.read, self.buffer, turns * turn, 512 // turns, grid=sms, threads=512)
            by_size.append({"size_bytes": turns * turn, **self.repeated(run)})
        self.report("bandwidth of DRAM")
        dram = {
            "read": self.repeated(partial(self.read, self.buffer, max(RING_BYTES), 4, grid=sms)),
            "read_one_sm": self.repeated(partial(self.read, self.buffer, 256 * MIB, 1, grid=1)),
            "write": self.repeated(partial(self._elementwise, "write_stream")),
            "copy": self.repeated(partial(self._elementwise, "copy_stream")),
        }
        return {"l1": l1, "l2_by_sms": by_sms, "l2_by_size": by_size, "dram": dram}

    def _read_l1(self, words: int) -> dict[str, float]:
        """Every SM reads 32 KiB (one word a lane) or 128 KiB (four) from its own L1 cache."""
        size, passes = 1024 * words * 4 * 8, 1024
        arguments: list[Any] = [ctypes.c_void_p(self.buffer), passes]
        records = self.device.recorded(self.functions[f"read_l1<{words}>"], self.device.sms, 1024, arguments)
        return _traffic(records, size * passes * self.device.sms)

    def _elementwise(self, name: str) -> dict[str, float]:
        pointers = [self.buffer] if name == "write_stream" else [self.buffer, self.other]
        grid, threads = 2 * self.device.sms, 16 * self.device.max_warps
        turn = grid * threads * 4
        elements = FLUSH_BYTES // 16 // turn * turn
        arguments = [*(ctypes.c_void_p(pointer) for pointer in pointers), ctypes.c_ulonglong(elements)]
        records = self.device.recorded(self.functions[name], grid, threads, arguments)
        return _traffic(records, elements * 16 * len(pointers))

    # -- misses in flight, atomics, launches ---------------------------------------------

    def measure_misses(self) -> list[dict[str, Any]]:
        """Throughput of one SM by the sectors it has in flight, from L2 and from DRAM."""
        rows = []
        self.device.fill(self.buffer, COLD_BYTES)
        for pattern, (words, lanes, settings) in PATTERNS.items():
            self.report(f"misses in flight, {pattern}")
            for warps, loads in settings:
                pieces = loads * warps * (1 if words else lanes)
                rounds = int(np.clip(COLD_BYTES // LINE_BYTES // max(words, 1) // pieces, 4, 128))
                for level in ("l2", "dram"):
                    run = partial(self._misses_once, level, words, lanes, warps, loads, rounds)
                    key = {"pattern": pattern, "level": level, "warps": warps, "loads": loads}
                    cycles = [run() for _ in range(self.repeats)]
                    rows.append({**key, "sectors": pieces * 4 * words or pieces, "rounds": rounds, "cycles": cycles})
        return rows

    def _misses_once(self, level: str, words: int, lanes: int, warps: int, loads: int, rounds: int) -> float:
        if level == "dram":
            self.flush()
        else:
            self.read(self.buffer, COLD_BYTES, 1, grid=64, words=1)
        mask = COLD_BYTES // LINE_BYTES - 1
        arguments: list[Any] = [ctypes.c_ulonglong(self.buffer), ctypes.c_uint(mask), rounds, lanes]
        arguments += [COLD_BYTES // PAGE_BYTES, ctypes.c_ulonglong(PAGE_BYTES)]
        records = self.device.recorded(self.functions[f"misses<{words},{loads}>"], 1, 32 * warps, arguments)
        return float(span_of(records).cycles[0])

    def measure_atomics(self) -> list[dict[str, Any]]:
        """Cycles of chains of coalesced atomic additions, by warps, on one SM and on all."""
        self.report("atomics")
        self.device.fill(self.buffer, COLD_BYTES)
        steps, mask = 256, COLD_BYTES // 2 // LINE_BYTES - 1
        arguments: list[Any] = [ctypes.c_ulonglong(self.buffer), ctypes.c_uint(mask), steps, ctypes.c_uint(0)]
        rows = []
        for sms in (1, self.device.sms):
            for chains in (1, 4):
                for warps in (1, 2, 4, 8, 16, 32):
                    function = self.functions[f"atomics<{chains}>"]
                    cycles = []
                    for _ in range(self.repeats + 1):
                        records = self.device.recorded(function, sms, 32 * warps, arguments)
                        cycles.append(float(np.median(span_of(records).cycles)))
                    key = {"sms": sms, "warps": warps, "chains": chains, "steps": steps}
                    rows.append({**key, "cycles": cycles[1:]})
        return rows

    def measure_launches(self) -> dict[str, Any]:
        """Seconds of empty kernels: queued behind another kernel, synchronised one by one, and by blocks."""
        self.report("launches")
        device, nothing = self.device, self.functions["nothing"]

        def several(grid: int, count: int) -> None:
            for _ in range(count):
                device.launch(nothing, grid, 32, [])

        def queued(grid: int, count: int) -> float:
            """Seconds per kernel if none waits for the host."""
            device.launch(self.functions["hold"], 1, 1, [ctypes.c_longlong(HOLD_CYCLES)])
            return device.timed(partial(several, grid, count)) / count

        def waited() -> float:
            started = time.perf_counter()
            for _ in range(LAUNCHES):
                device.launch(nothing, 1, 32, [])
                device.synchronize()
            return (time.perf_counter() - started) / LAUNCHES

        waited()
        by_blocks = [
            {"blocks": grid, "seconds": [queued(grid, 16) for _ in range(self.repeats)]}
            for grid in (1, device.sms, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18)
        ]
        return {
            "queued_seconds": [queued(1, LAUNCHES) for _ in range(self.repeats)],
            "waited_seconds": [waited() for _ in range(self.repeats)],
            "by_blocks": by_blocks,
        }


def _traffic(records: np.ndarray[Any, Any], total_bytes: int) -> dict[str, float]:
    span = span_of(records)
    cycles = float(np.median(span.cycles))
    return {"bytes": total_bytes, "sms": len(span.cycles), "cycles": cycles, "seconds": span.seconds}
