"""`warplens suite`"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .._version import __version__
from . import completion
from .common import console, print_json, say, show_number, show_seconds, table
from .options import json_option
from .progress import waiting

if TYPE_CHECKING:
    from ..suite.execution import SuiteRun
    from ..suite.kernel import SuiteKernel

_SIZES = ("small", "medium", "large")  # those of warplens.suite, which takes a while to import
_size_option = click.option(
    "--size", type=click.Choice(_SIZES), default="small", show_default=True, help="Of inputs."
)


@click.group(short_help="List, run or trace the CUDA kernels that ship with warplens.")
def suite() -> None:
    """CUDA kernels that come with warplens, each with inputs and a NumPy reference."""


@suite.command("list")
@json_option
def list_kernels(as_json: bool) -> None:
    """Every kernel: its group, what it stands for, and what its sizes mean."""
    from ..suite.catalog import SUITE
    from ..suite.execution import size_parameters

    if as_json:
        rows = [
            {
                "name": kernel.name,
                "group": kernel.group,
                "stands_for": kernel.stands_for,
                "source": kernel.source,
                "kernel": kernel.entry,
                "options": list(kernel.options),
                "parameters": dict(kernel.parameters),
                "sizes": size_parameters(kernel),
            }
            for kernel in SUITE.values()
        ]
        print_json(_document(kernels=rows))
        return
    view = table("", ("name", "group", "stands for", "sizes: small, medium, large"))
    for kernel in SUITE.values():
        sizes = size_parameters(kernel)
        values = ", ".join("×".join(map(str, sizes[size].values())) for size in _SIZES)
        view.add_row(kernel.name, kernel.group, kernel.stands_for, f"{'×'.join(sizes['small'])}: {values}")
    out = console()
    out.width = max(out.width, 120)
    out.print(view)


@suite.command()
@click.argument("names", nargs=-1, metavar="[NAME]...", shell_complete=completion.kernels)
@_size_option
@json_option
def run(names: tuple[str, ...], size: str, as_json: bool) -> None:
    """Run kernels on this CPU and check their results against NumPy.

    NAME is a kernel of `warplens suite list`; without one, all of them. The
    exit status is 1 if a result is wrong.
    """
    from ..suite.execution import run_on_cpu

    runs: list[SuiteRun] = []
    kernels = _chosen(names)
    with waiting("running the suite") as progress:
        for kernel in kernels:
            runs.append(run_on_cpu(kernel, size))
            progress(len(runs), len(kernels))
    if as_json:
        print_json(_document(size=size, kernels=[_row(each) for each in runs]))
    else:
        _show(runs)
    if not all(each.ok for each in runs):
        raise SystemExit(1)


@suite.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=completion.kernels)
@_size_option
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE|DIR",
    help="A .wlt file for all of them, or a folder for one file each.",
)
@click.option("--force", is_flag=True, help="Overwrite files.")
@json_option
def trace(names: tuple[str, ...], size: str, output: Path, force: bool, as_json: bool) -> None:
    """Run kernels on this CPU and write what they did as traces.

    NAME is a kernel of `warplens suite list`, or `all`. The traces are inputs
    of `warplens predict` and `warplens simulate`.
    """
    from ..suite.execution import write_trace
    from ..traces import TraceWriter

    kernels = _chosen(() if names == ("all",) else names)
    together = output.suffix == ".wlt"
    paths = [output] if together else [output / f"{kernel.name}.wlt" for kernel in kernels]
    for path in [output, *paths]:
        if path.exists() and (path.is_dir() if path in paths else not path.is_dir()):
            raise click.UsageError(
                f"{path}: exists and is {'a' if path.is_dir() else 'not a'} folder; give another name"
            )
    if not force and (taken := [path for path in paths if path.exists()]):
        raise click.UsageError(f"{taken[0]}: exists; give another name, or --force to overwrite it")
    rows: list[dict[str, Any]] = []
    with waiting("recording") as progress:
        for path, group in zip(paths, [kernels] if together else [[kernel] for kernel in kernels], strict=True):
            with TraceWriter(path) as writer:
                for index, kernel in enumerate(group):
                    done = write_trace(kernel, size, writer, launch_index=index)
                    rows.append(_row(done) | {"output": str(path)})
                    progress(len(rows), len(kernels))
    if as_json:
        print_json(_document(size=size, kernels=rows, files={str(path): path.stat().st_size for path in paths}))
        return
    numbers = ("blocks", "warp instructions", "time")
    view = table("", ("kernel", "grid", "block", *numbers), right=numbers)
    for row in rows:
        counts = (show_number(row["blocks"]), show_number(row["warp_instructions"]), show_seconds(row["seconds"]))
        view.add_row(row["name"], "×".join(map(str, row["grid"])), "×".join(map(str, row["block"])), *counts)
    out = console()
    out.print(view)
    for path in paths:
        say(f"{path}: {show_number(path.stat().st_size)} bytes")


def _chosen(names: Sequence[str]) -> list[SuiteKernel]:
    """The named kernels, without repeats; all where no name is given."""
    from ..suite.catalog import SUITE, get_kernel

    return [get_kernel(name) for name in dict.fromkeys(names or SUITE)]


def _document(**content: Any) -> dict[str, Any]:

    return {"schema": 1, "version": __version__, **content}


def _row(done: SuiteRun) -> dict[str, Any]:
    execution = done.execution
    return {
        "name": done.kernel.name,
        "ok": done.ok,
        "max_ulps": done.max_ulps if done.max_ulps < float("inf") else None,
        "problems": [str(each) for each in done.comparisons if not each.ok],
        "grid": list(done.launch.grid),
        "block": list(done.launch.block),
        "blocks": execution.blocks,
        "warp_instructions": execution.instructions,
        "thread_instructions": execution.thread_instructions,
        "seconds": execution.seconds,
        "thread_instructions_per_second": done.thread_instructions_per_second,
    }


def _show(runs: Sequence[SuiteRun]) -> None:
    numbers = ("largest error, ulps", "thread instructions", "time", "M thread instr./s")
    view = table("", ("kernel", "result", *numbers), right=numbers)
    for done in runs:
        view.add_row(
            done.kernel.name,
            "ok" if done.ok else "[bold red]wrong[/]",
            show_number(done.max_ulps),
            show_number(done.execution.thread_instructions),
            show_seconds(done.execution.seconds),
            show_number(done.thread_instructions_per_second / 1e6),
        )
    out = console()
    out.print(view)
    for done in runs:
        for each in done.comparisons:
            if not each.ok:
                say(f"{done.kernel.name}: {each}")
    right = sum(done.ok for done in runs)
    out.print(f"{right} of {len(runs)} kernels give NumPy's result")
