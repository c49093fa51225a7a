"""`warplens convert`"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._version import __version__
from .common import console, escape, print_json, say, show_name, show_number, table, warn
from .options import json_option
from .progress import waiting

if TYPE_CHECKING:
    from ..frontends.accelsim import ImportedLaunch
    from ..traces import LaunchHeader, LaunchTrace, StaticTable, WarpGroup


@click.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("target", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--tracer-version",
    type=click.IntRange(2, 5),
    default=4,
    show_default=True,
    help="Version of the Accel-Sim text to write; 2 and 3 have no immediates.",
)
@click.option(
    "--compression",
    type=click.Choice(["xz", "gz", "none"]),
    default="xz",
    show_default=True,
    help="How to pack the Accel-Sim text.",
)
@click.option("--force", is_flag=True, help="Overwrite OUT.")
@json_option
def convert(source: Path, target: Path, tracer_version: int, compression: str, force: bool, as_json: bool) -> None:
    """Convert traces between .wlt and Accel-Sim.

    IN is a .wlt file, a kernelslist.g (or its folder), or one kernel trace
    (*.traceg, .xz, .gz). OUT ending in .wlt is written as one file; any other
    OUT is a folder, which gets a kernelslist.g and a kernel trace per launch.
    """
    _check(source, target, force)
    if target.suffix == ".wlt":
        launches = _import(source, target)
        written = [target]
    else:
        launches, written = _export(source, target, tracer_version, None if compression == "none" else compression)
    summary = _summary(source, target, launches, sum(path.stat().st_size for path in written))
    if as_json:
        print_json(summary)
    else:
        _show(summary)
    for text in _warnings(launches, target):
        warn(text)


def _check(source: Path, target: Path, force: bool) -> None:
    if target.suffix == ".wlt" and source.suffix == ".wlt":
        raise click.UsageError("IN and OUT are both .wlt; to export, give a folder as OUT")
    if target.suffix != ".wlt" and (target.name.endswith((".traceg", ".traceg.xz", ".traceg.gz", ".g"))):
        raise click.UsageError(
            f"{target}: OUT is a folder to write kernelslist.g and kernel traces to, or a .wlt file"
        )
    if target.suffix != ".wlt" and target.exists() and not target.is_dir():
        raise click.UsageError(f"{target}: exists and is not a folder; give another OUT")
    taken = target.exists() if target.suffix == ".wlt" else target.is_dir() and any(target.iterdir())
    if taken and not force:
        raise click.UsageError(f"{target}: exists; give another OUT, or --force to overwrite it")


def _import(source: Path, target: Path) -> list[ImportedLaunch]:
    from ..frontends.accelsim import import_accelsim

    with waiting(f"reading {source}") as progress:
        return import_accelsim(source, target, progress=progress)


def _export(
    source: Path, target: Path, version: int, compression: str | None
) -> tuple[list[ImportedLaunch], list[Path]]:
    from ..frontends.accelsim import ImportedLaunch, export_accelsim, load_accelsim
    from ..traces import read_trace

    launches: list[Any] = list(read_trace(source) if source.suffix == ".wlt" else load_accelsim(source))
    with waiting(f"writing {target}") as progress:
        counted = [_Counted(launch) for launch in launches]
        blocks = sum(launch.header.blocks for launch in launches)
        for launch in counted:
            launch.report = lambda: progress(sum(each.blocks for each in counted), blocks)
        files = export_accelsim(counted, target, version=version, compression=compression)
    imported = [ImportedLaunch(each.header, each.blocks, each.warps, each.instructions) for each in counted]
    return imported, [*files, target / "kernelslist.g"]


class _Counted:
    """A launch that counts what is read from it."""

    def __init__(self, launch: LaunchTrace) -> None:
        self._launch = launch
        self.blocks = self.warps = self.instructions = 0
        self.report: Any = None

    @property
    def header(self) -> LaunchHeader:
        return self._launch.header

    @property
    def static(self) -> StaticTable:
        return self._launch.static

    def groups(self) -> Iterator[WarpGroup]:
        for group in self._launch.groups():
            yield group
            self.blocks += group.blocks
            self.warps += len(group)
            self.instructions += group.instructions
            self.report()


def _summary(source: Path, target: Path, launches: list[ImportedLaunch], size: int) -> dict[str, Any]:

    rows: list[dict[str, Any]] = [
        {
            "kernel": each.header.kernel,
            "launch": each.header.launch_index,
            "grid": list(each.header.grid),
            "block": list(each.header.block),
            "warps": each.warps,
            "instructions": each.instructions,
            "coverage": each.header.extra.get("opcode_coverage"),
        }
        for each in launches
    ]
    known = [(row["coverage"], row["instructions"]) for row in rows if row["coverage"] is not None]
    total = sum(count for _, count in known)
    return {
        "schema": 1,
        "version": __version__,
        "input": str(source),
        "output": str(target),
        "launches": rows,
        "warps": sum(each.warps for each in launches),
        "instructions": sum(each.instructions for each in launches),
        "coverage": sum(share * count for share, count in known) / total if total else None,
        "bytes": size,
    }


def _warnings(launches: list[ImportedLaunch], target: Path) -> Iterator[str]:
    from ..frontends.accelsim import coverage_warning

    for each in launches:
        text = coverage_warning(each.header)
        if text is not None:
            yield text
        if target.suffix != ".wlt" and each.blocks != each.header.blocks:
            yield (
                f"kernel {each.header.kernel!r}: {each.blocks} of its {each.header.blocks} thread blocks are "
                "recorded; Accel-Sim itself needs all of them"
            )


def _show(summary: dict[str, Any]) -> None:
    numbers = ("warps", "instructions", "opcodes known")
    view = table("", ("launch", "kernel", "grid", "block", *numbers), right=("launch", *numbers))
    for row in summary["launches"]:
        view.add_row(
            str(row["launch"]),
            escape(show_name(row["kernel"])),
            "×".join(map(str, row["grid"])),
            "×".join(map(str, row["block"])),
            show_number(row["warps"]),
            show_number(row["instructions"]),
            "" if row["coverage"] is None else f"{100 * row['coverage']:.4g}%",
        )
    out = console()
    out.print(view)
    say(f"{summary['output']}: {show_number(summary['bytes'])} bytes")
