"""Workload files that name a kernel's source: the `[cuda]` table to a `CudaLaunch`, and on to PTX and a trace."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import WorkloadError, nearest
from ..frontends.cuda.arguments import (
    DTYPES,
    FILLS,
    MOST_ARGUMENT_BYTES,
    Argument,
    ArrayArgument,
    Built,
    ScalarArgument,
    build_arguments,
    check_total,
    function_of,
    scalar_of,
)
from ..frontends.cuda.compile import ARCHITECTURE, DEFAULT_ARCHITECTURE, compile_cuda, kernel_names
from ..frontends.cuda.python import compile_python_kernel, flatten_arguments
from ..machine import Gpu, occupancy
from ..tomlfile import TomlFile, read_toml
from ..trace import WarpGroup
from .load import _Reader

if TYPE_CHECKING:
    from ..frontends.ptx import Execution

#: The keys of which a `[cuda]` table has exactly one.
_SOURCES = ("source", "code", "ptx", "python")
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_BLOCK_LIMITS = (1024, 1024, 64)
_MOST_THREADS = 1024
_MOST_SHARED_BYTES = 1 << 20
_LARGEST_SOURCE_BYTES = 64 << 20
_MOST_DIMENSIONS = 8


@dataclass(frozen=True)
class RecordLimit:
    """How much of a launch is recorded: a number of blocks, of waves of a GPU, or all."""

    blocks: int | None = None
    waves: float | None = None


@dataclass(frozen=True)
class StaticOptions:
    """What counting without running is told: trips of loops by source line ("12") or number ("#1")."""

    trip_counts: Mapping[str, float] = field(default_factory=dict)
    branch_weight: float = 1.0


@dataclass(frozen=True, eq=False)
class CudaLaunch:
    """A kernel's source and how it is launched. Nothing is compiled and no array is built yet."""

    name: str
    language: str
    """`cuda`, `ptx` or `python`."""
    text: str
    """The source. Code that stands in the workload file keeps its line numbers there."""
    source_name: str
    """What messages call the source: its file, or the workload file."""
    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    arguments: tuple[Argument, ...] = ()
    dynamic_shared_memory_bytes: int = 0
    options: tuple[str, ...] = ()
    architecture: str = DEFAULT_ARCHITECTURE
    registers_per_thread: int | None = None
    record: RecordLimit = RecordLimit()
    static: StaticOptions = StaticOptions()
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

    def build_arguments(self) -> list[Built]:
        """New arrays and scalars, as the workload file lists them."""
        return build_arguments(self.arguments, f"{self.path}: cuda.arguments")


@dataclass(frozen=True)
class CompiledLaunch:
    """The PTX of a launch, and what its machine code uses where that is known."""

    ptx: str
    name: str
    entry: str
    registers_per_thread: int | None
    registers_from: str
    """Who said so: `workload file`, or the compiler; empty where it has to be estimated."""
    shared_memory_bytes: int | None
    log: str = ""


def is_cuda_workload(file: TomlFile) -> bool:
    """Whether a workload file names a kernel's source."""
    return "cuda" in file.data


def load_cuda_launch(path: str | Path) -> CudaLaunch:
    """The launch of a workload file with a `[cuda]` table."""
    return cuda_launch_of(read_toml(path))


def cuda_launch_of(file: TomlFile) -> CudaLaunch:
    """The launch that a file describes; every complaint names the file, the line and the remedy."""
    reader = _Reader.of_file(file)
    name = reader.text("name", Path(file.path).stem)
    description = reader.text("description")
    machine = reader.table_of("machine")
    table = reader.table_of("cuda")
    record = reader.table_of("record")
    static = reader.table_of("static")
    if table is None:
        raise WorkloadError(f"{file.path}: names no source; add a [cuda] table with source, kernel, grid and block")
    reader.done()
    machine_name, overrides = machine.machine() if machine else (None, {})
    return CudaLaunch(
        name=name,
        description=description,
        machine=machine_name,
        machine_overrides=MappingProxyType(overrides),
        record=_record(record) if record else RecordLimit(),
        static=_static(static) if static else StaticOptions(),
        path=file.path,
        **_cuda_table(table),
    )


