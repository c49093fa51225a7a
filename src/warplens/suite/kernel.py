"""A kernel of the suite: its source, its launches at three sizes, and the result it must compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from warplens.errors import UnknownNameError, nearest

Array = NDArray[Any]
Group = Literal["non-divergent", "divergent", "micro"]
SIZES = ("small", "medium", "large")


@dataclass(frozen=True)
class SuiteLaunch:
    """One launch of a kernel with everything it reads."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Any, ...]
    """NumPy arrays (device buffers, read and written) and NumPy scalars, in the order of the parameters."""
    dynamic_shared_memory_bytes: int = 0
    constants: Mapping[str, Array] = field(default_factory=dict)
    """What the module's `__constant__` variables hold before the launch, by their name in the source."""

    def copied_arguments(self) -> tuple[Any, ...]:
        """The arguments with copied arrays, for an execution that may write them."""
        return tuple(a.copy() if isinstance(a, np.ndarray) else a for a in self.arguments)


@dataclass(frozen=True)
class Sized:
    """Prepares a launch of a named size: a function and its arguments for each size."""

    make: Callable[..., SuiteLaunch]
    small: tuple[Any, ...]
    medium: tuple[Any, ...]
    large: tuple[Any, ...]

    def __call__(self, size: str) -> SuiteLaunch:
        if size not in SIZES:
            raise UnknownNameError(f"no size is called {size!r}; valid: {', '.join(SIZES)}")
        return self.make(*getattr(self, size))


@dataclass(frozen=True)
class Tolerance:
    """Allowed error of a floating-point result: |got - expected| ≤ relative·|expected| + absolute.

    Integers must always be equal.
    """

    relative: float = 0.0
    absolute: float = 0.0
    because: str = "one correctly rounded operation per element, or none"
    outlier_share: float = 0.0
    """Share of elements that may be further off because rounding can flip a comparison in the kernel."""


EXACT = Tolerance()


@dataclass(frozen=True)
class SuiteKernel:
    """A CUDA C++ kernel with inputs and the result it must have."""

    name: str
    source: str
    """File name in `kernels/`."""
    entry: str
    group: Group
    """Category in the papers; the measured divergent loads per kilo-instruction may disagree."""
    stands_for: str
    prepare: Callable[[str], SuiteLaunch]
    reference: Callable[[SuiteLaunch], dict[int, Array]]
    """Expected content of the arguments the kernel writes, by index, from a launch not yet executed."""
    tolerance: Tolerance = EXACT
    options: tuple[str, ...] = ()
    """Options for NVRTC beyond the architecture."""
    parameters: Mapping[str, int] = field(default_factory=dict)
    """What distinguishes this entry from others with the same kernel: a stride, the β of a mix."""

    def source_text(self) -> str:
        return files("warplens.suite").joinpath("kernels", self.source).read_text(encoding="utf-8")


def unknown_kernel(name: str, valid: Mapping[str, SuiteKernel]) -> UnknownNameError:
    return UnknownNameError(f"no kernel of the suite is called {name!r}; {nearest(name, valid)}")
