"""What a trace depends on: the instructions whose results reach an address, a branch or a mask.

A convolution computes for most of its time what no address depends on. Without
those instructions the trace is the same, and costs a fraction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .flat import FlatInstruction, FlatKernel, registers_of
from .opcodes import memory_use
from .program import Address

#: Instructions that write registers and do nothing else.
_PURE = frozenset(
    (
        *("add", "sub", "mul", "addc", "subc", "mad", "madc", "mul24", "mad24", "div", "rem", "abs", "neg"),
        *("min", "max", "and", "or", "xor", "not", "cnot", "lop3", "shl", "shr", "shf", "popc", "clz", "brev"),
        *("bfind", "bfe", "bfi", "prmt", "sad", "dp4a", "dp2a", "bmsk", "szext", "fns", "setp", "set", "selp"),
        *("slct", "mov", "cvta", "cvt", "fma", "rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"),
        *("copysign", "testp", "mma"),
    )
)
_LOADS = frozenset(("ld", "ldu"))
#: Others whose accesses and ways do not depend on memory unless a register says so; descriptors of copies lie there.
_PLAIN = frozenset(
    (
        *("st", "atom", "red", "bra", "brx", "ret", "exit", "bar", "barrier", "membar", "fence"),
        *("shfl", "vote", "match", "redux", "activemask", "trap"),
    )
)
_KNOWN = _PURE | _LOADS | _PLAIN


@dataclass(frozen=True)
class Needed:
    """Registers that the trace of a kernel depends on, and whether it depends on what the kernel stores."""

    registers: frozenset[str]
    memory: bool

    def __contains__(self, item: FlatInstruction) -> bool:
        """Whether an instruction has to compute, load or store its value; all that it accesses is recorded anyway."""
        if item.opcode == "st":
            return self.memory
        if item.opcode in _PURE or item.opcode in _LOADS:
            return not self.registers.isdisjoint(item.destinations)
        return True


def needed_by_trace(kernel: FlatKernel) -> Needed:
    """Go back from addresses, guards and everything with an effect of its own to what they are computed from.

    Registers count wherever they are written, and all memory as one: kernels that load addresses compute what they
    store.
    """
    items = list(kernel.instructions)
    writers: dict[str, list[FlatInstruction]] = {}
    for item in items:
        for name in item.destinations:
            writers.setdefault(name, []).append(item)
    found: set[str] = set()
    memory = any(item.opcode not in _KNOWN or item.is_bulk_copy for item in items)
    waiting = [name for item in items for name in (item.sources if memory else _always_read(item))]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for item in writers.get(name, ()):
            waiting += item.sources
            if not memory and _reads_data(item):
                memory = True
                waiting += [each for store in items if store.opcode == "st" for each in store.sources]
    return Needed(frozenset(found), memory)


def _always_read(item: FlatInstruction) -> Iterable[str]:
    guard = () if item.guard is None else (item.guard.name,)
    if item.opcode in _PURE:
        return guard
    if item.opcode in _LOADS or item.opcode == "st":
        addresses = (each for each in item.instruction.operands if isinstance(each, Address))
        return (*guard, *(name for each in addresses for name in registers_of(each)))
    return item.sources


def _reads_data(item: FlatInstruction) -> bool:
    """Whether an instruction reads memory that the kernel may have written."""
    use = memory_use(item.instruction)
    return use is not None and use.space not in ("constant", "param")
