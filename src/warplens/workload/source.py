"""Workload files that name a kernel's source: the `[cuda]` table to a `CudaLaunch`, and on to PTX and a trace."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FileError, MissingPackageError, WorkloadError, faults_of, nearest
from ..frontends.cuda.arguments import (
    Argument,
    ArrayArgument,
    Buffers,
    Built,
    build_arguments,
    check_total,
    function_of,
)
from ..frontends.cuda.compile import (
    ARCHITECTURE,
    DEFAULT_ARCHITECTURE,
    architecture_of,
    compile_cuda,
    kernel_names,
)
from ..frontends.cuda.headers import HEADER_WHEELS, wheel_folder
from ..frontends.cuda.options import refused_option
from ..frontends.cuda.python import compile_python_kernel, flatten_arguments
from ..machine import Gpu, occupancy
from ..tomlfile import TomlFile, read_at_most, read_toml
from ..traces import WarpGroup
from ..traces.chosen_blocks import chosen_blocks
from .compiled_launch import CompiledLaunch
from .load import _Reader
from .source_arguments import read_argument, read_buffers, whole

if TYPE_CHECKING:
    from ..frontends.ptx import Execution
    from ..frontends.ptx.placement import Placement

#: The keys of which a `[cuda]` table has exactly one.
_SOURCES = ("source", "code", "ptx", "python")
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_BLOCK_LIMITS = (1024, 1024, 64)
_MOST_THREADS = 1024
_MOST_SHARED_BYTES = 1 << 20
_LARGEST_SOURCE_BYTES = 64 << 20


@dataclass(frozen=True)
class RecordLimit:
    """How much of a launch to record: some blocks, some waves of a GPU, or all; and when to stop it."""

    blocks: int | None = None
    waves: float | None = None
    most_instructions: int | None = None
    """Thread instructions."""
    most_seconds: float | None = None
    from_first: bool = False
    """The first blocks of the grid, not those of its middle: what tuning was validated with."""


@dataclass(frozen=True)
class StaticOptions:
    """Hints for static counts: loop trip counts by source line ("12") or loop number ("#1"), and a branch weight."""

    trip_counts: Mapping[str, float] = field(default_factory=dict)
    branch_weight: float = 1.0


@dataclass(frozen=True, eq=False)
class CudaLaunch:
    """A kernel's source and how it is launched. Nothing is compiled and no array is built yet."""

    name: str
    language: str
    """`cuda`, `ptx` or `python`."""
    text: str
    """The source. Code inside the workload file keeps the file's line numbers."""
    source_name: str
    """Name of the source in messages: its file, or the workload file."""
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Argument, ...] = ()
    buffers: Mapping[str, ArrayArgument] = field(default_factory=dict)
    """Arrays that arguments point into, by name."""
    constants: Mapping[str, Argument] = field(default_factory=dict)
    """What `__constant__` variables hold, by name."""
    dynamic_shared_memory_bytes: int = 0
    options: tuple[str, ...] = ()
    architecture: str = ""
    """What the source is compiled for, where that is given; else it follows the GPU."""
    registers_per_thread: int | None = None
    record: RecordLimit = RecordLimit()
    static: StaticOptions = StaticOptions()
    cluster: tuple[int, int, int] | None = None
    """Blocks of a cluster, where the kernel itself requires none."""
    caches: str = "cold"
    """What the launch finds in the L2: nothing, or what the launches before have left (`warm`)."""
    description: str = ""
    machine: str | None = None
    machine_overrides: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""

    @property
    def blocks(self) -> int:
        return math.prod(self.grid)

    @property
    def threads_per_block(self) -> int:
        return math.prod(self.block)

    def build_arguments(self, buffers: Buffers | None = None) -> list[Built]:
        """New arrays and scalars, as the workload file lists them; `buffers` are those of launches before."""
        return build_arguments(self.arguments, f"{self.path}: cuda.arguments", buffers)


def is_cuda_workload(file: TomlFile) -> bool:
    """Whether a workload file names a kernel's source."""
    return "cuda" in file.data


