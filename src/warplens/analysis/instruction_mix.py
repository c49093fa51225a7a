"""Instruction mix of one warp: how many instructions of each class, and how they behave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ..machine import INSTRUCTION_CLASSES, Quantity


@dataclass(frozen=True)
class MixEntry:
    """Warp instructions of one class.

    `independent` of them can run in parallel with others of the same warp (set
    J of Lemeire's Eq. 2); `uncoalesced` of them need several memory transactions.
    """

    count: float
    independent: Quantity = 0.0
    uncoalesced: float = 0.0


@dataclass(frozen=True)
class Waits:
    """How often a warp that issues in program order stops for a result: of computation, and of an access."""

    computation: float
    memory: float


@dataclass(frozen=True)
class InstructionMix:
    """Instruction counts of one warp (α of the papers)."""

    entries: Mapping[str, MixEntry]
    synchronizations: float = 0.0
    uncoalesced_transactions: float | None = None
    bytes_per_request: float | None = None
    note: str = field(default="", compare=False)
    waits: Waits | None = field(default=None, compare=False)
    """None where the order of the instructions is unknown."""

    @property
    def total(self) -> float:
        """α_total: all instructions, barriers included where they have an entry."""
        return sum(entry.count for entry in self.entries.values())

    def of_kind(self, *kinds: str) -> Iterator[tuple[str, MixEntry]]:
        """Entries whose class is of one of the kinds (compute, memory, shared, barrier)."""
        return (item for item in self.entries.items() if INSTRUCTION_CLASSES[item[0]].kind in kinds)

    @property
    def memory_count(self) -> float:
        """α_mem: accesses to global or local memory."""
        return sum(entry.count for _, entry in self.of_kind("memory"))

    @property
    def compute_count(self) -> float:
        """α_comp: everything else. Shared-memory accesses count here, as Hong & Kim do."""
        return self.total - self.memory_count

    @property
    def uncoalesced_count(self) -> float:
        return sum(entry.uncoalesced for _, entry in self.of_kind("memory"))
