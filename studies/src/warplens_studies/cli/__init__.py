"""The commands that this distribution adds to `warplens`."""

from .reproduce import reproduce
from .validate import validate

__all__ = ["reproduce", "validate"]
