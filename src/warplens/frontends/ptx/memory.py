"""Global memory of a launch: one buffer that holds variables, parameters and the caller's arrays."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import KernelFault, PtxError, nearest
from .flat import FlatKernel
from .heap import HEAP_BYTES, ROOM, Heap
from .placement import Placement
from .program import PtxModule, Variable
from .spaces import GLOBAL_WINDOW, GRANULE_BYTES, READ_ONLY, align
from .tensor_maps import Im2col, Mapped, Tiles
from .textures import Texture, TextureObject

#: Global memory that a launch may take.
MOST_BYTES = 1 << 36


@dataclass(frozen=True, eq=False)
class Allocation:
    """A stretch of global memory, for messages."""

    name: str
    address: int
    size_bytes: int
    argument: int | None = None


@dataclass(frozen=True, eq=False)
class GlobalMemory:
    """`content` starts at address GLOBAL_WINDOW; `valid` has the allocated bytes of each granule."""

    content: NDArray[np.uint8]
    valid: NDArray[np.uint16]
    allocations: Collection[Allocation]
    parameters: bytes
    parameter_address: int
    arrays: tuple[tuple[NDArray[Any], int], ...]
    heap: Heap | None = None
    #: Texture and surface objects by the number that stands for them in a kernel.
    textures: Mapping[int, TextureObject] = field(default_factory=dict)
    #: Address of what barriers of the whole grid use; 0 if there are none.
    grid_workspace: int = 0

    def copy_in(self) -> None:
        """Copy the caller's arrays to where the kernel finds them."""
        for array, address in self.arrays:
            start = address - GLOBAL_WINDOW
            self.content[start : start + array.nbytes] = array.reshape(-1).view(np.uint8)

    def copy_back(self) -> None:
        """Copy the kernel's results to the caller's arrays."""
        for array, address in self.arrays:
            if array.flags.writeable:
                start = address - GLOBAL_WINDOW
                flat = array.reshape(-1).view(np.uint8)
                flat[:] = self.content[start : start + array.nbytes]

    def is_read_only(self, address: int) -> bool:
        granule = (address - GLOBAL_WINDOW) // GRANULE_BYTES
        return 0 <= granule < len(self.valid) and bool(self.valid[granule] & READ_ONLY)

    def near(self, address: int) -> str:
        """What lies next to an address, in words."""
        if not self.allocations:
            return "there is no allocation"
        nearest = self._nearest(address)
        gap = _distance(nearest, address)
        if gap == 0:
            return f"inside {nearest.name} ({nearest.size_bytes} bytes)"
        side = "before" if address < nearest.address else "after the end of"
        where = address - nearest.address - nearest.size_bytes if address >= nearest.address else gap
        return f"{where} bytes {side} {nearest.name} ({nearest.size_bytes} bytes)"

    def needed(self, address: int, access_bytes: int) -> tuple[int | None, int]:
        """(Argument whose array lies nearest to an address, bytes it would need for an access there)."""
        nearest = self._nearest(address)
        return nearest.argument, max(address + access_bytes - nearest.address, 0) if address > nearest.address else 0

    def _nearest(self, address: int) -> Allocation:
        return min(self.allocations, key=lambda each: _distance(each, address))


def _distance(allocation: Allocation, address: int) -> int:
    if address < allocation.address:
        return allocation.address - address
    return max(address - (allocation.address + allocation.size_bytes) + 1, 0)


