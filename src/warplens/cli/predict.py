"""`warplens predict`"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import completion
from .answers import MOST_ADVICE, show_answers
from .common import print_json, say, warn
from .model_table import show_models
from .options import OUTPUT, Selection, asked_models_option, comparison_options, json_option, profile_option
from .progress import progress


def _how_much(context: click.Context, parameter: click.Parameter, text: str) -> int:
    if text == "all":
        return 2**31
    if not text.isdecimal():
        raise click.UsageError(f"--advice {text!r}: write a number, or 'all'")
    return int(text)


@click.command(short_help="Say how long kernels take, what limits them, what to change.")
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...", shell_complete=completion.inputs)
@comparison_options(asked_models_option)
@profile_option("Nsight Compute report (.ncu-rep) or CSV of the same kernels, to show beside the predictions.")
@click.option(
    "--advice",
    metavar="N|all",
    default=str(MOST_ADVICE),
    show_default=True,
    callback=_how_much,
    help="Pieces of advice to print; 0 looks for none, which is faster.",
)
@click.option("--static", is_flag=True, help="Count instructions in the PTX of a CUDA source instead of running it.")
@click.option("--plot", type=OUTPUT, help="Also draw the comparison (.png, .svg).")
@json_option
def predict(
    inputs: tuple[str, ...],
    gpus: tuple[str, ...],
    models: tuple[str, ...] | None,
    overrides: dict[str, Any],
    options: dict[str, dict[str, str]],
    selection: Selection,
    profiles: list[Any] | None,
    advice: int,
    static: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Say how long kernels take on GPUs, what limits them, and what to change.

    INPUT is a workload file (*.toml: numbers by hand, or a CUDA C++ or PTX
    source with a launch, which runs on the CPU), the name of a bundled example,
    a trace (*.wlt), or an Accel-Sim kernelslist.g or *.traceg[.xz|.gz]. Without
    --gpu, warplens uses the machine that the workload file names. The answer is
    that of the model `warplens`; --model NAME and --models all show models side
    by side instead.
    """
    from .first_run import compile_models_aside

    if not models:
        compile_models_aside(*(() if models is None else ("warplens",)))
    from ..api import Comparison, compare, join, of_launches
    from ..machine import load_gpu
    from .explaining import explain_launches

    machines: list[Any] = [load_gpu(each) for each in gpus] or [None]  # once, however many launches there are
    results = []
    for each in inputs:
        chosen = selection.load(each, gpu=machines[0], static=static)
        if not chosen:
            continue
        if models == ():
            results.append(explain_launches(chosen, machines, overrides, options, look=advice > 0))
            continue
        parts = of_launches(
            progress(chosen, "predicting", lambda workload: workload.name),
            lambda workload: compare(workload, machines, models, overrides=overrides, options=options),
        )
        results.append(join(parts))
    if not results:
        raise selection.nothing()
    result = Comparison(
        tuple(p for part in results for p in part.predictions),
        tuple(s for part in results for s in part.skipped),
        tuple(i for part in results for i in part.inputs),
        tuple(a for part in results for a in part.answers),
    )
    for item in result.skipped:
        if not item.model:
            warn(f"{item.kernel} is left out: {item.reason}")
    measured = {} if profiles is None else _matched(result, profiles)
    if plot is not None:
        from ..reports.stacks import draw_comparison

        draw_comparison(result.predictions, plot)
    if as_json:
        document = result.to_dict()
        if profiles is not None:
            document["measured"] = [each.to_dict() for each in measured.values()]
        print_json(document)
        for text in dict.fromkeys(text for p in result.predictions for text in p.warnings):
            warn(text)
        return
    if models == ():
        show_answers(result, advice, measured)
    else:
        show_models(result, measured)
    if plot is not None:
        say(f"picture: {plot}")


def _matched(result: Any, profiles: list[Any]) -> dict[str, Any]:
    """Profiled launches by the name of the kernel that was predicted; the first one of each name."""
    from ..frontends.ncu import profiles_by_kernel

    found = profiles_by_kernel(profiles)
    names = dict.fromkeys(prediction.kernel for prediction in result.predictions)
    missing = [name for name in names if name not in found]
    for name in missing:
        warn(f"the profile has no kernel {name!r}; it has {', '.join(sorted(found))}")
    return {name: found[name] for name in names if name in found}
