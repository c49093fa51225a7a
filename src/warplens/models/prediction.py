"""The result of a model, in the same form for one machine and for a batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..machine import Quantity
from ..notebook import Displayed


class Stack(Displayed, dict[str, Quantity]):
    """Parts of a CPI by cause: a dictionary that a notebook shows as a bar."""


@dataclass(frozen=True)
class Condition:
    """A warning, and the machines of the batch that it holds for (None: all)."""

    text: str
    where: Any = None

    def holds(self, index: int) -> bool:
        return True if self.where is None else bool(np.ravel(self.where)[index if np.size(self.where) > 1 else 0])


@dataclass(frozen=True)
class Prediction(Displayed):
    """What a model says about one kernel launch on one GPU.

    `cycles` is the duration of the whole launch in core cycles, `ipc` the warp
    instructions per cycle over the whole GPU, `cpi` = SMs / ipc. `stack` sums
    to `cpi` (None where the model's paper defines no stack). `terms` are the
    paper's own quantities. For a batch of machines the numbers are arrays.
    """

    kernel: str
    launch: int | None
    gpu: str
    overrides: Mapping[str, Any]
    model: str
    cycles: Quantity
    seconds: Quantity
    ipc: Quantity
    cpi: Quantity
    stack: Mapping[str, Quantity] | None
    terms: Mapping[str, Quantity] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    clock_hz: Quantity = None
    clock: str = ""
    """Which of several published clocks that is: boost, sustained or base; empty where it is none."""

    @property
    def is_batch(self) -> bool:
        return bool(np.ndim(self.cycles))

    def __len__(self) -> int:
        return len(self.cycles) if self.is_batch else 1

    @property
    def warnings(self) -> list[str]:
        """Each warning once, if it holds for any machine of the batch."""
        texts = (c.text for c in self.conditions if c.where is None or np.any(c.where))
        return list(dict.fromkeys(texts))

    def row(self, index: int) -> Prediction:
        """One machine of a batch as a prediction of its own."""

        def at(value: Any) -> Any:
            return float(value[index]) if np.ndim(value) else value

        return replace(
            self,
            overrides={key: at(value) for key, value in self.overrides.items()},
            cycles=at(self.cycles),
            seconds=at(self.seconds),
            ipc=at(self.ipc),
            cpi=at(self.cpi),
            stack=None if self.stack is None else Stack({name: at(part) for name, part in self.stack.items()}),
            terms={name: at(term) for name, term in self.terms.items()},
            conditions=tuple(Condition(c.text) for c in self.conditions if c.holds(index)),
            clock_hz=at(self.clock_hz),
        )

    def __iter__(self) -> Iterator[Prediction]:
        return (self.row(index) for index in range(len(self))) if self.is_batch else iter((self,))

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; NaN and infinity do not occur."""
        return {
            "kernel": self.kernel,
            "launch": self.launch,
            "gpu": self.gpu,
            "overrides": {key: _plain(value) for key, value in self.overrides.items()},
            "model": self.model,
            "cycles": _plain(self.cycles),
            "seconds": _plain(self.seconds),
            "ipc": _plain(self.ipc),
            "cpi": _plain(self.cpi),
            "stack": None if self.stack is None else {name: _plain(part) for name, part in self.stack.items()},
            "terms": {name: _plain(term) for name, term in self.terms.items()},
            "clock_hz": _plain(self.clock_hz),
            "clock": self.clock,
            "warnings": self.warnings,
        }


def combine(predictions: Sequence[Prediction], kernel: str = "all launches") -> Prediction:
    """Add up launches that run one after the other: sum of instructions over sum of cycles (MDM §III-C)."""
    first = predictions[0]
    cycles = sum(p.cycles for p in predictions)
    instructions = [p.cycles * p.ipc for p in predictions]
    total = sum(instructions)
    stack = None
    if all(p.stack is not None for p in predictions):
        names = dict.fromkeys(name for p in predictions for name in p.stack or {})
        weighted = [(p.stack or {}, n / total) for p, n in zip(predictions, instructions, strict=True)]
        stack = Stack({name: sum(parts.get(name, 0.0) * share for parts, share in weighted) for name in names})
    return replace(
        first,
        kernel=kernel,
        launch=None,
        cycles=cycles,
        seconds=sum(p.seconds for p in predictions),
        ipc=total / cycles,
        cpi=sum(p.cpi * n for p, n in zip(predictions, instructions, strict=True)) / total,
        stack=stack,
        terms={"launches": float(len(predictions))},
        conditions=tuple(dict.fromkeys(c for p in predictions for c in p.conditions if c.where is None)),
    )


def _plain(value: Any) -> Any:
    """Numbers for JSON; non-finite ones as null."""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
