"""Compares the arguments of a suite kernel after an execution with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warplens.suite.kernel import EXACT, Array, SuiteKernel, SuiteLaunch, Tolerance


@dataclass(frozen=True)
class ArgumentComparison:
    """One argument after an execution against the reference."""

    argument: int
    elements: int
    mismatches: int
    """Elements outside the tolerance."""
    max_absolute_error: float
    max_relative_error: float
    max_ulps: float
    """Largest error in units of the last place (for integers, the difference). Values below the array's root mean
    square use the unit of that mean: cancellation near zero leaves no more exact bits."""
    ok: bool
    first_bad_index: tuple[int, ...] | None = None
    got: Any = None
    expected: Any = None

    def __str__(self) -> str:
        if self.ok:
            return f"argument {self.argument}: agrees, at most {self.max_ulps:.3g} ulps off"
        return (
            f"argument {self.argument}: {self.mismatches} of {self.elements} elements differ, first at "
            f"{self.first_bad_index}: {self.got} instead of {self.expected} "
            f"(largest error {self.max_absolute_error:.3g}, {self.max_ulps:.3g} ulps)"
        )


def compare(kernel: SuiteKernel, launch_before: SuiteLaunch, arrays_after: Sequence[Any]) -> list[ArgumentComparison]:
    """Compare every array argument with the reference; arrays that it does not name must be unchanged.

    `launch_before` still holds the inputs: execute on `launch_before.copied_arguments()`.
    """
    expected = kernel.reference(launch_before)
    comparisons = []
    for index, before in enumerate(launch_before.arguments):
        if isinstance(before, np.ndarray):
            tolerance = kernel.tolerance if index in expected else EXACT
            comparisons.append(compare_arrays(index, arrays_after[index], expected.get(index, before), tolerance))
    return comparisons


def check(kernel: SuiteKernel, launch_before: SuiteLaunch, arrays_after: Sequence[Any]) -> list[ArgumentComparison]:
    """The comparisons that fail; empty if the results are right."""
    return [c for c in compare(kernel, launch_before, arrays_after) if not c.ok]


def compare_arrays(argument: int, got: Array, expected: Array, tolerance: Tolerance = EXACT) -> ArgumentComparison:
    """One array against what it should hold."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise ValueError(
            f"argument {argument} is {got.dtype}{got.shape}, but its reference is {expected.dtype}{expected.shape}"
        )
    is_float = np.issubdtype(expected.dtype, np.floating)
    wide = np.float64 if is_float else np.int64
    error = np.abs(got.astype(wide) - expected.astype(wide))
    size = np.abs(expected.astype(wide))
    bad = ~(error <= tolerance.relative * size + tolerance.absolute) if is_float else error != 0
    mismatches = int(np.count_nonzero(bad))
    root_mean_square = np.sqrt(np.mean(np.square(size, dtype=np.float64))) if is_float else 0.0
    last_place = np.spacing(np.maximum(size, root_mean_square).astype(expected.dtype)) if is_float else 1
    tolerable = is_float and np.isfinite(error).all()  # no share of NaNs is tolerable
    ok = mismatches <= (int(tolerance.outlier_share * expected.size) if tolerable else 0)
    first = None if ok else tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative_error = np.where(error == 0, 0.0, error / size)
    return ArgumentComparison(
        argument=argument,
        elements=expected.size,
        mismatches=mismatches,
        max_absolute_error=float(error.max(initial=0)),
        max_relative_error=float(relative_error.max(initial=0)),
        max_ulps=float((error / last_place).max(initial=0)),
        ok=ok,
        first_bad_index=first,
        got=None if first is None else got[first],
        expected=None if first is None else expected[first],
    )
