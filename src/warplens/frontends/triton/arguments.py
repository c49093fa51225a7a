"""Arguments of Triton kernels: what the compiler asks of them, and what the parameters of its PTX are.

Arrays may be views with any strides: a kernel sees their address alone. So a parameter is the memory from the
view's first to its last byte, as part of what other views share with it.
"""

from __future__ import annotations

import copy
import ctypes
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from ...errors import CompileError, KernelFault
from ..cuda.dtypes import find_dtype
from ..ptx.tensor_maps import Mapped, TensorMap

#: Where tensors lie, as the compiler sees it: whole arrays are aligned, wherever NumPy put them.
_ALIGNED = 1 << 40
_DESCRIPTOR = re.compile(r"tensordesc(_im2col)?<")


def tensor(array: NDArray[Any]) -> Tensor:
    """A NumPy array for a descriptor made on the host: `TensorDescriptor.from_tensor(warplens.tensor(x), [64, 64])`.

    The kernel changes the array itself.
    """
    return Tensor(array)


class Tensor:
    """A NumPy array with what Triton asks of a tensor."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def data_ptr(self) -> int:
        return _ALIGNED + Memory.of(self).offset

    def stride(self, axis: int | None = None) -> tuple[int, ...] | int:
        steps = tuple(each // self.array.itemsize for each in self.array.strides)
        return steps if axis is None else steps[axis]


class Pointer:
    """An array as Triton's compiler sees a tensor: a dtype, and an address whose alignment it relies on."""

    def __init__(self, dtype: Any, offset: int = 0) -> None:
        self.dtype, self.offset = dtype, offset

    def data_ptr(self) -> int:
        return _ALIGNED + self.offset


@dataclass(frozen=True)
class Memory:
    """Bytes that a tensor covers: where they begin in what it is a view of, and what that is."""

    start: int
    size: int
    whole_start: int
    whole_size: int
    dtype: Any
    is_writeable: bool
    owner: Any
    """Keeps the bytes alive."""

    @property
    def offset(self) -> int:
        return self.start - self.whole_start

    @classmethod
    def of(cls, tensor: Any) -> Memory:
        if isinstance(tensor, Tensor):
            return cls.of(tensor.array)
        if isinstance(tensor, np.ndarray):
            low, high = byte_bounds(tensor)
            root: Any = tensor
            while isinstance(root.base, np.ndarray):
                root = root.base
            first, last = byte_bounds(root)
            return cls(low, high - low, first, last - first, tensor.dtype.name, tensor.flags.writeable, tensor)
        if not hasattr(tensor, "untyped_storage"):  # of triton.reinterpret: a tensor with another dtype
            inner = cls.of(tensor.base)
            return cls(inner.start, inner.size, inner.whole_start, inner.whole_size, tensor.dtype, True, inner.owner)
        kind = type(tensor).__name__
        if tensor.device.type != "cpu":
            raise KernelFault(f"a {kind} on {tensor.device} cannot be used here; pass its .cpu(), or a NumPy array")
        storage, itemsize = tensor.untyped_storage(), tensor.element_size()
        steps = sum((extent - 1) * step for extent, step in zip(tensor.shape, tensor.stride(), strict=True))
        size = (steps + 1) * itemsize if tensor.numel() else 0
        dtype = str(tensor.dtype).rpartition(".")[2]
        return cls(tensor.data_ptr(), size, storage.data_ptr(), storage.nbytes(), dtype, True, tensor)


def is_tensor(argument: Any) -> bool:
    return isinstance(argument, np.ndarray | Tensor) or hasattr(argument, "data_ptr")


def is_descriptor(argument: Any) -> bool:
    return hasattr(argument, "base") and hasattr(argument, "block_shape")


def tensors_of(arguments: Any) -> Iterator[Any]:
    """All tensors among arguments, in tuples, lists and descriptors too."""
    for each in arguments:
        if is_descriptor(each):
            yield each.base
        elif isinstance(each, tuple | list):
            yield from tensors_of(each)
        elif is_tensor(each):
            yield each


def for_compiler(argument: Any) -> Any:
    """What Triton's compiler is shown in place of an argument."""
    if is_descriptor(argument):
        shown = copy.copy(argument)  # not made anew: its checks are for tensors
        shown.base = for_compiler(argument.base)
        return shown
    if isinstance(argument, list):
        return Pointer("int64")  # addresses
    if isinstance(argument, tuple):
        return _like(argument, [for_compiler(each) for each in argument])
    if is_tensor(argument):
        memory = Memory.of(argument)
        return Pointer(memory.dtype, memory.offset)
    return argument.item() if isinstance(argument, np.generic) else argument


