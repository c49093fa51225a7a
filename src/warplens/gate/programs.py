"""Whole programs as inputs of the gate: a `[program]` table names sources or a built program, and its arguments."""

from __future__ import annotations

import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..api import load_workloads
from ..errors import InputError, WorkloadError, nearest
from ..frontends.cuda.headers import included_files
from ..machine import Gpu
from ..programs import run_program
from ..result_cache import content_hash
from ..tomlfile import TomlFile
from ..workload import Workload

_KEYS = ("sources", "command", "arguments", "options")


@dataclass(frozen=True)
class Program:
    """What a `[program]` table says. Paths start at the folder of the file."""

    path: str
    sources: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return Path(self.path).resolve().parent

    @property
    def source(self) -> str:
        """The file whose lines snapshots show."""
        return str(self.folder / self.sources[0]) if self.sources else ""

    def contents(self) -> list[str] | None:
        """What decides how it runs: all of its files; None where they cannot be known."""
        found = ["\0".join(each) for each in (self.sources, self.command, self.arguments, self.options)]
        include = [self.folder / option[2:] for option in self.options if option.startswith("-I")]
        for name in (*self.sources, *self.command, *self.arguments):
            if not (path := self.folder / name).is_file():
                continue
            raw = path.read_bytes()
            found.append(content_hash([raw]))
            if name in self.sources:
                headers = included_files(raw.decode("utf-8", "replace"), path.parent, include)
                if headers is None:
                    return None
                found += [content_hash([headers[each]]) for each in sorted(headers)]
        return found

    @contextmanager
    def launched(self, gpu: Gpu) -> Iterator[list[Workload]]:
        """Run it; the launches that were recorded, numbered for each kernel."""
        with tempfile.TemporaryDirectory(prefix="warplens-") as name:
            trace = Path(name) / "program.wlt"
            built = [str(self.folder / self.command[0]), *self.command[1:]] if self.command else []
            result = run_program(
                [*built, *self.arguments],
                [gpu],
                sources=[self.folder / each for each in self.sources],
                options=self.options,
                output=trace,
                program_output=subprocess.DEVNULL,
                advice=False,
                working_folder=self.folder,
            )
            if result.exit_code or result.failures:
                why = "; ".join(result.failures) or f"it ended with exit code {result.exit_code}"
                raise InputError(f"{self.path}: the program failed: {why}")
            seen: Counter[str] = Counter()
            found = []
            for each in load_workloads(trace) if trace.is_file() and result.launches else ():
                found.append(replace(each, launch_index=seen[each.name]))
                seen[each.name] += 1
            if not found:
                raise InputError(f"{self.path}: the program launched no kernel")
            yield found


def program_of(file: TomlFile) -> Program | None:
    """The program that a file names, if it names one."""
    table: Any = file.data.get("program")
    if table is None:
        return None
    if not isinstance(table, dict):
        raise WorkloadError(f"{file.where('program')}: program: must be a table")
    for key, value in table.items():
        where = file.where(f"program.{key}")
        if key not in _KEYS:
            raise WorkloadError(f"{where}: unknown key 'program.{key}'; {nearest(key, _KEYS)}")
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise WorkloadError(f'{where}: {key}: must be a list of texts, such as ["main.cu"]')
    if bool(table.get("sources")) == bool(table.get("command")):
        raise WorkloadError(f'{file.where("program")}: give sources = ["main.cu"], or command = ["./program"]')
    return Program(file.path, **{key: tuple(value) for key, value in table.items()})
