"""Asynchronous bulk copies of a thread block: queued where they start, done when a wait needs them.

Bulk copies are few and large, so generated code calls this module, which moves
whole boxes with NumPy. Data that an mbarrier counts arrive when a thread waits
for that barrier; data of a group move when a thread waits for the group.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...traces import SHARED_BITS
from .bulk_record import PIECE_BYTES, BulkRecord
from .codegen.bulk import MOST_OPERANDS, copy_spaces
from .codegen.layout import BulkAction, Context, Frame
from .flat import FlatInstruction
from .mbarriers import MBarrier
from .program import Instruction
from .python_calls import LANES, MisuseError, PythonCalls, Values
from .spaces import GLOBAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from .tensor_maps import MAP_BYTES, Box, TensorMap, box_of

if TYPE_CHECKING:
    from .execute import Launch

_CHUNK = 16
#: Of one st.bulk, by the manual.
MOST_CLEARED_BYTES = 1 << 24
#: 16 bytes that move as one.
_CHUNK_TYPE = np.dtype(np.complex128)
_REDUCTIONS: dict[str, Any] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, most: np.where(old >= most, 0, old + 1),
    "dec": lambda old, most: np.where((old == 0) | (old > most), most, old - 1),
}
#: NumPy has no bfloat16: its two bytes.
_BFLOAT16 = np.dtype("V2")
_DTYPES = {
    **{f"{kind}{bits}": np.dtype(f"{letter}{bits // 8}") for kind, letter in (("u", "u"), ("s", "i"), ("b", "u"))
       for bits in (32, 64)},
    "f16": np.dtype(np.float16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64), "bf16": _BFLOAT16,
}  # fmt: skip
#: Types of tensors that can be reduced, by their number in a map.
_MAP_DTYPES = {
    number: _DTYPES[name]
    for number, name in (
        (2, "u32"),
        (3, "s32"),
        (4, "u64"),
        (5, "s64"),
        (6, "f16"),
        (7, "f32"),
        (9, "f64"),
        (10, "bf16"),
    )
}


@dataclass
class _Thread:
    """Copies of a thread that it waits for in groups: the open group, and those it has committed."""

    open: list[Callable[[], None]] = field(default_factory=list)
    groups: list[list[Callable[[], None]]] = field(default_factory=list)


@dataclass(frozen=True)
class _Form:
    """What the name of a copy says; its rank is 0 unless it copies a box."""

    rank: int
    reduction: str
    loads: bool
    between_blocks: bool
    im2col: bool


@lru_cache(maxsize=256)
def _form_of(modifiers: tuple[str, ...]) -> _Form:
    rank = next((int(each[0]) for each in modifiers if each in ("1d", "2d", "3d", "4d", "5d")), 0)
    reduction = next((each for each in modifiers if each in _REDUCTIONS), "")
    spaces = copy_spaces(modifiers)
    im2col = any(each in ("im2col", "im2col_no_offs") for each in modifiers)
    return _Form(rank, reduction, spaces == ["shared", "global"], spaces == ["shared", "shared"], im2col)


class BulkCopies(PythonCalls):
    """The queue of one worker."""

    place, rows = Context.BULK, MOST_OPERANDS

    def __init__(self, launch: Launch, context: NDArray[np.int64], shared: NDArray[np.uint8]) -> None:
        super().__init__(launch, context)
        self.shared = shared
        self.awaited: list[tuple[int, Callable[[], None]]] = []
        self.threads: dict[int, _Thread] = {}
        self.record = BulkRecord(launch.compiled.shape.bulk_segments, launch.compiled.shape.most_words, context)
        #: The queues of the cluster's blocks, by rank.
        self.peers = [self]

    def execute(self, item: FlatInstruction | None, action: int, lanes: list[int], values: Values) -> None:
        try:
            if item is None:
                self._end()
                return
            if action == BulkAction.ARRIVE:
                for address in set(values[0, lanes].tolist()):
                    self._arrive(self._shared_offset(address))
                return
            for lane in lanes:
                given = values[:, lane].view(np.int64).tolist()
                self._one(item, action, self.of_frame(Frame.WARP) * LANES + lane, given)
        finally:
            self._count()

    def _count(self) -> None:
        grouped = 0
        for each in self.threads.values():
            grouped += len(each.open) + sum(map(len, each.groups))
        self.context[Context.BULK_PENDING] = len(self.awaited) + grouped

    def _one(self, item: FlatInstruction, action: int, thread: int, values: list[int]) -> None:
        if action == BulkAction.COMMIT:
            own = self.threads.setdefault(thread, _Thread())
            own.groups.append(own.open)
            own.open = []
        elif action == BulkAction.WAIT:
            own = self.threads.setdefault(thread, _Thread())
            while len(own.groups) > values[0]:
                for copy in own.groups.pop(0):
                    copy()
        elif item.opcode == "st":
            self._clear(item, values)
        elif item.opcode == "tensormap":
            self._change_map(item, values)
        else:
            self._start(item, thread, values)

    def _end(self) -> None:
        """The block has ended: stores finish, whatever was not awaited is misuse."""
        if self.awaited:
            self.awaited.clear()
            raise MisuseError(
                "a bulk copy is still under way when its block ends; nobody waited for the phase of its mbarrier "
                "that counts its bytes"
            )
        for own in self.threads.values():
            for group in (*own.groups, own.open):
                for copy in group:
                    copy()
        self.threads.clear()

    def _arrive(self, barrier: int) -> None:
        """Finish the copies that a barrier counts."""
        due = [copy for at, copy in self.awaited if at == barrier]
        self.awaited = [each for each in self.awaited if each[0] != barrier]
        for copy in due:
            copy()

    # -- memory ---------------------------------------------------------------------------------------

    def _shared_offset(self, address: int) -> int:
        return self._in_cluster(address)[1]

    def _in_cluster(self, address: int) -> tuple[BulkCopies, int]:
        """The block whose shared memory has an address, and the offset there."""
        address &= (1 << 64) - 1
        inside = SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_BYTES
        offset = address - SHARED_WINDOW if inside else address & 0xFFFFFFFF
        number = offset >> SHARED_BITS
        if number > len(self.peers):
            raise MisuseError(f"shared memory at {offset:#x}, which is in no block of the cluster")
        return (self.peers[number - 1] if number else self), offset & ((1 << SHARED_BITS) - 1)

    def _shared_bytes(self, address: int, size: int, alignment: int = _CHUNK) -> slice:
        start = self._shared_offset(address)
        if start % alignment:
            raise MisuseError(f"shared memory at {start:#x}, where a multiple of {alignment} is needed")
        if start + size > self.context[Context.SHARED_BYTES]:
            raise MisuseError(f"{size} bytes of shared memory out of bounds at offset {start:#x}")
        return slice(start, start + size)

    def _global_bytes(self, address: int, size: int) -> slice:
        address &= (1 << 64) - 1
        for each in self.memory.allocations:
            if each.address <= address and address + size <= each.address + each.size_bytes:
                return slice(address - GLOBAL_WINDOW, address - GLOBAL_WINDOW + size)
        raise MisuseError(f"{size} bytes of global memory out of bounds at {address:#x}, {self.memory.near(address)}")

    def _content(self, address: int, size: int) -> NDArray[np.uint8]:
        """Bytes at a generic address."""
        if SHARED_WINDOW <= address & ((1 << 64) - 1) < SHARED_WINDOW + WINDOW_BYTES:
            return self.shared[self._shared_bytes(address, size)]
        return self.memory.content[self._global_bytes(address, size)]

    def _deliver(self, barrier: int, count: int) -> None:
        place = self._shared_bytes(barrier, 8, 8)
        word = self.shared[place].view(np.uint64)
        state = MBarrier.unpacked(int(word[0]))
        if not state.expected:
            raise MisuseError(f"the mbarrier at offset {place.start:#x} is not initialised")
        word[0] = state.delivered(count).packed
        self.context[Context.CHANGES] += 1

    # -- copies ---------------------------------------------------------------------------------------

    def _clear(self, item: FlatInstruction, values: list[int]) -> None:
        """st.bulk: this block's shared memory becomes 0 at once."""
        address, size = values[0] & ((1 << 64) - 1), values[1]
        generic = not any(each.startswith("shared") for each in item.instruction.modifiers)
        if generic and not SHARED_WINDOW <= address < SHARED_WINDOW + WINDOW_BYTES:
            raise MisuseError(f"clears {size} bytes at {address:#x}, which is not in shared memory")
        if size % 8 or not 0 <= size <= MOST_CLEARED_BYTES:
            raise MisuseError(f"clears {size} bytes; a multiple of 8 up to {MOST_CLEARED_BYTES} is needed")
        if self._in_cluster(address)[0] is not self:
            raise MisuseError("clears the shared memory of another block")
        place = self._shared_bytes(address, size, 8)
        self.record.add(self.frame, item.index, np.array([SHARED_WINDOW + place.start]), size, piece=PIECE_BYTES)
        self.shared[place] = 0
        self.context[Context.CHANGES] += 1

    def _start(self, item: FlatInstruction, thread: int, values: list[int]) -> None:
        """Queue a copy for its mbarrier or its thread's group."""
        instruction = item.instruction
        form = _form_of(instruction.modifiers)
        rank, loads = form.rank, form.loads
        if form.between_blocks:
            self._to_other_block(values)
            return
        at, where = (0, 1) if loads else (2 + rank - 1, 0)
        corner = tuple(values[where + 1 : where + 1 + rank])
        offsets = None
        if form.im2col:  # stores have none
            given = values[3 + rank : 1 + 2 * rank] if loads else [0] * (rank - 2)
            offsets = tuple(each & 0xFFFF for each in given)
        frame = self.frame
        mask = values[3 + rank + len(offsets or ()) if rank else 4]
        for target in self._targets(instruction, values[0], mask) if loads else [self]:
            if rank:
                box = target._box_of(values[where], corner, offsets)
                copy, size = target._box(frame, item, box, values[at], loads, form.reduction)
            else:
                size = values[2]
                dtype = _DTYPES.get(instruction.modifiers[-1]) if form.reduction else None
                copy = target._line(frame, item, values[0], values[1], size, loads, form.reduction, dtype)
            frame = 0  # one read of global memory serves all blocks
            if loads:
                target._await(self._shared_offset(values[2 + rank if rank else 3]), copy, size)
            else:
                self.threads.setdefault(thread, _Thread()).open.append(copy)

    def _targets(self, instruction: Instruction, address: int, mask: int) -> list[BulkCopies]:
        """The blocks that a load is for: several of a multicast."""
        if not instruction.has("multicast::cluster"):
            return [self._in_cluster(address)[0]]
        ranks = [rank for rank in range(16) if mask >> rank & 1]
        if not ranks or ranks[-1] >= len(self.peers):
            raise MisuseError(f"the mask {mask & 0xFFFF:#x} names blocks that the cluster does not have")
        return [self.peers[rank] for rank in ranks]

    def _await(self, barrier: int, copy: Callable[[], None], size: int) -> None:
        """Queue a copy that one of this block's mbarriers counts."""

        def arrive() -> None:
            copy()
            self._deliver(barrier, size)

        self.awaited.append((barrier, arrive))
        self._count()

    def _to_other_block(self, values: list[int]) -> None:
        """A copy from this block's shared memory to that of another in the cluster."""
        to, source, size, barrier = values[:4]
        if (to | source | size) % _CHUNK or size < 0:
            raise MisuseError(f"copies {size} bytes from {source:#x} to {to:#x}; all must be multiples of 16")
        (target, _), (waiting, place) = self._in_cluster(to), self._in_cluster(barrier)
        if target is not waiting:
            raise MisuseError("the mbarrier is in another block than the memory that is copied to")
        there, here = target._shared_bytes(to, size), self._shared_bytes(source, size)

        def copy() -> None:
            target.shared[there] = self.shared[here]
            target.context[Context.CHANGES] += 1

        target._await(place, copy, size)

    def _line(
        self,
        frame: int,
        item: FlatInstruction,
        to: int,
        source: int,
        size: int,
        loads: bool,
        reduction: str,
        dtype: np.dtype[Any] | None,
    ) -> Callable[[], None]:
        """A copy of contiguous bytes."""
        if size % _CHUNK or size < 0 or (source | to) % _CHUNK:
            raise MisuseError(f"copies {size} bytes from {source:#x} to {to:#x}; all must be multiples of 16")
        outside = self._global_bytes(source if loads else to, size)
        inside = self._shared_bytes(to if loads else source, size)
        self.record.add(frame, item.index, np.array([source if loads else to]), size)

        def copy() -> None:
            if loads:
                self.shared[inside] = self.memory.content[outside]
            else:
                target = self.memory.content[outside]
                target[:] = _combined(target, self.shared[inside], reduction, dtype)
            self.context[Context.CHANGES] += 1

        return copy

    def _box_of(self, map_address: int, corner: tuple[int, ...], offsets: tuple[int, ...] | None) -> Box:
        box = box_of(self._content(map_address, MAP_BYTES).tobytes(), corner, offsets)
        if isinstance(box, str):
            raise MisuseError(f"the tensor map {box}")
        return box

    def _box(
        self, frame: int, item: FlatInstruction, box: Box, place: int, loads: bool, reduction: str
    ) -> tuple[Callable[[], None], int]:
        """A copy of a box of a tensor, and the bytes that it delivers: those outside the tensor too."""
        start = self._shared_bytes(place, box.map.box_bytes, 128).start
        for address in box.extremes:
            self._global_bytes(address, box.size)
        self.record.add(frame, item.index, box.used, box.size, box)
        chunks = box.chunks(start)
        shared = self.shared[: len(self.shared) // _CHUNK * _CHUNK].view(_CHUNK_TYPE)
        copy = self._load(box, shared, chunks) if loads else self._store(box, shared, chunks, reduction)
        return copy, box.map.box_bytes

    def _load(self, box: Box, shared: NDArray[Any], chunks: NDArray[np.int64]) -> Callable[[], None]:
        def copy() -> None:
            content, shape = self.memory.content, (len(box.rows), box.row_bytes)
            if box.is_even:
                lowest = int(box.rows[0]) - GLOBAL_WINDOW
                found = np.ndarray(shape, np.uint8, content, lowest, (box.map.strides[0], 1)).copy()
            else:
                found = np.zeros(shape, dtype=np.uint8)
                found[box.rows >= 0, box.columns] = content[_places(box)]
            shared[chunks] = found.reshape(-1).view(_CHUNK_TYPE)
            self.context[Context.CHANGES] += 1

        return copy

    def _store(self, box: Box, shared: NDArray[Any], chunks: NDArray[np.int64], reduction: str) -> Callable[[], None]:
        def copy() -> None:
            content, places = self.memory.content, _places(box)
            held = shared[chunks].view(np.uint8).reshape(len(box.rows), box.row_bytes)
            dtype = _MAP_DTYPES.get(box.map.element_type)
            inside = held[box.rows >= 0, box.columns]
            content[places] = _combined(content[places], inside, reduction, dtype)
            self.context[Context.CHANGES] += 1

        return copy

    def _change_map(self, item: FlatInstruction, values: list[int]) -> None:
        """tensormap.replace of one field, and tensormap.cp_fenceproxy, which copies a map."""
        modifiers = item.instruction.modifiers
        if modifiers[0] == "cp_fenceproxy":
            source = self.shared[self._shared_bytes(values[1], MAP_BYTES)]
            self.memory.content[self._global_bytes(values[0], MAP_BYTES)] = source
            return
        if modifiers[:2] != ("replace", "tile") or len(modifiers) < 4:
            raise MisuseError("this form of tensormap is not supported")
        inside = any(each.startswith("shared") for each in modifiers)
        content = (
            self.shared[self._shared_bytes(values[0], MAP_BYTES)] if inside else self._content(values[0], MAP_BYTES)
        )
        ordinal = values[1] if len(item.instruction.operands) > 2 else 0
        value = values[len(item.instruction.operands) - 1]
        bits = 64 if modifiers[-1] == "b64" else 32
        try:
            changed = TensorMap.unpacked(content.tobytes()).replaced(modifiers[2], ordinal, value & ((1 << bits) - 1))
            content[:] = np.frombuffer(changed.packed, dtype=np.uint8)
        except (KeyError, IndexError, ArithmeticError, ValueError) as error:
            raise MisuseError(f"{modifiers[2]} {ordinal} cannot become {value}") from error


def _places(box: Box) -> NDArray[np.int64]:
    """Where each byte of a box that lies inside its tensor is in the memory of the launch."""
    return (box.used - GLOBAL_WINDOW)[:, None] + np.arange(box.size)


def _combined(
    old: NDArray[np.uint8], new: NDArray[np.uint8], reduction: str, dtype: np.dtype[Any] | None
) -> NDArray[np.uint8]:
    """The bytes to store: the new ones, or both reduced."""
    if not reduction:
        return new
    if dtype is None:
        raise MisuseError(f"the reduction {reduction} of this type is not supported")
    first, second = (np.ascontiguousarray(each).reshape(-1).view(dtype) for each in (old, new))
    if dtype == _BFLOAT16:
        sums = _REDUCTIONS[reduction](_widened(first), _widened(second)).view(np.uint32)
        nearest = (sums + 0x7FFF + (sums >> 16 & 1)) >> 16  # to even
        missing = sums & 0x7FFFFFFF > 0x7F800000
        return np.where(missing, 0x7FFF, nearest).astype(np.uint16).view(np.uint8).reshape(old.shape)
    return np.asarray(_REDUCTIONS[reduction](first, second), dtype=dtype).view(np.uint8).reshape(old.shape)


def _widened(values: NDArray[Any]) -> NDArray[np.float32]:
    """bfloat16 as singles."""
    return (values.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