def stand_in(argument: Any) -> Any:
    """For a tensor that is not on the CPU, an array of its type and as many elements; anything else as it is."""
    if is_descriptor(argument):
        shown = copy.copy(argument)
        shown.base = stand_in(argument.base)
        return shown
    if isinstance(argument, tuple):
        return _like(argument, [stand_in(each) for each in argument])
    if isinstance(argument, np.ndarray | Tensor) or not hasattr(argument, "data_ptr"):
        return argument
    dtype, _ = find_dtype(str(argument.dtype).rpartition(".")[2])
    steps = argument.stride() if hasattr(argument, "stride") else [1] * len(argument.shape)
    reach = sum((extent - 1) * abs(step) for extent, step in zip(argument.shape, steps, strict=True))
    return np.ones(max(int(np.prod(argument.shape)), reach + 1), dtype)


def _like(given: tuple[Any, ...], values: list[Any]) -> tuple[Any, ...]:
    """A tuple, or a named one, of other values."""
    return type(given)(*values) if hasattr(given, "_fields") else tuple(values)


class Parameters:
    """What the parameters of a kernel's PTX are, for the arguments of a launch and their types."""

    def __init__(self, maps: Sequence[Mapping[str, Any]]) -> None:
        self._maps = iter(maps)
        self._has_maps = bool(maps)
        self._whole: dict[tuple[int, int], NDArray[np.uint8]] = {}

    def of(self, argument: Any, kind: Any) -> list[Any]:
        """`kind` is the compiler's type of the argument; constants are no parameters."""
        if kind == "constexpr":
            return []
        if isinstance(kind, tuple):
            return [each for pair in zip(argument, kind, strict=True) for each in self.of(*pair)]
        if _DESCRIPTOR.match(kind):
            return self._of_descriptor(argument, kind)
        if isinstance(argument, list):
            return [[self._bytes(each) for each in argument]]
        if is_tensor(argument):
            return [self._bytes(argument)]
        return [argument.item() if isinstance(argument, np.generic) else argument]

    def _of_descriptor(self, given: Any, kind: str) -> list[Any]:
        """A descriptor is a tensor map where the GPU has TMA, else a pointer; its shape and strides follow."""
        layout = [*map(int, given.shape), *map(int, given.strides)]
        if not self._has_maps:
            options = [getattr(given, "padding", "zero") == "nan", bool(getattr(given, "round_f32_to_tf32", False))]
            return [self._bytes(given.base), *layout, *options, *layout]
        found = next(self._maps)
        if found["fp4_padded"] or found.get("is_im2col"):
            raise CompileError(f"descriptors of type {kind} are not covered: padded FP4, or im2col")
        itemsize = int(found["elem_size"])
        made = TensorMap(
            0,
            len(given.shape),
            int(found["elem_type"]),
            tuple(map(int, given.shape[::-1])),
            tuple(itemsize * int(each) for each in given.strides[-2::-1]),
            tuple(map(int, found["block_size"][::-1])),
            swizzle=int(found["swizzle"]),
            fill=int(getattr(given, "padding", "zero") == "nan"),
        )
        return [Mapped(self._bytes(given.base), made), *layout]

    def _bytes(self, tensor: Any) -> NDArray[Any]:
        """Its memory; that of several views of one array is part of one array here too."""
        if isinstance(tensor, Tensor):
            tensor = tensor.array
        if isinstance(tensor, np.ndarray) and tensor.flags.c_contiguous:
            return tensor
        memory = Memory.of(tensor)
        key = memory.whole_start, memory.whole_size
        if key not in self._whole:
            self._whole[key] = _bytes_at(*key)
        found = self._whole[key][memory.offset : memory.offset + memory.size]
        found.flags.writeable = memory.is_writeable
        return found


class Kept:
    """The contents of arrays, to be put back."""

    def __init__(self, arguments: Any) -> None:
        memories = {(each.start, each.size): each for each in map(Memory.of, tensors_of(arguments))}
        self._owners = list(memories.values())
        views = [_bytes_at(each.start, each.size) for each in self._owners if each.is_writeable and each.size]
        self._saved = [(view, view.copy()) for view in views]

    def put_back(self) -> None:
        for view, content in self._saved:
            view[:] = content


def _bytes_at(start: int, size: int) -> NDArray[np.uint8]:
    if not size:
        return np.zeros(0, np.uint8)
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(start)).cast("B"), np.uint8)
