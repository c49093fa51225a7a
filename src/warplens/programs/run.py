"""Runs a program with the stand-in for CUDA, and sums up what its kernels would take on GPUs."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from ..frontends.runtime import Recording, Server
from ..frontends.runtime.build import LIBRARY, build_stand_in
from ..frontends.runtime.compile import compile_program
from ..frontends.runtime.needed import check_libraries, runtime_major
from ..frontends.runtime.properties import capability
from ..machine import Gpu
from ..traces import TraceWriter, read_trace
from .result import GpuTotal, KernelTotal, ProgramResult
from .tally import Tally
from .timeline import Slice

#: Kernels that advice is looked for, the longest first, and the share of the time that each needs.
MOST_EXPLAINED, LEAST_SHARE = 8, 0.01


def run_program(
    command: Sequence[str],
    gpus: Sequence[Gpu],
    *,
    sources: Sequence[Path] = (),
    options: Sequence[str] = (),
    recording: Recording | None = None,
    output: Path | None = None,
    program_output: int | None = None,
    advice: bool = True,
    working_folder: Path | None = None,
    check: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> ProgramResult:
    """Run a program, or compile it from its sources first, and predict its kernels.

    `command` is the program with its arguments, or only these where there are
    sources; `options` go to nvcc. The recorded launches are written to `output`,
    a trace. `program_output` is the file descriptor for what the program prints,
    by default standard output; it runs in `working_folder`. With `check`, accesses of
    kernels outside of allocations are faults to the byte, and races and reads of unset
    memory are told of recorded blocks. `say` is told about failures as they happen.
    """
    stand_in = build_stand_in()
    with tempfile.TemporaryDirectory(prefix="warplens-") as name:
        folder = Path(name)
        if sources:
            major, minor = capability(gpus[0])
            say(f"compiling {' '.join(each.name for each in sources)}")
            made = compile_program(sources, folder, stand_in, 10 * major + minor, options)
            command = [str(made), *command]
        elif not command:
            raise InputError("give a program, or sources to compile")
        check_libraries(command[0])
        path = output or folder / "program.wlt"
        with TraceWriter(path, may_be_empty=output is None) as writer:
            tally = Tally(gpus, writer, say)
            started = time.perf_counter()
            server = Server(folder / "socket", gpus[0], recording or Recording(), tally, exact=check)
            code = execute_program(command, folder / "socket", stand_in, server, program_output, working_folder)
            seconds = time.perf_counter() - started
        kernels = [each for index in range(len(gpus)) for each in _kernels(tally, gpus[index], index)]
        if advice and tally.recorded_launches:
            kernels = _explained(kernels, tally, gpus, path)
    return ProgramResult(
        tuple(command),
        code,
        len(tally.counted),
        seconds,
        tuple(kernels),
        tuple(_total(tally, gpu, index) for index, gpu in enumerate(gpus)),
        tuple(_slices(tally, 0)),
        sum(each.seconds is None for each in tally.counted),
        tuple(tally.failures),
        tuple(tally.unchecked.values()),
    )


def execute_program(
    command: Sequence[str],
    socket: Path,
    stand_in: Path,
    server: Server,
    output: int | None,
    working_folder: Path | None,
) -> int:
    """Run a program with the stand-in until it and what it left to the server have ended; its exit code."""
    earlier = os.environ.get("LD_LIBRARY_PATH")
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(filter(None, (str(stand_in / LIBRARY), os.environ.get("LD_PRELOAD")))),
        "LD_LIBRARY_PATH": f"{stand_in}:{earlier}" if earlier else str(stand_in),
        "WARPLENS_RUN_SOCKET": str(socket),
        **({"WARPLENS_RUN_CUDART": major} if (major := runtime_major(Path(command[0]))) else {}),
    }
    try:
        process = subprocess.Popen(list(command), env=environment, stdout=output, cwd=working_folder)
    except OSError as error:
        raise InputError(f"{command[0]}: cannot be executed ({error.strerror or error})") from None
    try:
        return process.wait()
    except BaseException:
        process.kill()
        raise
    finally:
        server.close()


def _kernels(tally: Tally, gpu: Gpu, index: int) -> list[KernelTotal]:
    """Kernels by time."""
    launches: dict[str, list[float]] = {}
    for each in tally.counted:
        if each.seconds is not None:
            launches.setdefault(each.info.readable, []).append(each.seconds[index])
    total = sum(map(sum, launches.values()))
    recorded = Counter(each.info.readable for each in tally.recorded_launches)
    found = [
        KernelTotal(name, gpu.name, len(times), recorded[name], sum(times), sum(times) / total if total else 0.0)
        for name, times in launches.items()
    ]
    return sorted(found, key=lambda each: -each.seconds)


def _explained(kernels: list[KernelTotal], tally: Tally, gpus: Sequence[Gpu], path: Path) -> list[KernelTotal]:
    """The same with answers for the longest ones, each for its longest recorded launch."""
    from ..api import explain

    traces = read_trace(path)
    numbers = {gpu.name: index for index, gpu in enumerate(gpus)}
    left = {gpu.name: MOST_EXPLAINED for gpu in gpus}
    found = []
    for each in kernels:
        index = numbers[each.gpu]
        mine = [launch for launch in tally.recorded_launches if launch.info.readable == each.kernel]
        if left[each.gpu] and each.share >= LEAST_SHARE and mine:
            left[each.gpu] -= 1
            longest = max(mine, key=lambda launch: launch.seconds[index])
            each = replace(each, answer=explain(traces[longest.place], gpus[index]))
        found.append(each)
    return found


def _slices(tally: Tally, index: int) -> list[Slice]:
    found = [each for (_, gpu), line in tally.timelines.items() if gpu == index for each in line.slices]
    return sorted(found, key=lambda each: each.start_seconds)


def _total(tally: Tally, gpu: Gpu, index: int) -> GpuTotal:
    slices = _slices(tally, index)
    kernels = sum(each.seconds for each in slices if each.launch is not None)
    copies: dict[str, float] = {}
    sizes: dict[str, int] = {}
    for each in slices:
        if each.launch is None:
            copies[each.name] = copies.get(each.name, 0.0) + each.seconds
            sizes[each.name] = sizes.get(each.name, 0) + each.size_bytes
    if not slices:
        return GpuTotal(gpu.name, 0.0, {}, {}, 0.0, 0.0)
    busy, at = 0.0, slices[0].start_seconds
    for each in slices:
        end = each.start_seconds + each.seconds
        busy += max(end - max(at, each.start_seconds), 0.0)
        at = max(at, end)
    elapsed = at - slices[0].start_seconds
    return GpuTotal(gpu.name, kernels, copies, sizes, elapsed, elapsed - busy)
