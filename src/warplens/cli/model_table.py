"""Models side by side, within 80 columns: a line of numbers for each, and its CPI stack on a second one."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..categories import in_order
from .common import (
    WIDTH,
    console,
    say,
    show_name,
    show_not_run,
    show_number,
    show_seconds,
    show_title,
    table,
    wrapped,
)

#: More launches of a kernel are shown as one, and more notes of a row not at all.
MOST_LAUNCHES, MOST_NOTES = 16, 8
_COLUMNS = {"model": 21, "launch": 7, "cycles": 14, "time": 11, "IPC": 10, "CPI": 10}


def show_models(result: Any, measured: dict[str, Any]) -> None:
    """Predictions by kernel and machine, what is known of the inputs, notes, and who could not run."""
    groups: dict[tuple[str, str], list[Any]] = {}
    for prediction in result.predictions:
        groups.setdefault((prediction.kernel, prediction.gpu), []).append(prediction)
    notes: dict[str, int] = {}
    for (kernel, _), every in groups.items():
        predictions = every if kernel in measured else _together(every)
        _show_group(predictions, measured.get(kernel), notes)
        if kernel in measured and measured[kernel].stalls is not None:
            show_stalls(measured[kernel].stalls, predictions)
    if any(prediction.stack for prediction in result.predictions):
        wrapped("second lines: shares of the CPI, for models with a CPI stack", style="dim")
    lines = Counter(map(_input_line, result.inputs))
    for line, times in list(lines.items())[:MOST_LAUNCHES]:
        wrapped(line if times == 1 else f"{line}; {times} launches", indent=2)
    if len(lines) > MOST_LAUNCHES:
        say(f"… and {len(lines) - MOST_LAUNCHES} more; select launches with --launch, or see all with --json")
    for text, number in notes.items():
        wrapped(f"[{number}] {text}", indent=4)
    show_not_run((item.model, item.kernel, item.reason) for item in result.skipped if item.model)


def _show_group(predictions: list[Any], measured: Any, notes: dict[str, int]) -> None:
    """The models of one kernel on one machine."""
    several = len({p.launch for p in predictions}) > 1
    columns = [name for name in _COLUMNS if several or name != "launch"]
    out = console()
    show_title(predictions[0])
    out.print()
    header = _line(dict(zip(columns, columns, strict=True)))
    say(header)
    say("─" * len(header))
    if measured is not None:
        seen = {"cycles": (measured.cycles, show_number), "time": (measured.seconds, show_seconds)}
        seen["IPC"] = (measured.ipc, show_number)  # its CPI would need the SMs of that GPU
        told = {name: "" if value is None else show(value) for name, (value, show) in seen.items()}
        say(_line({"model": "measured", **({"launch": ""} if several else {}), **told, "CPI": ""}))
    for p in predictions:
        numbers = {
            "model": p.model,
            **({"launch": str(p.launch)} if several else {}),
            "cycles": show_number(p.cycles),
            "time": show_seconds(p.seconds),
            "IPC": show_number(p.ipc),
            "CPI": show_number(p.cpi),
        }
        marks = "".join(f"[{notes.setdefault(text, len(notes) + 1)}]" for text in p.warnings[:MOST_NOTES])
        marks += "…" * (len(p.warnings) > MOST_NOTES)
        row, below = _line(numbers), _shares(p)
        if len(row) + 2 + len(marks) <= WIDTH:
            row, marks = f"{row}  {marks}".rstrip(), ""
        say(row)
        if below or marks:
            wrapped("  ".join([*below, marks]).rstrip(), "  ", 2, "dim")
    out.print()


def _line(cells: dict[str, str]) -> str:
    """A row of the table: the name at the left, numbers at the right."""
    name, *numbers = cells.items()
    return f"{name[1]:<{_COLUMNS[name[0]]}}" + "".join(f"{text:>{_COLUMNS[key]}}" for key, text in numbers)


def _shares(prediction: Any) -> list[str]:
    """Parts of the CPI that are worth a number; spaces in them do not break."""
    stack = prediction.stack or {}
    shares = {name: 100.0 * stack[name] / prediction.cpi for name in in_order(stack)}
    return [
        f"{name}\N{NO-BREAK SPACE}{share:.1f}\N{NO-BREAK SPACE}%" for name, share in shares.items() if share >= 0.05
    ]


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


def show_stalls(stalls: dict[str, float], predictions: list[Any]) -> None:
    """Measured stalls of warps beside predicted CPI stacks, in groups that both have."""
    from ..frontends.ncu.stalls import stack_shares

    view = table("where warps spend their time", ("", *stalls), right=tuple(stalls))
    view.add_row("[bold]measured stalls[/]", *(f"{100 * share:.1f}%" for share in stalls.values()))
    for p in predictions:
        if p.stack:
            view.add_row(p.model, *(f"{100 * share:.1f}%" for share in stack_shares(p.stack).values()))
    console().print(view)


def _input_line(item: dict[str, Any]) -> str:
    large, small = sorted(item["cluster_sizes"], reverse=True)
    return (
        f"{show_name(item['kernel'])}: misses {100 * item['l1_miss_ratio']:.1f} % in L1 "
        f"and {100 * item['llc_miss_ratio']:.1f} % in LLC ({item['order']}); "
        f"{item['dpki']:.0f} divergent loads per 1000 instructions; "
        f"warp {item['representative_warp']} represents {item['warps']} (clusters of {large} and {small}, "
        f"mean distance {item['mean_distance']:.2f})"
    )
