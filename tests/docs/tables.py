"""Tables that pages get from the code: machines, models, reproductions, benchmarks. `table` makes one by its name."""

from __future__ import annotations

import csv
import json
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from . import reference, reproductions
from .reference import table as _table

ROOT = Path(__file__).parents[2]


def _code(*names: str) -> str:
    return ", ".join(f"`{name}`" for name in names)


_UNITS = {"bytes": "bytes", "bytes_per_s": "bytes per second", "hz": "hertz", "cycles": "core cycles", "s": "seconds"}


def machine_keys() -> str:
    """Every parameter but those of instruction classes."""
    from warplens.machine import parameters

    rows = []
    for p in parameters().values():
        if p.path.startswith("instructions."):
            continue
        bound = f"{'above' if p.exclusive else 'at least'} {p.minimum:g}"
        values = {str: _code(*p.choices), bool: _code("true", "false")}.get(p.kind)
        values = values or (("whole, " if p.kind is int else "") + bound)
        ending = p.path.removeprefix(p.key)
        meaning = p.doc if p.default is None else f"{p.doc}; default {_default(p.default)}"
        rows.append((_code(p.key), _code(ending) if ending else "", _UNITS.get(p.unit or "", "–"), values, meaning))
    return _table(("key of `--set`", "in TOML ends in", "unit", "values", "meaning"), rows)


def _default(value: float | str | bool) -> str:
    return _code(str(value).lower()) if isinstance(value, str | bool) else f"{value:g}"


def instruction_keys() -> str:
    from warplens.machine import INSTRUCTION_CLASSES, parameters

    rows = []
    for name in INSTRUCTION_CLASSES:
        keys = [p.key for path, p in parameters().items() if path.startswith(f"instructions.{name}.")]
        rows.append((_code(name), *(_code(key) for key in keys)))
    return _table(("class", "latency Λ (core cycles)", "interval λ (core cycles)", "pipeline (a name)"), rows)


def instruction_classes() -> str:
    from warplens.machine import INSTRUCTION_CLASSES

    rows = [
        (_code(item.name), item.kind, _code(item.parent) if item.parent else "–", item.doc)
        for item in INSTRUCTION_CLASSES.values()
    ]
    return _table(("class", "kind", "parent", "instructions"), rows)


def machines() -> str:
    from warplens.machine import gpu_names, load_gpu
    from warplens.units import format_number

    rows = []
    for name in gpu_names():
        gpu = load_gpu(name)
        rows.append(
            (
                _code(name),
                gpu.description,
                format_number(gpu.sms, None),
                format_number(gpu.clock_hz, "hz"),
                f"{gpu.issue_rate:g}",
                format_number(gpu.max_warps, None),
                format_number(gpu.dram.bandwidth_bytes_per_s, "bytes_per_s"),
                f"{sum(source.is_guess for source in gpu.sources.values())} of {len(gpu.sources)}",
            )
        )
    return _table(("name", "machine", "SMs", "clock", "issue rate", "warps per SM", "DRAM", "assumed"), rows)


def facts(name: str) -> str:
    """A line below the idea of a model: its paper, equations, input and stack."""
    from warplens.models import MODELS

    model = MODELS[name]
    stack = _code(*model.categories) if model.categories else "none"
    needs = f"[`{model.needs}`](../guide/workloads.md#{model.needs})"
    paper = f"{model.paper.authors}, {model.paper.venue}"
    return f"*{paper}.* Equations: {model.equations}. Needs: {needs}. CPI stack: {stack}.\n"


def options(name: str) -> str:
    from warplens.models import MODELS, options_of

    rows = []
    for key, item in options_of(MODELS[name]).items():
        default = f"{item['default']}"
        values = item["choices"] or (["true", "false"] if default in ("true", "false") else [])
        shown = _code(default, *(value for value in values if value != default))
        rows.append((_code(key), shown if values else f"{shown}, or a number ≥ 0", item["doc"]))
    return _table(("option", "values, default first", "meaning"), rows) if rows else "This model has no options.\n"


def aspects() -> str:
    from warplens.models import MODELS, Aspect

    header = ("model", *(aspect.value for aspect in Aspect))
    rows = [
        (f"[`{name}`]({name}.md)", *("✓" if aspect in model.aspects else "" for aspect in Aspect))
        for name, model in MODELS.items()
    ]
    return _table(header, rows)


