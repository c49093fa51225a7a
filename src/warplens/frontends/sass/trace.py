"""Traces an unmodified CUDA program on the GPU of this machine, from its command to a `.wlt` file."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError, TraceError
from ...traces import LaunchHeader, TraceWriter
from ...traces.inlining import packed_chains
from ..cuda.cubin import KernelResources, read_cubin
from .build import Tools, build_injection, find_tools
from .counts import Counts
from .disassembly import SassKernel, disassemble, parse_kernel
from .nsight_counts import count_executions
from .program_runs import Run, Tracing, check_run, run_untraced
from .raw import RawLaunch
from .reconstruct import LOCAL_BASE, Prepared, Reconstruction
from .trace_warnings import not_counted, warnings_of

BUFFER_BYTES = 4 << 30
RAW_LIMIT_BYTES = 64 << 30
_SHORT_SECONDS = 10.0


@dataclass(frozen=True)
class TracedLaunch:
    """One launch in the trace, and how exact it is (see `Exactness`)."""

    kernel: str
    launch: int
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    blocks_traced: int
    records: int
    raw_bytes: int
    exactness: Mapping[str, Any]

    @property
    def instructions(self) -> int:
        return int(self.exactness["instructions"])

    @property
    def exact_share(self) -> float | None:
        return self.exactness["exact_share"]


@dataclass(frozen=True)
class TraceSummary:
    """Results and cost of tracing a program."""

    path: str
    bytes: int
    launches: tuple[TracedLaunch, ...]
    launches_in_program: int
    traced_seconds: float
    untraced_seconds: float | None = None
    counting_seconds: float | None = None
    decoding_seconds: float = 0.0
    warnings: tuple[str, ...] = ()

    @property
    def overhead(self) -> float | None:
        """Duration of the traced run over that of the untraced one."""
        return None if not self.untraced_seconds else self.traced_seconds / self.untraced_seconds

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "overhead": self.overhead}


def trace_program(
    command: Sequence[str],
    output: str | Path,
    *,
    kernel_regex: str | None = None,
    launches: Iterable[int] | None = None,
    max_blocks: int | None = None,
    waves: int | None = None,
    counts: bool = True,
    baseline: bool = True,
    accept_failure: bool = False,
    buffer_bytes: int = BUFFER_BYTES,
    raw_limit_bytes: int = RAW_LIMIT_BYTES,
    keep_raw: str | Path | None = None,
    program_output: int | None = None,
    progress: Callable[[str], None] | None = None,
    watch: Callable[[float, float], None] | None = None,
) -> TraceSummary:
    """Run a program, record its kernels, and write them as a trace.

    `kernel_regex` selects kernels by (part of) their name, mangled or not;
    `launches` numbers the launches of those, from 0. `max_blocks` and `waves`
    limit each launch to some thread blocks, spread over the grid. The program also runs once
    untraced (`baseline`, for the overhead) and once under Nsight Compute
    (`counts`, which decide branches that records leave open). `keep_raw` is a
    folder that keeps the raw records. `program_output` is the file descriptor
    for what the traced program prints, by default standard output. `progress`
    is called with each step, `watch` with the bytes replayed and their total.
    The output file appears only if everything succeeds.
    """
    say = progress or (lambda text: None)
    output = Path(output)
    program = _checked(command, output, kernel_regex, max_blocks, waves)
    tools = find_tools()
    say("building the tracer (first use only)")
    injection = build_injection(tools)
    untraced, code = _time_untraced(program, say) if baseline else (None, None)
    with _raw_folder(output, keep_raw) as folder:
        # Leave room for the trace.
        raw_limit_bytes = min(raw_limit_bytes, shutil.disk_usage(folder).free * 3 // 4)
        settings = {
            "FOLDER": folder,
            "PATCHES": injection.patches,
            "BUFFER_BYTES": buffer_bytes,
            "RAW_LIMIT": raw_limit_bytes,
            "KERNEL": kernel_regex,
            "LAUNCHES": None if launches is None else launch_ranges(launches),
            "BLOCKS": max_blocks,
            "WAVES": waves,
        }
        environment = _environment(injection.library, settings)
        tracing = Tracing(program, environment, folder, accept_failure, untraced, code, program_output, say)
        run, warnings = tracing.run()
        check_run(run, kernel_regex, raw_limit_bytes)
        warnings += dict.fromkeys(run.notes)
        warnings += [
            f"not traced: {text}" + (f" ({count} times)" if count > 1 else "")
            for text, count in Counter(run.left_out).items()
        ]
        counted, counting_seconds = _count(tools, program, run, folder, warnings, say) if counts else ({}, None)
        say("reconstructing the warps")
        began = time.perf_counter()
        traced = write_launches(run.launches, output, tools, counted, warnings, watch, discard=keep_raw is None)
        return TraceSummary(
            path=str(output),
            bytes=output.stat().st_size,
            launches=tuple(traced),
            launches_in_program=len(run.launched),
            traced_seconds=run.seconds,
            untraced_seconds=untraced,
            counting_seconds=counting_seconds,
            decoding_seconds=time.perf_counter() - began,
            warnings=tuple(dict.fromkeys(warnings)),
        )


def _time_untraced(program: list[str], say: Callable[[str], None]) -> tuple[float, int]:
    """(seconds, exit code) without tracing; a short program runs twice, because the first run also fills caches."""
    say("running the program untraced")
    seconds, code = run_untraced(program)
    if seconds < _SHORT_SECONDS:
        seconds = min(seconds, run_untraced(program)[0])
    return seconds, code


def _environment(library: Path, settings: Mapping[str, Any]) -> dict[str, str]:
    """The environment of the traced program; settings that are None stay unset."""
    preload = " ".join(filter(None, (str(library), os.environ.get("LD_PRELOAD"))))
    given = {f"WARPLENS_TRACE_{name}": str(value) for name, value in settings.items() if value is not None}
    return {**os.environ, **given, "LD_PRELOAD": preload}


def _count(
    tools: Tools, program: list[str], run: Run, folder: Path, warnings: list[str], say: Callable[[str], None]
) -> tuple[dict[tuple[str, int], Counts], float | None]:
    """Counted executions of the recorded launches, and the seconds that counting took."""
    if tools.ncu is None:
        warnings.append("Nsight Compute (ncu) is not installed: branches that the records leave open are guessed")
        return {}, None
    say("counting executed instructions with Nsight Compute")
    began = time.perf_counter()
    counted: dict[tuple[str, int], Counts] = {}
    try:
        counted = count_executions(tools.ncu, program, run.launches, run.launched, folder, os.environ)
    except TraceError as error:
        warnings.append(f"executions could not be counted: {error}; branches that the records leave open are guessed")
    else:
        warnings += not_counted(run.launches, counted)
    return counted, time.perf_counter() - began


def launch_ranges(launches: Iterable[int]) -> str:
    """Launch numbers in the injected library's format: `0-0,3-3,5-8`."""
    numbers = sorted(set(launches))
    if not numbers or numbers[0] < 0:
        raise InputError("give at least one launch to trace; launches are numbered from 0")
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ",".join(f"{first}-{last}" for first, last in ranges)


