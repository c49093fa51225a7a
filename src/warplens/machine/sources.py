"""Where the numbers of a machine come from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Where a number comes from: datasheet, paper, measured, derived, assumed, override or unstated."""

    kind: str
    text: str
    #: The machine that this one takes the number from (its `base`); empty where the number is its own.
    machine: str = ""
    #: What other measurements of the number give, where it is only known within bounds.
    least: float | None = None
    most: float | None = None

    @property
    def is_bounded(self) -> bool:
        return self.least is not None or self.most is not None

    @property
    def is_guess(self) -> bool:
        """Whether the number stands in for one that nobody knows of this machine."""
        return self.kind == "assumed" or bool(self.machine)


#: Source of a value that the machine does not give and the schema has a default for.
DEFAULT_SOURCE = Source("default", "the machine gives no value")
SOURCE_KINDS = ("datasheet", "paper", "measured", "derived", "assumed", "override", "unstated")
