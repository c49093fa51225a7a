"""All views: functions that compute plain data, which draws itself for pages and for print."""

from .curves import Curve, Curves, batch_curve, sweep_curves
from .disagreement import Disagreement, disagreement
from .intervals import Intervals, intervals
from .memory import MemoryUse, memory_use
from .occupancy import Occupancy, occupancy
from .roofline import FlopRoofline, Roofline, flop_roofline, roofline
from .simulation import Simulated, simulated
from .source import SourceUse, source_use
from .stacks import CpiStacks, Reference, cpi_stacks
from .sweep import Front, HeatMaps, Tornado, front, heat_maps
from .timeline import Timeline, timeline
from .transit import TransitDiagram, transit_diagram
from .view import Figure, Table, View

__all__ = [
    "CpiStacks",
    "Curve",
    "Curves",
    "Disagreement",
    "Figure",
    "FlopRoofline",
    "Front",
    "HeatMaps",
    "Intervals",
    "MemoryUse",
    "Occupancy",
    "Reference",
    "Roofline",
    "Simulated",
    "SourceUse",
    "Table",
    "Timeline",
    "Tornado",
    "TransitDiagram",
    "View",
    "batch_curve",
    "cpi_stacks",
    "disagreement",
    "flop_roofline",
    "front",
    "heat_maps",
    "intervals",
    "memory_use",
    "occupancy",
    "roofline",
    "simulated",
    "source_use",
    "sweep_curves",
    "timeline",
    "transit_diagram",
]
