"""What limits a kernel, where, and what to change: the step between a prediction and its display."""

from .answer import Advice, Answer, Counts, Limiter, Line, Occupancy, Opinion
from .explain import explain
from .lines import lines_by_time
from .rule import Finding, Rule
from .rules import RULES
from .scene import Scene
from .versions import Change, LineChange, VersionComparison, compare_versions

__all__ = [
    "RULES",
    "Advice",
    "Answer",
    "Change",
    "Counts",
    "Finding",
    "Limiter",
    "Line",
    "LineChange",
    "Occupancy",
    "Opinion",
    "Rule",
    "Scene",
    "VersionComparison",
    "compare_versions",
    "explain",
    "lines_by_time",
]