def lay_out_memory(
    kernel: FlatKernel,
    arguments: Sequence[Any],
    constants: Mapping[str, NDArray[Any]] | None = None,
    *,
    apart_bytes: int = 0,
    placement: Placement | None = None,
) -> GlobalMemory:
    """Place variables where the code expects them, then the parameters, then the arrays in argument order.

    `constants` are initial values of module variables, by name. `apart_bytes` between arrays let an access
    beyond the end of one be noticed as such. `placement` has the arrays of launches before, and gets those of this.
    """
    module = kernel.module
    parameters = module.functions[kernel.name].parameters
    if len(arguments) != len(parameters):
        raise KernelFault(f"{kernel.name} takes {len(parameters)} arguments; {len(arguments)} are given")
    allocations = [
        Allocation(f"variable {name}", address, module.variables[name].size_bytes)
        for name, address in kernel.variable_addresses.items()
    ]
    position, most_bytes = kernel.first_free_address, min(MOST_BYTES, _memory_bytes())
    placed = Placement(position) if placement is None else placement
    position = max(position, placed.end)

    def allocate(name: str, size: int, argument: int | None = None, at: int | None = None) -> int:
        nonlocal position
        address = position if at is None else at
        allocations.append(Allocation(name, address, size, argument))
        if at is None:
            position = align(position + max(size, 1) + apart_bytes, GRANULE_BYTES) + GRANULE_BYTES
        if position - GLOBAL_WINDOW > most_bytes:
            raise KernelFault(
                f"{kernel.name}: variables and arrays take {position - GLOBAL_WINDOW:,} bytes together; "
                f"there is room for {most_bytes:,}"
            )
        return address

    parameter_address = allocate("the kernel's parameters", kernel.parameter_bytes)
    raw = bytearray(kernel.parameter_bytes)
    arrays: list[tuple[NDArray[Any], int]] = []
    textures: dict[int, TextureObject] = {}
    whole = list(_arrays_of(arguments))
    for number, (parameter, argument) in enumerate(zip(parameters, arguments, strict=True)):
        where = f"{kernel.name}: argument {number}"

        def place(given: NDArray[Any] | list[Any], number: int = number, where: str = where) -> bytes:
            if isinstance(given, list):  # pointers, which lie in memory too
                given = np.frombuffer(b"".join(map(place, given)), np.uint8)
            owner = _owner(given, whole)
            address = _place(owner, number, where, arrays, allocate, placed)
            return struct.pack("<Q", address + _offset(given, owner))

        if isinstance(argument, Texture):
            (address,) = struct.unpack("<Q", place(argument.array))
            textures[number + 1] = argument.at(address)
            argument = np.uint64(number + 1)
        elif isinstance(argument, Tiles | Im2col | Mapped):
            (address,) = struct.unpack("<Q", place(argument.array))
            argument = argument.at(address).packed
        value = _passed(argument, parameter, where, place)
        start = kernel.parameter_offsets[parameter.name]
        raw[start : start + len(value)] = value
    workspace = allocate("the barrier of the grid", GRANULE_BYTES) if kernel.waits_for_its_grid else 0
    arrays_end = len(allocations)
    heap_address = allocate("the heap of malloc", HEAP_BYTES * ROOM) if kernel.calls("malloc") else 0
    placed.end = position
    placed.arrays += [each for each in arrays if placed.find(each[0]) is None]
    content = _aligned(position - GLOBAL_WINDOW)
    valid = _allocated(kernel, allocations[:arrays_end], len(content))
    _fill_variables(kernel, content, constants or {})
    start = parameter_address - GLOBAL_WINDOW
    content[start : start + len(raw)] = np.frombuffer(bytes(raw), dtype=np.uint8)
    heap = Heap(heap_address, HEAP_BYTES, valid) if heap_address else None
    return GlobalMemory(
        content, valid, tuple(allocations), bytes(raw), parameter_address, tuple(arrays), heap, textures, workspace
    )


def _passed(argument: Any, parameter: Variable, where: str, place: Callable[[Any], bytes]) -> bytes:
    """The bytes of a parameter."""
    if _is_array(argument) or isinstance(argument, list):
        value = place(argument)
    elif isinstance(argument, tuple):
        value = _packed(argument, place)[0]
    else:
        value = _scalar(argument, parameter, where)
    if len(value) != parameter.size_bytes:
        kind = "an array's address" if isinstance(argument, np.ndarray) else f"{len(value)} bytes"
        raise KernelFault(f"{where} is {kind}, where the kernel expects {parameter.size_bytes} bytes")
    return value


