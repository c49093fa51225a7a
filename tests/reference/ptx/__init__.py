"""A slow, obvious interpreter of PTX: the oracle of the executor's differential tests."""

from .integers import NotCoveredError
from .machine import Launch
from .memory import FaultError
from .state import Record, Run

__all__ = ["FaultError", "Launch", "NotCoveredError", "Record", "Run"]
