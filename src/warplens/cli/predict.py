"""`warplens predict`"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import click

from ..categories import in_order
from .common import (
    console,
    escape,
    print_json,
    say,
    show_name,
    show_not_run,
    show_number,
    show_seconds,
    table,
    title_of,
    warn,
)
from .options import FILE, Selection, comparison_options, json_option, profile_option
from .progress import progress

#: More launches of a kernel are shown as one, and more notes of a row not at all.
MOST_LAUNCHES, MOST_NOTES = 16, 8


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="INPUT...")
@comparison_options
@profile_option("Nsight Compute report (.ncu-rep) or CSV of the same kernels, to show beside the predictions.")
@click.option("--static", is_flag=True, help="Count instructions in the PTX of a CUDA source instead of running it.")
@click.option("--plot", type=FILE, help="Also draw the comparison (.png, .svg).")
@json_option
def predict(
    inputs: tuple[str, ...],
    gpus: tuple[str, ...],
    models: tuple[str, ...] | None,
    overrides: dict[str, Any],
    options: dict[str, dict[str, str]],
    selection: Selection,
    profiles: list[Any] | None,
    static: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Predict kernels on GPUs, models side by side.

    INPUT is a workload file (*.toml: numbers by hand, or a CUDA C++ or PTX
    source with a launch, which runs on the CPU), the name of a bundled example,
    a trace (*.wlt), or an Accel-Sim kernelslist.g or *.traceg[.xz|.gz]. Without
    --gpu, warplens uses the machine that the workload file names. Without
    --model, it runs every model that the input allows and says why others are
    left out.
    """
    from .first_run import compile_models_aside

    if models is None:
        compile_models_aside()
    from ..api import Comparison, compare, join
    from ..machine import load_gpu

    machines = [load_gpu(each) for each in gpus]  # once, however many launches there are
    results = []
    for each in inputs:
        chosen = selection.load(each, gpu=machines[0] if machines else None, static=static)
        if not chosen:
            continue
        parts = [
            compare(workload, machines or (None,), models, overrides=overrides, options=options)
            for workload in progress(chosen, "predicting", lambda workload: workload.name)
        ]
        results.append(join(parts))
    if not results:
        raise selection.nothing()
    result = Comparison(
        tuple(p for part in results for p in part.predictions),
        tuple(s for part in results for s in part.skipped),
        tuple(i for part in results for i in part.inputs),
    )
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
    _show(result, measured)
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


def _show(result: Any, measured: dict[str, Any]) -> None:
    groups: dict[tuple[str, str], list[Any]] = {}
    for prediction in result.predictions:
        groups.setdefault((prediction.kernel, prediction.gpu), []).append(prediction)
    out = console()
    notes: dict[str, int] = {}
    for (kernel, _), every in groups.items():
        predictions = every if kernel in measured else _together(every)
        stacked = in_order(name for p in predictions for name in p.stack or {})
        several = len({p.launch for p in predictions}) > 1
        numbers = (*(("launch",) if several else ()), "cycles", "time", "IPC", "CPI", *stacked)
        view = table(title_of(predictions[0]), ("model", *numbers, ""), right=numbers)
        if kernel in measured:
            cells = ([""] if several else []) + _measured_cells(measured[kernel])
            view.add_row("[bold]measured[/]", *cells, *[""] * (len(stacked) + 1))
        for p in predictions:
            marks = [f"[{notes.setdefault(text, len(notes) + 1)}]" for text in p.warnings[:MOST_NOTES]]
            marks += ["…"] * (len(p.warnings) > MOST_NOTES)
            shares = [_share(p, name) for name in stacked]
            view.add_row(
                p.model,
                *((str(p.launch),) if several else ()),
                show_number(p.cycles),
                show_seconds(p.seconds),
                show_number(p.ipc),
                show_number(p.cpi),
                *shares,
                escape("".join(marks)),
            )
        out.print(view)
        if stacked:
            out.print("[dim]columns from BASE on: share of the CPI, for models with a CPI stack[/]")
        if kernel in measured and measured[kernel].stalls is not None:
            _show_stalls(out, measured[kernel].stalls, predictions)
    lines = Counter(map(_input_line, result.inputs))
    for line, times in list(lines.items())[:MOST_LAUNCHES]:
        say(line if times == 1 else f"{line}; {times} launches")
    if len(lines) > MOST_LAUNCHES:
        out.print(f"… and {len(lines) - MOST_LAUNCHES} more; select launches with --launch, or see all with --json")
    for text, number in notes.items():
        say(f"[{number}] {text}")
    show_not_run((item.model, item.kernel, item.reason) for item in result.skipped)


def _together(predictions: list[Any]) -> list[Any]:
    """The rows of a kernel: of each launch, or, where there are too many to read, of all of them by model."""
    from ..models.prediction import combine

    launches = len({p.launch for p in predictions})
    if launches <= MOST_LAUNCHES:
        return predictions
    by_model: dict[str, list[Any]] = {}
    for p in predictions:
        by_model.setdefault(p.model, []).append(p)
    return [combine(each, f"{len(each)} launches of {each[0].kernel}") for each in by_model.values()]


def _measured_cells(profile: Any) -> list[str]:
    """Cycles, time and IPC of a profiled launch; its CPI would need the SMs of that GPU."""
    return [
        "" if profile.cycles is None else show_number(profile.cycles),
        "" if profile.seconds is None else show_seconds(profile.seconds),
        "" if profile.ipc is None else show_number(profile.ipc),
        "",
    ]


def _show_stalls(out: Any, stalls: dict[str, float], predictions: list[Any]) -> None:
    """Measured stalls of warps beside predicted CPI stacks, in groups that both have."""
    from ..frontends.ncu.stalls import stack_shares

    view = table("where warps spend their time", ("", *stalls), right=tuple(stalls))
    view.add_row("[bold]measured stalls[/]", *(f"{100 * share:.1f}%" for share in stalls.values()))
    for p in predictions:
        if p.stack:
            view.add_row(p.model, *(f"{100 * share:.1f}%" for share in stack_shares(p.stack).values()))
    out.print(view)


def _share(prediction: Any, name: str) -> str:
    part = (prediction.stack or {}).get(name)
    if part is None:
        return ""
    percent = 100.0 * part / prediction.cpi
    return "·" if percent < 0.05 else f"{percent:.1f}%"


def _input_line(item: dict[str, Any]) -> str:
    large, small = sorted(item["cluster_sizes"], reverse=True)
    return (
        f"{show_name(item['kernel'])}: misses {100 * item['l1_miss_ratio']:.1f} % in L1 "
        f"and {100 * item['llc_miss_ratio']:.1f} % in LLC ({item['order']}); "
        f"{item['dpki']:.0f} divergent loads per 1000 instructions; "
        f"warp {item['representative_warp']} represents {item['warps']} (clusters of {large} and {small}, "
        f"mean distance {item['mean_distance']:.2f})"
    )
