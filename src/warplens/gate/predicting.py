"""Snapshots of inputs on GPUs: from the result cache where nothing changed, else predicted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..api import TRACE_ENDINGS, load_workloads, place
from ..cores import usable_cores
from ..errors import InputError
from ..frontends.cuda.arguments import ArrayArgument
from ..machine import Gpu, load_gpu
from ..result_cache import content_hash, open_results, result_key
from ..tomlfile import read_toml
from ..workload import Workload
from ..workload.called import is_called
from ..workload.compiled_launch import CompiledLaunch
from ..workload.source import CudaLaunch, compile_launch, cuda_launches_of, for_gpu, is_cuda_workload
from .programs import Program, program_of
from .snapshot import Snapshot, snapshot_of

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class _Recipe:
    """How to get the snapshots of one input on one GPU."""

    path: Path
    root: Path
    gpu: Gpu | None
    #: What names the result; empty where nothing can.
    key: str
    #: Of a workload file with sources: its launches, and the local memory of each.
    launches: tuple[CudaLaunch, ...] = ()
    local_bytes: tuple[int | None, ...] = ()
    #: What each launch is given.
    arguments: tuple[str, ...] = ()
    program: Program | None = None

    def predicted(self) -> list[Snapshot]:
        found = []
        with launched(self.path, self.gpu) as workloads:
            for workload in workloads:
                if self.gpu is None and workload.machine is None:
                    raise _no_gpu(self.path)
                local = self.local_bytes[workload.launch_index] if self.local_bytes else None
                found.append(snapshot_of(*place(workload, self.gpu), "", "", local))
        return found

    def labelled(self, snapshot: Snapshot) -> Snapshot:
        """A kept result is that of any project with the same kernel: paths and lines of source are this one's."""
        found = replace(snapshot, identity=replace(snapshot.identity, path=relative(self.path, self.root)))
        if self.program is not None:
            found = replace(found, arguments=_digest(self.program.arguments))
            if not self.program.source:
                return found
            text = Path(self.program.source).read_text("utf-8", "replace")
            return replace(found, source=relative(Path(self.program.source), self.root)).with_texts(text)
        if not self.launches:
            return found
        launch, given = self.launches[snapshot.identity.launch], self.arguments[snapshot.identity.launch]
        source = relative(Path(launch.source_name), self.root)
        return replace(found, source=source, arguments=given).with_texts(launch.text)


@contextmanager
def launched(path: Path, gpu: Gpu | None) -> Iterator[list[Workload]]:
    """The launches of an input; a whole program runs, and what it recorded is there for as long."""
    program = program_of(read_toml(path)) if path.suffix == ".toml" else None
    if program is None or gpu is None:
        yield load_workloads(path, gpu=gpu)
    else:
        with program.launched(gpu) as found:
            yield found


def _no_gpu(path: Path) -> InputError:
    return InputError(f'{path}: names no GPU; choose some with --gpu, or in warplens.toml: [check] gpus = ["h100"]')


def relative(path: Path, root: Path) -> str:
    """A path from the root of the project, with slashes; one outside stays as it is."""
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return path.as_posix()


def snapshots(
    paths: Sequence[Path],
    gpus: Sequence[Gpu | None],
    root: Path,
    progress: Progress | None = None,
    failed: dict[Path, InputError] | None = None,
) -> list[Snapshot]:
    """Of all inputs on all GPUs, in that order; what has to be predicted is, on all cores.

    Inputs that cannot be predicted are put into `failed`, if that is given.
    """
    jobs = [(path, gpu) for path in paths for gpu in gpus]
    found: dict[int, list[Snapshot]] = {}
    with ThreadPoolExecutor(usable_cores()) as pool:
        running = {pool.submit(take, path, root, gpu): place for place, (path, gpu) in enumerate(jobs)}
        try:
            for done, future in enumerate(as_completed(running), 1):
                found[running[future]] = _result(future, jobs[running[future]][0], failed)
                if progress is not None:
                    progress(done, len(jobs))
        finally:
            for future in running:
                future.cancel()
    return [each for place in range(len(jobs)) for each in found[place]]