def load_cuda_launch(path: str | Path) -> CudaLaunch:
    """The launch of a workload file with a `[cuda]` table."""
    return cuda_launch_of(read_toml(path))


def cuda_launch_of(file: TomlFile) -> CudaLaunch:
    """The one launch that a file describes."""
    found = cuda_launches_of(file)
    if len(found) != 1:
        raise WorkloadError(f"{file.path}: has {len(found)} launches; one is needed here. Keep one [[launch]] table")
    return found[0]


def cuda_launches_of(file: TomlFile) -> list[CudaLaunch]:
    """The launches that a file describes, in order; every error names the file, the line and the remedy.

    Tables `[[launch]]` have the keys of `[cuda]`, which hold for all of them.
    """
    reader = _Reader.of_file(file)
    name = reader.text("name", Path(file.path).stem)
    description = reader.text("description")
    machine = reader.table_of("machine")
    table = reader.table_of("cuda")
    if reader.take("tune") is not None:
        raise WorkloadError(f"{file.path}: is a tuning space; `warplens tune` takes it")
    record = reader.table_of("record")
    static = reader.table_of("static")
    if table is None:
        raise WorkloadError(f"{file.path}: names no source; add a [cuda] table with source, kernel, grid and block")
    buffers = read_buffers(reader.table_of("buffers"))
    rows = reader.rows("launch")
    reader.done()
    machine_name, overrides = machine.machine() if machine else (None, {})
    common = CudaLaunch(
        name=name,
        language="",
        text="",
        source_name="",
        kernel="",
        grid=(1, 1, 1),
        block=(1, 1, 1),
        buffers=buffers,
        description=description,
        machine=machine_name,
        machine_overrides=MappingProxyType(overrides),
        record=_record(record) if record else RecordLimit(),
        static=_static(static) if static else StaticOptions(),
        path=file.path,
    )
    if not rows:
        return [dataclasses.replace(common, **_cuda_table(table, buffers))]
    found = []
    for row in rows:
        row.table = {**table.table, **row.table}
        own_name = row.text("name")
        values = _cuda_table(row, buffers)
        found.append(dataclasses.replace(common, **values, name=own_name or values["kernel"]))
    return found


def for_gpu(launch: CudaLaunch, gpu: Gpu | None) -> CudaLaunch:
    """The launch, compiled for a GPU unless its workload file says what for."""
    if launch.architecture or gpu is None or gpu.compute_capability is None:
        return launch
    return dataclasses.replace(launch, architecture=architecture_of(gpu.compute_capability))


def compile_launch(launch: CudaLaunch) -> CompiledLaunch:
    """PTX of the launch's kernel: compiled from source, or as given."""
    architecture = launch.architecture or DEFAULT_ARCHITECTURE
    registers, said = launch.registers_per_thread, "workload file" if launch.registers_per_thread else ""
    if launch.language == "ptx":
        entry = _entry(launch.text, launch.kernel, launch.source_name)
        return CompiledLaunch(launch.text, launch.source_name, entry, registers, said, None)
    if launch.language == "python":
        where = f"{launch.path}: cuda.python"
        function = function_of(Path(launch.source_name), launch.kernel, where)
        typed = [_example(argument) for argument in launch.arguments]
        kernel = compile_python_kernel(function, typed, architecture=architecture, where=where)
        return CompiledLaunch(kernel.ptx, launch.source_name, kernel.entry, registers, said, None)
    compiled = compile_cuda(
        launch.text,
        name=launch.source_name,
        options=launch.options,
        architecture=architecture,
        kernels=(launch.kernel,),
        folder=Path(launch.source_name).parent,
    )
    entry = compiled.lowered_names[launch.kernel]
    used = compiled.resources.get(entry)
    if registers is None and used is not None:
        registers, said = used.registers_per_thread, f"{compiled.compiler} for {architecture}"
    shared = None if used is None else used.shared_memory_bytes
    local = None if used is None else used.stack_bytes
    made = compiled.ptx, launch.source_name, entry, registers, said, shared, compiled.log, local
    return CompiledLaunch(*made, compiled.machine_code.get(entry))


