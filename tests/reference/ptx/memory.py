"""The memories of a launch: one byte array per allocation, every access checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from warplens.frontends.ptx.program import Function, PtxModule, Symbol, Variable, Vector
from warplens.frontends.ptx.spaces import GLOBAL_WINDOW, GRANULE_BYTES, LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES


class FaultError(Exception):
    """What a GPU would stop at."""


@dataclass
class Allocation:
    name: str
    start: int
    content: bytearray


@dataclass
class Space:
    """Allocations of one address space, each with its own bytes."""

    name: str
    allocations: list[Allocation] = field(default_factory=list)

    def find(self, address: int, size: int) -> tuple[Allocation, int]:
        if address % size:
            raise FaultError(f"misaligned access of {size} bytes at {address:#x} of {self.name}")
        for each in self.allocations:
            if each.start <= address and address + size <= each.start + len(each.content):
                return each, address - each.start
        raise FaultError(f"access of {size} bytes outside every allocation of {self.name} at {address:#x}")

    def read(self, address: int, size: int) -> int:
        found, offset = self.find(address, size)
        return int.from_bytes(found.content[offset : offset + size], "little")

    def write(self, address: int, size: int, value: int) -> None:
        found, offset = self.find(address, size)
        found.content[offset : offset + size] = value.to_bytes(size, "little")


def up_to(position: int, alignment: int) -> int:
    while position % alignment:
        position += 1
    return position


def window_of(address: int) -> tuple[str, int]:
    """The space that a generic address lies in, and the address there."""
    for name, start in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW)):
        if start <= address < start + WINDOW_BYTES:
            return name, address - start
    return "global", address


class GlobalMemory(Space):
    """Global and constant variables, then the parameters, then the launch's arrays."""

    def __init__(self, module: PtxModule, kernel: Function, arguments: Sequence[object]) -> None:
        super().__init__("global")
        self.addresses: dict[str, int] = {}
        self.next = GLOBAL_WINDOW
        for number, name in enumerate(module.functions, start=1):
            self.addresses[name] = number  # of no allocation
        variables = [each for each in module.variables.values() if each.space in ("global", "const")]
        for variable in variables:
            content = bytearray(variable.initial or bytes(variable.size_bytes))
            self.addresses[variable.name] = self.place(variable.name, content)
        for variable in variables:
            for offset, name, addend in variable.pointers:
                self.write(self.addresses[variable.name] + offset, 8, self.addresses[name] + addend)
        sizes = [each.size_bytes + each.alignment for each in kernel.parameters]
        self.place("parameters", bytearray(sum(sizes)))
        self.arrays: list[tuple[np.ndarray, Allocation]] = []
        self.parameters: list[object] = []
        for each in arguments:
            if isinstance(each, np.ndarray):
                address = self.place("array", bytearray(each.tobytes()))
                self.arrays.append((each, self.allocations[-1]))
                self.parameters.append(address)
            else:
                self.parameters.append(each)

    def place(self, name: str, content: bytearray) -> int:
        start = self.next
        self.allocations.append(Allocation(name, start, content))
        self.next = up_to(start + max(len(content), 1), GRANULE_BYTES) + GRANULE_BYTES
        return start

    def give_back(self) -> None:
        """The arrays as the kernel left them, into the caller's."""
        for array, allocation in self.arrays:
            array[...] = np.frombuffer(bytes(allocation.content), array.dtype).reshape(array.shape)


def parameter_bytes(parameters: Sequence[Variable], values: Sequence[object]) -> tuple[bytearray, dict[str, int]]:
    """The parameter buffer of a kernel and where each parameter lies."""
    content, offsets = bytearray(), {}
    for variable, value in zip(parameters, values, strict=True):
        content.extend(bytes(up_to(len(content), max(variable.alignment, 1)) - len(content)))
        offsets[variable.name] = len(content)
        if variable.type.is_float:
            kinds = {16: np.float16, 32: np.float32, 64: np.float64}
            content.extend(kinds[variable.type.bits](value).tobytes())
        elif isinstance(value, int):
            content.extend((value % (1 << 8 * variable.size_bytes)).to_bytes(variable.size_bytes, "little"))
        else:
            content.extend(np.asarray(value).tobytes())
    return content, offsets


def place_shared(module: PtxModule, kernel: Function) -> tuple[dict[tuple[str, str], int], int]:
    """Offsets of shared variables by function ("" for the module) and name, and the static bytes.

    The module's variables come first, then those of the kernel, then those of the
    functions that it calls; external ones start after all others.
    """
    used, functions = set[str](), [kernel]
    for function in functions:
        for item in function.instructions():
            for operand in item.operands:
                parts = operand.items if isinstance(operand, Vector) else (operand,)
                for each in parts:
                    symbol = getattr(each, "base", each)
                    if isinstance(symbol, Symbol):
                        used.add(symbol.name)
                        callee = module.functions.get(symbol.name)
                        if callee is not None and callee not in functions:
                            functions.append(callee)
    offsets: dict[tuple[str, str], int] = {}
    position, most_alignment = 0, 16
    external = []
    for owner, variables in (("", module.variables), *((each.name, each.variables) for each in functions)):
        for variable in variables.values():
            if variable.space == "shared" and variable.name in used:
                if variable.size_bytes == 0:
                    external.append((owner, variable.name))
                    most_alignment = max(most_alignment, variable.alignment)
                    continue
                position = up_to(position, max(variable.alignment, 1))
                offsets[owner, variable.name] = position
                position += variable.size_bytes
    if external:
        position = up_to(position, most_alignment)
        offsets.update(dict.fromkeys(external, position))
    return offsets, position
