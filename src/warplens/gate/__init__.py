"""A performance gate: predicted times of a project's kernels against a baseline or another revision."""

from .check import CheckResult, Scope, check_baseline, check_revision, scope_of, update_baseline
from .history import Bisection, Point, bisect, history
from .project import Project, load_project
from .snapshot import Identity, Snapshot
from .verdicts import Cause, Verdict, verdict

__all__ = [
    "Bisection",
    "Cause",
    "CheckResult",
    "Identity",
    "Point",
    "Project",
    "Scope",
    "Snapshot",
    "Verdict",
    "bisect",
    "check_baseline",
    "check_revision",
    "history",
    "load_project",
    "scope_of",
    "update_baseline",
    "verdict",
]
