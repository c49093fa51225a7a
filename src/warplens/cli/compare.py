"""`warplens compare`"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from . import completion
from .common import WIDTH, print_json, say, show_number, wrapped
from .options import Selection, gpus_option, json_option, options_option, selection_options, set_option
from .progress import waiting

if TYPE_CHECKING:
    from ..explanation import LineChange, VersionComparison

#: Changes that are smaller, as parts of the time or of a count, are not shown.
LEAST = 0.01
MOST_LINES = 8
_NUMBER = 12


@click.command(short_help="Compare two versions of a kernel, by cause and by line.")
@click.argument("before", metavar="A", shell_complete=completion.inputs)
@click.argument("after", metavar="B", shell_complete=completion.inputs)
@gpus_option
@set_option()
@options_option
@selection_options
@json_option
def compare(
    before: str,
    after: str,
    gpus: tuple[str, ...],
    overrides: dict[str, Any],
    options: dict[str, dict[str, str]],
    selection: Selection,
    as_json: bool,
) -> None:
    """Compare two versions of a kernel: what changed in time, by cause and by line.

    A and B are inputs of `warplens predict`, each with one launch; --kernel and
    --launch choose it. For models side by side, use `warplens predict --models
    all`.
    """
    from .._version import __version__
    from ..api import JSON_SCHEMA, compare_versions
    from ..machine import load_gpu

    machines: list[Any] = [load_gpu(each) for each in gpus] or [None]
    first, second = (_one(source, selection, machines[0]) for source in (before, after))
    with waiting("comparing") as report:
        found = [
            compare_versions(first, second, machine, overrides=overrides, options=options, progress=report)
            for machine in machines
        ]
    if as_json:
        made = [each.to_dict() for each in found]
        print_json({"schema": JSON_SCHEMA, "version": __version__, "comparisons": made})
        return
    for each in found:
        _show(each, before, after)


def _one(source: str, selection: Selection, machine: Any) -> Any:
    """The launch of an input that is meant."""
    chosen = selection.load(source, gpu=machine)
    if not chosen:
        raise selection.nothing()
    if len(chosen) > 1:
        raise click.UsageError(f"{source}: has {len(chosen)} launches; choose one with --kernel and --launch")
    return chosen[0]


def _show(found: VersionComparison, before: str, after: str) -> None:
    from ..categories import CATEGORIES
    from ..explanation import words

    wrapped(words.verdict(found), style="bold")
    for label, name, answer in (("A", before, found.before), ("B", after, found.after)):
        spread, limit = words.time_range(answer), words.limit(answer)
        told = f"{name}: {words.time(answer.seconds)}"
        told += f" ({spread})" * bool(spread) + f", limited by {limit}" * bool(limit)
        wrapped(told, f"{label}  ", 3)
        if answer.limiter is None:
            wrapped(answer.note, "   ", 3, "dim")
    least = LEAST * max(found.before.seconds, found.after.seconds)
    causes = [each for each in found.causes if max(each.before, each.after) >= least]
    _table("time by cause", ((CATEGORIES[each.name].label, each.before, each.after) for each in causes), words.time)
    moved = [each for each in found.lines if abs(each.seconds_after - each.seconds_before) >= least][:MOST_LINES]
    _table("time by line", ((_place(each), each.seconds_before, each.seconds_after) for each in moved), words.time)
    counts = [each for each in found.counts if abs(each.after - each.before) > LEAST * max(each.before, each.after)]
    _table("counts that changed", ((each.name, each.before, each.after) for each in counts), show_number)
    say("")
    for label, advice in (("gone", found.advice_gone), ("new", found.advice_new)):
        for each in advice:
            wrapped(f"{each.rule}: {words.gain(each)}. {each.text}", f"advice {label}: ", 3)
    stays = [each.rule for each in found.after.advice if each not in found.advice_new]
    if stays:
        wrapped(", ".join(stays), "advice that stays: ", 3)


def _table(title: str, rows: Iterable[tuple[str, float, float]], show: Any) -> None:
    """Both versions and the difference; nothing where there are no rows."""
    told = [(name, before, after) for name, before, after in rows]
    if not told:
        return
    room = WIDTH - 3 * _NUMBER
    say("")
    say(f"{title:<{room}}{'A':>{_NUMBER}}{'B':>{_NUMBER}}{'change':>{_NUMBER}}")
    for name, before, after in told:
        cells = [show(value) if value else "–" for value in (before, after)]
        label = name if len(name) < room else f"{name[: room - 2]}…"
        say(f"{label:<{room}}{cells[0]:>{_NUMBER}}{cells[1]:>{_NUMBER}}{_change(before, after):>{_NUMBER}}")


def _change(before: float, after: float) -> str:
    if not before:
        return "new"
    if not after:
        return "gone"
    ratio = after / before
    if ratio >= 10.0:
        return f"×{ratio:.0f}"
    return f"{100.0 * (ratio - 1.0):+.0f} %" if abs(ratio - 1.0) >= LEAST else "same"


def _place(change: LineChange) -> str:
    from ..explanation import words

    lines = [line for line in (change.before, change.after) if line is not None]
    return f"{words.place(lines[-1])}  {change.text}".rstrip()