def overview() -> str:
    """Models: what each needs, and how far off it is."""
    from warplens.models import MODELS

    rows = [
        (
            f"[`{name}`]({name}.md)",
            model.equations,
            f"`{model.needs}`",
            "yes" if model.categories else "–",
            *reference.mean_errors(name),
        )
        for name, model in MODELS.items()
    ]
    head = ("model", "equations", "needs", "stack")
    return _table((*head, "Accel-Sim, MD", "Accel-Sim, NMD", "Accel-Sim", "H200"), rows)


def when_to_use() -> str:
    """What the models' pages say about their use."""
    from warplens.models import MODELS

    rows = []
    for name in MODELS:
        page = (ROOT / "docs" / "models" / f"{name}.md").read_text(encoding="utf-8")
        found = re.search(r"^\*\*Use it\*\* (.+)\. \*\*Do not use it\*\* (.+)\.$", page, re.M)
        assert found, f"docs/models/{name}.md does not say when to use it"
        rows.append((f"[`{name}`]({name}.md)", found[1], found[2]))
    return _table(("model", "use it", "do not use it"), rows)


def categories() -> str:
    """Stall categories, and the models whose stacks have them."""
    from warplens.categories import CATEGORIES
    from warplens.models import MODELS

    stacks = {name: model.categories for name, model in MODELS.items() if model.categories}
    rows = []
    for each in CATEGORIES.values():
        holders = [name for name, stack in stacks.items() if each.name in stack]
        shown = "all with a stack" if len(holders) == len(stacks) else _code(*holders)
        rows.append((_code(each.name), each.sentence, shown))
    return _table(("category", "time in which the SM", "models"), rows)


def stall_groups() -> str:
    """Groups in which CPI stacks and the stall reasons of Nsight Compute can be compared."""
    from warplens.categories import CATEGORIES, STALL_REASONS

    rows = []
    for group, reasons in STALL_REASONS.items():
        members = [each.name for each in CATEGORIES.values() if each.group == group]
        rows.append((group, ", ".join(members), ", ".join(each.replace("_", " ") for each in reasons) or "none"))
    return _table(("group", "CPI stack", "Nsight Compute's stall reasons"), rows)


def views() -> str:
    """Views of a report in the order of the page."""
    from warplens.reports.section import VIEW_KINDS

    rows = [(_code(each.name), each.shows, each.needs) for each in VIEW_KINDS]
    return _table(("`--view`", "shows", "needs"), rows)


def papers() -> str:
    from warplens.models import PAPERS

    rows = [
        (f"{p.prefix}-n", p.authors, p.title, p.venue, _code(p.key))
        for p in sorted(PAPERS.values(), key=lambda p: p.venue)
    ]
    return _table(("equations", "authors", "title", "venue", "key"), rows)


def measured(name: str) -> str:
    """What takes another time in every run: a benchmark, or a reproduction that measures time."""
    if name.startswith("bench_"):
        return _benchmark(name)
    return reproductions.timed_section(reproductions.made(name))


def _benchmark(name: str) -> str:
    """What `python benchmarks/run.py NAME` measures."""
    from warplens.cli.common import show_number

    command = [sys.executable, str(ROOT / "benchmarks" / "run.py"), "--json", name]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    rows = [
        (
            row["what"].strip(),
            f"{show_number(row['value'])} {row['unit']}".strip(),
            "–" if row["ratio"] is None else f"{show_number(row['ratio'])} × {row['peer']}",
            "–" if row["target"] is None else f"{row['target']:g}: {'met' if row['met'] else 'missed'}",
        )
        for row in found
    ]
    return _table(("", "measured", "against", "target"), rows)


def mutants() -> str:
    """Outcomes of scripts/mutate, by the tests that it ran."""
    with (ROOT / "scripts" / "mutants.csv").open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    return _table(tuple(names), [tuple(row) for row in rows])


