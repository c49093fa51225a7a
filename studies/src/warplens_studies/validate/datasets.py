"""The reference datasets, by their name in `warplens validate`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from warplens.errors import UnknownNameError, nearest

from . import accelsim
from .harness import Validation, validate_accelsim


@dataclass(frozen=True)
class Dataset:
    """Kernels with references on some configurations of a machine, and how to predict them all."""

    name: str
    title: str
    kernels: tuple[str, ...]
    configurations: tuple[str, ...]
    run: Callable[..., Validation]

    def choose_kernels(self, pattern: re.Pattern[str] | None) -> list[str]:
        """Kernels whose name matches the pattern; an error if there are none."""
        chosen = [kernel for kernel in self.kernels if pattern is None or pattern.search(kernel)]
        if not chosen:
            assert pattern is not None
            raise UnknownNameError(
                f"no kernel of {self.name!r} matches {pattern.pattern!r}; {nearest(pattern.pattern, self.kernels)}"
            )
        return chosen

    def choose_configurations(self, names: Sequence[str]) -> list[str]:
        """The named configurations in the order of the data; all of them without names."""
        for name in names:
            if name not in self.configurations:
                known = nearest(name, self.configurations)
                raise UnknownNameError(f"dataset {self.name!r} has no configuration {name!r}; {known}")
        return [name for name in self.configurations if name in names or not names]


DATASETS: dict[str, Dataset] = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            name="accelsim",
            title="16 kernels on an MDM-like machine, simulated with Accel-Sim",
            kernels=tuple(accelsim.kernels()),
            configurations=tuple(accelsim.CONFIGURATIONS),
            run=validate_accelsim,
        ),
    )
}


def find_datasets(names: Iterable[str]) -> list[Dataset]:
    """Datasets by name, without repeats; without names, all of them."""
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        if name not in DATASETS:
            raise UnknownNameError(f"no dataset is named {name!r}; {nearest(name, DATASETS)}")
    return [DATASETS[name] for name in wanted or DATASETS]