def launch_parameters(launch: CudaLaunch, buffers: Buffers | None = None) -> list[Built]:
    """New values for the parameters of the PTX entry; an array is passed as a pointer."""
    built = launch.build_arguments(buffers)
    return flatten_arguments(built) if launch.language == "python" else built


def blocks_to_record(
    launch: CudaLaunch, gpu: Gpu | None, *, registers_per_thread: int | None, shared_memory_bytes: int | None
) -> list[range] | None:
    """The blocks that `[record]` asks for, in runs as long as a wave, spread over the grid; None for all."""
    limit, wave = launch.record, launch.blocks
    if limit.waves is not None and gpu is None:
        raise WorkloadError(
            f'{launch.path}: record.waves counts waves of a GPU; name one with gpu="NAME" or [machine]'
        )
    if gpu is not None:
        shared = (shared_memory_bytes or 0) + launch.dynamic_shared_memory_bytes
        resident = occupancy(gpu, launch.threads_per_block, registers_per_thread or 0, shared).blocks_per_sm
        wave = math.ceil(float(np.max(np.multiply(resident, gpu.sms))))
    if limit.waves is not None:
        wanted = math.ceil(limit.waves * wave)
    elif limit.blocks is not None:
        wanted = limit.blocks
    else:
        return None
    runs = [range(wanted)] if limit.from_first else chosen_blocks(launch.blocks, wanted, wave, fewest_runs=1)
    return None if wanted >= launch.blocks else runs