def program_runs(what: str) -> str:
    """How public programs ended without a GPU (benchmarks/run_programs.py): by suite, or those that failed."""
    with (ROOT / "benchmarks" / "programs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    if what == "others":
        columns = ("program", "suite", "arguments", "end", "launches", "kernels", "reason")
        good = (("verified", ""), ("ended", "same"))
        return _table(
            columns, [tuple(row[name] for name in columns) for row in rows if (row["end"], row["as_gpu"]) not in good]
        )
    ends = {
        "verified": ("verified", ""),
        "as on the GPU": ("ended", "same"),
        "ended": ("ended", "other"),
        **{end: (end, "") for end in ("wrong", "failed", "out of time")},
    }
    suites = [*dict.fromkeys(row["suite"] for row in rows), "all"]
    return _table(
        ("suite", "programs", *ends),
        [
            (
                suite,
                str(len(mine)),
                *(str(sum((row["end"], row["as_gpu"]) == end for row in mine)) for end in ends.values()),
            )
            for suite in suites
            for mine in [[row for row in rows if suite in (row["suite"], "all")]]
        ],
    )


def compared_api() -> str:
    """The program that uses the whole interface, on a GPU and with the stand-in (benchmarks/h200/compare_api.py)."""
    with (ROOT / "benchmarks" / "h200" / "api.csv").open(encoding="utf-8", newline="") as file:
        names, *rows = csv.reader(file)
    return _table(
        tuple(names), [tuple({"True": "yes", "False": "no"}.get(cell, cell) for cell in row) for row in rows]
    )


def compared_runs() -> str:
    """Measured launches, predicted from SASS and from whole programs (benchmarks/h200/compare_runs.py)."""
    with (ROOT / "benchmarks" / "h200" / "runs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    ways = ("sass", "program_run")
    errors = {way: [float(row[way]) / float(row["measured"]) - 1 for row in rows] for way in ways}
    found = [
        (
            row["program"],
            row["launch"],
            row["kernel"],
            row["measured"],
            *(f"{100 * errors[way][at]:+.0f} %" for way in ways),
        )
        for at, row in enumerate(rows)
    ]
    measures: dict[str, Callable[[list[float]], str]] = {
        "mean error": lambda of: f"{100 * statistics.mean(map(abs, of)):.0f} %",
        "median error, signed": lambda of: f"{100 * statistics.median(of):+.1f} %",
        "within 20 %": lambda of: f"{100 * statistics.mean(abs(each) <= 0.2 for each in of):.0f} %",
        "largest error": lambda of: f"{100 * max(map(abs, of)):.0f} %",
    }
    for name, measure in measures.items():
        found.append((f"**{name}**", "", "", "", *(measure(errors[way]) for way in ways)))
    heads = ("program", "launch", "kernel", "cycles", "from SASS", "from the program's run")
    return _table(heads, found)


def compared_ptx() -> str:
    """PTX executed here and on an H200, by group."""
    with (ROOT / "benchmarks" / "h200" / "ptx.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found = []
    for group in (*dict.fromkeys(row["group"] for row in rows), "**all**"):
        own = [row for row in rows if group in (row["group"], "**all**")]
        forms, equal, apart = (sum(int(row[name]) for row in own) for name in ("forms", "equal", "apart"))
        found.append((group.replace("_", " "), *map(str, (forms, equal, forms - equal - apart, apart))))
    return _table(("group", "forms", "the same bits", "within the tolerance", "beyond it"), found)


TABLES: dict[str, Callable[..., str]] = {
    "machine-keys": machine_keys,
    "instruction-keys": instruction_keys,
    "instruction-classes": instruction_classes,
    "machines": machines,
    "facts": facts,
    "options": options,
    "aspects": aspects,
    "overview": overview,
    "when-to-use": when_to_use,
    "categories": categories,
    "stall-groups": stall_groups,
    "views": views,
    "papers": papers,
    "measured": measured,
    "mutants": mutants,
    "program-runs": program_runs,
    "compared-api": compared_api,
    "compared-ptx": compared_ptx,
    "compared-runs": compared_runs,
    "reproductions": reproductions.summary,
    "omitted": reproductions.omitted,
    "claims": reproductions.claims,
    "reproduced": reproductions.of_paper,
    "errors": reference.errors,
    "readme-accuracy": reference.readme_accuracy,
    "traced-suite": reference.traced_suite,
    "cli": reference.cli,
    "api": reference.api,
}


def table(name: str) -> str:
    """The table that a marker names: `machine-keys`, `options mdm`."""
    kind, *arguments = name.split()
    return TABLES[kind](*arguments)
