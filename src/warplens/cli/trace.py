"""`warplens trace`"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from .._version import __version__
from . import completion
from .common import cleaned_up, console, escape, print_json, say, show_name, show_number, show_seconds, table, warn
from .options import json_option, parse_ranges
from .progress import waiting

#: Of more, those of one kernel and size are shown as one.
MOST_LAUNCHES = 32


@click.command(short_help="Run a kernel or a program, and record what it does.")
@click.argument("what", metavar="WORKLOAD | -- PROGRAM [ARGS]...", nargs=-1, required=True)
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="File to write (.wlt)."
)
@click.option("--on-gpu", is_flag=True, help="Trace an unmodified CUDA program on the GPU of this machine.")
@click.option(
    "--gpu",
    metavar="NAME|FILE",
    shell_complete=completion.gpus,
    help="On the CPU: machine that decides how many thread blocks a wave of `record.waves` has.",
)
@click.option("--kernel", metavar="REGEX", help="On the GPU: only kernels whose name matches.")
@click.option("--launch", "launches", metavar="0,3,5-8", help="On the GPU: only these of the launches that match.")
@click.option(
    "--max-blocks",
    type=click.IntRange(min=1),
    metavar="N",
    help="On the GPU: record at most N thread blocks, spread over the grid.",
)
@click.option(
    "--waves",
    metavar="N",
    type=click.IntRange(min=1),
    help="On the GPU: record the thread blocks of N waves, spread over the grid.",
)
@click.option(
    "--record-memory", metavar="SIZE", help="On the GPU: device memory for the records of one launch. [default: 4GiB]"
)
@click.option("--force", is_flag=True, help="Overwrite the file.")
@json_option
def trace(
    what: tuple[str, ...],
    output: Path,
    on_gpu: bool,
    gpu: str | None,
    kernel: str | None,
    launches: str | None,
    max_blocks: int | None,
    waves: int | None,
    record_memory: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Run a kernel on the CPU, or a program on a GPU, and record what it does.

    WORKLOAD is a workload file (*.toml) that names a CUDA C++ or PTX source and
    a launch, or the name of a bundled one; it runs on the CPU. With --on-gpu,
    PROGRAM is any CUDA program, which is run on this machine's GPU with its
    kernels traced. The trace is an input of every other command.
    """
    if output.suffix != ".wlt":
        raise click.UsageError(f"{output}: the name of a trace ends in .wlt")
    if output.exists() and not force:
        raise click.UsageError(f"{output}: exists; give another name, or --force to overwrite it")
    if on_gpu:
        if gpu is not None:
            raise click.UsageError("--gpu is for traces made on the CPU; --on-gpu uses the GPU of this machine")
        _trace_program(what, output, kernel, launches, max_blocks, waves, record_memory, as_json)
        return
    if len(what) != 1 or any(value is not None for value in (kernel, launches, max_blocks, waves, record_memory)):
        raise click.UsageError(
            "give one WORKLOAD; --kernel, --launch, --max-blocks, --waves, --record-memory and a PROGRAM need "
            "--on-gpu"
        )
    _trace_workload(what[0], output, gpu, as_json)


def _trace_workload(workload: str, output: Path, gpu: str | None, as_json: bool) -> None:

    from ..api import trace as record

    started = time.perf_counter()
    with waiting(f"running {workload}") as progress:
        recorded = record(workload, output, gpu=gpu, progress=progress)
    summary = _summary(recorded, output, time.perf_counter() - started)
    if as_json:
        print_json(summary)
    else:
        _show(summary)


def _trace_program(
    command: tuple[str, ...],
    output: Path,
    kernel: str | None,
    launches: str | None,
    max_blocks: int | None,
    waves: int | None,
    record_memory: str | None,
    as_json: bool,
) -> None:
    from ..frontends.sass import BUFFER_BYTES, trace_program

    wanted = None if launches is None else sorted(parse_ranges(launches, "--launch"))
    memory_bytes = BUFFER_BYTES if record_memory is None else _bytes_of(record_memory, "--record-memory")
    output.parent.mkdir(parents=True, exist_ok=True)
    with cleaned_up(), waiting("reconstructing the warps") as watch:
        summary = trace_program(
            list(command),
            output,
            kernel_regex=kernel,
            launches=wanted,
            max_blocks=max_blocks,
            waves=waves,
            buffer_bytes=memory_bytes,
            program_output=2 if as_json else None,  # standard output is for the document
            progress=lambda text: click.echo(text, err=True),
            watch=watch,
        )
    if as_json:
        print_json({"schema": 1, "version": __version__, **summary.to_dict()})
    else:
        _show_program(summary)
    for text in summary.warnings:
        warn(text)


def _bytes_of(text: str, option: str) -> int:
    from ..units import parse_number

    try:
        size = int(parse_number(text, "bytes"))
    except ValueError as error:
        raise click.UsageError(f"{option}: {error}") from None
    if size < 1 << 20:
        raise click.UsageError(f"{option} {text!r}: give 1MiB or more")
    return size


def _show_program(summary: Any) -> None:
    numbers = ("launch", "blocks", "instructions", "exact")
    view = table("", ("kernel", "grid", "block", *numbers), right=numbers)
    rows: dict[tuple[Any, ...], list[Any]] = {}
    for each in summary.launches:
        alone = each.launch if len(summary.launches) <= MOST_LAUNCHES else None
        rows.setdefault((each.kernel, each.grid, each.block, alone), []).append(each)
    for (kernel, grid, block, _), each in rows.items():
        shares = [launch.exact_share for launch in each]
        view.add_row(
            escape(show_name(kernel)),
            "×".join(map(str, grid)),
            "×".join(map(str, block)),
            str(each[0].launch) if len(each) == 1 else f"{len(each)} launches",
            show_number(sum(launch.blocks_traced for launch in each)),
            show_number(sum(launch.instructions for launch in each)),
            "" if None in shares else f"{100 * min(shares):.2f}%",
        )
    out = console()
    out.print(view)
    out.print(
        "[dim]exact: share of executed instructions on which the reconstruction and the counters agree, "
        "of several launches the lowest[/]"
    )
    overhead = "" if summary.overhead is None else f", {summary.overhead:.3g} times its untraced time"
    size = show_number(summary.bytes)
    text = f"{summary.path}: {size} bytes; the program ran {show_seconds(summary.traced_seconds)}{overhead}"
    say(text)


def _summary(recorded: Any, output: Path, seconds: float) -> dict[str, Any]:

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
        escape(show_name(summary["kernel"])),
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
    say(f"{summary['output']}: {size} bytes, in {seconds}")