def _result(future: Future[list[Snapshot]], path: Path, failed: dict[Path, InputError] | None) -> list[Snapshot]:
    try:
        return future.result()
    except InputError as error:
        if failed is None:
            raise
        failed[path] = error
        return []


def take(path: Path, root: Path, gpu: Gpu | None) -> list[Snapshot]:
    """The snapshots of one input on one GPU, or on the machine that the input names."""
    recipe = _recipe(path, root, gpu)
    cache = open_results("gate")
    kept = cache.get(recipe.key) if recipe.key else None
    if kept is not None:
        made = [Snapshot.of_dict(values) for values in kept["snapshots"]]
    else:
        made = recipe.predicted()
        if recipe.key:
            cache.put(recipe.key, {"snapshots": [each.to_dict() for each in made]})
    return [recipe.labelled(each) for each in made]


def _recipe(path: Path, root: Path, gpu: Gpu | None) -> _Recipe:
    if path.name.endswith(TRACE_ENDINGS):
        return _Recipe(path, root, gpu, result_key((gpu, "trace"), *_contents(path)) if gpu is not None else "")
    file = read_toml(path)
    if (program := program_of(file)) is not None:
        if gpu is None:
            raise _no_gpu(path)
        contents = program.contents()
        key = "" if contents is None else result_key((gpu, "program"), *contents)
        return _Recipe(path, root, gpu, key, program=program)
    if is_called(file):
        return _Recipe(path, root, gpu, "")  # what a function does depends on more than its file
    if not is_cuda_workload(file):
        return _Recipe(path, root, gpu, result_key((gpu, "numbers"), file.text) if gpu is not None else "")
    launches = tuple(cuda_launches_of(file))
    named = launches[0].machine
    if gpu is None and named is not None:
        gpu = load_gpu(named, launches[0].machine_overrides)
    if gpu is None:
        return _Recipe(path, root, gpu, "", launches, (), ("",) * len(launches))
    launches = tuple(for_gpu(launch, gpu) for launch in launches)
    compiled = [compile_launch(launch) for launch in launches]
    given = [(_plain(each.arguments), _plain(tuple(sorted(each.constants.items())))) for each in launches]
    records = tuple(map(_record, launches, compiled, given))
    texts = (each.ptx.replace(launch.source_name, "") for launch, each in zip(launches, compiled, strict=True))
    local = tuple(each.local_memory_bytes for each in compiled)
    return _Recipe(path, root, gpu, result_key((gpu, records), *texts), launches, local, tuple(map(_digest, given)))


def _contents(path: Path) -> Iterator[str]:
    """What stands for a trace: its bytes, or the names and ages of all that lie beside a list of traces."""
    if path.suffix == ".g":
        for each in sorted(path.parent.iterdir()):
            status = each.stat()
            yield f"{each.name} {status.st_size} {status.st_mtime_ns}"
    else:
        yield content_hash([path.read_bytes()])


def _digest(given: Any) -> str:
    return content_hash([repr(given)])[:12]


def _record(launch: CudaLaunch, compiled: CompiledLaunch, given: tuple[Any, Any]) -> tuple[Any, ...]:
    """What a launch does, besides its PTX. Where the source lies does not matter."""
    return (
        *(launch.name, launch.grid, launch.block, launch.dynamic_shared_memory_bytes, launch.record),
        *(compiled.entry, compiled.registers_per_thread, compiled.shared_memory_bytes, compiled.local_memory_bytes),
        compiled.machine_code,
        *given,
    )


def _plain(value: Any) -> Any:
    """Arguments as plain values, without places of files; arrays that files or functions make by what is in them."""
    if isinstance(value, ArrayArgument):
        if value.path is None:
            return replace(value, where="")
        built = np.asarray(value.build())
        return built.dtype.str, built.shape, content_hash([built.tobytes()])
    if isinstance(value, np.generic):
        return value.dtype.str, value.tobytes()
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    if is_dataclass(value):
        return type(value).__name__, *(_plain(getattr(value, each.name)) for each in fields(value))
    return value
