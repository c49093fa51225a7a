"""A slow, obvious interpreter of PTX: the oracle of the executor's differential tests."""

from .integers import NotCoveredError
from .machine import Launch, Record, Run
from .memory import FaultError

__all__ = ["FaultError", "Launch", "NotCoveredError", "Record", "Run"]