def _checked(
    command: Sequence[str], output: Path, regex: str | None, max_blocks: int | None, waves: int | None
) -> list[str]:
    if not command:
        raise InputError("no program to trace; give it and its arguments after --")
    if shutil.which(command[0]) is None:
        raise InputError(f"{command[0]}: no such program, or it cannot be executed")
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise InputError(f"{output}: is a folder, or its folder does not exist; give the name of a file to write")
    for name, value in (("max-blocks", max_blocks), ("waves", waves)):
        if value is not None and value < 1:
            raise InputError(f"{name} is {value}; give 1 or more")
    try:
        re.compile(regex or "")
    except re.error as error:
        raise InputError(f"{regex!r} is not a regular expression ({error})") from None
    return [str(each) for each in command]


@contextmanager
def _raw_folder(output: Path, keep: str | Path | None) -> Iterator[Path]:
    """A folder for raw records: beside the output, on a disk with the space for it."""
    if keep is not None:
        Path(keep).mkdir(parents=True, exist_ok=True)
        yield Path(keep).absolute()
        return
    with tempfile.TemporaryDirectory(prefix=".warplens-trace-", dir=output.absolute().parent) as folder:
        yield Path(folder)


def write_launches(
    launches: Sequence[RawLaunch],
    output: Path,
    tools: Tools,
    counted: Mapping[tuple[str, int], Counts],
    warnings: list[str],
    watch: Callable[[float, float], None] | None = None,
    *,
    discard: bool = False,
) -> list[TracedLaunch]:
    """Replay recorded launches and write them; adds to `warnings` what is not exact or not modelled.

    `discard` removes the raw records of each written launch, to make room for the others.
    """
    kernels: dict[tuple[Path, str], tuple[SassKernel, KernelResources, Prepared]] = {}
    traced: list[TracedLaunch] = []
    done, total = 0.0, sum(launch.raw_bytes for launch in launches)
    problem: TraceError | None = None
    with TraceWriter(output) as writer:
        for launch in launches:
            key = (launch.cubin, launch.kernel)
            try:
                if key not in kernels:
                    kernels[key] = *_kernel(launch, tools.nvdisasm), {}
            except TraceError as error:  # one unreadable kernel must not cost the others
                problem = error
                warnings.append(f"launch {launch.index} is left out: {error}")
                continue
            kernel, resources, prepared = kernels[key]
            work = Reconstruction(launch, kernel, counted.get((launch.kernel, launch.occurrence)), prepared)
            warps = 0
            for group in work.groups():
                writer.write(group)
                warps += len(group)
                if watch is not None:
                    recorded_warps = launch.block_limit * launch.warps_per_block
                    watch(done + launch.raw_bytes * warps / recorded_warps, total)
            done += launch.raw_bytes
            header = launch_header(launch, kernel, resources, work, tools.compute_capability)
            writer.end_launch(header, work.static)
            warnings += warnings_of(launch, work)
            traced.append(
                TracedLaunch(
                    kernel=header.kernel,
                    launch=launch.index,
                    grid=launch.grid,
                    block=launch.block,
                    blocks_traced=launch.block_limit,
                    records=int(work.survey.records.sum()),
                    raw_bytes=launch.raw_bytes,
                    exactness=work.exactness.to_dict(),
                )
            )
            if discard:
                launch.records.unlink(missing_ok=True)
        if problem is not None and not traced:
            raise problem
    return traced


