"""Cycle-level, trace-driven reference simulator."""

from .simulator import DetailedResult, simulate_detailed

__all__ = ["DetailedResult", "simulate_detailed"]