def compile_launch(launch: CudaLaunch) -> CompiledLaunch:
    """PTX of the launch's kernel: compiled, or as it was given."""
    registers, said = launch.registers_per_thread, "workload file" if launch.registers_per_thread else ""
    if launch.language == "ptx":
        entry = _entry(launch.text, launch.kernel, launch.source_name)
        return CompiledLaunch(launch.text, launch.source_name, entry, registers, said, None)
    if launch.language == "python":
        where = f"{launch.path}: cuda.python"
        function = function_of(Path(launch.source_name), launch.kernel, where)
        typed = [_example(argument) for argument in launch.arguments]
        kernel = compile_python_kernel(function, typed, architecture=launch.architecture, where=where)
        return CompiledLaunch(kernel.ptx, launch.source_name, kernel.entry, registers, said, None)
    compiled = compile_cuda(
        launch.text,
        name=launch.source_name,
        options=launch.options,
        architecture=launch.architecture,
        kernels=(launch.kernel,),
        folder=Path(launch.source_name).parent,
    )
    entry = compiled.lowered_names[launch.kernel]
    used = compiled.resources.get(entry)
    if registers is None and used is not None:
        registers, said = used.registers_per_thread, f"{compiled.compiler} for {launch.architecture}"
    shared = None if used is None else used.shared_memory_bytes
    return CompiledLaunch(compiled.ptx, launch.source_name, entry, registers, said, shared, compiled.log)


def launch_parameters(launch: CudaLaunch) -> list[Built]:
    """New values for the parameters of the PTX entry; an array stands for a pointer to it."""
    built = launch.build_arguments()
    return flatten_arguments(built) if launch.language == "python" else built


def blocks_to_record(
    launch: CudaLaunch, gpu: Gpu | None, *, registers_per_thread: int | None, shared_memory_bytes: int | None
) -> int | None:
    """The first blocks that `[record]` asks for; None for all of them."""
    limit = launch.record
    if limit.waves is not None:
        if gpu is None:
            raise WorkloadError(
                f"{launch.path}: record.waves counts waves of a GPU; name one with --gpu or [machine]"
            )
        shared = (shared_memory_bytes or 0) + launch.dynamic_shared_memory_bytes
        resident = occupancy(gpu, launch.threads_per_block, registers_per_thread or 0, shared).blocks_per_sm
        wanted = math.ceil(limit.waves * float(np.max(np.multiply(resident, gpu.sms))))
    elif limit.blocks is not None:
        wanted = limit.blocks
    else:
        return None
    return None if wanted >= launch.blocks else wanted


