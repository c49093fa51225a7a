"""Snapshots of inputs on GPUs: from the result cache where nothing changed, else predicted."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..api import TRACE_ENDINGS, load_workloads, place
from ..frontends.cuda.arguments import Argument, ArrayArgument, StructArgument
from ..machine import Gpu, load_gpu
from ..result_cache import content_hash, open_results, result_key
from ..tomlfile import read_toml
from ..workload.source import CompiledLaunch, CudaLaunch, compile_launch, cuda_launch_of, for_gpu, is_cuda_workload
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
    launch: CudaLaunch | None = None
    local_bytes: int | None = None

    @property
    def source(self) -> str:
        return "" if self.launch is None else relative(Path(self.launch.source_name), self.root)

    def labelled(self, snapshot: Snapshot) -> Snapshot:
        """A kept result is that of any project with the same kernel: paths and lines of source are this one's."""
        identity = replace(snapshot.identity, path=relative(self.path, self.root))
        found = replace(snapshot, identity=identity, source=self.source)
        return found if self.launch is None else found.with_texts(self.launch.text)


def relative(path: Path, root: Path) -> str:
    """A path from the root of the project, with slashes; one outside stays as it is."""
    try:
        return path.resolve().relative_to(root.resolve()).as_posix()
    except ValueError:
        return path.as_posix()


def snapshots(
    paths: Sequence[Path], gpus: Sequence[Gpu | None], root: Path, progress: Progress | None = None
) -> list[Snapshot]:
    """Of all inputs on all GPUs, in that order; what has to be predicted is, on all cores."""
    jobs = [(path, gpu) for path in paths for gpu in gpus]
    found: dict[int, list[Snapshot]] = {}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        running = {pool.submit(take, path, root, gpu): place for place, (path, gpu) in enumerate(jobs)}
        try:
            for done, future in enumerate(as_completed(running), 1):
                found[running[future]] = future.result()
                if progress is not None:
                    progress(done, len(jobs))
        finally:
            for future in running:
                future.cancel()
    return [each for place in range(len(jobs)) for each in found[place]]


def take(path: Path, root: Path, gpu: Gpu | None) -> list[Snapshot]:
    """The snapshots of one input on one GPU, or on the machine that the input names."""
    recipe = _recipe(path, root, gpu)
    cache = open_results("gate")
    kept = cache.get(recipe.key) if recipe.key else None
    if kept is not None:
        made = [Snapshot.of_dict(values) for values in kept["snapshots"]]
    else:
        made = [
            snapshot_of(*place(workload, recipe.gpu), "", "", recipe.local_bytes)
            for workload in load_workloads(path, gpu=recipe.gpu)
        ]
        if recipe.key:
            cache.put(recipe.key, {"snapshots": [each.to_dict() for each in made]})
    return [recipe.labelled(each) for each in made]


def _recipe(path: Path, root: Path, gpu: Gpu | None) -> _Recipe:
    if path.name.endswith(TRACE_ENDINGS):
        return _Recipe(path, root, gpu, result_key((gpu, "trace"), *_contents(path)) if gpu is not None else "")
    file = read_toml(path)
    if not is_cuda_workload(file):
        return _Recipe(path, root, gpu, result_key((gpu, "numbers"), file.text) if gpu is not None else "")
    launch = cuda_launch_of(file)
    if gpu is None and launch.machine is not None:
        gpu = load_gpu(launch.machine, launch.machine_overrides)
    if gpu is None:
        return _Recipe(path, root, gpu, "", launch)
    launch = for_gpu(launch, gpu)
    compiled = compile_launch(launch)
    return _Recipe(path, root, gpu, _launch_key(launch, compiled, gpu), launch, compiled.local_memory_bytes)


def _contents(path: Path) -> Iterator[str]:
    """What stands for a trace: its bytes, or the names and ages of all that lie beside a list of traces."""
    if path.suffix == ".g":
        for each in sorted(path.parent.iterdir()):
            status = each.stat()
            yield f"{each.name} {status.st_size} {status.st_mtime_ns}"
    else:
        yield content_hash([path.read_bytes()])


def _launch_key(launch: CudaLaunch, compiled: CompiledLaunch, gpu: Gpu) -> str:
    """Of what a launch does: its PTX and its inputs. Where the source lies does not matter."""
    ptx = compiled.ptx.replace(launch.source_name, Path(launch.source_name).name)
    constants = tuple(part for name in sorted(launch.constants) for part in (name, *_parts([launch.constants[name]])))
    record = (
        *(gpu, launch.name, launch.grid, launch.block, launch.dynamic_shared_memory_bytes),
        *(compiled.entry, compiled.registers_per_thread, compiled.shared_memory_bytes, compiled.local_memory_bytes),
        *(tuple(_parts(launch.arguments)), constants, launch.record),
    )
    return result_key(record, ptx)


def _parts(arguments: Iterable[Argument]) -> Iterator[Any]:
    """Arguments as records without places of files; arrays that files or functions make by what is in them."""
    for argument in arguments:
        if isinstance(argument, StructArgument):
            yield tuple(_parts(argument.members))
        elif isinstance(argument, ArrayArgument) and argument.path is not None:
            built = np.asarray(argument.build())
            yield built.dtype.str, built.shape, content_hash([built.tobytes()])
        elif isinstance(argument, ArrayArgument):
            yield replace(argument, where="")
        else:
            value = np.asarray(argument.build())
            yield value.dtype.str, value.tobytes()
