"""`warplens init`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .common import print_json, say, wrapped
from .options import FILE, json_option
from .progress import waiting


@click.command(short_help="Write a workload file for a kernel of a CUDA source.")
@click.argument("source", metavar="FILE.cu", type=FILE)
@click.option("--kernel", metavar="NAME", help="Kernel of the source; a template with its arguments: 'scale<float>'.")
@click.option("-o", "--output", type=FILE, metavar="FILE.toml", help="File to write (default: beside the source).")
@click.option("--no-run", is_flag=True, help="Write the file without running the kernel.")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@json_option
def init(source: Path, kernel: str | None, output: Path | None, no_run: bool, force: bool, as_json: bool) -> None:
    """Write a workload file for a kernel of a CUDA source, and run it on the CPU until it works.

    Grid, block, template arguments, sizes of arrays and values come from the
    launches in the source's host code where they are plain. Everything else is
    guessed, and marked so in the file. Without --kernel it is the kernel that
    the host code launches first.
    """
    from ..errors import FileError, refuse_unwritable, writing
    from ..frontends.cuda.draft import draft_of
    from ..tomlfile import exists
    from ..workload.trial import Trial, tried_draft

    if not exists(source) or source.suffix not in (".cu", ".cuh", ".cpp", ".h"):
        why = "is not a CUDA source (*.cu)" if exists(source) else "no such file"
        raise FileError(f"{source}: {why}; name a file with a __global__ function")
    output = output or source.with_suffix(".toml")
    if output.parent.resolve() != source.parent.resolve():
        raise click.UsageError(f"{output}: must lie in the folder of the source, which it names")
    if output.exists() and not force:
        raise click.UsageError(f"{output}: exists; give another name with -o, or --force to overwrite it")
    refuse_unwritable(output)
    if no_run:
        trial = Trial(draft_of(source, kernel))
    else:
        with waiting("running"):
            trial = tried_draft(source, kernel)
    with writing(output):
        output.write_text(trial.draft.toml(), encoding="utf-8")
    document = _document(trial, output, no_run)
    if as_json:
        print_json(document)
    else:
        _show(document)
    if trial.failure is not None:
        raise type(trial.failure)(f"{output}: was written, but does not run yet: {trial.failure}")


def _document(trial: Any, output: Path, no_run: bool) -> dict[str, Any]:
    draft = trial.draft
    return {
        "schema": 1,
        "file": str(output),
        "kernel": draft.kernel,
        "kernels": list(draft.kernels),
        "runs": None if no_run else trial.failure is None,
        "guesses": draft.guesses,
    }


def _show(document: dict[str, Any]) -> None:
    from ..frontends.cuda.draft import bare

    guesses = document["guesses"]
    state = {None: "not tried", True: "runs", False: "does not run yet"}[document["runs"]]
    say(f"{document['file']}: {document['kernel']}, {state}")
    others = [name for name in document["kernels"] if name != bare(document["kernel"])]
    if others:
        wrapped(f"{', '.join(others)} (choose with --kernel)", "other kernels: ", 2)
    if guesses:
        named = dict.fromkeys(each.get("name") or each["key"] for each in guesses)
        wrapped(f"{', '.join(named)}. Put in your values", "guessed: ", 2)
    say(f"next: warplens predict {document['file']} --gpu h200")
