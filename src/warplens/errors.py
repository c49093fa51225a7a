"""The errors that warplens raises on purpose.

`InputError` and its children mean that what the user gave cannot be used; the
command line prints their one-line message and exits with 2. Everything else
that derives from `WarplensError` exits with 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


class WarplensError(Exception):
    """Base of every deliberate error."""


class InputError(WarplensError):
    """Something the user gave is unusable; the message names the place and the remedy."""


class FileError(InputError):
    """A file is missing, unreadable, or not valid TOML or UTF-8."""


class MachineError(InputError):
    """A machine description is not valid."""


class WorkloadError(InputError):
    """A workload file is not valid."""


class TraceError(InputError):
    """A trace cannot be read: damaged, truncated, of another version, or not a trace at all."""


class PtxError(InputError):
    """A PTX text is not valid, or uses something that is not supported; the message names the line."""


class KernelFault(InputError):  # noqa: N818 (the word for it)
    """A kernel did what would end it on a GPU too: a wild access, a deadlock, a trap; or it ran past a limit."""

    #: The name of the `Fault`, where it was one while the kernel ran.
    kind: str = ""


class OutOfBounds(KernelFault):
    """An access outside global memory, and the argument whose array lies nearest."""

    def __init__(self, message: str, argument: int | None = None, array_bytes: int = 0) -> None:
        super().__init__(message)
        self.argument = argument
        self.array_bytes = array_bytes
        """Bytes that the argument's array would need for the access; 0 for one before its start."""


class LimitReached(KernelFault):
    """A launch ran past the instructions or the time that it was given."""


class CompileError(InputError):
    """The source of a kernel does not compile; the message has the compiler's words and the place."""


class OverrideError(InputError):
    """An override (`--set KEY=VALUE`) names no parameter or has an unusable value."""


class UnknownNameError(InputError):
    """No machine, model, option or figure has the given name."""


class OptionError(InputError):
    """A model option has an unusable value."""


class MissingInputError(InputError):
    """A model needs an input that the workload or the machine does not give."""


class SimulationError(WarplensError):
    """A simulation cannot go on."""


class MissingPackageError(WarplensError):
    """An optional package is needed and not installed."""


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """What the system has against writing a file becomes a `FileError` that names it."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{path}: cannot be written ({error.strerror or error})") from None


def refuse_unwritable(path: Path) -> None:
    """Complain before the work, where a file could not be written after it."""
    place = path if path.exists() else next(each for each in path.absolute().parents if each.exists())
    with writing(path):
        if not path.exists() and not place.is_dir():
            raise NotADirectoryError(f"{place} is no folder")
        if not os.access(place, os.W_OK):
            raise PermissionError(f"no right to write to {place}")


@contextmanager
def faults_of(path: str) -> Iterator[None]:
    """Faults of a kernel begin with the workload file that launched it."""
    try:
        yield
    except KernelFault as fault:
        fault.args = (f"{path}: {fault}",) if path else fault.args
        raise


def install_command(extra: str = "") -> str:
    """What installs warplens with an extra, or its studies, from where this warplens comes: a checkout or a wheel."""
    root = Path(__file__).parents[2]
    if (root / "pyproject.toml").is_file():
        place = "." if root == Path.cwd() else str(root)
        wanted = f"'{place}[{extra}]'" if extra else f"'{place}/studies'"
    else:
        wanted = f"'warplens[{extra}]'" if extra else "warplens-studies"
    return f"python -m pip install {wanted}"


def nearest(name: str, valid: Iterable[str], *, most: int = 3) -> str:
    """A remedy for a mistyped name: the nearest valid ones, else all of them if they are few."""
    valid = sorted(valid)
    few = len(valid) <= 40
    # Whatever the case: macros are written in capitals, parameters typed without.
    alike = get_close_matches(name.casefold(), {each.casefold() for each in valid}, most, 0.5 if few else 0.0)
    if close := [each for like in alike for each in valid if each.casefold() == like][:most]:
        return "did you mean " + " or ".join(repr(c) for c in close) + "?"
    return "valid: " + ", ".join(valid)
