"""Arguments of a launch: scalars, and arrays by dtype, shape and how they are filled.

Arrays are built on demand, so inspecting a launch costs nothing. Filling an array
with a Python function runs the user's own file.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union

import numpy as np

from ...errors import InputError, WorkloadError, nearest
from ...result_cache import content_hash, open_results
from .dtypes import DTYPE_NAMES, as_on_gpu, is_known, is_whole, largest, size_bytes, whole_limits
from .options import is_trusted

if TYPE_CHECKING:
    from ..ptx.tensor_maps import Im2col, Tiles
    from ..ptx.textures import Texture

#: How an array can be filled, and the keys that belong to it.
FILLS: dict[str, tuple[str, ...]] = {
    "zeros": (),
    "ones": (),
    "constant": ("value",),
    "arange": ("start", "step"),
    "random": ("seed", "low", "high"),
    "file": ("file",),
    "function": ("function",),
}

#: Most bytes of all arrays of a launch. While a kernel runs, memory holds them twice.
MOST_ARGUMENT_BYTES = 4 << 30

#: A struct is a tuple of what its members are, an array of pointers a list of arrays.
Built = Union[np.ndarray[Any, Any], np.generic, tuple[Any, ...], list[Any], "Texture", "Tiles", "Im2col"]
#: Arrays that several arguments name, once built.
Buffers = dict["ArrayArgument", np.ndarray[Any, Any]]


def scalar_of(dtype: np.dtype[Any], value: Any) -> np.generic:
    """`value` as a scalar of `dtype`; ValueError with the reason if it does not fit."""
    if dtype.kind == "b":
        if not isinstance(value, bool):
            raise ValueError(f"{value!r} must be true or false")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number")
    elif is_whole(dtype):
        least, most = whole_limits(dtype)
        if isinstance(value, float) and not value.is_integer():
            raise ValueError(f"{value!r} is not a whole number, and the dtype is {dtype.name}")
        if not least <= value <= most:
            raise ValueError(f"{value!r} lies outside {dtype.name}: {least} to {most}")
        value = int(value)
    else:
        try:
            fits = not math.isfinite(value) or abs(float(value)) <= largest(dtype)
        except OverflowError:
            fits = False
        if not fits:
            raise ValueError(f"{value!r} lies outside {dtype.name}: at most {largest(dtype):g}")
    return dtype.type(value)


@dataclass(frozen=True)
class ScalarArgument:
    """A number passed by value."""

    value: np.generic

    @property
    def nbytes(self) -> int:
        return 0

    def build(self, buffers: Buffers | None = None) -> Built:
        return self.value


@dataclass(frozen=True)
class ArrayArgument:
    """An array in global memory, in C order, passed as a pointer."""

    dtype: np.dtype[Any] | None = None
    shape: tuple[int, ...] | None = None
    fill: str = "zeros"
    value: np.generic | None = None
    start: int | float = 0
    step: int | float = 1
    seed: int = 0
    low: int | float = 0
    high: int | float = 1
    """Random floats lie in [low, high), random integers too."""
    path: Path | None = None
    """The .npy file, or the Python file with the function."""
    function: str = ""
    is_vector: bool = False
    """The last extent is that of a vector dtype."""
    where: str = "array"
    """Place in the workload file, for messages."""

    @property
    def nbytes(self) -> int:
        """Bytes of the array, if known before it is built; else 0."""
        if self.dtype is None or self.shape is None:
            return 0
        return size_bytes(self.dtype, math.prod(self.shape))

    def fail(self, why: str) -> WorkloadError:
        return WorkloadError(f"{self.where}: {why}")

    def build(self, buffers: Buffers | None = None) -> np.ndarray[Any, Any]:
        """A new array as a GPU holds it; random ones are reproducible."""
        if self.fill == "file":
            return as_on_gpu(self._checked(self._load()))
        if self.fill == "function":
            return as_on_gpu(self._checked(self._call()))
        assert self.dtype is not None and self.shape is not None
        try:
            return as_on_gpu(self._filled(self.dtype, self.shape))
        except MemoryError:
            raise self.fail(f"{self.nbytes:,} bytes do not fit into this machine's memory") from None

    def _filled(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        if self.fill in ("zeros", "ones"):
            return np.full(shape, self.fill == "ones", dtype)
        if self.fill == "constant":
            return np.full(shape, self.value, dtype)
        size = math.prod(shape)
        if self.fill == "arange":
            return self._arange(dtype, size).reshape(shape)
        generator = np.random.default_rng(self.seed)
        if dtype.kind == "b":
            return generator.integers(0, 2, shape, np.uint8).astype(bool)
        if is_whole(dtype):
            drawn = dtype if dtype.kind in "iu" else np.dtype(np.int8)
            return generator.integers(int(self.low), int(self.high), shape, drawn).astype(dtype, copy=False)
        random_type = np.float32 if dtype.itemsize <= 4 else np.float64
        values = generator.random(shape, random_type)
        values *= random_type(float(self.high) - float(self.low))
        values += random_type(self.low)
        return values.astype(dtype, copy=False)

    def _arange(self, dtype: np.dtype[Any], size: int) -> np.ndarray[Any, Any]:
        last = self.start + self.step * max(size - 1, 0)
        try:
            scalar_of(dtype, self.start)
            scalar_of(dtype, last)
        except ValueError as error:
            raise self.fail(f'fill = "arange" does not fit: {error}') from None
        if is_whole(dtype):
            # Steps in the dtype itself: intermediate overflow cancels out.
            values = np.arange(size, dtype=np.uint64) * np.uint64(int(self.step) % 2**64)
            return (values + np.uint64(int(self.start) % 2**64)).astype(dtype)
        return (np.arange(size, dtype=np.float64) * self.step + self.start).astype(dtype)

    def _load(self) -> Any:
        assert self.path is not None
        try:
            with self.path.open("rb") as file:
                if file.read(6) != b"\x93NUMPY":
                    raise self.fail(f"{self.path}: not a .npy file; write it with numpy.save")
            return np.load(self.path, mmap_mode="r", allow_pickle=False)
        except OSError as error:
            raise self.fail(f"{self.path}: cannot be read ({error.strerror or error})") from None
        except (ValueError, EOFError) as error:
            raise self.fail(f"{self.path}: not a usable .npy file ({error})") from None

    def _call(self) -> Any:
        assert self.path is not None
        function = function_of(self.path, self.function, self.where)
        try:
            return np.asarray(function(self.shape, self.dtype))
        except Exception as error:
            raise self.fail(f"{self.path}: {self.function} failed: {type(error).__name__}: {error}") from error

    def _checked(self, found: Any) -> np.ndarray[Any, Any]:
        """A copy in C order, if dtype and shape match the workload file."""
        if self.dtype is not None and found.dtype != self.dtype:
            raise self.fail(f"{self.path} gives {found.dtype.name}, not {self.dtype.name}; convert it with .astype")
        if not is_known(found.dtype):
            raise self.fail(f"{self.path} gives dtype {found.dtype}; valid: {', '.join(DTYPE_NAMES)}")
        if self.shape is not None and found.shape != self.shape:
            raise self.fail(f"{self.path} gives shape {list(found.shape)}, not {list(self.shape)}")
        if found.nbytes > MOST_ARGUMENT_BYTES:
            raise self.fail(f"{self.path} gives {found.nbytes:,} bytes; at most {MOST_ARGUMENT_BYTES:,} can be held")
        return np.array(found, order="C")


@dataclass(frozen=True)
class StructArgument:
    """A struct that is passed by value; arrays among its members are pointers."""

    members: tuple[Argument, ...]

    @property
    def nbytes(self) -> int:
        return sum(member.nbytes for member in self.members)

    def build(self, buffers: Buffers | None = None) -> Built:
        return tuple(member.build(buffers) for member in self.members)


@dataclass(frozen=True)
class BufferArgument:
    """A pointer into an array that other arguments may point into too."""

    buffer: ArrayArgument
    offset: int = 0
    """Elements from its start."""

    @property
    def nbytes(self) -> int:
        return 0

    def build(self, buffers: Buffers | None = None) -> Built:
        held = {} if buffers is None else buffers
        if self.buffer not in held:
            held[self.buffer] = self.buffer.build()
        return held[self.buffer].reshape(-1)[self.offset :] if self.offset else held[self.buffer]


@dataclass(frozen=True)
class PointersArgument:
    """An array of pointers in global memory."""

    targets: tuple[ArrayArgument | BufferArgument, ...]

    @property
    def nbytes(self) -> int:
        return 8 * len(self.targets) + sum(target.nbytes for target in self.targets)

    def build(self, buffers: Buffers | None = None) -> Built:
        return [target.build(buffers) for target in self.targets]


@dataclass(frozen=True)
class DescribedArgument:
    """What describes an array to the hardware: a texture or surface object, or a tensor map."""

    target: ArrayArgument | BufferArgument
    kind: Literal["texture", "tiles", "im2col"]
    #: Names and values of `Texture`, `Tiles` or `Im2col`.
    options: tuple[tuple[str, Any], ...]

    @property
    def nbytes(self) -> int:
        return self.target.nbytes

    def build(self, buffers: Buffers | None = None) -> Built:
        from ..ptx.tensor_maps import Im2col, Tiles
        from ..ptx.textures import Texture

        array = self.target.build(buffers)
        assert isinstance(array, np.ndarray)
        return {"texture": Texture, "tiles": Tiles, "im2col": Im2col}[self.kind](array, **dict(self.options))


Argument = ScalarArgument | ArrayArgument | StructArgument | BufferArgument | PointersArgument | DescribedArgument


def _bytes_of(value: Built) -> int:
    return sum(map(_bytes_of, value)) if isinstance(value, tuple | list) else int(value.nbytes)


def build_arguments(arguments: Sequence[Argument], where: str, buffers: Buffers | None = None) -> list[Built]:
    """Values for a launch; all arrays together must stay below `MOST_ARGUMENT_BYTES`. `buffers` are kept."""
    buffers = {} if buffers is None else buffers
    check_total(sum(argument.nbytes for argument in arguments), where)
    built: list[Built] = []
    for argument in arguments:
        built.append(argument.build(buffers))
        check_total(sum(map(_bytes_of, built)), where)
    return built


def check_total(total: int, where: str) -> None:
    """Reject arrays that are too large together."""
    if total > MOST_ARGUMENT_BYTES:
        raise WorkloadError(
            f"{where}: the arrays hold {total:,} bytes together; at most {MOST_ARGUMENT_BYTES:,} can be held. "
            "Use a smaller problem: predictions scale with the number of blocks"
        )


def _announce(path: Path) -> None:
    """Say once that a file of Python is about to run."""
    if is_trusted() or not path.is_file():
        return
    kept, key = open_results("announced"), content_hash([str(path.absolute()), path.read_bytes()])
    if kept.get(key) is None:
        print(f"note: {path} is Python code of a workload file and runs with your rights", file=sys.stderr)
        kept.put(key, {"said": True})


def function_of(path: Path, name: str, where: str) -> Callable[..., Any]:
    """A function of a Python file. This executes the file, which the user's own workload names."""
    module_name = f"warplens_user_{path.stem}"
    try:
        _announce(path)
        specification = importlib.util.spec_from_file_location(module_name, path)
        if specification is None or specification.loader is None or not path.is_file():
            raise WorkloadError(f"{where}: {path}: no such Python file")
        module = importlib.util.module_from_spec(specification)
        sys.modules[module_name] = module  # dataclasses and numba look modules up here
        specification.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:
        raise WorkloadError(f"{where}: {path}: cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if function is None or not callable(function):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise WorkloadError(f"{where}: {path} has no function {name!r}; {nearest(name, known)}")
    return function
