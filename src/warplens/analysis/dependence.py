"""Instruction dependence graph of one warp, and the coarser views that follow from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..machine import INSTRUCTION_CLASSES
from .instruction_mix import InstructionMix, MixEntry, Waits
from .work_flow import FlowNode, WorkFlowGraph


@dataclass(frozen=True)
class Instruction:
    """One executed instruction and the positions of the instructions it waits for."""

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
        from ._profile_kernels import longest_chain

        names, classes, offsets, depends = self._arrays
        columns = [np.atleast_1d(np.asarray(latency(name), dtype=np.float64)) for name in names]
        table = np.array(np.broadcast_arrays(*columns))
        chain = np.zeros((len(classes), table.shape[1]), dtype=np.bool_)
        longest_chain(classes, offsets, depends, table, chain)
        return chain

    @cached_property
    def _arrays(self) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Class names; class index per instruction; offsets into the dependences; all dependences."""
        names = list(dict.fromkeys(item.instruction_class for item in self.instructions))
        number = {name: index for index, name in enumerate(names)}
        classes = np.array([number[item.instruction_class] for item in self.instructions], dtype=np.int64)
        lengths = [len(item.depends) for item in self.instructions]
        offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
        depends = np.array([position for item in self.instructions for position in item.depends], dtype=np.int64)
        return names, classes, offsets, depends

    def instruction_mix(self, latency: Callable[[str], Any]) -> InstructionMix:
        """Counts per class. The longest chain is the dependent set I of Eq. (L-2); the rest, J, overlaps it."""
        names, classes, _, _ = self._arrays
        free = ~self.on_longest_chain(latency)
        entries = {}
        for index, name in enumerate(names):
            rows = classes == index
            entries[name] = MixEntry(int(rows.sum()), _plain(free[rows].sum(axis=0)))
        barriers = [entries[name].count for name in ("barrier", "barrier_cluster") if name in entries]
        return InstructionMix(entries, sum(barriers), waits=self.waits)

    @cached_property
    def waits(self) -> Waits:
        """How often a warp stops that issues in this order."""
        names, classes, offsets, depends = self._arrays
        from_memory = np.array([INSTRUCTION_CLASSES[name].kind == "memory" for name in names])[classes]
        waiting = np.flatnonzero(np.diff(offsets))

        def stops(chosen: NDArray[np.bool_]) -> int:
            needed = np.where(chosen[depends], depends, -1)
            latest = np.maximum.reduceat(needed, offsets[waiting]) if len(waiting) else needed
            first = count = 0
            for position, producer in zip(waiting.tolist(), latest.tolist(), strict=True):
                if producer >= first:  # all that was issued before it has come, too
                    first, count = position, count + 1
            return count

        return Waits(stops(~from_memory), stops(from_memory))

    @cached_property
    def work_flow_graph(self) -> WorkFlowGraph:
        """Each run of compute instructions becomes one node, with ILP = instructions / longest chain."""
        consumed = {position for item in self.instructions for position in item.depends}
        nodes: list[FlowNode] = []
        block: list[int] = []

        def close_block() -> None:
            if block:
                classes = [self.instructions[position].instruction_class for position in block]
                # A block has one timing; its most frequent class gives it.
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
        """Whether a later instruction waits for this one; the warp always waits for its last."""
        return position in consumed or position == len(self.instructions) - 1

    def _depth(self, block: list[int]) -> int:
        depth: dict[int, int] = {}
        for position in block:
            depth[position] = 1 + max((depth.get(p, 0) for p in self.instructions[position].depends), default=0)
        return max(depth.values())


def _plain(counts: NDArray[Any]) -> Any:
    """A single count as a number, counts of a batch as an array."""
    return float(counts[0]) if counts.size == 1 else counts.astype(np.float64)
