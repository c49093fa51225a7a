"""All views by name: functions that compute plain data, which draws itself for pages and for print."""

from .occupancy import Occupancy, occupancy
from .roofline import Roofline, roofline
from .stacks import CpiStacks, Reference, cpi_stacks
from .view import Figure, Table, View

__all__ = [
    "CpiStacks",
    "Figure",
    "Occupancy",
    "Reference",
    "Roofline",
    "Table",
    "View",
    "cpi_stacks",
    "occupancy",
    "roofline",
]
