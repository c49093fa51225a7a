"""Errors that the page shows beside the field that caused them."""

from __future__ import annotations

from ..errors import InputError


class FieldError(InputError):
    """What a visitor gave in one field of the page cannot be used."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Cancelled(Exception):  # noqa: N818 (nothing went wrong)
    """The visitor has asked for something else in the meantime."""


class Busy(Exception):  # noqa: N818
    """There is more work than this server takes on at once."""
