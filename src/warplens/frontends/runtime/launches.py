"""Launches of a program: all thread blocks run; some of some launches are recorded."""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ...errors import KernelFault, LimitReached, WorkloadError
from ...machine import Gpu, occupancy
from ...traces import WarpGroup
from ..ptx.execute import Execution, Launch
from ..ptx.heap import HEAP_BYTES, ROOM, Heap
from ..ptx.machine_code import with_machine_code
from ..ptx.memory import GlobalMemory
from ..ptx.record import kernel_file
from ..ptx.spaces import GRANULE_BYTES, MOST_SHARED_BYTES
from ..ptx.textures import TextureObject
from ..ptx.worker import Worker
from .arena import Arena
from .messages import CudaError
from .modules import DeviceFunction
from .recording import LaunchInfo, Listener, Recording

#: Warp instructions up to which a launch runs in the server's own thread: starting others would take longer.
SMALL_INSTRUCTIONS = 100_000
#: Thread blocks whose median length says how many are recorded, and from how much more on the first is an exception.
FIRST_BLOCKS, FAR_LONGER = 3, 4.0
#: Launches whose memory is kept for the next one of the same shape.
MOST_KEPT = 64
#: Stack of the thread that serves a program, which runs small launches too.
SERVER_STACK_BYTES = 256 << 20
#: Blocks of a grid and threads of a block along each axis.
_MOST_EXTENTS = (2**31 - 1, 65535, 65535, 1024, 1024, 64)
#: Room for the parameters of a launch.
PARAMETER_BYTES = 32 * 1024

_CODES = {
    "OUT_OF_BOUNDS": CudaError.ILLEGAL_ADDRESS,
    "READ_ONLY": CudaError.ILLEGAL_ADDRESS,
    "MISALIGNED": CudaError.MISALIGNED,
    "ASSERTION": CudaError.ASSERT,
    "ENDLESS": CudaError.TIMEOUT,
    "DEADLOCK": CudaError.TIMEOUT,
}


@dataclass(frozen=True)
class Ordered:
    """A launch as the program asks for it."""

    function: DeviceFunction
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared_bytes: int
    stream: int
    cooperative: bool
    cluster: tuple[int, int, int]
    parameters: bytes


@dataclass(eq=False)
class _Kept:
    """A launch that has run, with the memory of one worker, for the next of the same shape."""

    launch: Launch
    worker: Worker
    instructions: int


