"""What a project asks of the gate: its inputs, GPUs and limits, from `pyproject.toml` or `warplens.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..api import TRACE_ENDINGS
from ..errors import FileError, InputError, nearest
from ..tomlfile import TomlFile, read_toml

BASELINE = "warplens-baseline.toml"
FAIL_ABOVE = 0.05
#: Files that may hold the settings, and the tables that do.
_FILES = {"warplens.toml": ("check",), "pyproject.toml": ("tool", "warplens", "check")}
_KEYS = ("paths", "gpus", "baseline", "fail_above")
#: Folders that hold no inputs of the project's own.
_SKIPPED = {"build", "dist", "node_modules", "site-packages", "venv", "__pycache__"}
#: Tables of which a workload file has at least one.
_TABLES = {
    *("cuda", "python", "program", "instruction_mix", "dependence_graph", "work_flow_graph", "interval_profile"),
    "measured_run",
}


@dataclass(frozen=True)
class Project:
    """A project's settings; paths are those under `root`."""

    root: Path
    paths: tuple[str, ...] = (".",)
    gpus: tuple[str, ...] = ()
    baseline: str = BASELINE
    fail_above: float = FAIL_ABOVE
    #: The file that says so, if one does.
    file: str = field(default="", compare=False)

    @property
    def folder(self) -> str:
        """The root as seen from that of the repository; empty where both are the same or there is none."""
        top = next((each for each in (self.root, *self.root.parents) if (each / ".git").exists()), self.root)
        found = self.root.relative_to(top).as_posix()
        return "" if found == "." else found

    def inputs(self, given: Sequence[str] = ()) -> list[Path]:
        """The inputs in the folders and files that are given, or that the settings name."""
        found: list[Path] = []
        for name in given or self.paths:
            matches = self._matches(name, Path(name) if given else near(self.root / name))
            if not matches:
                raise InputError(
                    f"{self.file or 'warplens check'}: {name}: no such file or folder; "
                    "name workload files (*.toml), traces (*.wlt), or folders that hold them"
                )
            found += _inputs_in(matches)
        unique = list(dict.fromkeys(found))
        if not unique:
            names = ", ".join(given or self.paths)
            raise InputError(
                f"{names}: holds no workload file (*.toml with a table [cuda], [python] or [program]) and no trace "
                "(*.wlt); `warplens init KERNEL.cu` writes a workload file for a CUDA kernel"
            )
        return unique

    def existing_inputs(self, given: Sequence[Path] = ()) -> list[Path]:
        """The same without complaints about what is not there."""
        places = [[each] for each in given] or [self._matches(name, near(self.root / name)) for name in self.paths]
        return [each for matches in places for each in _inputs_in(filter(Path.exists, matches))]

    def _matches(self, name: str, path: Path) -> list[Path]:
        return [path] if path.exists() else sorted(map(near, self.root.glob(name))) if "*" in name else []


def _inputs_in(places: Iterable[Path]) -> list[Path]:
    return [found for each in places for found in (_inputs_under(each) if each.is_dir() else [each])]


def near(path: Path) -> Path:
    """A path as one would type it here: relative, where it lies below the current folder."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _inputs_under(folder: Path) -> list[Path]:
    """Workload files and traces in a folder and below; other TOML files are none of the gate's."""
    found = []
    for path in sorted(folder.rglob("*")):
        inner = path.relative_to(folder).parts[:-1]
        if any(part.startswith(".") or part in _SKIPPED for part in inner) or not path.is_file():
            continue
        if path.name.endswith(TRACE_ENDINGS) or (path.suffix == ".toml" and _is_workload(path)):
            found.append(path)
    return found


def _is_workload(path: Path) -> bool:
    """Whether a file means to be a workload; one that is broken is, so that its errors are told."""
    headers = {match[1] for match in re.finditer(r"^\s*\[\[?\s*(\w+)", path.read_text("utf-8", "replace"), re.M)}
    return bool(headers & _TABLES)


def load_project(folder: Path) -> Project:
    """The settings of the nearest folder that has some, up to the root of the repository; defaults without."""
    for place in (folder, *folder.parents):
        for name, keys in _FILES.items():
            if (path := place / name).is_file():
                file = read_toml(path)
                if (table := _table(file, keys)) is not None:
                    return _project(place, file, keys, table)
        if (place / ".git").exists():
            break
    return Project(folder)


def _table(file: TomlFile, keys: tuple[str, ...]) -> dict[str, Any] | None:
    found: Any = file.data
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _project(root: Path, file: TomlFile, keys: tuple[str, ...], table: dict[str, Any]) -> Project:
    def fail(key: str, why: str) -> FileError:
        return FileError(f"{file.where('.'.join((*keys, key)))}: {key}: {why}")

    for key in table:
        if key not in _KEYS:
            raise fail(key, f"unknown key; {nearest(key, _KEYS)}")
    for key in ("paths", "gpus"):
        names = table.setdefault(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise fail(key, 'must be a list of names, such as ["h100"]')
    baseline = table.get("baseline", BASELINE)
    if not isinstance(baseline, str) or not baseline.endswith(".toml"):
        raise fail("baseline", f'must name a file that ends in .toml, such as "{BASELINE}"')
    try:
        limit = part_of(str(table.get("fail_above", FAIL_ABOVE)))
    except ValueError as error:
        raise fail("fail_above", str(error)) from None
    return Project(root, tuple(table["paths"]) or (".",), tuple(table["gpus"]), baseline, limit, file.path)


def part_of(text: str) -> float:
    """`5%` or `0.05` as a number."""
    number = text.strip().removesuffix("%")
    try:
        value = float(number) / (100.0 if "%" in text else 1.0)
    except ValueError:
        raise ValueError(f"{text!r} is not a part of the time, such as 5% or 0.05") from None
    if not 0.0 <= value <= 10.0 or ("%" not in text and value > 1.0):
        raise ValueError(f"{text!r} must lie between 0 and 100 %, written 5% or 0.05")
    return value


def locate(paths: Sequence[Path], root: Path, other: Path) -> Iterator[Path]:
    """The same inputs in another checkout, where it has them."""
    for path in paths:
        try:
            moved = other / path.resolve().relative_to(root.resolve())
        except ValueError:
            raise InputError(f"{path}: lies outside the repository {root}") from None
        if moved.is_file():
            yield moved
