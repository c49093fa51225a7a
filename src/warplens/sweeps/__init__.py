"""Design spaces: predict many configurations of a machine, in a table from which work can resume."""

from .local import Limit, Saturation, Sensitivity, dvfs, limits, saturation_point, sensitivity
from .questions import Agreement, HeatMap, fastest, heat_map, pareto_front, parse_cost, ranking_agreement
from .run import Sweep, run_sweep
from .space import Axis, Space, make_axis, make_space, parse_axis
from .store import read_sweep

__all__ = [
    "Agreement",
    "Axis",
    "HeatMap",
    "Limit",
    "Saturation",
    "Sensitivity",
    "Space",
    "Sweep",
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