def record_launch(
    launch: CudaLaunch,
    gpu: Gpu | None = None,
    *,
    consume: Callable[[WarpGroup], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Execution:
    """Run the launch on the CPU and record it; the result has the trace as `.trace`, unless `consume` took it."""
    from ..frontends.ptx import execute, parse_ptx

    compiled = compile_launch(launch)
    blocks = blocks_to_record(
        launch,
        gpu,
        registers_per_thread=compiled.registers_per_thread,
        shared_memory_bytes=compiled.shared_memory_bytes,
    )
    return execute(
        parse_ptx(compiled.ptx, name=compiled.name),
        compiled.entry,
        launch.grid,
        launch.block,
        launch_parameters(launch),
        dynamic_shared_memory_bytes=launch.dynamic_shared_memory_bytes,
        blocks=blocks,
        registers_per_thread=compiled.registers_per_thread,
        name=launch.name,
        consume=consume,
        progress=progress,
    )


# -- reading the tables ---------------------------------------------------------------


def _cuda_table(table: _Reader) -> dict[str, Any]:
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
        "dynamic_shared_memory_bytes": _whole(table, "dynamic_shared_memory_bytes", 0, 0, _MOST_SHARED_BYTES),
        "options": _options(table, language),
        "architecture": table.text("architecture", DEFAULT_ARCHITECTURE),
        "registers_per_thread": _whole(table, "registers_per_thread", None, 1, 255),
        "arguments": tuple(_argument(row) for row in table.rows("arguments")),
    }
    if math.prod(result["block"]) > _MOST_THREADS:
        raise table.fail("block", f"{math.prod(result['block'])} threads exceed the {_MOST_THREADS} of a block")
    if not ARCHITECTURE.fullmatch(result["architecture"]):
        raise table.fail("architecture", f'{result["architecture"]!r} is none; write "sm_90", say')
    table.done()
    check_total(sum(argument.nbytes for argument in result["arguments"]), table.file.where("cuda.arguments"))
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
        if path.stat().st_size > _LARGEST_SOURCE_BYTES:
            raise table.fail(key, f"{path} is larger than {_LARGEST_SOURCE_BYTES >> 20} MiB: not a source")
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise table.fail(key, f"{path} is not UTF-8 text (byte {error.start})") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise table.fail(key, f"{path}: {reason}; the path starts at the folder of the workload file") from None
    return {"source": "cuda"}.get(key, key), text, str(path), kernel


def _kernel(table: _Reader, language: str, text: str, function: str) -> str:
    kernel = table.text("kernel", function)
    if language == "python" and kernel != function:
        raise table.fail("kernel", f"is {function!r} already, by the key python")
    if not kernel:
        known = _entries(text) if language == "ptx" else kernel_names(text)
        if len(known) != 1:
            raise table.fail("kernel", f"is missing; the source has {', '.join(known) or 'none that can be seen'}")
        kernel = known[0]
    return kernel


def _entries(ptx: str) -> list[str]:
    return re.findall(r"\.entry\s+([\w$.%]+)", re.sub(r"//[^\n]*", "", ptx))


def _entry(ptx: str, kernel: str, name: str) -> str:
    """The entry called `kernel`, or the only one that C++ made of that name."""
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


def _whole(row: _Reader, key: str, default: int | None, least: int, most: int) -> Any:
    """A whole number as it is written: 64-bit ones do not survive as floats."""
    value = row.take(key, default)
    if value is default:
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise row.fail(key, f"{value!r} is not a whole number")
    if not least <= value <= most:
        raise row.fail(key, f"{value} must be at least {least} and at most {most}")
    return value


def _extents(table: _Reader, key: str, limits: tuple[int, int, int]) -> tuple[int, int, int]:
    value = table.take(key)
    if value is None:
        raise table.fail(key, f"is missing; write {key} = [256], or up to three numbers")
    values = value if isinstance(value, list) else [value]
    if not 1 <= len(values) <= 3:
        raise table.fail(key, f"has {len(values)} numbers; 1 to 3 are possible")
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
    return tuple(value)


def _record(table: _Reader) -> RecordLimit:
    waves = table.number("waves", minimum=0.0, above=True)
    blocks = None if table.table.get("blocks") == "all" else _whole(table, "blocks", None, 1, 2**62)
    if blocks is None:
        table.take("blocks")
    table.done()
    if waves is not None and blocks is not None:
        raise table.fail("waves", "stands beside blocks; give one of them")
    return RecordLimit(blocks, waves)


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


def _argument(row: _Reader) -> Argument:
    fill = row.text("fill", _default_fill(row.table), choices=("", *FILLS))
    dtype_name = row.text("dtype", choices=("", *DTYPES))
    dtype = DTYPES.get(dtype_name)
    shape = _shape(row)
    if dtype is None and fill not in ("file", "function"):
        raise row.fail("dtype", f"is missing; valid: {', '.join(DTYPES)}")
    if not fill:
        assert dtype is not None
        argument: Argument = ScalarArgument(_scalar(row, "value", dtype))
    else:
        if shape is None and fill not in ("file", "function"):
            raise row.fail("shape", f'is missing; fill = "{fill}" needs one, for example shape = [1024]')
        place = f"{row.file.where(row.prefix)}: {row.prefix}"
        values = {key: value for key in FILLS[fill] for key, value in _fill_values(row, fill, key, dtype).items()}
        argument = ArrayArgument(dtype=dtype, shape=shape, fill=fill, where=place, **values)
        if argument.nbytes > MOST_ARGUMENT_BYTES:
            raise row.fail("shape", f"{argument.nbytes:,} bytes; at most {MOST_ARGUMENT_BYTES:,} can be held")
        if fill == "random" and argument.low >= argument.high:
            raise row.fail("high", f"{argument.high} must be above low = {argument.low}")
    for key in row.table:
        if owners := [f'fill = "{name}"' for name, keys in FILLS.items() if key in keys]:
            raise row.fail(
                key, f"belongs to {' or '.join(owners)}, not to {f'fill = {fill!r}' if fill else 'a scalar'}"
            )
    row.done()
    return argument


def _default_fill(table: dict[str, Any]) -> str:
    """What a row without `fill` means; empty for a scalar."""
    for key in ("file", "function"):
        if key in table:
            return key
    if "shape" not in table:
        return ""
    return "constant" if "value" in table else "zeros"


def _shape(row: _Reader) -> tuple[int, ...] | None:
    value = row.take("shape")
    if value is None:
        return None
    values = value if isinstance(value, list) else [value]
    if not 1 <= len(values) <= _MOST_DIMENSIONS:
        raise row.fail("shape", f"has {len(values)} extents; 1 to {_MOST_DIMENSIONS} are possible")
    for extent in values:
        if isinstance(extent, bool) or not isinstance(extent, int) or not 1 <= extent <= MOST_ARGUMENT_BYTES:
            raise row.fail("shape", f"{extent!r} must be a whole number from 1 to {MOST_ARGUMENT_BYTES}")
    return tuple(values)


def _scalar(row: _Reader, key: str, dtype: np.dtype[Any]) -> np.generic:
    value = row.take(key)
    if value is None:
        raise row.fail(key, "is missing; give a value, or a shape for an array")
    try:
        return scalar_of(dtype, value)
    except ValueError as error:
        raise row.fail(key, str(error)) from None


def _fill_values(row: _Reader, fill: str, key: str, dtype: np.dtype[Any] | None) -> dict[str, Any]:
    """The fields of an `ArrayArgument` that one key of the row gives."""
    if key in ("file", "function"):
        value = row.text(key)
        name, function = value, ""
        if key == "function":
            name, _, function = value.rpartition(":")
            if not function.isidentifier():
                raise row.fail(key, f'{value!r} must be "file.py:function"')
        if not name:
            raise row.fail(key, f'names no file; write {key} = "{"x.npy" if key == "file" else "file.py:function"}"')
        return {"path": Path(row.file.path).parent / name, "function": function}
    assert dtype is not None
    if key == "seed":
        return {"seed": _whole(row, "seed", 0, 0, 2**63 - 1)}
    if key == "value":
        return {"value": _scalar(row, "value", dtype)}
    value = row.take(key)
    if value is None:
        if key == "high" and dtype.kind in "iu":
            raise row.fail("high", "is missing; random integers lie in [low, high)")
        return {}
    if dtype.kind == "b":
        raise row.fail(key, f'does not apply to dtype = "bool" with fill = "{fill}"')
    whole = dtype.kind in "iu"
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float) or not math.isfinite(value):
        raise row.fail(key, f"{value!r} is not a {'whole' if whole else 'finite'} number")
    try:
        # The end of a range may lie one beyond the largest integer; a step may be negative.
        if key in ("low", "start") or (key == "high" and not whole):
            scalar_of(dtype, value)
        elif key == "high":
            scalar_of(dtype, value - 1)
        elif abs(value) > 2**63:
            raise ValueError(f"{value!r} is too large")
    except ValueError as error:
        raise row.fail(key, str(error)) from None
    return {key: value}


def _example(argument: Argument) -> Built:
    """A value of the argument's type: as small as can be, where the type is known without building it."""
    if isinstance(argument, ArrayArgument) and argument.dtype is not None and argument.shape is not None:
        return np.zeros((1,) * len(argument.shape), argument.dtype)
    return argument.build()