def record_launch(
    launch: CudaLaunch,
    gpu: Gpu | None = None,
    *,
    parameters: Sequence[Built] | None = None,
    buffers: Buffers | None = None,
    placement: Placement | None = None,
    consume: Callable[[WarpGroup], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
    results: bool = True,
    workers: int | None = None,
) -> Execution:
    """Run the launch on the CPU and record it. The trace is `.trace` of the result, unless `consume` took it.

    `parameters` are those of the launch, if they are built already; read-only arrays keep their values.
    `buffers` keeps what launches before left in named buffers, and `placement` where those lie. Without `results`
    only what the trace depends on is computed. `workers` threads run blocks, by default one per core.
    """
    from ..frontends.ptx import execute, parse_ptx

    compiled = compile_launch(for_gpu(launch, gpu))
    blocks = blocks_to_record(
        launch,
        gpu,
        registers_per_thread=compiled.registers_per_thread,
        shared_memory_bytes=compiled.shared_memory_bytes,
    )
    with faults_of(launch.path):
        execution = execute(
            parse_ptx(compiled.ptx, name=compiled.name),
            compiled.entry,
            launch.grid,
            launch.block,
            launch_parameters(launch, buffers) if parameters is None else parameters,
            dynamic_shared_memory_bytes=launch.dynamic_shared_memory_bytes,
            blocks=blocks,
            registers_per_thread=compiled.registers_per_thread,
            machine_code=compiled.machine_code,
            name=launch.name,
            cluster=launch.cluster,
            placement=placement,
            constants={name: np.asarray(each.build()) for name, each in launch.constants.items()},
            consume=consume,
            progress=progress,
            results=results,
            workers=workers,
            **_limits(launch.record),
        )
    return execution.with_source(None if launch.language == "ptx" else launch.text, compiled.ptx)


def _limits(record: RecordLimit) -> dict[str, Any]:
    given = {"most_instructions": record.most_instructions, "most_seconds": record.most_seconds}
    return {name: value for name, value in given.items() if value is not None}


# -- reading the tables ---------------------------------------------------------------


def _cuda_table(table: _Reader, buffers: Mapping[str, ArrayArgument]) -> dict[str, Any]:
    given = [key for key in _SOURCES if key in table.table]
    if len(given) != 1:
        found = f"has {' and '.join(given)}" if given else "names no source"
        raise table.fail(
            "", f'{found}; give one of source = "file.cu", code, ptx = "file.ptx", python = "file.py:name"'
        )
    language, text, source_name, kernel = _source(table, given[0])
    for key in _SOURCES:
        table.take(key)
    kernel = _kernel(table, language, text, kernel)
    result = {
        "language": language,
        "text": text,
        "source_name": source_name,
        "kernel": kernel,
        "grid": _extents(table, "grid", _GRID_LIMITS),
        "block": _extents(table, "block", _BLOCK_LIMITS),
        "dynamic_shared_memory_bytes": whole(table, "dynamic_shared_memory_bytes", 0, 0, _MOST_SHARED_BYTES),
        "options": _options(table, language),
        "architecture": table.text("architecture"),
        "registers_per_thread": whole(table, "registers_per_thread", None, 1, 255),
        "arguments": tuple(read_argument(row, buffers) for row in table.rows("arguments")),
        "constants": _constants(table),
        "cluster": _extents(table, "cluster", (16, 16, 16)) if "cluster" in table.table else None,
        "caches": table.text("caches", "cold", choices=("cold", "warm")),
    }
    if math.prod(result["block"]) > _MOST_THREADS:
        raise table.fail("block", f"{math.prod(result['block'])} threads exceed the {_MOST_THREADS} of a block")
    if result["architecture"] and not ARCHITECTURE.fullmatch(result["architecture"]):
        raise table.fail("architecture", f'{result["architecture"]!r} is not an architecture such as "sm_90"')
    table.done()
    arrays = (*result["arguments"], *buffers.values())
    check_total(sum(argument.nbytes for argument in arrays), table.file.where(table.key("arguments")))
    return result


def _source(table: _Reader, key: str) -> tuple[str, str, str, str]:
    """(language, text, name, kernel so far) of the source that the table names."""
    value = table.text(key)
    if not value.strip():
        raise table.fail(key, "is empty")
    if key == "code":
        where = table.file.where(table.key("code")).removeprefix(f"{table.file.path}:")
        line = int(where) if where.isdecimal() else 1
        opening = table.file.text.splitlines()[line - 1].rstrip() if table.file.text else ""
        before = line if opening.endswith(('"""', "'''")) else line - 1  # TOML drops a line break that comes first
        return "cuda", "\n" * before + value, table.file.path, ""
    name, kernel = value, ""
    if key == "python":
        name, separator, kernel = value.rpartition(":")
        if not separator or not name or not kernel.isidentifier():
            raise table.fail(key, f'{value!r} must be "file.py:function"')
    path = Path(table.file.path).parent / name
    try:
        raw = read_at_most(path, _LARGEST_SOURCE_BYTES, "a source")
        text = raw.decode("utf-8")
    except FileError as error:
        raise table.fail(key, str(error)) from None
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise table.fail(key, f"{path}:{line}: not UTF-8 text; save the file as UTF-8") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise table.fail(key, f"{path}: {reason}; the path starts at the folder of the workload file") from None
    return {"source": "cuda"}.get(key, key), text, str(path), kernel


def _kernel(table: _Reader, language: str, text: str, function: str) -> str:
    kernel = table.text("kernel", function)
    if language == "python" and kernel != function:
        raise table.fail("kernel", f"is already {function!r}, from the key python")
    if not kernel:
        known = _entries(text) if language == "ptx" else kernel_names(text)
        if len(known) != 1:
            raise table.fail("kernel", f"is missing; the source has {', '.join(known) or 'none that can be seen'}")
        kernel = known[0]
    return kernel


def _entries(ptx: str) -> list[str]:
    return re.findall(r"\.entry\s+([\w$.%]+)", re.sub(r"//[^\n]*", "", ptx))


def _entry(ptx: str, kernel: str, name: str) -> str:
    """The entry called `kernel`, or the only C++-mangled entry of that name."""
    entries = _entries(ptx)
    mangled = [entry for entry in entries if re.match(rf"_Z(N\w*)?{len(kernel)}{re.escape(kernel)}(?![0-9])", entry)]
    if kernel in entries:
        return kernel
    if len(mangled) == 1:
        return mangled[0]
    remedy = (
        f"write one of {', '.join(mangled)}" if mangled else nearest(kernel, entries) if entries else "it has none"
    )
    raise WorkloadError(f"{name}: no entry {kernel!r} in this PTX; {remedy}")


def _constants(table: _Reader) -> Mapping[str, Argument]:
    found = table.table_of("constants")
    names = list(found.table) if found else []
    rows = {name: found.table_of(name) for name in names if found}
    return MappingProxyType({name: read_argument(row) for name, row in rows.items() if row is not None})


def _extents(table: _Reader, key: str, limits: tuple[int, int, int]) -> tuple[int, int, int]:
    value = table.take(key)
    if value is None:
        raise table.fail(key, f"is missing; write {key} = [256], or up to three numbers")
    values = value if isinstance(value, list) else [value]
    if not 1 <= len(values) <= 3:
        raise table.fail(key, f"has {len(values)} numbers; give 1 to 3")
    for extent, most in zip(values, limits, strict=False):
        if isinstance(extent, bool) or not isinstance(extent, int) or not 1 <= extent <= most:
            raise table.fail(key, f"{extent!r} must be a whole number from 1 to {most}")
    x, y, z = (*values, 1, 1)[:3]
    return x, y, z


def _options(table: _Reader, language: str) -> tuple[str, ...]:
    value = table.take("options", [])
    if not isinstance(value, list) or not all(isinstance(option, str) for option in value):
        raise table.fail("options", 'must be a list of texts, for example ["-DN=4"]')
    if value and language != "cuda":
        raise table.fail("options", f"are for compiling CUDA C++; the source is {language}")
    if (refused := refused_option(value)) is not None:
        raise table.fail("options", f"{refused!r} can read or write files; if you trust this file, add --trust")
    folders = _include_folders(table)
    if folders and language != "cuda":
        raise table.fail("include", f"is for compiling CUDA C++; the source is {language}")
    return (*value, *(f"-I{folder}" for folder in folders))


def _include_folders(table: _Reader) -> list[Path]:
    """Folders of headers: paths from the workload file, or the names of wheels that carry headers."""
    value = table.take("include", [])
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise table.fail("include", f'must be folders, or of {", ".join(HEADER_WHEELS)}: include = ["headers"]')
    found = []
    for name in names:
        folder = (Path(table.file.path).parent / name).resolve()
        if not folder.is_dir():
            if name not in HEADER_WHEELS:
                raise table.fail("include", f"{folder} is no folder; wheels: {', '.join(HEADER_WHEELS)}")
            try:
                folder = wheel_folder(name)
            except MissingPackageError as error:
                raise table.fail("include", str(error)) from None
        found.append(folder)
    return found


def _record(table: _Reader) -> RecordLimit:
    waves = table.number("waves", minimum=0.0, above=True)
    blocks = None if table.table.get("blocks") == "all" else whole(table, "blocks", None, 1, 2**62)
    if blocks is None:
        table.take("blocks")
    instructions = whole(table, "most_instructions", None, 1, 2**62)
    seconds = table.number("most_seconds", minimum=0.0, above=True)
    table.done()
    if waves is not None and blocks is not None:
        raise table.fail("waves", "and blocks are both given; keep one of them")
    return RecordLimit(blocks, waves, instructions, seconds)


def _static(table: _Reader) -> StaticOptions:
    trips = table.table_of("trip_counts")
    weight = table.number("branch_weight", 1.0, most=1.0)
    table.done()
    counts = {}
    for key in list(trips.table) if trips else ():
        assert trips is not None
        if not re.fullmatch(r"#?[0-9]{1,9}", key):
            raise trips.fail(key, 'names no loop; write its source line ("12") or its number ("#1")')
        counts[key] = trips.number(key, most=1e12)
    return StaticOptions(MappingProxyType(counts), weight)


def _example(argument: Argument) -> Built:
    """A value of the argument's type, as small as possible if the type is known without building the array."""
    if isinstance(argument, ArrayArgument) and argument.dtype is not None and argument.shape is not None:
        return np.zeros((1,) * len(argument.shape), argument.dtype)
    return argument.build()
