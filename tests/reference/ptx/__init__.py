"""A slow, obvious interpreter of PTX: the oracle of the executor's differential tests."""

from .integers import NotCovered
from .machine import Launch, Record, Run
from .memory import Fault

__all__ = ["Fault", "Launch", "NotCovered", "Record", "Run"]
