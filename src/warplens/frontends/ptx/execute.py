"""Run a kernel on the CPU and trace it: 32 lanes in lock step, thread blocks on all cores."""

from __future__ import annotations

import ctypes
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import KernelFault, LimitReached
from ...traces import LaunchHeader, MemoryTrace, StaticTable, WarpGroup
from ...traces.inlining import packed_chains
from .bulk_copies import BulkCopies
from .codegen.kernel import KernelCode, build_module
from .codegen.layout import Context, Frame, Status
from .engine import NativeCode, compile_ir
from .faults import explain
from .flat import FlatKernel
from .flatten import flatten
from .flow import Flow
from .memory import GlobalMemory, lay_out_memory
from .opcodes import memory_use
from .program import PtxModule
from .record import build_static_table, inlined_chains, kernel_file, record_format, warp_group
from .registers import Allocation, allocate_registers
from .spaces import MOST_SHARED_BYTES, align

WARP_LANES = 32
MOST_THREADS_PER_BLOCK = 1024
#: Default limit on the thread instructions of a launch.
MOST_THREAD_INSTRUCTIONS = 2_000_000_000_000
#: Warp instructions after which a warp yields to others, at the next loop head.
SLICE_INSTRUCTIONS = 200_000
#: Interruptions after which control returns to Python, to report progress or stop.
PAUSE_AFTER = 20
#: Warp instructions that a worker records before it hands them over; its reused memory holds that many.
CHUNK_INSTRUCTIONS = 200_000
#: Longest source kept with a trace.
MOST_SOURCE_CHARACTERS = 256 * 1024

Dimensions = int | Sequence[int]


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """A kernel ready to run, with or without recording."""

    kernel: FlatKernel
    flow: Flow
    code: KernelCode
    native: NativeCode
    registers: Allocation
    recording: bool

    @property
    def may_run_in_parallel(self) -> bool:
        """Whether blocks can run in parallel with the same result: no atomics pass values between them."""
        for item in self.kernel.instructions:
            use = memory_use(item.instruction)
            if item.opcode in ("atom", "red") and use is not None and use.space != "shared":
                commutes = item.opcode == "red" and not item.instruction.types[-1].is_float
                if not commutes:
                    return False
            if item.opcode in ("ld", "st") and item.instruction.has("volatile", "acquire", "release", "relaxed"):
                return False
        return True


@dataclass(frozen=True, eq=False)
class Execution:
    """The result of a launch."""

    kernel: str
    instructions: int
    """Warp instructions that were executed."""
    thread_instructions: int
    blocks: int
    seconds: float
    estimated_registers: int
    static: StaticTable
    header: LaunchHeader
    groups: tuple[WarpGroup, ...] = field(repr=False, default=())
    recorded: bool = True

    @property
    def trace(self) -> MemoryTrace:
        if not self.recorded:
            raise KernelFault(f"{self.kernel}: the launch was not recorded; run it with record=True")
        return MemoryTrace(self.header, self.static, self.groups)

    def with_source(self, source: str | None, ptx: str) -> Execution:
        """The same, with the text that line numbers refer to: the source, or PTX without debug lines."""
        text = ptx if self.header.extra.get("lines_of") == "ptx" else source
        if text is None or len(text) > MOST_SOURCE_CHARACTERS:
            return self
        return replace(self, header=replace(self.header, extra={**self.header.extra, "source_text": text}))


def compile_kernel(
    module: PtxModule, entry: str, *, recording: bool = True, warps: float = math.inf
) -> CompiledKernel:
    """Native code for one kernel of a module; it is worth the more to optimise, the more warps run it."""
    kernel = flatten(module, entry)
    flow = Flow(kernel)
    code = build_module(kernel, flow, recording=recording)
    return CompiledKernel(
        kernel,
        flow,
        code,
        compile_ir(code.ir, f"{module.name}: {entry}", warps),
        allocate_registers(kernel, flow),
        recording,
    )


