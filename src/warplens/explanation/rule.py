"""A rule of advice: it recognises one cause of lost time, and knows how to take it away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .scene import Removal, Scene


@dataclass(frozen=True, eq=False)
class Finding:
    """What a rule found in a kernel. The gain comes later, from solving the model on what `removal` returns."""

    #: What is wrong, in one sentence with its numbers.
    text: str
    removal: Removal
    #: Per static instruction, how much it has to do with it; None where no line is to blame.
    weights: Any = None
    #: How many launches of today the launch that `removal` returns stands for.
    launches: int = 1
    #: In place of the rule's own.
    remedy: str = ""
    cost: str = ""


@dataclass(frozen=True, eq=False)
class InTriton:
    """What to do in a Triton kernel, which names neither threads nor shared memory, and what it costs."""

    remedy: str
    cost: str


@dataclass(frozen=True, eq=False)
class Rule:
    """`look` is cheap: it reads counts and sampled thread blocks, and finds nothing in most kernels."""

    name: str
    #: What the rule recognises, for lists of rules.
    title: str
    look: Callable[[Scene], Iterable[Finding]]
    remedy: str
    cost: str
    #: Benefits of GPUPerf that speak of the same cause. It is blind to most causes (docs/validation/pairs.md).
    benefits: tuple[str, ...] = ()
    #: In place of all remedies and costs, those of findings too; None where they hold in any language.
    in_triton: InTriton | None = None
