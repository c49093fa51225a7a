"""Messages about faults in a kernel: thread, instruction, source line, address."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import KernelFault, OutOfBounds
from .codegen.layout import CLUSTER_BARRIER, Context, Fault, Frame, State
from .flat import FlatInstruction, FlatKernel
from .flatten import MOST_LEVELS
from .mbarriers import MBarrier
from .memory import GlobalMemory
from .opcodes import memory_use
from .record import source_line
from .spaces import MOST_RECORD_BYTES, SHARED_WINDOW


def explain(
    kernel: FlatKernel,
    memory: GlobalMemory,
    context: NDArray[np.int64],
    frames: NDArray[np.int64],
    block: tuple[int, int, int],
) -> KernelFault:
    """The error for a fault noted in a context."""
    fault = Fault(int(context[Context.FAULT]))
    error = _explained(fault, kernel, memory, context, frames, block)
    error.kind = fault.name
    return error


def _explained(
    fault: Fault,
    kernel: FlatKernel,
    memory: GlobalMemory,
    context: NDArray[np.int64],
    frames: NDArray[np.int64],
    block: tuple[int, int, int],
) -> KernelFault:
    items = list(kernel.instructions)
    if fault == Fault.DEADLOCK:
        return KernelFault(f"{kernel.name}: {_block(context)}: {_deadlock(kernel, items, context, frames, block)}")
    warp, lanes = int(context[Context.FAULT_WARP]), int(context[Context.FAULT_LANES]) & 0xFFFFFFFF
    threads = [warp * 32 + lane for lane in range(32) if lanes >> lane & 1]
    if fault == Fault.ENDLESS:
        waiting = [warp * 32 + lane for lane in range(32) if int(frames[warp][Frame.ALIVE]) >> lane & 1]
        others = sorted(set(waiting) - set(threads))
        held = f" while {_threads(others, block)} of the same warp wait for them to meet again" if others else ""
        return KernelFault(
            f"{kernel.name}: {_block(context)}: {_threads(threads, block)} repeat a loop that nothing can end: "
            f"registers and memory stay the same{held}. A lock between lanes of a warp, or a wait for a later "
            "thread block, never ends in lock step"
        )
    index = int(context[Context.FAULT_INSTRUCTION])
    item = items[index] if 0 <= index < len(items) else None
    address = int(context[Context.FAULT_ADDRESS])
    what = _WORDS[fault](item, memory, address)
    message = at_fault(kernel, item, context, block, warp, lanes).format(what=what)
    use = memory_use(item.instruction) if item is not None else None
    if fault != Fault.OUT_OF_BOUNDS or use is None or use.space in ("shared", "local"):
        return KernelFault(message)
    return OutOfBounds(message, *memory.needed(address, use.access_bytes))


def at_fault(
    kernel: FlatKernel,
    item: FlatInstruction | None,
    context: NDArray[np.int64],
    block: tuple[int, int, int],
    warp: int,
    lanes: int,
) -> str:
    """A message with place, block and threads, and a field for what happened."""
    threads = [warp * 32 + lane for lane in range(32) if lanes >> lane & 1]
    where = place_of(kernel, item) if item is not None else kernel.name
    who = f"{_block(context)}, {_threads(threads, block)}" if threads else _block(context)
    return f"{where.replace('{', '{{').replace('}', '}}')}: {{what}} ({who})"


def place_of(kernel: FlatKernel, item: FlatInstruction) -> str:
    """File and line of the source if known, line and text of the PTX."""
    module = kernel.module
    place = item.instruction.place
    ptx = f"{module.name}: PTX line {item.instruction.line}: {item.instruction.name}"
    if not place.line:
        return ptx
    return f"{module.name}: line {source_line(kernel, item)}: {kernel.name}: PTX line {item.instruction.line}, " + (
        item.instruction.name
    )


def _access(item: FlatInstruction | None) -> str:
    use = memory_use(item.instruction) if item is not None else None
    if item is None or use is None:
        return "an access"
    verb = {"ld": "reads", "st": "writes"}.get(item.opcode, "accesses")
    return f"{verb} {use.access_bytes} bytes of {use.space} memory"


def _out_of_bounds(item: FlatInstruction | None, memory: GlobalMemory, address: int) -> str:
    use = memory_use(item.instruction) if item is not None else None
    inside = use is not None and use.space in ("shared", "local")
    if memory.is_read_only(address) and item is not None and item.opcode in ("st", "atom", "red"):
        return f"{_access(item)} at {address:#x}: constant memory cannot be written ({memory.near(address)})"
    near = "" if inside else f", {memory.near(address)}"
    return f"{_access(item)} out of bounds at {'offset ' if inside else ''}{address & (1 << 64) - 1:#x}{near}"


_WORDS: dict[Fault, Any] = {
    Fault.OUT_OF_BOUNDS: _out_of_bounds,
    Fault.MISALIGNED: lambda item, memory, address: (
        f"{_access(item)} at {address & (1 << 64) - 1:#x}, which is not a multiple of their size"
    ),
    Fault.TRAP: lambda item, memory, address: f"the kernel stops itself ({item.opcode if item else 'trap'})",
    Fault.RECURSION: lambda item, memory, address: (
        f"recursion goes deeper than warplens follows it: {MOST_LEVELS} levels, fewer where each makes several calls"
    ),
    Fault.DIVERGENT_BARRIER: lambda item, memory, address: (
        "deadlock: some threads of a warp wait at this barrier while these wait at another"
    ),
    Fault.TOO_DEEP: lambda item, memory, address: "branches are nested too deeply",
    Fault.NO_BARRIER: lambda item, memory, address: "a block has the barriers 0 to 15 only",
    Fault.BAD_BARRIER: lambda item, memory, address: "the number of threads of a barrier must be a multiple of 32",
    Fault.BAD_MBARRIER: lambda item, memory, address: (
        "the mbarrier is not initialised, awaits fewer arrivals than this, or is given an impossible count"
    ),
    Fault.RECORD: lambda item, memory, address: (
        f"the record of a thread block takes more than the {MOST_RECORD_BYTES >> 30} GiB allowed, or than there are; "
        "record a smaller problem"
    ),
    Fault.BAD_CALL: lambda item, memory, address: "the pointer leads to no function with these parameters",
    Fault.BAD_BRANCH: lambda item, memory, address: "the index is beyond the list of branch targets",
}


def _deadlock(
    kernel: FlatKernel,
    items: list[FlatInstruction],
    context: NDArray[np.int64],
    frames: NDArray[np.int64],
    block: tuple[int, int, int],
) -> str:
    """Who waits where."""
    waiting: dict[tuple[int, str], list[int]] = {}
    for warp, frame in enumerate(frames):
        if frame[Frame.STATE] in (State.WAITING, State.POLLING):
            barrier = int(frame[Frame.BARRIER])
            polls = frame[Frame.STATE] == State.POLLING
            name = "the barrier of the cluster" if barrier == CLUSTER_BARRIER else f"barrier {barrier}"
            key = int(frame[Frame.INSTRUCTION]), _mbarrier(context, barrier) if polls else name
            lanes = int(frame[Frame.ACTIVE if polls else Frame.ALIVE])
            waiting.setdefault(key, []).extend(warp * 32 + lane for lane in range(32) if lanes >> lane & 1)
    parts = [
        f"{_threads(threads, block)} at {barrier} ({place_of(kernel, items[index])})"
        for (index, barrier), threads in waiting.items()
    ]
    return "deadlock: no barrier can be completed; " + "; ".join(parts)


def _mbarrier(context: NDArray[np.int64], address: int) -> str:
    """An mbarrier and what it still awaits."""
    offset = address - SHARED_WINDOW if address >= SHARED_WINDOW else address
    word = int.from_bytes(ctypes.string_at(int(context[Context.SHARED]) + offset, 8), "little")
    state = MBarrier.unpacked(word)
    awaited = [f"{state.pending} of {state.expected} arrivals"] if state.pending else []
    awaited += [f"{state.bytes_due} bytes of copies"] if state.bytes_due > 0 else []
    awaited += [f"copies brought {-state.bytes_due} bytes more than expected"] if state.bytes_due < 0 else []
    return f"the mbarrier at offset {offset:#x} (phase {state.parity}, awaits {' and '.join(awaited) or 'nothing'})"


def _block(context: NDArray[np.int64]) -> str:
    numbers = [int(context[each]) for each in (Context.BLOCK_ID_X, Context.BLOCK_ID_Y, Context.BLOCK_ID_Z)]
    return f"block ({numbers[0]}, {numbers[1]}, {numbers[2]})"


def _threads(threads: list[int], block: tuple[int, int, int]) -> str:
    """A few threads by their coordinates."""
    x, y, _ = block
    shown = [f"({each % x}, {each // x % y}, {each // (x * y)})" for each in threads[:3]]
    if len(threads) > 3:
        shown.append(f"… {len(threads)} in all")
    return f"thread{'s' if len(threads) != 1 else ''} {' '.join(shown)}"