@dataclass(eq=False)
class Launcher:
    """Runs the launches of one process, in order."""

    arena: Arena
    gpu: Gpu
    recording: Recording
    listener: Listener
    process: int
    numbers: LaunchNumbers
    kept: OrderedDict[tuple[object, ...], _Kept] = field(default_factory=OrderedDict)
    alike: Counter[tuple[object, ...]] = field(default_factory=Counter)
    textures: dict[int, TextureObject] = field(default_factory=dict)
    residents: dict[tuple[DeviceFunction, int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parameter_address = self.arena.place(PARAMETER_BYTES, "the kernel's parameters")
        self.grid_workspace = self.arena.place(GRANULE_BYTES, "the barrier of the grid")
        self.heap = Heap(self.arena.reserve(HEAP_BYTES * ROOM), HEAP_BYTES, self.arena.valid)

    def run(self, order: Ordered) -> tuple[int, bool, str]:
        """(Error code, whether it is a fault while the kernel ran, what the kernel printed)."""
        function = order.function
        try:
            refused = self._refused(order)
            if refused:
                return refused, False, ""
            info, record = self._number(order)
            before = self.arena.filled.before_launch() if record and self.arena.filled is not None else None
            started = time.perf_counter()
            instructions, printed, execution = self._run(order, record, info)
        except KernelFault as error:
            self.kept.clear()
            self.listener.failed(str(error))
            code = CudaError.TIMEOUT if isinstance(error, LimitReached) else CudaError.LAUNCH_FAILURE
            return _CODES.get(error.kind, code), True, ""
        info = replace(
            info,
            registers_per_thread=function.registers_per_thread,
            shared_memory_bytes=order.dynamic_shared_bytes + function.any_code.kernel.shared_bytes,
            instructions=instructions,
            seconds=time.perf_counter() - started,
        )
        self.listener.launched(info, execution, before)
        return CudaError.SUCCESS, False, printed

    def resident(self, function: DeviceFunction, threads: int, dynamic_shared_bytes: int) -> int:
        """Blocks of a kernel that an SM holds."""
        key = function, threads, dynamic_shared_bytes
        if key not in self.residents:
            self.residents[key] = self._resident(*key)
        return self.residents[key]

    def _resident(self, function: DeviceFunction, threads: int, dynamic_shared_bytes: int) -> int:
        shared = dynamic_shared_bytes + function.any_code.kernel.shared_bytes
        try:
            found = occupancy(self.gpu, threads, function.registers_per_thread, shared)
        except WorkloadError:
            return 0
        return int(found.blocks_per_sm)

    def _refused(self, order: Ordered) -> int:
        """The error code of a launch that no GPU would start."""
        extents = zip((*order.grid, *order.block), _MOST_EXTENTS, strict=True)
        if not all(0 < extent <= most for extent, most in extents):
            return CudaError.INVALID_VALUE
        shared = order.dynamic_shared_bytes + order.function.any_code.kernel.shared_bytes
        if order.dynamic_shared_bytes < 0 or shared > MOST_SHARED_BYTES or len(order.parameters) > PARAMETER_BYTES:
            return CudaError.INVALID_VALUE
        resident = self.resident(order.function, math.prod(order.block), order.dynamic_shared_bytes)
        if not resident:
            return CudaError.OUT_OF_RESOURCES
        if order.cooperative and math.prod(order.grid) > resident * int(self.gpu.sms):
            return CudaError.COOPERATIVE_TOO_LARGE
        return CudaError.SUCCESS

    def _number(self, order: Ordered) -> tuple[LaunchInfo, bool]:
        info = LaunchInfo(
            self.numbers.next(),
            self.process,
            order.function.name,
            order.function.readable,
            order.grid,
            order.block,
            0,
            order.dynamic_shared_bytes,
            order.stream,
        )
        alike, of_kernel = self.alike[info.shape], self.alike[(info.kernel,)]
        self.alike.update([info.shape, (info.kernel,)])
        matching = self.numbers.next_matching() if self.recording.matches(info) else -1
        return info, self.recording.wants(info, matching, alike, of_kernel)

    def _run(self, order: Ordered, record: bool, info: LaunchInfo) -> tuple[int, str, Execution | None]:
        self.arena.write(self.parameter_address, order.parameters)
        if record:
            return self._record(order, info)
        key = (order.function, order.grid, order.block, order.dynamic_shared_bytes, order.cooperative, order.cluster)
        kept = self.kept.get(key)
        if kept is None:
            launch = self._launch(order, recording=False)
            kept = self.kept[key] = _Kept(launch, Worker(launch), SMALL_INSTRUCTIONS + 1)
            if len(self.kept) > MOST_KEPT:
                self.kept.popitem(last=False)
        self.kept.move_to_end(key)
        launch, before = kept.launch, kept.launch.instructions
        launch.printed.clear()
        total = math.prod(order.grid)
        is_small = total == 1 or kept.instructions <= SMALL_INSTRUCTIONS
        if is_small and launch.team_blocks == 1 and launch.stack_bytes < SERVER_STACK_BYTES:
            kept.worker.parameters[: len(order.parameters)] = bytearray(order.parameters)
            for _ in kept.worker.run(0, total):
                pass
        else:
            launch.memory = replace(launch.memory, parameters=self._padded(order))
            launch.run([range(total)], progress=self._telling(info, 0, total))
        kept.instructions = launch.instructions - before
        return kept.instructions, launch.printed.text, None

    def _record(self, order: Ordered, info: LaunchInfo) -> tuple[int, str, Execution]:
        """Run all blocks in order, those that stand for the launch with code that records.

        The first ones tell how long blocks are. A first block that does far more than those after it is recorded
        whichever others are. Where blocks turn out to be much longer, the rest is not recorded.
        """
        total = math.prod(order.grid)
        recorder = self._launch(order, recording=True)
        first = self._first_blocks(recorder, total)
        lengths = [length for length, _ in first]
        typical = statistics.median(lengths)
        wave = self.resident(order.function, math.prod(order.block), order.dynamic_shared_bytes) * int(self.gpu.sms)
        chosen = self.recording.blocks(total, wave, typical)
        if recorder.team_blocks > 1:  # blocks that wait for one another are recorded together
            chosen = [range(total)]
        alone = range(int(lengths[0] > FAR_LONGER * typical))
        kept = [found for block, (_, found) in enumerate(first) if any(block in part for part in (alone, *chosen))]
        groups = [group for found in kept for group in found]
        most = self.recording.most_instructions + sum(lengths[: len(alone)])
        plain: Launch | None = None
        recorded, at = len(kept), len(first)
        for part in (*chosen, range(total, total)):
            if part.start > at:
                plain = plain or self._launch(order, recording=False)
                plain.run([range(at, part.start)], progress=self._telling(info, at, total))
            part = range(max(part.start, len(first)), part.stop)
            if part and recorder.instructions < most:
                recorder.run([part], consume=groups.append)
                recorded += len(part)
                at = part.stop
        execution = recorder.result(recorded, 0.0, tuple(groups))
        kernel = recorder.compiled.kernel
        source = kernel.module.files.get(kernel_file(kernel), kernel.module.name)
        extra = {**execution.header.extra, "readable_name": order.function.readable, "source": source}
        execution = replace(execution, header=replace(execution.header, extra=extra))
        execution = with_machine_code(execution, kernel, order.function.machine_code, recorder.rare_paths)
        both = [recorder, plain] if plain else [recorder]
        return sum(each.instructions for each in both), "".join(each.printed.text for each in both), execution

    def _telling(self, info: LaunchInfo, before: int, total: int) -> Callable[[int, int], None]:
        """The progress of blocks of a launch that follow `before` others."""
        return lambda done, _: self.listener.running(info, before + done, total)

    @staticmethod
    def _first_blocks(recorder: Launch, total: int) -> list[tuple[int, list[WarpGroup]]]:
        """Run and record the first blocks, or those that wait for the first: (instructions, records) of each."""
        found: list[tuple[int, list[WarpGroup]]] = []
        for block in range(1 if recorder.team_blocks > 1 else min(total, FIRST_BLOCKS)):
            before = recorder.instructions
            groups: list[WarpGroup] = []
            recorder.run([range(block, block + 1)], consume=groups.append)
            found.append((recorder.instructions - before, groups))
        return found

    def _launch(self, order: Ordered, *, recording: bool) -> Launch:
        compiled = order.function.code(recording=recording, cluster=order.cluster)
        memory = GlobalMemory(
            self.arena.content,
            self.arena.valid,
            self.arena.allocations.values(),
            self._padded(order),
            self.parameter_address,
            (),
            heap=self.heap,
            grid_workspace=self.grid_workspace if order.cooperative else 0,
            textures=self.textures,
        )
        resources = order.function.resources
        return Launch(
            compiled,
            order.grid,
            order.block,
            memory,
            order.dynamic_shared_bytes,
            2**62,
            math.inf,
            None if resources is None else resources.registers_per_thread,
            order.function.name,
        )

    def _padded(self, order: Ordered) -> bytes:
        return order.parameters.ljust(order.function.any_code.kernel.parameter_bytes, b"\0")


class LaunchNumbers:
    """Numbers of the launches of all processes of a run."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.launches = self.matching = 0

    def next(self) -> int:
        with self.lock:
            self.launches += 1
            return self.launches - 1

    def next_matching(self) -> int:
        with self.lock:
            self.matching += 1
            return self.matching - 1
