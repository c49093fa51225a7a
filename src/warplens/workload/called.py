"""Workload files that name a Python function, which launches kernels of Triton or CUDA and returns the runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import WarplensError, WorkloadError
from ..frontends.cuda.arguments import function_of
from ..frontends.cuda.module import CudaRun
from ..machine import Gpu
from ..tomlfile import TomlFile
from .load import _Reader
from .workload import Workload, workload_of_trace

#: Triton compiles for one GPU at a time.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Called:
    """What a `[python]` table says."""

    path: str
    file: Path
    function: str
    description: str = ""
    machine: str | None = None
    machine_overrides: Mapping[str, Any] = field(default_factory=dict)

    def runs(self, gpu: Gpu) -> list[CudaRun]:
        """What the function launched for a GPU, in order."""
        where = f"{self.path}: [python]"
        with _ONE_AT_A_TIME:
            function = function_of(self.file, self.function, where)
            try:
                made = function(gpu.name)
            except WarplensError as error:
                raise type(error)(f"{where}: {self.file}: {self.function}: {error}") from None
            except Exception as error:
                raise WorkloadError(
                    f"{where}: {self.file}: {self.function}: {type(error).__name__}: {error}"
                ) from error
        runs = list(made) if isinstance(made, Sequence) else [made]
        if not runs or not all(isinstance(each, CudaRun) for each in runs):
            raise WorkloadError(
                f"{where}: {self.file}: {self.function} must return what it launched: a run, or a list of runs, of "
                "warplens.triton or warplens.cuda"
            )
        return runs

    def workloads(self, gpu: Gpu, **views: Any) -> list[Workload]:
        """The launches as inputs of models; `views` are those of `workload_of_trace`."""
        return [
            replace(
                workload_of_trace(run.trace(), **views),
                description=self.description,
                path=self.path,
                machine=self.machine,
                machine_overrides=self.machine_overrides,
                launch_index=index,
            )
            for index, run in enumerate(self.runs(gpu))
        ]


def is_called(file: TomlFile) -> bool:
    """Whether a workload file names a function that launches."""
    return "python" in file.data


def called_of(file: TomlFile) -> Called:
    """The function that a file names; every error names the file, the line and the remedy."""
    reader = _Reader.of_file(file)
    description = reader.text("description")
    machine, table = reader.table_of("machine"), reader.table_of("python")
    reader.done()
    assert table is not None
    given = table.text("launches")
    file_name, _, function = given.rpartition(":")
    if not file_name or not function.isidentifier():
        raise table.fail("launches", f'{given!r} must be "file.py:function"')
    table.done()
    machine_name, overrides = machine.machine() if machine else (None, {})
    return Called(
        file.path,
        Path(file.path).parent / file_name,
        function,
        description,
        machine_name,
        MappingProxyType(overrides),
    )