def _allocated(kernel: FlatKernel, allocations: Sequence[Allocation], size_bytes: int) -> NDArray[np.uint16]:
    """The table of allocated bytes."""
    valid = np.zeros(size_bytes // GRANULE_BYTES + 1, dtype=np.uint16)
    module = kernel.module
    for each in allocations:
        first, full = (each.address - GLOBAL_WINDOW) // GRANULE_BYTES, each.size_bytes // GRANULE_BYTES
        valid[first : first + full] = GRANULE_BYTES
        if each.size_bytes % GRANULE_BYTES:
            valid[first + full] = each.size_bytes % GRANULE_BYTES
    for name, address in kernel.variable_addresses.items():
        if module.variables[name].space == "const":
            first = (address - GLOBAL_WINDOW) // GRANULE_BYTES
            valid[first : first - (-module.variables[name].size_bytes // GRANULE_BYTES)] |= READ_ONLY
    return valid


def _fill_variables(kernel: FlatKernel, content: NDArray[np.uint8], constants: Mapping[str, NDArray[Any]]) -> None:
    """Write the initial values of the module's variables."""
    module = kernel.module
    addresses = {**kernel.function_addresses, **kernel.variable_addresses}
    for name, address in kernel.variable_addresses.items():
        start = address - GLOBAL_WINDOW
        initial = initial_bytes(module, module.variables[name], addresses)
        content[start : start + len(initial)] = np.frombuffer(initial, dtype=np.uint8)
    for name, array in constants.items():
        variable = module.variables.get(name)
        if variable is None or name not in kernel.variable_addresses:
            raise KernelFault(
                f"{kernel.name}: no variable is named {name!r}; {nearest(name, kernel.variable_addresses)}"
            )
        if array.nbytes > variable.size_bytes:
            raise KernelFault(f"{kernel.name}: {name} has {variable.size_bytes} bytes; {array.nbytes} are given")
        start = kernel.variable_addresses[name] - GLOBAL_WINDOW
        content[start : start + array.nbytes] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _memory_bytes() -> int:
    """Memory of this machine."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return MOST_BYTES


def _aligned(size: int) -> NDArray[np.uint8]:
    """Zeros that start at a multiple of the granule."""
    try:
        room = np.zeros(size + GRANULE_BYTES, dtype=np.uint8)
    except MemoryError:
        raise KernelFault(f"there is no memory for the {size:,} bytes of variables and arrays") from None
    skip = -room.ctypes.data % GRANULE_BYTES
    return room[skip : skip + size]


def _place(
    array: NDArray[Any],
    number: int,
    where: str,
    arrays: list[tuple[NDArray[Any], int]],
    allocate: Any,
    placement: Placement,
) -> int:
    """The address of an array; the same array passed twice has one address."""
    if not array.flags.c_contiguous:
        raise KernelFault(f"{where} is not contiguous; pass numpy.ascontiguousarray(…) of it")
    if array.dtype.hasobject:
        raise KernelFault(f"{where} holds Python objects; a kernel can use numbers only")
    for other, address in arrays:
        if np.may_share_memory(array, other) and array.nbytes and other.nbytes:
            offset = array.ctypes.data - other.ctypes.data
            if offset >= 0 and offset + array.nbytes <= other.nbytes:
                return address + offset
            raise KernelFault(f"{where} overlaps another array in part; pass the whole array first, or copies")
    address = int(allocate(f"argument {number}", array.nbytes, number, placement.find(array)))
    arrays.append((array, address))
    return address


def _is_array(argument: Any) -> bool:
    """Whether an argument is a pointer; a structured array without dimensions is a struct."""
    return isinstance(argument, np.ndarray) and not (argument.ndim == 0 and argument.dtype.fields)


def _arrays_of(arguments: Iterable[Any]) -> Iterator[NDArray[Any]]:
    """All arrays among arguments, and those that views among them were taken from."""
    for argument in arguments:
        if isinstance(argument, tuple | list):
            yield from _arrays_of(argument)
        elif _is_array(argument):
            yield argument
            if isinstance(argument.base, np.ndarray) and argument.base.flags.c_contiguous:
                yield argument.base
        elif isinstance(argument, Tiles | Im2col | Mapped):
            yield from _arrays_of([argument.array])


def _owner(array: NDArray[Any], arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The array itself, or the largest that holds it where others overlap it in part or hold it."""
    sharing = [each for each in arrays if each is not array and np.may_share_memory(each, array)]
    if not sharing or all(each is array.base for each in sharing):
        return array
    holding = [each for each in sharing if 0 <= _offset(array, each) <= each.nbytes - array.nbytes]
    return max(holding, key=lambda each: each.nbytes, default=array)


def _offset(array: NDArray[Any], owner: NDArray[Any]) -> int:
    return int(array.ctypes.data - owner.ctypes.data)


def _packed(members: tuple[Any, ...], place: Callable[[Any], bytes]) -> tuple[bytes, int]:
    """(Bytes, alignment) of a struct: each member stands at a multiple of its own size, as C++ has it."""
    raw, largest = bytearray(), 1
    for member in members:
        if isinstance(member, tuple):
            value, alignment = _packed(member, place)
        else:
            value = place(member) if _is_array(member) or isinstance(member, list) else np.asarray(member).tobytes()
            alignment = len(value)
        raw += bytes(-len(raw) % alignment) + value
        largest = max(largest, alignment)
    return bytes(raw) + bytes(-len(raw) % largest), largest


def _scalar(value: Any, parameter: Variable, where: str) -> bytes:
    """A number as the bytes of its parameter."""
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, np.generic | np.ndarray):
        return value.tobytes()
    kind = parameter.type
    if parameter.is_array or not isinstance(value, bool | int | float):
        raise KernelFault(f"{where}: {type(value).__name__} cannot be passed; use numpy scalars, arrays or bytes")
    try:
        if kind.is_float:
            return struct.pack({16: "<e", 32: "<f", 64: "<d"}[kind.bits], value)
        if isinstance(value, float):
            # .b32 and .b64 may hold a float; the PTX does not tell.
            if kind.kind != "b" or kind.bits not in (32, 64):
                raise KernelFault(f"{where}: {value!r} is not whole, and the parameter is .{kind}")
            return struct.pack("<f" if kind.bits == 32 else "<d", value)
        return (int(value) & ((1 << kind.bits) - 1)).to_bytes(kind.bytes, "little")
    except (OverflowError, struct.error):
        raise KernelFault(f"{where}: {value!r} does not fit the parameter's type .{kind}") from None


def initial_bytes(module: PtxModule, variable: Variable, addresses: Mapping[str, int]) -> bytes:
    """What a variable holds at first; `addresses` are those of variables and functions."""
    content = bytearray(variable.initial or b"")
    for offset, name, addend in variable.pointers:
        address = addresses.get(name)
        if address is None:
            raise PtxError(
                f"{module.name}: line {variable.line}: {variable.name} is initialised with the address of {name!r}, "
                "which is neither a global variable nor a function"
            )
        width = variable.type.bytes
        content[offset : offset + width] = (address + addend & (1 << 64) - 1).to_bytes(8, "little")[:width]
    return bytes(content)
