"""Runs the kernels of paths.cu: constants, textures, instruction fetch, register ports, atomics and pages."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import numpy as np

from .device import kernel_source, query_smi, span_of
from .instructions import InstructionBench, ResidentWarps, chain_name
from .memory import KIB, LINE_BYTES, PAGE_BYTES, RING_BYTES, MemoryBench

WORD_BYTES = 4
CONSTANT_BYTES = (512, *(size * KIB for size in (1, 2, 3, 4, 8, 16, 24, 32, 40, 48, 56, 64)))
TEXTURE_BYTES = tuple(size * KIB for size in (8, 32, 64, 128, 192, 256, 512, 2048))
#: Instructions of a loop's body, of 16 bytes each, and warps that run it on every SM.
BODIES = (512, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288)
BODY_WARPS = (1, 16)
BODY_WORK = 1 << 16
SOURCES = (1, 2, 3)
#: Pages of 2 MiB that one thread visits in turn, as far as memory has them, and the part of it that may be taken.
PAGES = tuple(1 << n for n in range(3, 16))
MOST_OF_MEMORY = 0.6
#: Lines whose L2 latency is measured from one SM, one by one.
LINES, LINE_STEPS = 512, 64
LOAD_SECONDS = 1.0
#: Launches that run while nvidia-smi is asked.
QUEUED = 40
#: Words of a block that the widest pattern takes, with 32 warps.
COUNTER_WORDS = 32 * 32
#: Pattern of atomic additions: lanes that share a word, words between lanes, warps and blocks.
ADDITIONS = {
    "one word of all": (32, 0, 0, 0),
    "one word of a block": (32, 0, 0, 32),
    "one word of a warp": (32, 0, 32, COUNTER_WORDS),
    "8 lanes a word": (8, 1, 32, COUNTER_WORDS),
    "2 lanes a word": (2, 1, 32, COUNTER_WORDS),
    "a word a lane": (1, 1, 32, COUNTER_WORDS),
    "a bank of all": (1, 32, 1, COUNTER_WORDS),
}


def kernel_names() -> list[str]:
    """Every kernel of paths.cu that is run."""
    return [
        *(f"ports<{sources}>" for sources in SOURCES),
        *(f"additions<{space}>" for space in ("GLOBAL", "SHARED")),
        *("chase_constant", "chase_texture", "read_constant", "read_texture", "link_pages"),
    ]


class PathBench:
    """Times kernels of paths.cu, beside those of the other files."""

    def __init__(self, instructions: InstructionBench, memory: MemoryBench) -> None:
        self.instructions, self.memory = instructions, memory
        self.device, self.repeats = memory.device, memory.repeats
        self.functions = self.device.load(kernel_source("paths"), kernel_names())

    def measure(self) -> dict[str, Any]:
        """All rows, by what they are about."""
        self.memory.report("constants and textures")
        found: dict[str, Any] = {"constant": self._constant(), "texture": self._texture()}
        self.memory.report("instruction fetch")
        found["fetch"] = self._fetch()
        self.memory.report("register ports, atomics by address")
        found["ports"] = self._ports()
        found["additions"] = self._additions()
        self.memory.report("pages and halves of the L2")
        found["lines"] = self._lines()
        found["pages"] = self._pages()
        self.memory.report("clocks under load")
        found["loads"] = self._loads()
        return found

    def _cycles(self, function: Any, grid: int, threads: int, arguments: list[Any], shared: int = 0) -> list[float]:
        """Median over the SMs, once for each repeat after a warm-up."""
        runs = [
            span_of(self.device.recorded(function, grid, threads, arguments, shared)).cycles
            for _ in range(self.repeats + 1)
        ]
        return [float(np.median(cycles)) for cycles in runs[1:]]

    # -- constants and textures

    def _ring(self, size_bytes: int, step_bytes: int) -> np.ndarray[Any, Any]:
        """Words of which each that is visited holds the index of the next; steps are in random order."""
        step = step_bytes // WORD_BYTES
        places = self.memory.generator.permutation(size_bytes // step_bytes).astype(np.uint32) * np.uint32(step)
        places = np.roll(places, -int(np.flatnonzero(places == 0)[0]))
        words = np.zeros(size_bytes // WORD_BYTES, np.uint32)
        words[places] = np.roll(places, -1)
        return words

    def _constant(self) -> dict[str, Any]:
        rows = []
        at = self.device.symbol("constant_words")
        for size in CONSTANT_BYTES:
            words = self._ring(size, 64)
            self.device.upload(at, words)
            steps = max(512, len(words) // 16)
            cycles = self._cycles(self.functions["chase_constant"], 1, 1, [len(words) // 16, steps])
            rows.append({"bytes": size, "cycles": [each / steps for each in cycles]})
        self.device.upload(at, np.zeros(16384, np.uint32))
        reads = []
        for groups in (1, 2, 4, 32):
            cycles = self._cycles(self.functions["read_constant"], self.device.sms, 1024, [64, ctypes.c_uint(groups)])
            reads.append({"groups": groups, "cycles": [each / (64 * 8 * 32) for each in cycles]})
        return {"latency": rows, "reads": reads}

    def _texture(self) -> dict[str, Any]:
        rows = []
        texture = ctypes.c_ulonglong(self.device.linear_texture(self.memory.buffer, max(TEXTURE_BYTES)))
        for size in TEXTURE_BYTES:
            words = self._ring(size, LINE_BYTES)
            self.device.upload(self.memory.buffer, words)
            lines, steps = size // LINE_BYTES, 4096
            cycles = self._cycles(self.functions["chase_texture"], 1, 1, [texture, lines, steps])
            rows.append({"bytes": size, "cycles": [each / steps for each in cycles]})
        cycles = self._cycles(self.functions["read_texture"], self.device.sms, 1024, [texture, 256])
        return {"latency": rows, "reads": {"cycles": [each / (256 * 8 * 32) for each in cycles]}}

    # -- instructions

    def _fetch(self) -> list[dict[str, Any]]:
        """Cycles of a warp for each instruction of a loop, by the size of its body."""
        rows = []
        for count in BODIES:
            # A module of its own, so that the code of one size does not lie beside another's.
            (function,) = self.device.load(kernel_source("paths"), [f"body<{count}>"]).values()
            rounds = max(BODY_WORK // count, 2)
            for warps in BODY_WARPS:
                cycles = self._cycles(function, self.device.sms, 32 * warps, [rounds, ctypes.c_float(1.0)])
                rows.append(
                    {"bytes": 16 * count, "warps": warps, "cycles": [each / count / rounds for each in cycles]}
                )
        return rows

    def _ports(self) -> list[dict[str, Any]]:
        """Cycles of an SM for each multiply-add, by the registers that it reads."""
        rows, rounds = [], 256
        for sources in SOURCES:
            cycles = self._cycles(
                self.functions[f"ports<{sources}>"], self.device.sms, 1024, [rounds, ctypes.c_float(1.0)]
            )
            rows.append({"sources": sources, "cycles": [each / (rounds * 64 * 32) for each in cycles]})
        return rows

    def _additions(self) -> list[dict[str, Any]]:
        """Cycles of an SM for each warp addition, by who shares its words."""
        rows, rounds = [], 64
        for space in ("GLOBAL", "SHARED"):
            for pattern, apart in ADDITIONS.items():
                if space == "SHARED" and pattern == "one word of all":
                    continue
                for sms in (1, self.device.sms) if space == "GLOBAL" else (self.device.sms,):
                    arguments: list[Any] = [ctypes.c_void_p(self.memory.buffer), rounds, *apart]
                    cycles = self._cycles(
                        self.functions[f"additions<{space}>"], sms, 1024, arguments, COUNTER_WORDS * WORD_BYTES
                    )
                    key = {"space": space.lower(), "pattern": pattern, "sms": sms}
                    rows.append({**key, "cycles": [each / (rounds * 32) for each in cycles]})
        return rows

    # -- pages and halves of the L2

    def _lines(self) -> dict[str, Any]:
        """L2 latency of one SM, line by line: each holds its own address."""
        places = np.arange(LINES, dtype=np.uint32) * np.uint32(4096 + LINE_BYTES)
        self.memory.link((places, places))
        cycles = [
            float(self.memory.chase([self.memory.buffer + int(at)], LINE_STEPS, cached=False, warm_steps=4)[0])
            for at in places
        ]
        return {"steps": LINE_STEPS, "cycles": cycles}

    def _pages(self) -> list[dict[str, Any]]:
        """Cycles of a load, by the pages of 2 MiB that a thread visits in turn."""
        most = int(MOST_OF_MEMORY * self.device.free_bytes() // PAGE_BYTES)
        counts = [count for count in PAGES if count <= most]
        region = self.device.allocate(counts[-1] * PAGE_BYTES)
        rows = []
        for count in counts:
            order = self.memory.generator.permutation(count).astype(np.uint32)
            self.device.upload(self.memory.offsets[0], order)
            pointers = [ctypes.c_void_p(region), ctypes.c_void_p(self.memory.offsets[0])]
            arguments: list[Any] = [*pointers, count, ctypes.c_ulonglong(PAGE_BYTES)]
            self.device.launch(self.functions["link_pages"], 64, 256, arguments)
            start = region + int(order[0]) * PAGE_BYTES + int(order[0]) * 33 * LINE_BYTES % PAGE_BYTES
            steps = max(count, 2048)
            cycles = [
                float(self.memory.chase([start], steps, cached=False, warm_steps=count)[0])
                for _ in range(self.repeats)
            ]
            rows.append({"pages": count, "page_bytes": PAGE_BYTES, "cycles": cycles})
        self.device.free(region)
        return rows

    # -- clocks

    def _loads(self) -> list[dict[str, Any]]:
        """SM clock at the end of a second of work, and what nvidia-smi says meanwhile."""
        rows = []
        for name in ("int32_add", "fp32_fma", "matrix_m16n8k16", "dram"):
            load = self._load(name)
            end = time.perf_counter() + LOAD_SECONDS
            clocks = []
            while time.perf_counter() < end:
                clocks.append(span_of(self.device.recorded(*load)).clock_hz)
            function, grid, threads, arguments, shared = load
            for _ in range(QUEUED):
                self.device.launch(function, grid, threads, [self.device.records, *arguments], shared)
            said = query_smi("clocks.sm,power.draw", self.device.ordinal)
            self.device.synchronize()
            rows.append({"load": name, "clock_hz": clocks[-self.repeats :], "nvidia_smi": said})
        return rows

    def _load(self, name: str) -> tuple[Any, int, int, list[Any], int]:
        """A launch of some milliseconds: function, grid, threads, arguments, shared memory."""
        sms, shared = self.device.sms, self.device.shared_memory_for(1)
        if name == "dram":
            turn = 1024 * 16 * 8 * sms
            size = ctypes.c_ulonglong(max(RING_BYTES) // turn * turn)
            stream = self.memory.functions["read_stream<PAST_L1,4>"]
            return stream, sms, 1024, [ctypes.c_void_p(self.memory.buffer), size, 16], shared
        iterations = 4_000 if name == "matrix_m16n8k16" else 20_000
        arguments: list[Any] = [iterations, ctypes.c_uint(1)]
        chain = self.instructions.function(chain_name(name, 4, 192))
        return chain, sms, ResidentWarps(16, 1).threads, arguments, shared
