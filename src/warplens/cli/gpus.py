"""`warplens gpus`"""

from __future__ import annotations

from typing import Any

import click

from . import completion
from .common import console, escape, print_json, table, wrapped
from .options import json_option, set_option
from .progress import waiting

#: Numbers that are named as those that matter most.
MOST_SENSITIVE = 5


@click.command(short_help="List machines, or show one with the source of every number.")
@click.argument("name", required=False, shell_complete=completion.gpus)
@set_option("Change a parameter before showing it.")
@click.option("--accuracy", is_flag=True, help="What each machine was validated on, and how well.")
@click.option("--sensitivity", is_flag=True, help="Also show how predictions change if assumed numbers are 30 % off.")
@json_option
def gpus(name: str | None, overrides: dict[str, Any], accuracy: bool, sensitivity: bool, as_json: bool) -> None:
    """List the machine descriptions; NAME (or a .toml file) shows one, with the source of every number."""
    from ..machine import SHORT_NAMES, gpu_names, load_gpu

    if accuracy:
        if sensitivity or overrides:
            raise click.UsageError("--accuracy goes with no other option than --json")
        _show_accuracy([load_gpu(name).name] if name is not None else gpu_names(), as_json)
        return
    if name is not None:
        gpu = load_gpu(name, overrides)
        _show_one(gpu, _effects(gpu) if sensitivity else None, as_json)
        return
    if overrides or sensitivity:
        raise click.UsageError(f"{'--set' if overrides else '--sensitivity'} needs the NAME of a machine")
    machines = [load_gpu(each) for each in gpu_names()]
    if as_json:
        print_json({"schema": 1, "gpus": [_headline(gpu) for gpu in machines], "short_names": dict(SHORT_NAMES)})
        return
    numbers = ("SMs", "clock", "warps/SM", "DRAM")
    overview = table("", ("gpu", *numbers, "description"), right=numbers)
    for gpu in machines:
        overview.add_row(escape(gpu.name), *_headline_text(gpu), escape(gpu.description))
    console().print(overview)
    console().print("Short names: " + ", ".join(f"{short} = {full}" for short, full in SHORT_NAMES.items()))
    console().print("All numbers of a machine and their sources: warplens gpus NAME")


def _effects(gpu: Any) -> dict[str, Any]:
    """By the path of the parameter."""
    from ..sweeps.assumptions import effects

    with waiting("predicting") as report:
        return {each.parameter.path: each for each in effects(gpu, progress=report)}


def _show_accuracy(names: list[str], as_json: bool) -> None:
    from ..machine.accuracy import validations

    if as_json:
        rows = [{"gpu": name, "validated_on": [vars(each) for each in validations(name)]} for name in names]
        print_json({"schema": 1, "accuracy": rows})
        return
    numbers = ("cases", "error", "rank")
    view = table("", ("gpu", "validated on", *numbers, "clock"), right=numbers)
    for name in names:
        for each in validations(name):
            view.add_row(
                escape(name),
                escape(each.on),
                str(each.cases),
                f"{each.median_error_percent:g} %",
                f"{each.rank_correlation:.2f}",
                each.clock,
            )
    if view.row_count:
        console().print(view)
        wrapped("error: median over the cases; rank: rank correlation (docs/validation)")
    if unknown := ", ".join(name for name in names if not validations(name)):
        wrapped(f"not validated: {unknown}")


def _headline(gpu: Any) -> dict[str, Any]:
    return {
        "name": gpu.name,
        "description": gpu.description,
        "compute_capability": gpu.compute_capability,
        "sms": gpu.sms,
        "clock_hz": gpu.clock_hz,
        "max_warps": gpu.max_warps,
        "dram_bandwidth_bytes_per_s": gpu.dram.bandwidth_bytes_per_s,
    }


def _headline_text(gpu: Any) -> tuple[str, ...]:
    from ..units import format_number

    return (
        format_number(gpu.sms, None),
        format_number(gpu.clock_hz, "hz"),
        format_number(gpu.max_warps, None),
        format_number(gpu.dram.bandwidth_bytes_per_s, "bytes_per_s"),
    )


def _show_one(gpu: Any, moved: dict[str, Any] | None, as_json: bool) -> None:
    from ..machine import DEFAULT_SOURCE, parameters
    from ..machine.accuracy import validations
    from ..units import format_number

    full = gpu.with_defaults
    described = {_section(path) for path in gpu.sources}  # defaults of other sections say nothing of the machine
    known = [p for path, p in parameters().items() if full.get(path) is not None and _section(path) in described]
    sources = {p.path: gpu.sources.get(p.path, DEFAULT_SOURCE) for p in known}
    if as_json:
        rows = [
            {
                "key": p.key,
                "path": p.path,
                "value": full.get(p.path),
                "unit": p.unit,
                "source": vars(sources[p.path]),
                "doc": p.doc,
                **({} if moved is None else {"sensitivity": _change_of(moved.get(p.path))}),
            }
            for p in known
        ]
        checked = [vars(each) for each in validations(gpu.name)]
        document = {"schema": 1, "name": gpu.name, "description": gpu.description, "validated_on": checked}
        print_json({**document, "parameters": rows})
        return
    title = escape(f"{gpu.name}: {gpu.description}")
    columns = ("key", "value", *(() if moved is None else ("moves",)), "source", "where from")
    details = table(title, columns, right=("value", "moves"))
    for p in known:
        source, change = sources[p.path], () if moved is None else (_change_text(moved.get(p.path)),)
        kind = f"{source.kind}, of {source.machine}" if source.machine else source.kind
        details.add_row(
            p.key, escape(format_number(full.get(p.path), p.unit)), *change, escape(kind), escape(source.text)
        )
    console().print(details)
    guesses = sum(source.is_guess for source in sources.values())
    wrapped(_validated_text(gpu.name))
    wrapped(f"{guesses} of {len(known)} values are assumed, or those of another machine (of NAME).")
    if moved is None:
        if guesses:
            wrapped(f"If they are 30 % off: warplens gpus {gpu.name} --sensitivity")
        return
    from ..sweeps.assumptions import KERNELS

    wrapped(f"moves: mean change of the time of {', '.join(KERNELS)} where the number is 30 % off.")
    most = sorted(moved.items(), key=lambda item: -item[1].mean)[:MOST_SENSITIVE]
    told = ", ".join(f"{path} {_change_text(each)}" for path, each in most)
    wrapped(f"Most sensitive to: {told}." if most else "")


def _validated_text(name: str) -> str:
    """What the machine was validated on, at the clock that fits best where there are several."""
    from ..machine.accuracy import validations

    best: dict[str, Any] = {}
    for each in validations(name):
        if each.on not in best or each.median_error_percent < best[each.on].median_error_percent:
            best[each.on] = each
    told = [
        f"{each.on} ({each.cases} cases at the {each.clock} clock, median error {each.median_error_percent:g} %)"
        for each in best.values()
    ]
    return f"Validated on {'; '.join(told)}." if told else "Not validated: nobody has compared it with measurements."


def _change_of(found: Any) -> dict[str, Any] | None:
    return None if found is None else {"mean": found.mean, "by_kernel": dict(found.changes)}


def _change_text(found: Any) -> str:
    return "" if found is None else f"{100 * found.mean:.1f} %"


def _section(path: str) -> str:
    return path.rpartition(".")[0]