def _kernel(launch: RawLaunch, nvdisasm: str) -> tuple[SassKernel, KernelResources]:
    kernel = parse_kernel(disassemble(nvdisasm, launch.cubin, launch.kernel), launch.kernel)
    try:
        resources = read_cubin(launch.cubin.read_bytes())[launch.kernel]
    except (OSError, ValueError, KeyError):
        resources = KernelResources(0, max(launch.total_shared_bytes - launch.dynamic_shared_bytes, 0))
    return kernel, resources


def launch_header(
    launch: RawLaunch,
    kernel: SassKernel,
    resources: KernelResources,
    work: Reconstruction,
    compute_capability: tuple[int, int],
) -> LaunchHeader:
    """The header of a launch; `extra` has the exactness and the control bits of the instructions."""
    missing = ["predicates", "immediates"]
    missing += [] if work.static.line.any() else ["source lines"]
    return LaunchHeader(
        kernel=launch.kernel,
        grid=launch.grid,
        block=launch.block,
        registers_per_thread=resources.registers_per_thread,
        shared_memory_per_block_bytes=resources.shared_memory_bytes + launch.dynamic_shared_bytes,
        launch_index=launch.index,
        origin="SASS recorded on a GPU",
        missing=tuple(missing),
        extra={
            "readable_name": launch.readable,
            "binary_version": 10 * compute_capability[0] + compute_capability[1],
            "local_base_address": LOCAL_BASE,
            "dynamic_shared_memory_bytes": launch.dynamic_shared_bytes,
            "blocks_traced": launch.block_limit,
            **({"cluster_blocks": launch.cluster_blocks} if launch.cluster_blocks > 1 else {}),
            "source_file": kernel.source_file,
            **packed_chains([item.inlined for item in kernel.instructions]),
            "exactness": work.exactness.to_dict(),
            # Per static instruction, from bit 0: stall cycles 4, yield 1, write barrier 3, read barrier 3, waits 6.
            "sass_control": [item.control for item in kernel.instructions],
        },
    )
