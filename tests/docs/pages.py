"""The documentation as data: its code blocks, what their commands print, and the tables made from the code.

    python tests/docs/pages.py [--measure] [PAGE...]

rewrites the output below every `$ warplens …` of the documentation, and every
table between `<!-- table: NAME -->` and `<!-- end -->`, from what the code says now.
With reproductions.md it also writes docs/reproductions/*.csv. Tables named
`measured …` hold times: only --measure rewrites them.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

if not __package__:  # run as a script, it still finds its neighbours (PEP 366)
    sys.path[0] = str(Path(__file__).parents[1])
    __package__ = "docs"

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
_FENCE = re.compile(
    r"^```(?P<language>[\w-]*)(?: title=\"(?P<title>[^\"]*)\")?[^\n]*\n(?P<body>.*?)^```$", re.M | re.S
)
_TABLE = re.compile(r"(<!-- table: (?P<name>[^>]+?) -->\n).*?(<!-- end -->)", re.S)
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


# A machine says once that Python code of a workload file runs; pages are those of a machine that has said it.
@mock.patch.dict(os.environ, {"WARPLENS_TRUST": "1"})
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


# -- bringing pages up to date -----------------------------------------------------------


def refreshed(text: str, *, commands: bool = True, measure: bool = False) -> str:
    """The page with its tables, and the output of its commands, as the code gives them now."""
    from .tables import table

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


def main() -> None:
    from . import reproductions

    names = [name for name in sys.argv[1:] if not name.startswith("--")]
    every = pages()
    if unknown := sorted(set(names) - set(every)):
        sys.exit(f"{', '.join(unknown)}: no such page; a name is README.md, or a path below {DOCS.name}")
    chosen = [every[name] for name in every if not names or name in names]
    if DOCS / "reproductions.md" in chosen:
        reproductions.write_files()
    for page in chosen:
        text = page.read_text(encoding="utf-8")
        new = refreshed(text, measure="--measure" in sys.argv)
        if new != text:
            page.write_text(new, encoding="utf-8")
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main()
