"""The documentation as data: its code blocks, what their commands print, and the tables made from the code.

    python tests/docs/pages.py [--measure] [PAGE...]

rewrites the output below every `$ warplens …` of the documentation, and every
table between `<!-- table: NAME -->` and `<!-- end -->`, from what the code says now.
Tables named `measured …` hold times: they are rewritten, and their pictures drawn,
only with --measure.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from warplens_studies.reproduce import Reproduction

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(
    r"^```(?P<language>[\w-]*)(?: title=\"(?P<title>[^\"]*)\")?[^\n]*\n(?P<body>.*?)^```$", re.M | re.S
)
_TABLE = re.compile(r"(<!-- table: (?P<name>[^>]+?) -->\n).*?(<!-- end -->)", re.S)
#: Longer tables of a reproduction are in its CSV only.
MOST_ROWS = 40
#: What slow machines see besides, and what differs from one run or one compression library to the next.
_PROGRESS = re.compile(r"^\w+ing\b.*: \d+ %(, .+ left)?$")
_CHANGING = re.compile(r"(?<=, in )[\d.]+ \w+$|(?<=: )\d[\d\s]*(?= bytes)", re.M)
_STATUS = re.compile(r"exit status (\d+)")


@dataclass(frozen=True)
class Block:
    """A fenced code block. A title is the name of the file it shows, or the exit status of its command."""

    language: str
    title: str
    body: str
    span: tuple[int, int]

    @property
    def command(self) -> str:
        """The command or script that the block runs, or an empty string."""
        first = self.body.partition("\n")[0]
        return first.removeprefix("$ ") if first.startswith(("$ warplens ", "$ python ")) else ""

    @property
    def output(self) -> str:
        return self.body.partition("\n")[2]

    @property
    def status(self) -> int:
        found = _STATUS.search(self.title)
        return int(found[1]) if found else 0


def pages() -> dict[str, Path]:
    """The README and all pages below docs, by name."""
    return {"README.md": ROOT / "README.md"} | {
        page.relative_to(DOCS).as_posix(): page for page in sorted(DOCS.rglob("*.md"))
    }


def blocks(text: str) -> Iterator[Block]:
    for match in _FENCE.finditer(text):
        yield Block(match["language"], match["title"] or "", match["body"], match.span("body"))


# -- commands ---------------------------------------------------------------------------


@contextlib.contextmanager
def page_folder(text: str) -> Iterator[None]:
    """A fresh working directory that holds the files which the page shows."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        for block in blocks(text):
            if block.title.endswith((".toml", ".py", ".cu")):
                (Path(folder) / block.title).write_text(block.body, encoding="utf-8")
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def run(command: str) -> tuple[int, str]:
    """Exit status and output (stdout and stderr together, as a terminal shows them) of a command."""
    from warplens.cli import main

    if command.startswith("python "):
        script, *rest = shlex.split(command)[1:]
        path = script if Path(script).exists() else ROOT / script  # shown on the page, or one of the examples
        done = subprocess.run([sys.executable, path, *rest], stdout=-1, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout
    out = io.StringIO()
    status = 0
    with (
        mock.patch.object(sys, "argv", shlex.split(command)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        try:
            main()
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 1
    lines = [line.rstrip() for line in out.getvalue().splitlines() if not _PROGRESS.match(line)]
    return status, _CHANGING.sub("…", "\n".join(lines).strip("\n")) + "\n"


# -- tables ------------------------------------------------------------------------------


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def _code(*names: str) -> str:
    return ", ".join(f"`{name}`" for name in names)


_UNITS = {"bytes": "bytes", "bytes_per_s": "bytes per second", "hz": "hertz", "cycles": "core cycles"}


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
        rows.append((_code(p.key), _code(ending) if ending else "", _UNITS.get(p.unit or "", "–"), values, p.doc))
    return _table(("key of `--set`", "in TOML ends in", "unit", "values", "meaning"), rows)


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
            )
        )
    return _table(("name", "machine", "SMs", "clock", "issue rate", "warps per SM", "DRAM"), rows)


def facts(name: str) -> str:
    from warplens.models import MODELS

    model = MODELS[name]
    stack = _code(*model.categories) if model.categories else "none"
    rows = [
        ("equations", model.equations),
        ("needs", f"[`{model.needs}`](../guide/workloads.md#{model.needs})"),
        ("CPI stack", stack),
        ("takes into account", ", ".join(sorted(model.aspects))),
    ]
    return _table(("paper", str(model.paper)), rows)


def options(name: str) -> str:
    from warplens.models import MODELS, options_of

    rows = []
    for key, item in options_of(MODELS[name]).items():
        values = item["choices"] or (
            ["true", "false"] if item["default"] in ("true", "false") else ["a number, at least 0"]
        )
        shown = _code(*values) if len(values) > 1 or item["choices"] else values[0]
        rows.append((_code(key), _code(f"{item['default']}"), shown, item["doc"]))
    return _table(("option", "default", "values", "meaning"), rows) if rows else "This model has no options.\n"


def aspects() -> str:
    from warplens.models import MODELS, Aspect

    header = ("model", *(aspect.value for aspect in Aspect))
    rows = [
        (f"[`{name}`]({name}.md)", *("✓" if aspect in model.aspects else "" for aspect in Aspect))
        for name, model in MODELS.items()
    ]
    return _table(header, rows)


def overview() -> str:
    from warplens.models import MODELS

    rows = [
        (
            f"[`{name}`]({name}.md)",
            _code(model.paper.key),
            model.equations,
            f"`{model.needs}`",
            "yes" if model.categories else "–",
        )
        for name, model in MODELS.items()
    ]
    return _table(("model", "paper", "equations", "needs", "stack"), rows)


def papers() -> str:
    from warplens.models import PAPERS

    rows = [
        (f"{p.prefix}-n", p.authors, p.title, p.venue, _code(p.key))
        for p in sorted(PAPERS.values(), key=lambda p: p.venue)
    ]
    return _table(("equations", "authors", "title", "venue", "key"), rows)


def reproductions() -> str:
    """Every figure and table: what is compared, with which data, how many statements of the text hold, or why not."""
    from warplens_studies.reproduce import listing

    rows = []
    for row in listing():
        if row["reason"]:
            rows.append((_code(row["name"]), row["title"], f"*not done:* {row['reason']}", "", ""))
            continue
        names = ", ".join(f"[`{name}`](#{row['name']})" for name in row["covers"].split())
        rows.append((names, row["title"], row["compares"], row["data"], row["statements"]))
    return _table(("name", "figure or table", "what is compared", "data", "hold"), rows)


def reproduced(paper: str) -> str:
    """One section per figure or table of a paper that does not measure time."""
    from warplens_studies.reproduce import find_recipes

    chosen = [recipe for recipe in find_recipes(()) if recipe.paper.key == paper and not recipe.timed]
    return "\n".join(_section(_reproduction(recipe.name)) for recipe in chosen)


def measured(name: str) -> str:
    """The section of an item that measures time, with its picture drawn from the same run; or a benchmark's table."""
    from warplens_studies.reproduce import draw

    if name.startswith("bench_"):
        return _benchmark(name)

    draw(_reproduction(name), DOCS / "img" / "reproduce")
    return _section(_reproduction(name))


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


def _section(made: Reproduction) -> str:
    """Picture, numbers, statements, assumptions."""
    from warplens.cli.common import show_number
    from warplens_studies.reproduce import RECIPES

    def cell(value: object) -> str:
        if value is None:
            return "–"
        return value if isinstance(value, str) else show_number(value)  # type: ignore[arg-type]

    parts = [
        f"### {made.name} {{#{made.name}}}\n",
        f"{made.title}. Compared: {made.compares}. Data: {RECIPES[made.name].data}.\n",
        f"![{made.title}](img/reproduce/{made.name}.png)\n",
    ]
    if len(made.summary.rows) <= MOST_ROWS:
        parts.append(_table(made.summary.columns, [tuple(map(cell, row)) for row in made.summary.rows]))
    if made.claims:
        claims = [(claim.text, claim.verdict, claim.found) for claim in made.claims]
        parts.append(_table(("the text says", "holds", "found"), claims))
    notes = [f"- Assumed: {text}." for text in made.assumptions] + [f"- Note: {text}." for text in made.remarks]
    if notes:
        parts.append("\n".join(notes) + "\n")
    return "\n".join(parts)


@cache
def _reproduction(name: str) -> Reproduction:
    from warplens_studies.reproduce import RECIPES

    return RECIPES[name]()


def _reference() -> Any:
    """The module beside this one, also where this one is run as a script."""
    return importlib.import_module(".reference", __package__) if __package__ else importlib.import_module("reference")


def errors(name: str) -> str:
    return _reference().errors(name)


def accuracy() -> str:
    return _reference().accuracy()


def readme_accuracy() -> str:
    return _reference().readme_accuracy()


def traced_suite() -> str:
    return _reference().traced_suite()


def cli() -> str:
    return _reference().cli()


def api() -> str:
    return _reference().api()


TABLES: dict[str, Callable[..., str]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        machine_keys,
        instruction_keys,
        instruction_classes,
        machines,
        facts,
        options,
        aspects,
        overview,
        papers,
        reproductions,
        reproduced,
        measured,
        errors,
        accuracy,
        readme_accuracy,
        traced_suite,
        cli,
        api,
    )
}


