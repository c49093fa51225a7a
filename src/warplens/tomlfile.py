"""TOML files read so that every complaint can name the file and the line."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from .errors import FileError

#: Descriptions are small; anything larger was given by mistake.
LARGEST_BYTES = 8 * 2**20
#: The number of the latest table of each array.
Counts = dict[tuple[str, ...], int]


@dataclass(frozen=True)
class TomlFile:
    """The data of a TOML file, and where in the text each key stands."""

    path: str
    text: str
    data: dict[str, Any]

    def where(self, key: str = "") -> str:
        """`file:line` of a dotted key, or of its nearest parent that stands in the text."""
        parts = key.split(".") if key else []
        while parts:
            line = self._line_of(parts)
            if line:
                return f"{self.path}:{line}"
            parts.pop()
        return self.path

    @cached_property
    def _lines(self) -> dict[tuple[str, ...], list[tuple[int, Counts]]]:
        return _lines_of_keys(self.text)

    def _line_of(self, parts: list[str]) -> int:
        """Line number of the key `parts`, or 0. Array indices ("nodes[2]") select the n-th table header."""
        names: list[str] = []
        wanted: Counts = {}
        for part in parts:
            match = re.fullmatch(r"(.*)\[(\d+)\]", part)
            names.append(match[1] if match else part)
            if match:
                wanted[tuple(names)] = int(match[2])
        for number, seen in self._lines.get(tuple(names), ()):
            if all(seen.get(key, index) == index for key, index in wanted.items()):
                return number
        return 0


def exists(path: Path) -> bool:
    """Whether something is there; names that the system refuses (too long, say) are not."""
    try:
        return path.exists()
    except OSError:
        return False


def read_at_most(path: Path, most_bytes: int, what: str) -> bytes:
    """The bytes of a file that is `what`. A device such as /dev/zero has no size, but more bytes than any file."""
    with path.open("rb") as file:
        raw = file.read(most_bytes + 1)
    if len(raw) > most_bytes:
        raise FileError(f"{path}: larger than {most_bytes >> 20} MiB, so not {what}")
    return raw


def read_toml(path: str | Path) -> TomlFile:
    """Read a TOML file; any failure is a `FileError` that says what to do."""
    path = Path(path)
    try:
        if path.is_dir():
            raise FileError(f"{path}: is a folder; give the TOML file inside it")
        raw = read_at_most(path, LARGEST_BYTES, "a description in TOML")
    except FileNotFoundError:
        raise FileError(f"{path}: no such file") from None
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: cannot be read ({error})") from None
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise FileError(f"{path}:{line}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from None
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        last = max(len(text.splitlines()), 1)  # what is missing at the end of the file has no place of its own
        place = f"{path}:{found[1]}:{found[2]}" if found else f"{path}:{last}"
        reason = re.sub(r"\s*\(at [^)]*\)", "", str(error))
        raise FileError(f"{place}: not valid TOML: {reason}") from None
    except (RecursionError, ValueError) as error:  # deep nesting, integers of thousands of digits
        raise FileError(f"{path}: not usable TOML: {error}") from None
    return TomlFile(str(path), text, data)


_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?")
_ASSIGNMENT = re.compile(r"\s*([A-Za-z0-9_\-.\"' ]+?)\s*=")


def _split(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in re.findall(r"\"[^\"]*\"|'[^']*'|[^.]+", dotted)]


def _lines_of_keys(text: str) -> dict[tuple[str, ...], list[tuple[int, Counts]]]:
    """Where each key stands."""
    found: dict[tuple[str, ...], list[tuple[int, Counts]]] = {}
    table: list[str] = []
    seen: Counts = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            full = table = _split(header[1])
            if line.lstrip().startswith("[["):
                seen = {**seen, tuple(table): seen.get(tuple(table), -1) + 1}
        elif assignment := _ASSIGNMENT.match(line):
            full = table + _split(assignment[1])
        else:
            continue
        found.setdefault(tuple(full), []).append((number, seen))
    return found
