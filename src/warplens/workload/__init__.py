"""Kernel launches and what is known about them."""

from .analyse import analyse
from .facts import Facts, Needs
from .launch import LAUNCH_KEYS, Launch, Residency, adapted, launch_with_overrides, resident
from .load import example_folder, example_names
from .measured import MeasuredRun
from .results import Results
from .traced import bank_cycles
from .workload import VIEWS, Workload, workload_of_trace

__all__ = [
    "LAUNCH_KEYS",
    "VIEWS",
    "Facts",
    "Launch",
    "MeasuredRun",
    "Needs",
    "Residency",
    "Results",
    "Workload",
    "adapted",
    "analyse",
    "bank_cycles",
    "example_folder",
    "example_names",
    "launch_with_overrides",
    "resident",
    "workload_of_trace",
]
