"""The reference pages: commands as click knows them, the API as `inspect` sees it, errors of models and of traces."""

from __future__ import annotations

import csv
import dataclasses
import inspect
import re
import statistics
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click

import warplens
import warplens.sweeps
from warplens.errors import InputError
from warplens_studies.reproduce import kernels
from warplens_studies.validate import accelsim, programs
from warplens_studies.validate.h200_profiles import kept_comparison

Rows = list[tuple[str, ...]]


def table(header: tuple[str, ...], rows: Rows) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


# -- commands -----------------------------------------------------------------------------


def commands() -> dict[str, click.Command]:
    """All commands by what one types, groups before what is in them."""
    from warplens.cli.main import cli

    found: dict[str, click.Command] = {}

    def visit(name: str, command: click.Command, context: click.Context) -> None:
        found[name] = command
        if isinstance(command, click.Group):
            for each in command.list_commands(context):
                below = command.get_command(context, each)
                assert below is not None
                visit(f"{name} {each}", below, click.Context(below, info_name=each, parent=context))

    visit("warplens", cli, click.Context(cli, info_name="warplens"))
    return found


def cli() -> str:
    """One section per command: usage, what it does, its arguments and options."""
    parts = []
    for name, command in commands().items():
        if name == "warplens":
            continue
        context = click.Context(command, info_name=name)
        parts += [f"## {name}\n", f"```text\n{name} {' '.join(command.collect_usage_pieces(context))}\n```\n"]
        parts.append(_help(command.help or "") + "\n")
        rows: Rows = []
        for item in command.params:
            shown = item.get_help_record(context)
            if shown is not None and shown[1]:
                rows.append((f"`{shown[0]}`", re.sub(r"\s+", " ", shown[1])))
        if rows:
            parts.append(table(("option", "meaning"), rows))
    return "\n".join(parts)


def _help(text: str) -> str:
    """Paragraphs of a docstring; blocks that click prints as they are, as code."""
    made = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        if paragraph.startswith("\b"):
            made.append("```text\n" + paragraph.removeprefix("\b").strip("\n") + "\n```")
        else:
            made.append(re.sub(r"\s+", " ", paragraph).strip().replace("*", r"\*"))
    return "\n\n".join(made) + "\n"


# -- the API ------------------------------------------------------------------------------


def api() -> str:
    """Everything that `import warplens` offers, then `warplens.sweeps`."""
    names = [name for name in warplens.__all__ if not name.startswith("__")]
    parts = [_member(f"warplens.{name}", getattr(warplens, name)) for name in names]
    inside = [name for name in warplens.sweeps.__all__ if not name.startswith("__")]
    parts += [_member(f"warplens.sweeps.{name}", getattr(warplens.sweeps, name)) for name in inside]
    return "\n".join(parts)


def _member(path: str, item: Any) -> str:
    head = f"### {path} {{#{path}}}\n"
    if dataclasses.is_dataclass(item):
        fields = [(f"`{each.name}`", f"`{each.type}`") for each in dataclasses.fields(item)]
        return "\n".join([head, _doc(item), table(("field", "type"), fields), *_members(item)])
    if inspect.isclass(item):
        return "\n".join([head, _doc(item), *_members(item)])
    return "\n".join([head, _signature(path, item), _doc(item)])


def _signature(path: str, item: Any) -> str:
    found = inspect.signature(item)
    pieces, starred = [], False
    for each in found.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not starred:
            pieces.append("*")
            starred = True
        default = "" if each.default is each.empty else f" = {each.default!r}"
        kind = "" if each.annotation is each.empty else f": {each.annotation}"
        pieces.append(
            {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "") + each.name + kind + default
        )
    result = "" if found.return_annotation in (found.empty, "None") else f" -> {found.return_annotation}"
    line = f"{path}({', '.join(pieces)}){result}"
    if len(line) > 100:
        line = f"{path}(\n" + "".join(f"    {piece},\n" for piece in pieces) + f"){result}"
    return f"```python\n{line}\n```\n"


def _doc(item: Any) -> str:
    text = inspect.getdoc(item) or ""
    if text.startswith(f"{getattr(item, '__name__', '')}("):  # what dataclasses write themselves
        return ""
    return re.sub(r"^>>> .*?(?=\n\n|\Z)", r"```python\n\g<0>\n```", text, flags=re.M | re.S) + "\n"


def _members(item: type) -> Iterator[str]:
    """Public properties and methods that the class itself defines, with the first sentence of each."""
    rows: Rows = []
    for name, value in vars(item).items():
        if name.startswith("_"):
            continue
        target = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if not callable(target):
            continue
        first = (inspect.getdoc(target) or "").split("\n\n")[0].replace("\n", " ")
        shown = name if isinstance(value, property) else f"{name}()"
        rows.append((f"`{shown}`", first))
    if rows:
        yield table(("member", "meaning"), rows)


# -- errors of models ---------------------------------------------------------------------


@cache
def _h200(source: str = "sass") -> Any:
    return kept_comparison(source)


#: Groups of the Accel-Sim kernels, by what tables call them.
GROUPS = {
    "memory-divergent": kernels.divergent_kernels,
    "others": kernels.other_kernels,
    "all": accelsim.kernels,
}


