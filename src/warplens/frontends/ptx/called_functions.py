"""Machine code of functions that a kernel calls, put in the place of each call.

The interpreter of PTX inlines functions, and a trace has every copy apart. The machine code has a function once,
behind the kernel, with the lines that it has in the PTX. So each call of it gets a copy here, whose instructions
stand for those of one copy of the PTX. Where the compiler has inlined a function itself, its instructions stand for
the copy that is called nearest to what comes before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..cuda.machine_code import MachineCode
from .flat import FlatKernel
from .program import Symbol

_CALL, _RETURN, _BRANCH = "CALL", "RET", "BRA"
#: A target that is not written yet is this less its number.
_UNPLACED = -2


@dataclass(eq=False)
class Copy:
    """One copy of a function in the flat kernel: the instruction of each line of the PTX, and the copies it calls."""

    function: str
    call: int
    instructions: dict[int, int] = field(default_factory=dict)
    #: By the instruction that calls them.
    calls: dict[int, Copy] = field(default_factory=dict)

    def all_calls(self) -> list[Copy]:
        """All copies inside."""
        return [each for call in self.calls.values() for each in (call, *call.all_calls())]


def copies_of(kernel: FlatKernel) -> Copy | None:
    """The kernel with its copies of functions; None if it calls through pointers, or functions call themselves."""
    found = Copy(kernel.name, -1)
    path = [found]
    last_call = -1
    for item in kernel.instructions:
        if item.function != path[-1].function:
            names = [each.function for each in path]
            if item.function in names:
                path = path[: names.index(item.function) + 1]
            elif last_call in path[-1].instructions.values():
                path.append(path[-1].calls.setdefault(last_call, Copy(item.function, last_call)))
            if item.function != path[-1].function:
                return None
        if item.opcode == "call":
            called = {each.name for each in item.instruction.operands if isinstance(each, Symbol)}
            if not called or not called.isdisjoint(each.function for each in path):
                return None
            last_call = item.index
        path[-1].instructions.setdefault(item.instruction.line, item.index)
    return found


def with_calls(code: MachineCode, kernel: FlatKernel) -> tuple[MachineCode, tuple[int, ...]] | None:
    """(Machine code with a copy of its function behind each call, the instruction of the kernel of each, or -1)."""
    root = copies_of(kernel)
    if root is None:
        return None
    writer = _Writer(code, root)
    writer.write(range(len(code.opcodes)), root)
    return writer.result()


class _Writer:
    """Writes machine code anew, from its instructions by number."""

    def __init__(self, code: MachineCode, root: Copy) -> None:
        self.code, self.root = code, root
        self.inside = root.all_calls()
        size = len(code.opcodes)
        called = {target for opcode, target in zip(code.opcodes, code.targets, strict=True) if opcode == _CALL}
        self.starts = [*sorted(each for each in called if 0 <= each < size), size]
        lines = {line for each in self.inside for line in each.instructions}
        own = {each for each in self.starts[:-1] if code.ptx_lines[each] in lines}
        #: Functions that have their own lines; others are for rare operands, without a line.
        self.functions = {each: range(each, self._end(each)) for each in own}
        self.numbers: list[int] = []
        self.origins: list[int] = []
        self.targets: list[int] = []
        self.opcodes: list[str] = []

    def _end(self, start: int) -> int:
        return next(each for each in self.starts if each > start)

    def write(self, numbers: Sequence[int], copy: Copy) -> None:
        """Write some instructions, functions behind their calls, for a copy of a function in the PTX."""
        code = self.code
        bodies = {i for body in self.functions.values() for i in body} if copy is self.root else set()
        place: dict[int, int] = {}
        begin, latest = len(self.opcodes), -1
        for i in numbers:
            if i in bodies:
                continue
            place[i] = len(self.opcodes)
            origin = self._origin(code.ptx_lines[i], copy, latest)
            if code.ptx_lines[i] in copy.instructions:
                latest = origin
            self._append(i, origin)
            body, called = self.functions.get(code.targets[i]), copy.calls.get(origin)
            if code.opcodes[i] == _CALL and body is not None and called is not None:
                self.targets[-1] = -1
                self.write(body, called)
        self._go(range(begin, len(self.opcodes)), place, is_copy=copy is not self.root)

    def _go(self, written: range, place: Mapping[int, int], *, is_copy: bool) -> None:
        """Let branches go to where instructions have been written, and a copy go on behind it."""
        for at in written:
            number = _UNPLACED - self.targets[at]
            if number in place:
                self.targets[at] = place[number]
            elif number >= 0 and not is_copy:
                self.targets[at] = -1
            if is_copy and self.opcodes[at] == _RETURN:
                self.opcodes[at], self.targets[at] = _BRANCH, written.stop

    def _append(self, i: int, origin: int) -> None:
        target = self.code.targets[i]
        self.numbers.append(i)
        self.origins.append(origin)
        self.targets.append(_UNPLACED - target if target >= 0 else -1)
        self.opcodes.append(self.code.opcodes[i])

    def _origin(self, line: int, copy: Copy, latest: int) -> int:
        """The instruction of the PTX; of a function that the compiler has inlined, that of the nearest call."""
        found = copy.instructions.get(line)
        if found is not None:
            return found
        having = [each for each in copy.all_calls() if line in each.instructions]
        nearest = min(having, key=lambda each: abs(each.call - latest), default=None)
        return -1 if nearest is None else nearest.instructions[line]

    def result(self) -> tuple[MachineCode, tuple[int, ...]]:
        def chosen(column: Sequence[int]) -> tuple[int, ...]:
            return tuple(column[i] for i in self.numbers) if column else ()

        code = self.code
        made = replace(
            code,
            opcodes=tuple(self.opcodes),
            control=chosen(code.control),
            guarded=tuple(code.guarded[i] for i in self.numbers),
            targets=tuple(self.targets),
            ptx_lines=chosen(code.ptx_lines),
            offsets=chosen(code.offsets),
            reads=chosen(code.reads),
        )
        return made, tuple(self.origins)
