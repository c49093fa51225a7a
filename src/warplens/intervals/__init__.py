"""What a warp does, as the models see it: instruction mix, dependences, work flow, intervals."""

from .flow import NODE_KINDS, FlowNode, WorkFlowGraph
from .graph import DependenceGraph, Instruction
from .mix import InstructionMix, MixEntry
from .profile import (
    COLUMNS,
    STALL_CAUSES,
    IntervalProfile,
    ProfileBatch,
    batch_of_profiles,
    default_causes,
    intervals_of_graph,
)

__all__ = [
    "COLUMNS",
    "NODE_KINDS",
    "STALL_CAUSES",
    "DependenceGraph",
    "FlowNode",
    "Instruction",
    "InstructionMix",
    "IntervalProfile",
    "MixEntry",
    "ProfileBatch",
    "WorkFlowGraph",
    "batch_of_profiles",
    "default_causes",
    "intervals_of_graph",
]
