"""Instruction dependence graph of one warp, and the coarser views that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machine import INSTRUCTION_CLASSES
from .flow import FlowNode, WorkFlowGraph
from .mix import InstructionMix, MixEntry


@dataclass(frozen=True)
class Instruction:
    """One executed instruction and the positions of those it waits for."""

    instruction_class: str
    depends: tuple[int, ...] = ()


@dataclass(frozen=True)
class DependenceGraph:
    """Instructions in program order; dependences point backwards."""

    instructions: tuple[Instruction, ...]

    def on_longest_chain(self, latency: Callable[[str], Any]) -> NDArray[np.bool_]:
        """Which instructions form the dependence chain with the largest sum of latencies.

        One row per instruction; one column per machine where latencies are arrays.
        """
        classes = {item.instruction_class for item in self.instructions}
        size = np.broadcast(*(np.atleast_1d(latency(name)) for name in classes), 0).size
        machines = np.arange(size)
        finish = np.zeros((len(self.instructions) + 1, size))  # the extra row is "waits for nothing"
        previous = np.full((len(self.instructions), size), -1)
        for position, item in enumerate(self.instructions):
            if item.depends:
                depends = np.array(item.depends)
                previous[position] = depends[np.argmax(finish[depends], axis=0)]
            finish[position] = finish[previous[position], machines] + latency(item.instruction_class)
        chain = np.zeros((len(self.instructions) + 1, size), dtype=bool)
        position_now = np.argmax(finish[:-1], axis=0)
        while np.any(position_now >= 0):
            chain[position_now, machines] = True
            position_now = np.where(position_now >= 0, previous[position_now, machines], -1)
        return chain[:-1]

    def instruction_mix(self, latency: Callable[[str], Any]) -> InstructionMix:
        """Counts per class. The longest chain is the dependent set I of Eq. (L-2); the rest, J, overlaps it."""
        free = ~self.on_longest_chain(latency)
        counts: dict[str, int] = {}
        independent: dict[str, Any] = {}
        for item, row in zip(self.instructions, free, strict=True):
            name = item.instruction_class
            counts[name] = counts.get(name, 0) + 1
            independent[name] = independent.get(name, 0) + row
        return InstructionMix(
            entries={name: MixEntry(count, _plain(independent[name])) for name, count in counts.items()},
            synchronizations=counts.get("barrier", 0),
        )

    @cached_property
    def work_flow_graph(self) -> WorkFlowGraph:
        """Runs of computation become one node each, with ILP = instructions over their longest chain."""
        consumed = {position for item in self.instructions for position in item.depends}
        nodes: list[FlowNode] = []
        block: list[int] = []

        def close_block() -> None:
            if block:
                classes = [self.instructions[position].instruction_class for position in block]
                # A block has one timing: that of its most frequent class.
                main = max(sorted(set(classes)), key=classes.count)
                nodes.append(FlowNode("compute", main, len(block), len(block) / self._depth(block)))
                block.clear()

        for position, item in enumerate(self.instructions):
            kind = INSTRUCTION_CLASSES[item.instruction_class].kind
            if kind in ("memory", "barrier"):
                close_block()
                nodes.append(FlowNode(kind, item.instruction_class, dependent=self._waited_for(position, consumed)))
            else:
                block.append(position)
        close_block()
        return WorkFlowGraph(tuple(nodes))

    def _waited_for(self, position: int, consumed: set[int]) -> bool:
        """A warp ends when its last instruction does, so that one is always waited for."""
        return position in consumed or position == len(self.instructions) - 1

    def _depth(self, block: list[int]) -> int:
        depth: dict[int, int] = {}
        for position in block:
            depth[position] = 1 + max((depth.get(p, 0) for p in self.instructions[position].depends), default=0)
        return max(depth.values())


def _plain(counts: NDArray[Any]) -> Any:
    """A single count as a number, counts of a batch as an array."""
    return float(counts[0]) if counts.size == 1 else counts.astype(np.float64)
