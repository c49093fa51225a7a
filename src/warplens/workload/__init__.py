"""Kernel launches and what is known about them."""

from .launch import LAUNCH_KEYS, Launch, Residency, launch_with_overrides, resident
from .load import example_folder, example_names, load_workload
from .measured import MeasuredRun
from .workload import VIEWS, Workload

__all__ = [
    "LAUNCH_KEYS",
    "VIEWS",
    "Launch",
    "MeasuredRun",
    "Residency",
    "Workload",
    "example_folder",
    "example_names",
    "launch_with_overrides",
    "load_workload",
    "resident",
]
