"""The command line. Heavy packages are imported inside commands, so that `--help` answers at once."""

from .main import cli, main

__all__ = ["cli", "main"]
