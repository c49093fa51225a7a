"""The commands of the second distribution, `warplens-studies`; without it, they say how to install it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import click

from ..errors import MissingPackageError, install_command


def _command(name: str, summary: str) -> click.Command:
    if find_spec("warplens_studies") is not None:
        found: click.Command = getattr(import_module("warplens_studies.cli"), name)
        return found

    @click.command(name, help=f"{summary} Needs warplens-studies.", context_settings={"ignore_unknown_options": True})
    @click.argument("_arguments", nargs=-1, type=click.UNPROCESSED)
    def missing(_arguments: tuple[str, ...]) -> None:
        raise MissingPackageError(f"`warplens {name}` needs warplens-studies: {install_command()}")

    return missing


reproduce = _command("reproduce", "Recompute figures and tables of the papers.")
validate = _command("validate", "Compare models with measurements and simulators.")
