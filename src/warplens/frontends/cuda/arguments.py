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
from typing import Any

import numpy as np

from ...errors import InputError, WorkloadError, nearest

#: dtypes that a kernel's parameters and arrays can have.
DTYPES = {
    name: np.dtype(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64",
    )
}  # fmt: skip

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

#: A struct is a tuple of what its members are.
Built = np.ndarray[Any, Any] | np.generic | tuple[Any, ...]


def scalar_of(dtype: np.dtype[Any], value: Any) -> np.generic:
    """`value` as a scalar of `dtype`; ValueError with the reason if it does not fit."""
    if dtype.kind == "b":
        if not isinstance(value, bool):
            raise ValueError(f"{value!r} must be true or false")
    elif isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{value!r} is not a number")
    elif dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if isinstance(value, float) and not value.is_integer():
            raise ValueError(f"{value!r} is not a whole number, and the dtype is {dtype.name}")
        if not limits.min <= value <= limits.max:
            raise ValueError(f"{value!r} lies outside {dtype.name}: {limits.min} to {limits.max}")
        value = int(value)
    else:
        try:
            fits = not math.isfinite(value) or abs(float(value)) <= float(np.finfo(dtype).max)
        except OverflowError:
            fits = False
        if not fits:
            raise ValueError(f"{value!r} lies outside {dtype.name}: at most {float(np.finfo(dtype).max):g}")
    return dtype.type(value)


@dataclass(frozen=True)
class ScalarArgument:
    """A number passed by value."""

    value: np.generic

    @property
    def nbytes(self) -> int:
        return 0

    def build(self) -> Built:
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
    where: str = "array"
    """Place in the workload file, for messages."""

    @property
    def nbytes(self) -> int:
        """Bytes of the array, if known before it is built; else 0."""
        if self.dtype is None or self.shape is None:
            return 0
        return math.prod(self.shape) * self.dtype.itemsize

    def fail(self, why: str) -> WorkloadError:
        return WorkloadError(f"{self.where}: {why}")

    def build(self) -> Built:
        """A new array; random ones are reproducible."""
        if self.fill == "file":
            return self._checked(self._load())
        if self.fill == "function":
            return self._checked(self._call())
        assert self.dtype is not None and self.shape is not None
        try:
            return self._filled(self.dtype, self.shape)
        except MemoryError:
            raise self.fail(f"{self.nbytes:,} bytes do not fit into this machine's memory") from None

    def _filled(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Built:
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
        if dtype.kind in "iu":
            return generator.integers(int(self.low), int(self.high), shape, dtype)
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
        if dtype.kind in "iu":
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

    def _checked(self, found: Any) -> Built:
        """A copy in C order, if dtype and shape match the workload file."""
        if self.dtype is not None and found.dtype != self.dtype:
            raise self.fail(f"{self.path} gives {found.dtype.name}, not {self.dtype.name}; convert it with .astype")
        if found.dtype not in DTYPES.values():
            raise self.fail(f"{self.path} gives dtype {found.dtype}; valid: {', '.join(DTYPES)}")
        if self.shape is not None and found.shape != self.shape:
            raise self.fail(f"{self.path} gives shape {list(found.shape)}, not {list(self.shape)}")
        if found.nbytes > MOST_ARGUMENT_BYTES:
            raise self.fail(f"{self.path} gives {found.nbytes:,} bytes; at most {MOST_ARGUMENT_BYTES:,} can be held")
        return np.array(found, order="C")


@dataclass(frozen=True)
class StructArgument:
    """A struct that is passed by value; arrays among its members are pointers."""

    members: tuple[ScalarArgument | ArrayArgument | StructArgument, ...]

    @property
    def nbytes(self) -> int:
        return sum(member.nbytes for member in self.members)

    def build(self) -> Built:
        return tuple(member.build() for member in self.members)


Argument = ScalarArgument | ArrayArgument | StructArgument


def _bytes_of(value: Built) -> int:
    return sum(map(_bytes_of, value)) if isinstance(value, tuple) else int(value.nbytes)


def build_arguments(arguments: Sequence[Argument], where: str) -> list[Built]:
    """Values for a launch; all arrays together must stay below `MOST_ARGUMENT_BYTES`."""
    check_total(sum(argument.nbytes for argument in arguments), where)
    built: list[Built] = []
    for argument in arguments:
        built.append(argument.build())
        check_total(sum(map(_bytes_of, built)), where)
    return built


def check_total(total: int, where: str) -> None:
    """Reject arrays that are too large together."""
    if total > MOST_ARGUMENT_BYTES:
        raise WorkloadError(
            f"{where}: the arrays hold {total:,} bytes together; at most {MOST_ARGUMENT_BYTES:,} can be held. "
            "Use a smaller problem: predictions scale with the number of blocks"
        )


def function_of(path: Path, name: str, where: str) -> Callable[..., Any]:
    """A function of a Python file. This executes the file, which the user's own workload names."""
    module_name = f"warplens_user_{path.stem}"
    try:
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
