"""One thread of execution: the memory of a block's warps, and calls of native code that never last long."""

from __future__ import annotations

import ctypes
import math
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...errors import KernelFault
from ...traces import WarpGroup
from .bulk_copies import BulkCopies
from .codegen.layout import COPY_ENTRIES, COPY_ENTRY_BYTES, Context, Frame, Status
from .device_calls import DeviceCalls
from .faults import explain
from .record import record_format, warp_group
from .spaces import MOST_RECORD_BYTES, align
from .texture_calls import TextureCalls

if TYPE_CHECKING:
    from .execute import Launch

WARP_LANES = 32
#: Warp instructions after which a warp yields to others, at the next loop head.
SLICE_INSTRUCTIONS = 200_000
#: How long a call of native code should take: limits are looked at, and progress reported, between calls.
CALL_SECONDS = 0.05
#: Warp instructions of the first call, and of the shortest ones.
LEAST_ALLOWANCE = 20_000
#: Recorded words after which a record is handed over, at the end of a block.
RECORD_FULL_WORDS = 1 << 22


class Worker:
    """Memory of one thread of execution: a context, the frames of a block's warps, shared and local memory."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        compiled = launch.compiled
        self.instructions = self.thread_instructions = 0
        self.allowance = LEAST_ALLOWANCE
        frame_bytes, warps = launch.frame_bytes, launch.warps
        self.context = np.zeros(Context.FIELDS, dtype=np.int64)
        self.frames = np.zeros((warps, frame_bytes // 8), dtype=np.int64)
        self.snapshots = np.zeros((warps, frame_bytes // 8 + 16), dtype=np.int64)
        reserved = compiled.kernel.reserved_shared_bytes
        shared_bytes = align(launch.shared_bytes, 16) + reserved if reserved else launch.shared_bytes
        self.shared = np.zeros(align(shared_bytes, 16) + 64, dtype=np.uint8)
        local_bytes = compiled.kernel.local_bytes
        self.local = np.zeros((warps, local_bytes * WARP_LANES + 64), dtype=np.uint8)
        entries = COPY_ENTRIES if any(each.opcode == "cp" for each in compiled.kernel.instructions) else 0
        self.copies = np.zeros((warps, entries * COPY_ENTRY_BYTES + 64), dtype=np.uint8)
        self.scratch = np.zeros(256, dtype=np.uint8)
        self.parameters = np.frombuffer(launch.memory.parameters.ljust(8, b"\0"), dtype=np.uint8).copy()
        self.format = record_format(compiled.shape.segments)
        values = {
            Context.ARENA: launch.memory.content.ctypes.data,
            Context.ARENA_BYTES: len(launch.memory.content),
            Context.VALID: launch.memory.valid.ctypes.data,
            Context.SCRATCH: _aligned_address(self.scratch),
            Context.SHARED: _aligned_address(self.shared),
            Context.SHARED_BYTES: shared_bytes,
            Context.PARAMETERS: self.parameters.ctypes.data,
            Context.PARAMETER_BYTES: compiled.kernel.parameter_bytes,
            Context.PARAMETER_ADDRESS: launch.memory.parameter_address,
            Context.LOCAL_BYTES: local_bytes,
            Context.DYNAMIC_SHARED_BYTES: launch.dynamic_shared_bytes,
            Context.WARPS: warps,
            Context.FRAMES: self.frames.ctypes.data,
            Context.FRAME_BYTES: frame_bytes,
            Context.SPACES_SEEN: launch.seen.ctypes.data,
            Context.RARE_PATHS: launch.rare_paths.ctypes.data,
            Context.SLICE: SLICE_INSTRUCTIONS,
            Context.ROOM_LEFT: MOST_RECORD_BYTES // 8,
            Context.RECORD_FULL: RECORD_FULL_WORDS,
            Context.GRID_WORKSPACE: launch.memory.grid_workspace,
        }
        for name, value in values.items():
            self.context[name] = value
        start = _aligned_address(self.shared) - self.shared.ctypes.data
        self.bulk = BulkCopies(launch, self.context, self.shared[start:])
        self.calls = DeviceCalls(launch, self.context)
        self.textures = TextureCalls(launch, self.context)
        for axis in range(3):
            self.context[Context.GRID_X + axis] = launch.grid[axis]
            self.context[Context.BLOCK_X + axis] = launch.block[axis]
            self.context[Context.CLUSTER_X + axis] = compiled.kernel.cluster[axis]
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
            frame[Frame.COPIES] = _aligned_address(self.copies[warp])
            frame[Frame.SNAPSHOT] = self.snapshots[warp].ctypes.data

    def run(self, first: int, count: int) -> Iterator[tuple[int, int, WarpGroup | None]]:
        """Run blocks first … first + count - 1; yields (first block, blocks, their record) as records fill up."""
        launch, context = self.launch, self.context
        lengths = self.begin(first, count)
        end = first + count
        while not launch.stop.is_set():
            status = self.call(first, end - first)
            if status == Status.FAULT:
                raise self.fault()
            done = int(context[Context.BLOCK]) - first
            between_blocks = not context[Context.STARTED]
            full = self.frames[:, Frame.RECORD_LENGTH].sum() > RECORD_FULL_WORDS
            if done and (status == Status.DONE or (between_blocks and full)):
                yield first, done, self.record(lengths[:done], first)
                first += done
                lengths[:] = 0
            if status == Status.DONE:
                return

    def begin(self, first: int, count: int) -> NDArray[np.int64]:
        """Start with a block; returns where the lengths of the blocks' records will stand."""
        lengths = np.zeros((count, self.launch.warps), dtype=np.int64)
        self.context[Context.LENGTHS] = lengths.ctypes.data if self.launch.compiled.recording else 0
        self.context[Context.STARTED] = 0
        self.context[Context.BLOCK] = first
        return lengths

    @property
    def error(self) -> KernelFault | None:
        """A fault that Python found."""
        return next((each.error for each in (self.bulk, self.calls, self.textures) if each.error is not None), None)

    def fault(self) -> KernelFault:
        """The error for a fault that was noted."""
        launch = self.launch
        return self.error or explain(launch.compiled.kernel, launch.memory, self.context, self.frames, launch.block)

    def call(self, first: int, count: int) -> int:
        """Run until the allowance is spent, and size the next so that limits are looked at often enough."""
        launch, context = self.launch, self.context
        given = min(self.allowance, launch.instructions_left)
        context[Context.ALLOWANCE] = given
        started = time.perf_counter()
        status: int = launch.compiled.native.run_blocks(context.ctypes.data, first, count)
        seconds = time.perf_counter() - started
        spent = given - int(context[Context.ALLOWANCE])
        per_call = int(spent * CALL_SECONDS / max(seconds, 1e-6))
        self.allowance = min(max(per_call, LEAST_ALLOWANCE), 4 * self.allowance)
        before = self.instructions, self.thread_instructions
        self.instructions = int(self.frames[:, Frame.INSTRUCTIONS_TOTAL].sum())
        self.thread_instructions = int(self.frames[:, Frame.THREAD_INSTRUCTIONS].sum())
        if status != Status.FAULT or context[Context.TEAM]:  # a team goes on after some faults
            launch.count(self.instructions - before[0], self.thread_instructions - before[1])
        return status

    def interrupt(self) -> None:
        """From another thread: let native code return at the next loop head, however slow its instructions are.

        Native code may write the same words at the same time, so this is to be repeated until it has returned.
        """
        self.frames[:, Frame.SLICE_LEFT] = 0
        self.context[Context.ALLOWANCE] = 0

    def record(self, lengths: NDArray[np.int64], first: int) -> WarpGroup | None:
        """The record of some blocks; its memory is used again, or given back where it is large."""
        if not self.launch.compiled.recording:
            return None
        words = [self._words(warp) for warp in range(self.launch.warps)]
        group = warp_group(words, lengths, first, self.format)
        self.frames[:, Frame.RECORD_LENGTH] = 0
        if self.frames[:, Frame.RECORD_ROOM].sum() > 4 * RECORD_FULL_WORDS:
            del words
            self.close()
        return group

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
                frame[Frame.RECORD] = frame[Frame.RECORD_ROOM] = 0
        self.context[Context.ROOM_LEFT] = MOST_RECORD_BYTES // 8


def _aligned_address(array: NDArray[Any]) -> int:
    return align(array.ctypes.data, 64)
