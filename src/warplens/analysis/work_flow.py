"""Work flow graph (Baghsorkhi et al. 2010), flattened to the sequence of its nodes."""

from __future__ import annotations

from dataclasses import dataclass

NODE_KINDS = ("compute", "memory", "barrier")


@dataclass(frozen=True)
class FlowNode:
    """A block of computation, one memory access, or a barrier.

    `ilp` is the instruction-level parallelism of a compute block; `dependent`
    says whether a later node waits for a memory node's data. `count` is an average
    over warps: a node on one side of a branch counts by the share that goes there.
    """

    kind: str
    instruction_class: str
    count: float = 1.0
    ilp: float = 1.0
    dependent: bool = True


@dataclass(frozen=True)
class WorkFlowGraph:
    nodes: tuple[FlowNode, ...]

    def of_kind(self, kind: str) -> tuple[FlowNode, ...]:
        return tuple(node for node in self.nodes if node.kind == kind)

    @property
    def total(self) -> float:
        """Instructions of one warp."""
        return sum(node.count for node in self.nodes)
