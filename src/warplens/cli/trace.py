"""`warplens trace`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .common import console, json_option, print_json, show_number, show_seconds, table, waiting


@click.command()
@click.argument("workload", metavar="WORKLOAD")
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write (.wlt)."
)
@click.option("--gpu", metavar="NAME|FILE", help="Machine whose waves `record.waves` counts.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@json_option
def trace(workload: str, output: Path, gpu: str | None, force: bool, as_json: bool) -> None:
    """Run a kernel on the CPU and record what it does.

    WORKLOAD is a workload file (*.toml) that names a CUDA C++ or PTX source and
    a launch, or the name of a bundled one. The trace is an input of every other
    command.
    """
    import time

    from ..api import record

    if output.suffix != ".wlt":
        raise click.UsageError(f"{output}: the name of a trace ends in .wlt")
    if output.exists() and not force:
        raise click.UsageError(f"{output}: exists; give another name, or --force to overwrite it")
    started = time.perf_counter()
    with waiting(f"running {workload}") as progress:
        recorded = record(workload, output, gpu=gpu, progress=progress)
    summary = _summary(recorded, output, time.perf_counter() - started)
    if as_json:
        print_json(summary)
    else:
        _show(summary)


def _summary(recorded: Any, output: Path, seconds: float) -> dict[str, Any]:
    from .._version import __version__

    header = recorded.header
    blocks = warps = instructions = 0
    for group in recorded.groups():
        blocks, warps = blocks + group.blocks, warps + len(group)
        instructions += group.instructions
    return {
        "schema": 1,
        "version": __version__,
        "output": str(output),
        "kernel": header.kernel,
        "grid": list(header.grid),
        "block": list(header.block),
        "registers_per_thread": header.registers_per_thread,
        "registers_estimated": bool(header.extra.get("registers_estimated", False)),
        "shared_memory_per_block_bytes": header.shared_memory_per_block_bytes,
        "blocks": header.blocks,
        "recorded_blocks": blocks,
        "warps": warps,
        "instructions": instructions,
        "bytes": output.stat().st_size,
        "seconds": seconds,
    }


def _show(summary: dict[str, Any]) -> None:
    numbers = ("blocks", "warps", "instructions", "registers", "shared memory")
    view = table("", ("kernel", "grid", "block", *numbers), right=numbers)
    view.add_row(
        summary["kernel"].replace("[", r"\["),
        "×".join(map(str, summary["grid"])),
        "×".join(map(str, summary["block"])),
        f"{show_number(summary['recorded_blocks'])} of {show_number(summary['blocks'])}",
        show_number(summary["warps"]),
        show_number(summary["instructions"]),
        f"{summary['registers_per_thread']}{' (estimated)' if summary['registers_estimated'] else ''}",
        f"{show_number(summary['shared_memory_per_block_bytes'])} bytes",
    )
    out = console()
    out.print(view)
    size, seconds = show_number(summary["bytes"]), show_seconds(summary["seconds"])
    out.print(f"{summary['output']}: {size} bytes, in {seconds}", markup=False)
