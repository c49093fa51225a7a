"""The Pipeline model of Lemeire et al. as an event simulation: warps' dependence graphs on abstract pipelines."""

from .core import POLICIES, Times, run_core
from .execution import Execution
from .program import Program, program_of_graphs
from .result import IDLE_CAUSES, PipelineResult, PipelineUse, Profile
from .simulate import MOST_ISSUES, MOST_ROWS, Settings, Share, Simulation, SmRun, simulate_pipeline

__all__ = [
    "IDLE_CAUSES",
    "MOST_ISSUES",
    "MOST_ROWS",
    "POLICIES",
    "Execution",
    "PipelineResult",
    "PipelineUse",
    "Profile",
    "Program",
    "Settings",
    "Share",
    "Simulation",
    "SmRun",
    "Times",
    "program_of_graphs",
    "run_core",
    "simulate_pipeline",
]