def _accelsim(name: str, group: str) -> list[float]:
    """Signed IPC errors in percent; none where the model cannot run."""
    try:
        return [100.0 * kernels.error(name, "base", kernel, kernels.THEIRS) for kernel in GROUPS[group]()]
    except InputError:
        return []


def _measured(name: str, source: str = "sass") -> list[float]:
    """Signed errors of cycles in percent, on the H200's long kernels; none where the model was not run on all."""
    found = _h200(source)
    errors = [found.error(name, kernel) for kernel in found.long_kernels] if name in found.models else [None]
    return [] if None in errors else [100.0 * each for each in errors]


def _on_programs(name: str) -> list[float]:
    """Signed errors of cycles in percent, on launches of public programs that the model runs on."""
    rows = programs.compare_launches(programs.launches(), programs.kept_predictions())
    return [100.0 * each for row in rows if (each := row.error(name)) is not None]


def errors(name: str) -> str:
    """How far a model is from Accel-Sim and from an H200, from the data of the studies."""
    rows: Rows = []
    if found := _accelsim(name, "all"):
        rows.append(_row("[Accel-Sim](../validation/accelsim.md), IPC", found, fast=1))
    if found := _measured(name):
        rows.append(_row("[H200](../validation/h200.md), cycles", found, fast=-1))
        if swept := _h200().sweeps(name):
            mean, shape = (
                100.0 * statistics.mean(getattr(each, of) for each in swept) for of in ("mape", "mape_shape")
            )
            text = f"{mean:.0f} % (shape {shape:.0f} %)"
            rows.append(("H200, speed over occupancies", f"{len(swept)}", text, "–", "–"))
    if not rows:
        return "The model runs on no kernel of the validation data.\n"
    return table(("reference, error of", "kernels", "mean", "median", "too fast"), rows)


def mean_errors(name: str) -> list[str]:
    """Mean magnitudes of a model's errors: divergent, other and all kernels of Accel-Sim (IPC), the H200 (cycles)."""
    columns = [*(_accelsim(name, group) for group in GROUPS), _measured(name)]
    return [f"{statistics.mean(map(abs, each)):.0f} %" if each else "–" for each in columns]


def readme_accuracy() -> str:
    """A few models against both references: mean magnitudes of their errors."""
    names = ("warplens", "pipeline", "mdm", "gpumech", "roofline")
    references = {
        "Accel-Sim, 16 kernels, IPC ([every kernel](docs/validation/accelsim.md))": [
            _accelsim(name, "all") for name in names
        ],
        "H200, suite kernels above 20 µs, cycles, from CUDA source ([every kernel](docs/validation/h200.md))": [
            _measured(name, "ptx") for name in names
        ],
        "H200, the same, from SASS traced there": [_measured(name) for name in names],
        f"H200, {len(programs.launches())} launches of [public programs](docs/validation/programs.md), from SASS": [
            _on_programs(name) for name in names
        ],
    }
    rows: Rows = [
        (reference, *(f"{statistics.mean(map(abs, errors)):.0f} %" for errors in found))
        for reference, found in references.items()
    ]
    return table(("mean absolute error", *(f"`{name}`" for name in names)), rows)


def _row(reference: str, found: list[float], *, fast: int) -> tuple[str, ...]:
    """Magnitudes of errors in percent; `fast` is the sign of an error of a model that is too fast."""
    size = [abs(each) for each in found]
    return (
        reference,
        f"{len(found)}",
        f"{statistics.mean(size):.0f} %",
        f"{statistics.median(size):.0f} %",
        f"{sum(fast * each > 0 for each in found)}",
    )


def traced_suite() -> str:
    """How exact the traces of the suite are, and what they cost, by size; from what trace_suite.py wrote."""
    path = Path(__file__).parents[2] / "benchmarks" / "h200" / "traced_suite.csv"
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    rows = list(csv.DictReader(lines))
    found: Rows = []
    for size in dict.fromkeys(row["size"] for row in rows):
        chosen = [row for row in rows if row["size"] == size]
        shares = sorted((float(row["exact_share"]), row["kernel"]) for row in chosen)
        less = ", ".join(f"`{kernel}` {100 * share:.1f} %" for share, kernel in shares if share < 0.999)
        untraced = [row for row in chosen if row["untraced_seconds"]]
        times = [float(row["traced_seconds"]) / float(row["untraced_seconds"]) for row in untraced]
        replays = [float(row["decoding_seconds"]) for row in chosen]
        found.append(
            (
                f"`{size}`",
                f"{len(chosen)}",
                f"{sum(int(row['instructions']) for row in chosen) / 1e6:.0f} million",
                f"{sum(share == 1 for share, _ in shares)}",
                f"{sum(share >= 0.999 for share, _ in shares)}",
                less,
                f"{statistics.median(times):.2f}, {max(times):.2f}" if times else "–",
                f"{statistics.median(replays):.0f} s, {max(replays):.0f} s",
            )
        )
    head = (
        "size",
        "traces",
        "instructions",
        "as counted",
        "to 99.9 %",
        "less",
        "traced over untraced time",
        "replay",
    )
    return table(head, found)