def table(name: str) -> str:
    """The table that a marker names: `machine-keys`, `options mdm`."""
    kind, *arguments = name.split()
    return TABLES[kind](*arguments)


# -- bringing pages up to date -----------------------------------------------------------


def refreshed(text: str, *, commands: bool = True, measure: bool = False) -> str:
    """The page with its tables, and the output of its commands, as the code gives them now."""

    def made(match: re.Match[str]) -> str:
        if match["name"].startswith("measured ") and not measure:
            return match[0]
        return f"{match[1]}\n{table(match['name'])}\n{match[3]}"

    text = _TABLE.sub(made, text)
    if not commands:
        return text
    with page_folder(text):
        found = [block for block in blocks(text) if block.command]
        outputs = {block.command: run(block.command)[1] for block in found}
        for picture in Path("out/examples").glob("*.png"):
            shutil.copy(picture, DOCS / "img" / "gallery")
    for block in reversed(found):
        start, end = block.span
        text = f"{text[:start]}$ {block.command}\n{outputs[block.command]}{text[end:]}"
    return text


def keep_outcomes() -> None:
    """What `warplens reproduce --list` says of results, and the pictures of all that measure no time."""
    from warplens_studies.reproduce import RECIPES, draw
    from warplens_studies.reproduce.inventory import outcomes, statements, write_outcomes

    made = {name: _reproduction(name) for name, recipe in RECIPES.items() if not recipe.timed}
    for each in made.values():
        draw(each, DOCS / "img" / "reproduce")
    write_outcomes({name: statements(each) for name, each in made.items()})
    outcomes.cache_clear()


def main() -> None:
    names = [name for name in sys.argv[1:] if not name.startswith("--")]
    every = pages()
    if unknown := sorted(set(names) - set(every)):
        sys.exit(f"{', '.join(unknown)}: no such page; a name is README.md, or a path below {DOCS.name}")
    chosen = [every[name] for name in every if not names or name in names]
    if DOCS / "reproductions.md" in chosen:
        keep_outcomes()
    for page in chosen:
        text = page.read_text(encoding="utf-8")
        new = refreshed(text, measure="--measure" in sys.argv)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
