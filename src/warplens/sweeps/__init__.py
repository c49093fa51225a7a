"""Design spaces: predict many configurations of a machine, in a table from which work can resume."""

from .local import (
    ClockEnergy,
    Limit,
    Saturation,
    Sensitivity,
    clock_energy,
    dvfs,
    limits,
    saturation_point,
    sensitivity,
)
from .questions import Agreement, HeatMap, fastest, heat_map, pareto_front, parse_cost, ranking_agreement
from .run import Sweep, run_sweep
from .space import Axis, Space, make_axis, make_space, parse_axis
from .store import read_sweep

__all__ = [
    "Agreement",
    "Axis",
    "ClockEnergy",
    "HeatMap",
    "Limit",
    "Saturation",
    "Sensitivity",
    "Space",
    "Sweep",
    "clock_energy",
    "dvfs",
    "fastest",
    "heat_map",
    "limits",
    "make_axis",
    "make_space",
    "pareto_front",
    "parse_axis",
    "parse_cost",
    "ranking_agreement",
    "read_sweep",
    "run_sweep",
    "saturation_point",
    "sensitivity",
]
