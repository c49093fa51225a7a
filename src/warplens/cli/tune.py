"""`warplens tune`"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from .._version import __version__
from ..errors import WarplensError
from ..formatting import show_factor, show_seconds, show_share
from . import completion
from .common import print_json, say, wrapped
from .options import FILE, FOLDER, OUTPUT, json_option, set_option
from .progress import waiting

_UNITS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
#: Effects of parameters that are shown, and the least worth showing.
MOST_EFFECTS, LEAST_FACTOR = 4, 1.05


def seconds_of(context: click.Context, parameter: click.Parameter, text: str | None) -> float | None:
    """A time such as 60s, 10m or 1h, in seconds."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|m|min|h)?\s*", text)
    if match is None or not float(match[1]):
        raise click.UsageError(f"--budget {text!r}: write a time above 0, for example 60s, 10m or 1h")
    return float(match[1]) * _UNITS[match[2] or "s"]


def _fixed(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    for each in given:
        if not re.fullmatch(r"\w+=.+", each):
            raise click.UsageError(f"--fix {each!r}: write a parameter and its value, for example --fix tile=4")
    return dict(each.split("=", 1) for each in given)


@click.command(short_help="Find the fastest configurations of a tuning space.")
@click.argument("space", type=FILE, metavar="SPACE", required=True)
@click.option(
    "--gpu",
    "gpus",
    required=True,
    multiple=True,
    metavar="NAME|FILE",
    shell_complete=completion.gpus,
    help="Machine to tune for; repeat to tune for several, one after the other.",
)
@click.option("--budget", metavar="TIME", callback=seconds_of, help="Stop after 60s, 10m, 1h; default: predict all.")
@click.option("--top", type=click.IntRange(min=1), default=10, show_default=True, help="Configurations to show.")
@set_option()
@click.option("--fix", "fixed", multiple=True, metavar="NAME=VALUE", callback=_fixed, help="Only this value; repeat.")
@click.option("--sources", type=FOLDER, metavar="DIR", help="Where the kernel's source lies, if not beside SPACE.")
@click.option("-o", "--output", type=FILE, metavar="OUT.parquet", help="Keep all rows there, and resume from there.")
@click.option("--measured", type=FILE, metavar="CACHE", help="Compare with a cache or T4 file of Kernel Tuner.")
@click.option("--export", type=OUTPUT, metavar="CACHE", help="Write a cache file of Kernel Tuner.")
@click.option("--workers", type=click.IntRange(min=1), metavar="N", help="Processes; default: one per core.")
@click.option("--scheduler", metavar="ADDRESS|FILE", help="Run on the workers of a Dask scheduler.")
@json_option
def tune(
    space: Path,
    gpus: tuple[str, ...],
    budget: float | None,
    top: int,
    overrides: dict[str, Any],
    fixed: dict[str, str],
    sources: Path | None,
    output: Path | None,
    measured: Path | None,
    export: Path | None,
    workers: int | None,
    scheduler: str | None,
    as_json: bool,
) -> None:
    """Find the fastest configurations of a tuning space, without a GPU.

    SPACE is a workload file with a [tune] table, or a T1 file of Kernel Tuner.
    With --budget, a sample is predicted first, then the most promising
    configurations. Run the same command again to continue from OUT.parquet.
    With several machines, each has the budget to itself, and its name goes into
    those of OUT.parquet and CACHE.
    """
    from ..machine import load_gpu
    from ..tuning import read_results, read_space, run_tuning

    if workers is not None and scheduler is not None:
        raise click.UsageError(
            "--workers starts processes here, but --scheduler has its own workers: give one of them"
        )
    machines = [load_gpu(each) for each in gpus]
    if measured is not None and len(machines) > 1:
        raise click.UsageError("--measured has the times of one machine: give one --gpu")
    known = None if measured is None else read_results(measured)
    found = read_space(space, sources=sources).with_fixed(fixed)
    if known is not None:
        known.require_any(found.configurations, measured)
    documents, failure = [], ""
    for number, machine in enumerate(machines):
        own = machine.name if len(machines) > 1 else ""
        with waiting(f"tuning {own}".rstrip(), _named(output, own)) as report:
            result = run_tuning(
                found,
                machine,
                budget=budget,
                top=top,
                overrides=overrides,
                output=_named(output, own),
                workers=workers,
                scheduler=scheduler,
                progress=report,
            )
        if (cache := _named(export, own)) is not None:
            result.write_cache(cache)
        if as_json:
            documents.append(_document(result, top, known))
        else:
            if number:
                say("")
            _show(result, top, known)
        failure = failure or ("" if result.predicted else result.first_error)
    if as_json:
        from ..api import JSON_SCHEMA

        more = documents[0] if len(documents) == 1 else {"machines": documents}
        print_json({"schema": JSON_SCHEMA, "version": __version__, **more})
    if failure:
        raise WarplensError(f"{space}: no configuration could be predicted; the first error: {failure}")


def _named(path: Path | None, machine: str) -> Path | None:
    """The file of one machine of several."""
    return path.with_stem(f"{path.stem}-{machine}") if path is not None and machine else path


def _document(result: Any, top: int, known: Any) -> dict[str, Any]:
    """For JSON."""
    more = {} if known is None else {"measured": result.agreement(known).to_dict()}
    if known is not None and result.estimates:
        more["measured_estimates"] = result.agreement_of_estimates(known).to_dict()
    return {**result.to_dict(top), **more}


def _show(result: Any, top: int, known: Any) -> None:
    """The best within 80 columns: times and limits, what sets each apart, and why they win."""
    from ..explanation.words import between

    best = result.best(top)
    if not best:
        wrapped(f"{result.space.name} on {result.gpu}: {_coverage(result)}")
        return
    wrapped(f"{result.space.name} on {result.gpu}: fastest of {len(result.space)} configurations", style="bold")
    names = [
        name for name, values in result.space.parameters.items() if name in result.space.used and len(values) > 1
    ]
    common = [name for name in names if len(best) > 1 and len({each.parameters[name] for each in best}) == 1]
    for number, each in enumerate(best, 1):
        measured = None if known is None else known.of(each.parameters)
        seen = "" if measured is None else f"; measured {show_seconds(measured, 3)}"
        spread = between(show_seconds(each.seconds_low, 3), show_seconds(each.seconds_high, 3))
        limit = f"{_limit(each)}, occupancy {show_share(each.occupancy)}"
        wrapped(f"{show_seconds(each.seconds, 3)} ({spread}), {limit}{seen}", f"{number:>3}  ", 5)
        wrapped(_settings(each.parameters, [name for name in names if name not in common]), "     ", 5)
    if common:
        wrapped(_settings(best[0].parameters, common), "all  ", 5)
    say("")
    for text in reasons(result):
        wrapped(text)
    wrapped(_coverage(result))
    if known is None:
        return
    wrapped(str(result.agreement(known)))
    if (rank := result.agreement_of_estimates(known).spearman) is not None:
        wrapped(f"Estimates of what was not predicted: Spearman {rank:.2f}.")


def _settings(parameters: Any, names: list[str]) -> str:
    return "  ".join(f"{name}={parameters[name]}" for name in names)


def _coverage(result: Any) -> str:
    """How much of the space was predicted, and what could not be."""
    unused = [name for name in result.space.parameters if name not in result.space.used]
    parts = [f"{result.predicted} of {len(result.space)} configurations predicted"]
    if result.estimates:
        off = "" if result.estimate_error is None else f" (off by {show_share(result.estimate_error)} in the median)"
        parts.append(f"{len(result.estimates)} estimated from these{off}, for the order in which a tuner measures")
    if unused:
        parts.append(f"the kernel does not use {', '.join(unused)}")
    if result.resumed:
        parts.append(f"{result.resumed} launches were predicted before")
    if result.failed:
        parts.append(f"{result.failed} cannot run, the first because: {result.first_error.splitlines()[0]}")
    return "; ".join(parts) + ("" if result.path is None else f". All rows: {result.path}")


def _limit(candidate: Any) -> str:
    from ..explanation.words import LIGHT_NAMES

    return f"{LIGHT_NAMES.get(candidate.limiter, candidate.limiter)} {show_share(candidate.busy)}"


def reasons(result: Any) -> list[str]:
    """Why the best wins: instructions and speed against a typical configuration, and which parameters matter."""
    found = []
    if len(result.candidates) > 1:
        best, typical = result.candidates[0], result.candidates[len(result.candidates) // 2]
        fewer = best.instructions / typical.instructions
        faster = typical.seconds / best.seconds
        of_typical = f"limit: {_limit(typical)}"
        if faster < LEAST_FACTOR:
            found.append(f"The median takes hardly longer than the best ({show_factor(faster)}; {of_typical}).")
        else:
            found.append(
                f"The best is {show_factor(faster)} as fast as the median ({of_typical}): {show_factor(fewer)} its "
                f"instructions, executed {show_factor(faster * fewer)} as fast."
            )
    strong = [each for each in result.effects if each.factor >= LEAST_FACTOR][:MOST_EFFECTS]
    if strong:
        told = ", ".join(f"{e.parameter} ({e.best} over {e.worst}: {show_factor(e.factor)})" for e in strong)
        found.append(f"What matters most, the others fixed: {told}.")
    return found