def execute(
    module: PtxModule,
    entry: str,
    grid: Dimensions,
    block: Dimensions,
    arguments: Sequence[Any],
    *,
    dynamic_shared_memory_bytes: int = 0,
    constants: Mapping[str, NDArray[Any]] | None = None,
    record: bool = True,
    blocks: int | None = None,
    most_instructions: int = MOST_THREAD_INSTRUCTIONS,
    most_seconds: float = math.inf,
    workers: int | None = None,
    registers_per_thread: int | None = None,
    name: str | None = None,
    consume: Callable[[WarpGroup], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    apart_bytes: int = 0,
) -> Execution:
    """Launch a kernel. Arrays among the arguments are changed as a GPU would change them.

    `constants` are initial values of the module's variables, by name. `blocks` runs
    only the first thread blocks. `consume` takes the recorded groups in order
    instead of keeping them; `progress(done, all)` is called now and then with
    numbers of blocks. `registers_per_thread` and `name` go to the trace's header;
    by default an estimate and the entry's name. `apart_bytes` lie between arrays.
    """
    extents = _dimensions(grid, "grid"), _dimensions(block, "block")
    count = math.prod(extents[0]) if blocks is None else min(blocks, math.prod(extents[0]))
    warps = count * -(-math.prod(extents[1]) // WARP_LANES)
    compiled = compile_kernel(module, entry, recording=record, warps=warps)
    run = _Launch(
        compiled,
        *extents,
        lay_out_memory(compiled.kernel, arguments, constants, apart_bytes=apart_bytes),
        dynamic_shared_memory_bytes,
        most_instructions,
        most_seconds,
        registers_per_thread,
        name or entry,
    )
    return run.execute(blocks, workers, consume, progress)


def _dimensions(given: Dimensions, what: str) -> tuple[int, int, int]:
    values = [int(each) for each in ((given,) if isinstance(given, int | np.integer) else given)]
    limits = (2**31 - 1, 65535, 65535) if what == "grid" else (1024, 1024, 64)
    if not 1 <= len(values) <= 3 or any(not 1 <= v <= most for v, most in zip(values, limits, strict=False)):
        raise KernelFault(f"{what} {tuple(values)}: needs 1 to 3 numbers from 1 to {', '.join(map(str, limits))}")
    x, y, z = (*values, 1, 1)[:3]
    if what == "block" and x * y * z > MOST_THREADS_PER_BLOCK:
        raise KernelFault(f"block {tuple(values)}: {x * y * z} threads; at most {MOST_THREADS_PER_BLOCK} are allowed")
    return x, y, z


class _Launch:
    def __init__(
        self,
        compiled: CompiledKernel,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        memory: GlobalMemory,
        dynamic_shared_bytes: int,
        most_instructions: int,
        most_seconds: float,
        registers_per_thread: int | None,
        name: str,
    ) -> None:
        self.compiled, self.grid, self.block, self.memory = compiled, grid, block, memory
        self.dynamic_shared_bytes = dynamic_shared_bytes
        self.most_instructions, self.most_seconds = most_instructions, most_seconds
        self.registers_per_thread, self.name = registers_per_thread, name
        kernel = compiled.kernel
        self.shared_bytes = kernel.shared_bytes + dynamic_shared_bytes
        if not 0 <= dynamic_shared_bytes <= MOST_SHARED_BYTES or self.shared_bytes > MOST_SHARED_BYTES:
            raise KernelFault(
                f"{kernel.name}: {self.shared_bytes} bytes of shared memory a block exceed {MOST_SHARED_BYTES}"
            )
        function = kernel.module.functions[kernel.name]
        threads = math.prod(block)
        if function.required_threads and tuple((*function.required_threads, 1, 1)[:3]) != block:
            raise KernelFault(f"{kernel.name} was compiled for blocks of {function.required_threads}, not {block}")
        if function.most_threads and threads > math.prod(function.most_threads):
            raise KernelFault(f"{kernel.name} was compiled for at most {math.prod(function.most_threads)} threads")
        self.warps = -(-threads // WARP_LANES)
        self.seen = np.zeros(sum(1 for _ in kernel.instructions) + 1, dtype=np.uint8)
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.instructions = self.thread_instructions = 0

    def execute(
        self,
        blocks: int | None,
        workers: int | None,
        consume: Callable[[WarpGroup], None] | None,
        progress: Callable[[int, int], None] | None,
    ) -> Execution:
        started = time.perf_counter()
        self.deadline = started + self.most_seconds
        total = math.prod(self.grid) if blocks is None else min(blocks, math.prod(self.grid))
        if workers is None:
            workers = (os.cpu_count() or 1) if self.compiled.may_run_in_parallel else 1
        workers = max(1, min(workers, total))
        kept: list[WarpGroup] = []
        queue = _Queue(total, self.warps)
        sink = _InOrder(consume or kept.append, progress, total)
        failures: list[BaseException] = []

        def work() -> None:
            worker = _Worker(self)
            try:
                while not self.stop.is_set() and (piece := queue.next()) is not None:
                    before = worker.instructions
                    group = worker.run(*piece)
                    queue.learn(piece[1], worker.instructions - before)
                    sink.put(piece[0], piece[1], group)
            except BaseException as error:
                failures.append(error)
                self.stop.set()
            finally:
                with self.lock:
                    self.instructions += worker.instructions
                    self.thread_instructions += worker.thread_instructions
                worker.close()

        if workers == 1:
            work()
        else:
            threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
            for thread in threads:
                thread.start()
            try:
                for thread in threads:
                    while thread.is_alive():
                        thread.join(0.1)
            except BaseException:
                self.stop.set()
                for thread in threads:
                    thread.join()
                raise
        if failures:
            raise failures[0]
        self.memory.copy_back()
        kernel = self.compiled.kernel
        return Execution(
            kernel.name,
            self.instructions,
            self.thread_instructions,
            total,
            time.perf_counter() - started,
            self.compiled.registers.registers_per_thread,
            build_static_table(kernel, self.compiled.registers, self.seen),
            self._header(total),
            tuple(kept),
            self.compiled.recording,
        )

    def _header(self, recorded: int) -> LaunchHeader:
        registers = self.registers_per_thread
        kernel = self.compiled.kernel
        extra: dict[str, Any] = {"source": kernel.module.name, "lines_of": "source" if kernel_file(kernel) else "ptx"}
        extra |= packed_chains(inlined_chains(kernel))
        if registers is None:
            registers = self.compiled.registers.registers_per_thread
            extra["registers_estimated"] = True
        if recorded < math.prod(self.grid):
            extra["recorded_blocks"] = recorded
        return LaunchHeader(
            kernel=self.name,
            grid=self.grid,
            block=self.block,
            registers_per_thread=registers,
            shared_memory_per_block_bytes=self.shared_bytes,
            origin="ptx",
            extra=extra,
        )

    def check_limits(self, worker: _Worker) -> None:
        """Raise an error if the launch takes too long; called while it is paused."""
        with self.lock:
            spent = self.thread_instructions + worker.thread_instructions
        name = self.compiled.kernel.name
        if spent > self.most_instructions:
            raise LimitReached(
                f"{name}: stopped after {spent:,} thread instructions, more than the limit of "
                f"{self.most_instructions:,}; is there an endless loop? Raise the limit if not"
            )
        if time.perf_counter() > self.deadline:
            raise LimitReached(f"{name}: stopped after {self.most_seconds:g} s, the given limit")


class _Queue:
    """Pieces of work: few blocks at first, then enough for a good number of instructions."""

    def __init__(self, total: int, warps: int) -> None:
        self.total, self.position, self.size = total, 0, 1
        self.lock = threading.Lock()

    def next(self) -> tuple[int, int] | None:
        with self.lock:
            first = self.position
            count = min(self.size, self.total - first)
            self.position += count
            return (first, count) if count > 0 else None

    def learn(self, blocks: int, instructions: int) -> None:
        with self.lock:
            per_block = max(instructions / blocks, 1.0)
            self.size = int(min(max(CHUNK_INSTRUCTIONS / per_block, 1), 4 * self.size, 16384))


class _InOrder:
    """Passes groups on in block order, whichever worker finishes first."""

    def __init__(
        self, consume: Callable[[WarpGroup], None], progress: Callable[[int, int], None] | None, total: int
    ) -> None:
        self.consume, self.progress, self.total = consume, progress, total
        self.waiting: dict[int, tuple[int, WarpGroup | None]] = {}
        self.next = 0
        self.lock = threading.Lock()

    def put(self, first: int, count: int, group: WarpGroup | None) -> None:
        with self.lock:
            self.waiting[first] = (count, group)
            while self.next in self.waiting:
                done, found = self.waiting.pop(self.next)
                if found is not None:
                    self.consume(found)
                self.next += done
            if self.progress is not None:
                self.progress(self.next, self.total)


class _Worker:
    """Memory of one thread of execution: a context, the frames of a block's warps, shared and local memory."""

    def __init__(self, launch: _Launch) -> None:
        self.launch = launch
        compiled = launch.compiled
        self.instructions = self.thread_instructions = 0
        frame_bytes = align(compiled.code.frame_bytes, 64)
        warps = launch.warps
        self.context = np.zeros(Context.FIELDS, dtype=np.int64)
        self.frames = np.zeros((warps, frame_bytes // 8), dtype=np.int64)
        self.snapshots = np.zeros((warps, frame_bytes // 8 + 16), dtype=np.int64)
        self.shared = np.zeros(align(launch.shared_bytes, 16) + 64, dtype=np.uint8)
        local_bytes = compiled.kernel.local_bytes
        self.local = np.zeros((warps, local_bytes * WARP_LANES + 64), dtype=np.uint8)
        self.scratch = np.zeros(256, dtype=np.uint8)
        self.parameters = np.frombuffer(launch.memory.parameters.ljust(8, b"\0"), dtype=np.uint8).copy()
        self.format = record_format(compiled.code.segments)
        values = {
            Context.ARENA: launch.memory.content.ctypes.data,
            Context.ARENA_BYTES: len(launch.memory.content),
            Context.VALID: launch.memory.valid.ctypes.data,
            Context.SCRATCH: _aligned_address(self.scratch),
            Context.SHARED: _aligned_address(self.shared),
            Context.SHARED_BYTES: launch.shared_bytes,
            Context.PARAMETERS: self.parameters.ctypes.data,
            Context.PARAMETER_BYTES: compiled.kernel.parameter_bytes,
            Context.PARAMETER_ADDRESS: launch.memory.parameter_address,
            Context.LOCAL_BYTES: local_bytes,
            Context.DYNAMIC_SHARED_BYTES: launch.dynamic_shared_bytes,
            Context.WARPS: warps,
            Context.FRAMES: self.frames.ctypes.data,
            Context.FRAME_BYTES: frame_bytes,
            Context.SPACES_SEEN: launch.seen.ctypes.data,
            Context.SLICE: SLICE_INSTRUCTIONS,
            Context.PAUSE_AFTER: PAUSE_AFTER,
        }
        for name, value in values.items():
            self.context[name] = value
        start = _aligned_address(self.shared) - self.shared.ctypes.data
        self.bulk = BulkCopies(launch, self.context, self.shared[start:])
        for axis in range(3):
            self.context[Context.GRID_X + axis] = launch.grid[axis]
            self.context[Context.BLOCK_X + axis] = launch.block[axis]
        self._set_up_frames()

    def _set_up_frames(self) -> None:
        launch = self.launch
        x, y, _ = launch.block
        threads = math.prod(launch.block)
        for warp in range(launch.warps):
            frame = self.frames[warp]
            linear = np.arange(warp * WARP_LANES, (warp + 1) * WARP_LANES, dtype=np.int64)
            places = (
                (Frame.THREAD_X, linear % x),
                (Frame.THREAD_Y, linear // x % y),
                (Frame.THREAD_Z, linear // (x * y)),
            )
            for start, values in places:
                frame[start : start + 16] = values.astype(np.int32).view(np.int64)
            existing = min(threads - warp * WARP_LANES, WARP_LANES)
            frame[Frame.EXISTING] = (1 << existing) - 1
            frame[Frame.WARP] = warp
            frame[Frame.LOCAL] = _aligned_address(self.local[warp])
            frame[Frame.SNAPSHOT] = self.snapshots[warp].ctypes.data

    def run(self, first: int, count: int) -> WarpGroup | None:
        """Run blocks first … first + count - 1; returns their record."""
        launch = self.launch
        lengths = np.zeros((count, launch.warps), dtype=np.int64)
        self.context[Context.LENGTHS] = lengths.ctypes.data if launch.compiled.recording else 0
        self.context[Context.STARTED] = 0
        self.frames[:, Frame.RECORD_LENGTH] = 0
        run_blocks = launch.compiled.native.run_blocks
        before = self.instructions, self.thread_instructions
        while True:
            status = run_blocks(self.context.ctypes.data, first, count)
            self._count(before)
            if status == Status.FAULT:
                if self.bulk.error is not None:
                    raise self.bulk.error
                raise explain(launch.compiled.kernel, launch.memory, self.context, self.frames, launch.block)
            launch.check_limits(self)
            if status == Status.DONE or launch.stop.is_set():
                break
        if not launch.compiled.recording or launch.stop.is_set():
            return None
        buffers = [self._words(warp) for warp in range(launch.warps)]
        return warp_group(buffers, lengths, first, self.format)

    def _count(self, before: tuple[int, int]) -> None:
        self.instructions = int(self.frames[:, Frame.INSTRUCTIONS_TOTAL].sum())
        self.thread_instructions = int(self.frames[:, Frame.THREAD_INSTRUCTIONS].sum())

    def _words(self, warp: int) -> NDArray[np.int64]:
        frame = self.frames[warp]
        length = int(frame[Frame.RECORD_LENGTH])
        if not length:
            return np.empty(0, dtype=np.int64)
        pointer = ctypes.cast(int(frame[Frame.RECORD]), ctypes.POINTER(ctypes.c_int64))
        return np.ctypeslib.as_array(pointer, (length,))

    def close(self) -> None:
        """Free the memory of the records."""
        free = ctypes.CDLL(None).free if os.name != "nt" else ctypes.cdll.msvcrt.free
        free.argtypes = [ctypes.c_void_p]
        for frame in self.frames:
            if frame[Frame.RECORD]:
                free(int(frame[Frame.RECORD]))
                frame[Frame.RECORD] = 0


def _aligned_address(array: NDArray[Any]) -> int:
    return align(array.ctypes.data, 64)
