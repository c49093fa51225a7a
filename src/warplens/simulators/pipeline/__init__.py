"""The Pipeline model of Lemeire et al. as an event simulation: warps' dependence graphs on abstract pipelines."""

from .core import POLICIES, ClassTimes, run_core
from .execution import ExecutionConfig
from .result import IDLE_CAUSES, PipelineResult, PipelineUse, Profile
from .simulate import MOST_ISSUES, MOST_ROWS, PipelineOptions, PipelineSimulation, SmRun, SmShare, simulate_pipeline
from .warp_graphs import WarpGraphs, warp_graphs_of

__all__ = [
    "IDLE_CAUSES",
    "MOST_ISSUES",
    "MOST_ROWS",
    "POLICIES",
    "ClassTimes",
    "ExecutionConfig",
    "PipelineOptions",
    "PipelineResult",
    "PipelineSimulation",
    "PipelineUse",
    "Profile",
    "SmRun",
    "SmShare",
    "WarpGraphs",
    "run_core",
    "simulate_pipeline",
    "warp_graphs_of",
]
