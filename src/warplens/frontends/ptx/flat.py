"""A kernel as one graph of basic blocks, the result of `flatten`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from .program import Address, Instruction, Operand, Pair, PtxModule, Register, Special, Symbol, Type, Vector
from .spaces import RESERVED_SHARED_BYTES

#: Instructions whose operands are all sources.
NO_DESTINATION = frozenset(
    (
        *("st", "red", "bra", "brx", "bar", "barrier", "membar", "fence", "ret", "exit", "trap", "brkpt", "call"),
        *("prefetch", "prefetchu", "cp", "nanosleep", "discard", "pmevent", "stmatrix", "griddepcontrol"),
        *("tensormap", "setmaxnreg", "applypriority", "sust"),
    )
)
#: The register that add.cc and its like write.
CARRY = "%carry"


@dataclass(frozen=True, eq=False)
class FlatInstruction:
    """An instruction whose registers are unique in the kernel and whose variables are addresses."""

    instruction: Instruction
    #: Position in the kernel: the row in the trace's static table.
    index: int
    #: Position of the original in its function's text, which inlined copies share.
    pc: int
    function: str
    targets: tuple[int, ...] = ()
    #: Whether this stands for the accesses of a bulk copy in the trace, not for an instruction that runs.
    is_bulk_access: bool = False

    @property
    def opcode(self) -> str:
        return self.instruction.opcode

    @property
    def guard(self) -> Register | None:
        return self.instruction.guard

    @property
    def waits(self) -> bool:
        """Whether it is a barrier at which warps wait. Such an instruction is the first of its block."""
        item = self.instruction
        return self.opcode in ("bar", "barrier") and (
            item.has("sync", "red") or {"cluster", "wait"} <= set(item.modifiers)
        )

    @property
    def is_bulk_copy(self) -> bool:
        """Whether it copies or clears many bytes: one instruction, many accesses."""
        item = self.instruction
        if item.opcode == "st":
            return item.has("bulk")
        addresses = sum(isinstance(each, Address) for each in item.operands)
        return item.opcode == "cp" and item.has("bulk") and not item.has("prefetch") and addresses >= 2

    @property
    def has_destination(self) -> bool:
        """Whether the first operand is written."""
        item = self.instruction
        if item.opcode in ("bar", "barrier"):
            return item.has("red")
        if item.opcode == "wmma":
            return item.has("load")
        if item.opcode == "call":  # of a function that CUDA provides
            return len(item.operands) > 1 and isinstance(item.operands[1], Symbol)
        return item.opcode not in NO_DESTINATION and not isinstance((*item.operands, None)[0], Address | None)

    @property
    def destinations(self) -> tuple[str, ...]:
        """Registers that it writes."""
        item = self.instruction
        found = list(registers_of(item.operands[0])) if self.has_destination else []
        if item.has("cc"):
            found.append(CARRY)
        return tuple(found)

    @property
    def sources(self) -> tuple[str, ...]:
        """Registers that it reads, its guard included."""
        item = self.instruction
        first = self.has_destination and item.opcode != "wgmma"  # which adds to its destination
        found = [name for operand in item.operands[first:] for name in registers_of(operand)]
        if item.opcode in ("addc", "subc", "madc"):
            found.append(CARRY)
        if item.guard is not None:
            found.append(item.guard.name)
        return tuple(dict.fromkeys(found))


@dataclass(eq=False)
class BasicBlock:
    """Instructions without a branch among them; `successors` are (taken…, next) block numbers."""

    number: int
    instructions: list[FlatInstruction] = field(default_factory=list)
    successors: list[int] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class FlatKernel:
    """What code is generated from."""

    name: str
    module: PtxModule
    blocks: tuple[BasicBlock, ...]
    registers: Mapping[str, Type]
    #: Offsets of the parameters in the parameter buffer.
    parameter_offsets: Mapping[str, int]
    parameter_bytes: int
    shared_bytes: int
    local_bytes: int
    #: Addresses of the module's global and constant variables.
    variable_addresses: Mapping[str, int]
    #: First address that a launch's arrays can use.
    first_free_address: int
    #: Addresses of functions that pointers lead to.
    function_addresses: Mapping[str, int]
    #: Blocks of its clusters, by axis.
    cluster: tuple[int, int, int] = (1, 1, 1)

    @property
    def cluster_blocks(self) -> int:
        return math.prod(self.cluster)

    @property
    def waits_for_its_grid(self) -> bool:
        """Whether it has barriers of the whole grid: it reads where those are kept."""
        return any(Special("%envreg2") in item.instruction.operands for item in self.instructions)

    @property
    def reserved_shared_bytes(self) -> int:
        """Shared memory after that of the launch, for kernels that ask where the system's part lies."""
        used = any(Special("%reserved_smem_offset_1") in item.instruction.operands for item in self.instructions)
        return RESERVED_SHARED_BYTES if used else 0

    @property
    def instructions(self) -> Iterator[FlatInstruction]:
        return (each for block in self.blocks for each in block.instructions)

    def calls(self, name: str) -> bool:
        """Whether it calls a function that CUDA provides."""
        return any(
            isinstance(each, Symbol) and each.name == name
            for item in self.instructions
            if item.opcode == "call"
            for each in item.instruction.operands
        )

    @property
    def bulk_accesses(self) -> tuple[tuple[int, FlatInstruction], ...]:
        """(Bulk copy, row of its accesses): the rows follow those of the instructions in the static table."""
        items = list(self.instructions)
        copies = [each for each in items if each.is_bulk_copy]
        return tuple(
            (each.index, replace(each, index=len(items) + number, is_bulk_access=True))
            for number, each in enumerate(copies)
        )


def registers_of(operand: Operand) -> Iterator[str]:
    """Names of the registers in an operand."""
    if isinstance(operand, Register):
        yield operand.name
    elif isinstance(operand, Address):
        for each in (operand.base, *operand.coordinates):
            yield from registers_of(each)
    elif isinstance(operand, Vector):
        for each in operand.items:
            yield from registers_of(each)
    elif isinstance(operand, Pair):
        yield from registers_of(operand.first)
        yield from registers_of(operand.second)
