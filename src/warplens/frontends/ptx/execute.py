"""Run a kernel on the CPU and trace it: 32 lanes in lock step, thread blocks on all cores."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...cores import usable_cores
from ...errors import KernelFault, LimitReached
from ...result_cache import code_digest, content_hash
from ...traces import LaunchHeader, MemoryTrace, StaticTable, WarpGroup
from ...traces.chosen_blocks import chosen_blocks
from ...traces.inlining import packed_chains
from ..cuda.machine_code import MachineCode
from .codegen.kernel import RecordShape, build_module, record_shape
from .device_calls import Printed
from .engine import KeptCode, NativeCode, compile_ir, generated_once
from .flat import FlatKernel
from .flatten import flatten
from .flow import Flow
from .machine_code import with_machine_code
from .memory import GlobalMemory, lay_out_memory
from .needed import needed_by_trace
from .opcodes import memory_use
from .pieces import InOrder, Pieces
from .placement import Placement
from .program import PtxModule
from .record import build_static_table, inlined_chains, kernel_file
from .registers import Allocation, allocate_registers
from .spaces import MOST_SHARED_BYTES, MOST_WORKING_BYTES, align
from .team import Team, teams
from .worker import WARP_LANES, Worker

MOST_THREADS_PER_BLOCK = 1024
#: A warp that multiplies matrices is worth optimising as much as this many others.
PRODUCT_WARPS = 16
#: Default limit on the thread instructions of a launch.
MOST_THREAD_INSTRUCTIONS = 2_000_000_000_000
#: How often the time that a launch takes is looked at while its workers are busy.
POLL_SECONDS = 0.1
#: Stack of a worker, to which the code of a large kernel adds.
STACK_BYTES = 8 << 20
#: Longest source kept with a trace.
MOST_SOURCE_CHARACTERS = 256 * 1024

Dimensions = int | Sequence[int]
Consume = Callable[[WarpGroup], None] | None
Progress = Callable[[int, int], None] | None
#: What a worker does, and what is left when all are done.
Work = tuple[Callable[[Any], None], Callable[[], None]]


@dataclass(frozen=True, eq=False)
class CompiledKernel:
    """A kernel ready to run, with or without recording."""

    kernel: FlatKernel
    flow: Flow
    shape: RecordShape
    generated: KeptCode
    native: NativeCode
    registers: Allocation
    recording: bool
    #: Whether what it computes depends on what arrays hold.
    reads_arrays: bool = True

    @cached_property
    def instruction_count(self) -> int:
        return sum(1 for _ in self.kernel.instructions)

    @cached_property
    def may_run_in_parallel(self) -> bool:
        """Whether blocks can run in parallel with the same result: nothing depends on which comes first."""
        for item in self.kernel.instructions:
            use = memory_use(item.instruction)
            if item.opcode in ("atom", "red") and use is not None and use.space != "shared":
                commutes = item.opcode == "red" and not item.instruction.types[-1].is_float
                if not commutes:
                    return False
            if item.opcode in ("ld", "st") and item.instruction.has("volatile", "acquire", "release", "relaxed"):
                return False
        return not self.kernel.calls("malloc")

    @cached_property
    def may_wait_for_blocks(self) -> bool:
        """Whether a block can wait for what another writes: only if all blocks before it run is it sure to end."""
        for item in self.kernel.instructions:
            use = memory_use(item.instruction)
            is_fresh = item.opcode == "ld" and item.instruction.has("volatile", "acquire", "relaxed")
            if (is_fresh or item.opcode == "atom") and use is not None and use.space != "shared":
                return True
        return False


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
    printed: str = ""
    """What the kernel printed, in the order of its blocks."""

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
    module: PtxModule,
    entry: str,
    *,
    recording: bool = True,
    warps: float = math.inf,
    cluster: Sequence[int] | None = None,
    results: bool = True,
) -> CompiledKernel:
    """Native code for one kernel of a module; it is worth the more to optimise, the more warps run it.

    `cluster` is the blocks of a cluster by axis, where the kernel itself requires none. Without `results` it
    computes only what its trace depends on.
    """
    kernel = flatten(module, entry, cluster)
    flow = Flow(kernel)
    needed = None if results else needed_by_trace(kernel)
    depends_on = (entry, module.variables_address, kernel.cluster, recording, results)
    key = content_hash([code_digest(), module.digest, repr(depends_on)]) if module.digest else None
    generated = generated_once(key, lambda: build_module(kernel, flow, recording=recording, needed=needed))
    registers = allocate_registers(kernel, flow)
    live = registers.most_live if needed is None else max(len(each & needed.registers) for each in flow.live_in)
    values = max(len(kernel.blocks), live // 2)
    if any(item.opcode in ("mma", "wgmma") for item in kernel.instructions):
        warps *= PRODUCT_WARPS
    native = compile_ir(generated, f"{module.name}: {entry}", warps, values)
    shape, reads_arrays = record_shape(kernel, recording=recording), needed is None or needed.memory
    return CompiledKernel(kernel, flow, shape, generated, native, registers, recording, reads_arrays)


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
    blocks: int | Sequence[range] | None = None,
    most_instructions: int = MOST_THREAD_INSTRUCTIONS,
    most_seconds: float = math.inf,
    workers: int | None = None,
    registers_per_thread: int | None = None,
    machine_code: MachineCode | None = None,
    name: str | None = None,
    consume: Callable[[WarpGroup], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    apart_bytes: int = 0,
    cluster: Sequence[int] | None = None,
    placement: Placement | None = None,
    results: bool = True,
) -> Execution:
    """Launch a kernel. Arrays among the arguments are changed as a GPU would change them.

    `constants` are initial values of the module's variables, by name. `blocks` runs at most so many thread blocks,
    from the middle of the grid, or the blocks of some ranges; as many of the first ones if they may wait for others.
    `consume` takes the recorded groups in order instead of keeping them; `progress(done, all)` is called now and
    then with numbers of blocks. `registers_per_thread`, `machine_code` and `name` go to the trace's header; by
    default an estimate, none and the entry's name. `apart_bytes` lie between arrays. `cluster` is the blocks of a
    cluster by axis, where the kernel itself requires none. `placement` keeps the addresses of arrays from one launch
    to the next. Without `results` the trace is the same, but arrays hold nothing of use afterwards.
    """
    extents = _dimensions(grid, "grid"), _dimensions(block, "block")
    count = sum(map(len, chosen_parts(math.prod(extents[0]), blocks)))
    warps = count * -(-math.prod(extents[1]) // WARP_LANES)
    compiled = compile_kernel(module, entry, recording=record, warps=warps, cluster=cluster, results=results)
    memory = lay_out_memory(compiled.kernel, arguments, constants, apart_bytes=apart_bytes, placement=placement)
    if compiled.reads_arrays:
        memory.copy_in()
    run = Launch(
        compiled,
        *extents,
        memory,
        dynamic_shared_memory_bytes,
        most_instructions,
        most_seconds,
        registers_per_thread,
        name or entry,
    )
    return with_machine_code(run.execute(blocks, workers, consume, progress), compiled.kernel, machine_code)


def chosen_parts(total: int, blocks: int | Sequence[range] | None) -> list[range]:
    """Parts of a grid of so many blocks: all of it, at most so many from its middle, or some ranges."""
    if blocks is None or isinstance(blocks, int):
        return chosen_blocks(total, total if blocks is None else blocks, total, fewest_runs=1)
    return [range(total)[part.start : part.stop] for part in blocks]


def _dimensions(given: Dimensions, what: str) -> tuple[int, int, int]:
    values = [int(each) for each in ((given,) if isinstance(given, int | np.integer) else given)]
    limits = (2**31 - 1, 65535, 65535) if what == "grid" else (1024, 1024, 64)
    if not 1 <= len(values) <= 3 or any(not 1 <= v <= most for v, most in zip(values, limits, strict=False)):
        raise KernelFault(f"{what} {tuple(values)}: needs 1 to 3 numbers from 1 to {', '.join(map(str, limits))}")
    x, y, z = (*values, 1, 1)[:3]
    if what == "block" and x * y * z > MOST_THREADS_PER_BLOCK:
        raise KernelFault(f"block {tuple(values)}: {x * y * z} threads; at most {MOST_THREADS_PER_BLOCK} are allowed")
    return x, y, z


class Launch:
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
        self.frame_bytes = align(compiled.generated.frame_bytes, 64)
        local_bytes = kernel.local_bytes * WARP_LANES + 64
        self.worker_bytes = self.warps * (2 * self.frame_bytes + local_bytes) + self.shared_bytes
        if self.worker_bytes > MOST_WORKING_BYTES:
            raise KernelFault(
                f"{kernel.name}: registers and local memory of a block take {self.worker_bytes >> 20} MiB; at most "
                f"{MOST_WORKING_BYTES >> 20} are allowed"
            )
        if any(count % each for count, each in zip(grid, kernel.cluster, strict=True)):
            raise KernelFault(f"{kernel.name}: the grid {grid} is no multiple of its clusters of {kernel.cluster}")
        self.is_cooperative = kernel.waits_for_its_grid and memory.grid_workspace != 0
        self.team_blocks = math.prod(grid) if self.is_cooperative else kernel.cluster_blocks
        self.worker_bytes *= self.team_blocks
        if self.worker_bytes > MOST_WORKING_BYTES:
            raise KernelFault(
                f"{kernel.name}: the {self.team_blocks} blocks that wait for one another take "
                f"{self.worker_bytes >> 20} MiB; at most {MOST_WORKING_BYTES >> 20} are allowed"
            )
        self.seen = np.zeros(compiled.instruction_count + 1, dtype=np.uint8)
        self.rare_paths = np.zeros((compiled.instruction_count + 1, 2), dtype=np.int64)
        self.printed = Printed()
        self.texel_bytes: dict[int, int] = {}
        self.stop = threading.Event()
        self.lock = threading.Lock()
        self.instructions = self.thread_instructions = 0
        self.workers, self.deadline = 1, math.inf

    def execute(
        self,
        blocks: int | Sequence[range] | None,
        workers: int | None,
        consume: Callable[[WarpGroup], None] | None,
        progress: Callable[[int, int], None] | None,
    ) -> Execution:
        started = time.perf_counter()
        parts = self._parts(blocks)
        kept: list[WarpGroup] = []
        self.run(parts, workers, consume or kept.append, progress)
        if self.compiled.reads_arrays:
            self.memory.copy_back()
        ran = sum(map(len, parts))
        if self.team_blocks > 1:
            ran = self.team_blocks * sum(any(team[0] in part for part in parts) for team in teams(self))
        return self.result(ran, time.perf_counter() - started, tuple(kept))

    def _parts(self, blocks: int | Sequence[range] | None) -> list[range]:
        """The blocks to run."""
        parts = chosen_parts(math.prod(self.grid), blocks)
        if self.compiled.may_wait_for_blocks or self.team_blocks > 1:
            return [range(sum(map(len, parts)))]
        return parts

    def run(
        self,
        parts: Sequence[range],
        workers: int | None = None,
        consume: Callable[[WarpGroup], None] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """Run parts of the grid in order."""
        self.deadline = time.perf_counter() + self.most_seconds
        total = sum(map(len, parts))
        if workers is None:
            workers = usable_cores() if self.compiled.may_run_in_parallel else 1
        self.workers = workers = max(1, min(workers, total, MOST_WORKING_BYTES // self.worker_bytes))
        work_of = self._work_in_teams if self.team_blocks > 1 else self._work_in_blocks
        work_on, finish = work_of(parts, consume, progress)
        failures: list[BaseException] = []
        started: list[Team | Worker] = []

        def work() -> None:
            worker = None
            try:
                worker = Team(self) if self.team_blocks > 1 else Worker(self)
                started.append(worker)
                work_on(worker)
            except BaseException as error:
                failures.append(error)
                self.stop.set()
            finally:
                if worker is not None:
                    worker.close()

        self._in_threads(work, workers, started)
        if failures and isinstance(failures[0], MemoryError):
            raise KernelFault(f"{self.compiled.kernel.name}: there is not enough memory to run it") from None
        if failures:
            raise failures[0]
        finish()

    def _work_in_blocks(self, parts: Sequence[range], consume: Consume, progress: Progress) -> Work:
        """Workers take pieces of the parts; their records are passed on in the order of blocks."""
        queue, sink = Pieces(parts), InOrder(consume, progress, parts, self.stop)

        def work_on(worker: Any) -> None:
            while not self.stop.is_set() and (piece := queue.next()) is not None:
                before = worker.instructions
                for first, count, group in worker.run(*piece):
                    sink.put(first, count, group)
                queue.learn(piece[1], worker.instructions - before)

        return work_on, lambda: None

    def _work_in_teams(self, parts: Sequence[range], consume: Consume, progress: Progress) -> Work:
        """Workers take whole teams, each of the part that has its first block; records follow when all are done."""
        waiting = (blocks for blocks in teams(self) if any(blocks[0] in part for part in parts))
        records: list[tuple[int, WarpGroup]] = []

        def work_on(team: Any) -> None:
            while not self.stop.is_set():
                with self.lock:
                    blocks = next(waiting, None)
                if blocks is None:
                    return
                for block, group in team.run(blocks):
                    if group is not None:
                        records.append((block, group))

        def finish() -> None:
            for _, group in sorted(records, key=lambda each: each[0]):
                if consume is not None:
                    consume(group)
            if progress is not None:
                progress(sum(map(len, parts)), sum(map(len, parts)))

        return work_on, finish

    def _in_threads(self, work: Callable[[], None], workers: int, started: Sequence[Team | Worker]) -> None:
        """Work in threads; the workers that have `started` are interrupted when their time is over."""
        with _stack_of(self.stack_bytes):
            threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
            for thread in threads:
                thread.start()
        try:
            self._wait(threads, started)
        except BaseException:
            self.stop.set()
            self._wait(threads, started)
            raise

    def _wait(self, threads: Sequence[threading.Thread], started: Sequence[Team | Worker]) -> None:
        for thread in threads:
            while thread.is_alive():
                thread.join(POLL_SECONDS)
                if self.stop.is_set() or time.perf_counter() > self.deadline:
                    for worker in started:
                        worker.interrupt()

    @property
    def stack_bytes(self) -> int:
        """Stack that running the code takes."""
        return STACK_BYTES + 2 * self.compiled.generated.ir_bytes

    def result(self, blocks: int, seconds: float, groups: tuple[WarpGroup, ...] = ()) -> Execution:
        """What came out of running so many blocks."""
        kernel = self.compiled.kernel
        return Execution(
            kernel.name,
            self.instructions,
            self.thread_instructions,
            blocks,
            seconds,
            self.compiled.registers.registers_per_thread,
            build_static_table(kernel, self.compiled.registers, self.seen, self.texel_bytes),
            self._header(blocks),
            groups,
            self.compiled.recording,
            self.printed.text,
        )

    def _header(self, recorded: int) -> LaunchHeader:
        registers = self.registers_per_thread
        kernel = self.compiled.kernel
        extra: dict[str, Any] = {"source": kernel.module.name, "lines_of": "source" if kernel_file(kernel) else "ptx"}
        extra |= packed_chains(inlined_chains(kernel))
        if registers is None:
            registers = self.compiled.registers.registers_per_thread
            extra["registers_estimated"] = True
        if kernel.cluster_blocks > 1:
            extra["cluster_blocks"] = kernel.cluster_blocks
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

    def count(self, instructions: int, thread_instructions: int) -> None:
        """Add what a worker has executed since it last said so; raise an error if the launch takes too long."""
        with self.lock:
            self.instructions += instructions
            self.thread_instructions += thread_instructions
            spent = self.thread_instructions
        name = self.compiled.kernel.name
        if spent > self.most_instructions:
            raise LimitReached(
                f"{name}: stopped after {spent:,} thread instructions, more than the limit of "
                f"{self.most_instructions:,}; is there an endless loop? Raise the limit if not"
            )
        if time.perf_counter() > self.deadline:
            raise LimitReached(f"{name}: stopped after {self.most_seconds:g} s, the given limit")

    @property
    def instructions_left(self) -> int:
        """Warp instructions that a worker may execute at once, so few that all under way pass no limit by far."""
        left = min(self.most_instructions - self.thread_instructions, self.most_instructions // 20)
        return max(left // (WARP_LANES * self.workers), 0) + 1


@contextmanager
def _stack_of(size_bytes: int) -> Iterator[None]:
    """Give threads started inside a stack that holds all registers of a large kernel."""
    before = threading.stack_size(align(size_bytes, 1 << 16))
    try:
        yield
    finally:
        threading.stack_size(before)
