"""Accel-Sim's traces: import and export of its text format, as a stream."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import TraceError
from ...traces import LaunchHeader, LaunchTrace, MemoryTrace, TraceWriter, WarpGroup, read_trace
from .lists import is_kernel_trace, read_list
from .reader import KernelReader, Progress
from .writer import LIST_NAME, export_launches

__all__ = [
    "ImportedLaunch",
    "KernelReader",
    "coverage_warning",
    "export_accelsim",
    "import_accelsim",
    "is_accelsim",
    "load_accelsim",
]

#: Bytes of trace text held in memory in total; further traces go to temporary files.
_TEXT_IN_MEMORY = 256 << 20


@dataclass(frozen=True)
class ImportedLaunch:
    """Summary of an imported launch."""

    header: LaunchHeader
    blocks: int
    warps: int
    instructions: int


def is_accelsim(path: str | Path) -> bool:
    """Whether `load_accelsim` accepts a path: a list, a kernel trace, or a folder with a list."""
    path = Path(path)
    return path.name == LIST_NAME or is_kernel_trace(path) or (path / LIST_NAME).is_file()


def load_accelsim(
    path: str | Path, *, progress: Progress | None = None, text_in_memory: int = _TEXT_IN_MEMORY
) -> list[LaunchTrace]:
    """The launches of a `kernelslist.g` or of one kernel trace.

    Small traces stay in memory. Text beyond `text_in_memory` bytes goes to
    temporary files, which are removed with the launches.
    """
    launches: list[LaunchTrace] = []
    held = 0
    for index, (reader, extra) in enumerate(_readers(path, progress)):
        groups: list[WarpGroup] = []
        stream = reader.groups()
        for group in stream:
            groups.append(group)
            if held + reader.text_bytes > text_in_memory:
                launches.append(_through_file(groups, stream, reader, index, extra))
                break
        else:
            launches.append(MemoryTrace(reader.launch_header(index, extra), reader.static_table(), tuple(groups)))
            held += reader.text_bytes
    return launches


def import_accelsim(path: str | Path, out: str | Path, *, progress: Progress | None = None) -> list[ImportedLaunch]:
    """Convert a `kernelslist.g` or one kernel trace to a `.wlt` file, as a stream."""
    imported = []
    with TraceWriter(out) as writer:
        for index, (reader, extra) in enumerate(_readers(path, progress)):
            blocks = warps = instructions = 0
            for group in reader.groups():
                writer.write(group)
                blocks += group.blocks
                warps += len(group)
                instructions += group.instructions
            header = reader.launch_header(index, extra)
            writer.end_launch(header, reader.static_table())
            imported.append(ImportedLaunch(header, blocks, warps, instructions))
    return imported


def export_accelsim(
    launches: Iterable[LaunchTrace], folder: str | Path, *, version: int = 4, compression: str | None = "xz"
) -> list[Path]:
    """Write launches to a folder: `kernelslist.g` and a kernel trace each. Returns the kernel traces.

    Opcodes that are not SASS are replaced by one of the same class and access
    size. The last line of a partial launch says how many blocks are recorded;
    Accel-Sim takes it for a comment.
    """
    return export_launches(launches, folder, version=version, compression=compression)


def coverage_warning(header: LaunchHeader) -> str | None:
    """A warning if some of the launch's instructions have unknown opcodes."""
    share = header.extra.get("opcode_coverage")
    if not isinstance(share, float | int) or share >= 1:
        return None
    unknown = header.extra.get("unknown_opcodes") or {}
    names = ", ".join(f"{opcode} ×{count}" for opcode, count in list(unknown.items())[:5])
    return (
        f"kernel {header.kernel!r}: {100 * (1 - share):.3g} % of its instructions have unknown opcodes "
        f"({names}); they count as class 'other'"
    )


def _readers(path: str | Path, progress: Progress | None) -> Iterator[tuple[KernelReader, dict[str, Any]]]:
    """(reader, list entry) of each kernel, in order. A reader stays open until the next is requested."""
    path = Path(path)
    if is_kernel_trace(path) and not path.is_dir():
        yield from _opened([(path, {})], progress)
        return
    listed = read_list(path / LIST_NAME if path.is_dir() else path)
    files: list[tuple[Path, dict[str, Any]]] = []
    for kernel in listed.kernels:
        copies = {"memcpys": [list(copy) for copy in kernel.copies]} if kernel.copies else {}
        files.append((kernel.path, copies))
    if listed.copies_after:
        files[-1][1]["memcpys_after"] = [list(copy) for copy in listed.copies_after]
    yield from _opened(files, progress)


def _opened(
    files: list[tuple[Path, dict[str, Any]]], progress: Progress | None
) -> Iterator[tuple[KernelReader, dict[str, Any]]]:
    try:
        sizes = [file.stat().st_size for file, _ in files]
    except OSError as error:
        raise TraceError(f"{error.filename}: no such file; the list of kernels names it") from None
    total = sum(sizes)
    before = 0
    for (file, extra), size in zip(files, sizes, strict=True):
        report = None if progress is None else _shifted(progress, before, total)
        with KernelReader(file, progress=report) as reader:
            yield reader, extra
        before += size


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    return lambda done, _: progress(before + done, total)


def _through_file(
    groups: list[WarpGroup], rest: Iterator[WarpGroup], reader: KernelReader, index: int, extra: dict[str, Any]
) -> LaunchTrace:
    """A launch in a temporary file, removed when the launch is no longer used."""
    place = Path(tempfile.mkdtemp(prefix="warplens-"))
    try:
        with TraceWriter(place / "launch.wlt") as writer:
            while groups:
                writer.write(groups.pop(0))
            for group in rest:
                writer.write(group)
            writer.end_launch(reader.launch_header(index, extra), reader.static_table())
        launch = read_trace(place / "launch.wlt")[0]
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise
    weakref.finalize(launch, shutil.rmtree, place, ignore_errors=True)
    return launch
