"""Cycle-level, trace-driven simulator."""

from .result import DetailedResult
from .simulator import simulate_detailed

__all__ = ["DetailedResult", "simulate_detailed"]
