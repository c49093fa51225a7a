"""Kernels that the page offers: bundled ones, inputs of the command, and those that a visitor pasted."""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..api import TRACE_ENDINGS, load_workloads
from ..machine import Gpu
from ..suite.catalog import SUITE, get_kernel
from ..suite.execution import compiled_kernel
from ..tomlfile import read_toml
from ..workload import Results, Workload, workload_of_trace
from ..workload.load import example_folder, example_names, find_workload
from ..workload.results import open_simulations
from ..workload.source import cuda_launch_of, is_cuda_workload

#: Thread blocks that are recorded of a bundled or brought kernel: 8 on each of the 132 SMs of an H200. The rest of a
#: launch is like them, and caches are simulated within a few seconds.
MOST_BLOCKS = 1056
#: Kernels, each as it is on one machine, that are held in memory.
MOST_HELD = 8
#: Recorded warp instructions that all of them have together; each takes some tens of bytes.
MOST_INSTRUCTIONS = 24_000_000
#: Evaluations after which a kernel is taken from its trace anew, so that what was worked out for it is let go.
MOST_USES = 2000


#: (thread blocks that were run, all of them).
Progress = Callable[[float, float], None]


@dataclass(frozen=True)
class Kernel:
    """One entry of the list: how it is called, and how it becomes a workload."""

    id: str
    name: str
    group: str
    description: str
    load: Callable[[Progress | None], Workload] = field(repr=False)
    has_machine: bool = False
    """Whether its file names the machine that it is for."""

    def to_dict(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in ("id", "name", "group", "description", "has_machine")}


def bundled_kernels() -> list[Kernel]:
    """What ships with warplens: CUDA examples, the suite, and the papers' own numbers."""

    found = [_example(name, "cuda", "CUDA examples") for name in example_names("cuda")]
    titles = {"divergent": "Suite: divergent", "non-divergent": "Suite: not divergent", "micro": "Suite: micro"}
    for group, title in titles.items():
        for kernel in SUITE.values():
            if kernel.group == group:
                load = _suite_loader(kernel.name)
                found.append(Kernel(f"suite:{kernel.name}", kernel.name, title, kernel.stands_for, load))
    return [*found, *(_example(name, "papers", "Papers' worked examples") for name in example_names("papers"))]


def _example(name: str, kind: str, group: str) -> Kernel:

    path = example_folder(kind) / f"{name}.toml"
    data = read_toml(path).data
    description = str(data.get("description", ""))

    def load(progress: Progress | None) -> Workload:
        return load_workloads(path, progress=progress)[0]

    return Kernel(f"{kind}:{name}", name, group, description, load, "machine" in data)


def _suite_loader(name: str) -> Callable[[Progress | None], Workload]:
    def load(progress: Progress | None) -> Workload:

        kernel = get_kernel(name)
        launch = kernel.prepare("medium")
        run = compiled_kernel(kernel).launch(
            launch.grid,
            launch.block,
            *launch.copied_arguments(),
            dynamic_shared_memory_bytes=launch.dynamic_shared_memory_bytes,
            constants=launch.constants,
            blocks=MOST_BLOCKS,
            progress=progress,
        )
        return dataclasses.replace(workload_of_trace(run.trace()), name=name)

    return load


def given_kernels(inputs: Iterable[Workload | str], gpu: Gpu | None = None) -> list[Kernel]:
    """The launches of the command's inputs; kernels with a source are run when somebody asks for them."""
    found: list[Kernel] = []
    for each in inputs:
        identity = f"input:{len(found)}"
        kernel = None if isinstance(each, Workload) else _not_yet_run(each, identity, gpu)
        if kernel is not None:
            found.append(kernel)
            continue
        for workload in [each] if isinstance(each, Workload) else load_workloads(each, gpu=gpu):
            number = f", launch {workload.launch_index}" if workload.launch_index else ""
            named = (f"input:{len(found)}", f"{workload.name}{number}", "Inputs", workload.description)
            found.append(Kernel(*named, partial(_as_it_is, workload), workload.machine is not None))
    return found


def _as_it_is(workload: Workload, _: Progress | None) -> Workload:
    return workload


def _not_yet_run(path: str, identity: str, gpu: Gpu | None) -> Kernel | None:
    """The kernel of a workload file that names a source; None for other inputs."""
    if path.endswith(TRACE_ENDINGS):
        return None
    file = read_toml(find_workload(path))
    if not is_cuda_workload(file):
        return None
    launch = cuda_launch_of(file)

    def load(progress: Progress | None) -> Workload:
        return load_workloads(path, gpu=gpu, progress=progress)[0]

    return Kernel(identity, launch.name, "Inputs", launch.description, load, launch.machine is not None)


@dataclass
class _Entry:
    workload: Workload
    instructions: int
    uses: int = 0


class Held:
    """Workloads in memory, the least recently used of them let go; each machine has its own."""

    def __init__(self, most: int = MOST_HELD, most_instructions: int = MOST_INSTRUCTIONS) -> None:
        self.most, self.most_instructions = most, most_instructions
        self._held: OrderedDict[tuple[str, str], _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._loading: dict[str, threading.Lock] = {}

    def get(self, kernel: Kernel, machine: str, progress: Progress | None = None) -> Workload:
        """The workload of a kernel, loaded by the first who asks; what is worked out for a machine stays with it."""
        key = (kernel.id, machine)
        with self._lock:
            if (found := self._use(key)) is not None:
                return found
            loading = self._loading.setdefault(kernel.id, threading.Lock())
        with loading:
            with self._lock:
                if (found := self._use(key)) is not None:
                    return found
                same = next((entry for (other, _), entry in self._held.items() if other == kernel.id), None)
            workload = kernel.load(progress) if same is None else same.workload
            instructions = 0
            if workload.trace is not None:
                instructions = sum(group.instructions for group in workload.trace.groups())
                workload = dataclasses.replace(workload, results=Results(open_simulations()))
            with self._lock:
                self._held[key] = _Entry(workload, instructions)
                self._make_room()
                self._loading.pop(kernel.id, None)
            return workload

    def forget(self, ids: Sequence[str]) -> None:
        """Let go of kernels that are offered no longer."""
        with self._lock:
            for key in [key for key in self._held if key[0] in ids]:
                del self._held[key]

    def _use(self, key: tuple[str, str]) -> Workload | None:
        entry = self._held.get(key)
        if entry is None:
            return None
        entry.uses += 1
        if entry.uses > MOST_USES:
            del self._held[key]
            return None
        self._held.move_to_end(key)
        return entry.workload

    def _make_room(self) -> None:
        while len(self._held) > 1 and (
            len(self._held) > self.most
            or sum(entry.instructions for entry in self._held.values()) > self.most_instructions
        ):
            self._held.popitem(last=False)
