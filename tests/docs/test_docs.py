"""The documentation builds, is complete, and shows what the commands print."""

from __future__ import annotations

import doctest
import html.parser
import re
from pathlib import Path

import pytest

import warplens
from warplens.explanation import RULES
from warplens.machine import gpu_names, parameters
from warplens.models import GENERAL_MODELS, MODELS, options_of
from warplens_studies.reproduce import RECIPES

from . import pages, reference, reproductions
from .pages import DOCS, ROOT, blocks, page_folder, refreshed, run

PAGES = pages.pages()


def read(name: str) -> str:
    return PAGES[name].read_text(encoding="utf-8")


# -- completeness ------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_a_page_with_its_options(name: str) -> None:
    text = read(f"models/{name}.md")
    _, heading, section = text.partition("\n## Options\n")
    assert heading
    section = section.partition("\n## ")[0]
    assert all(f"`{option}`" in section for option in options_of(MODELS[name]))
    assert "\n## Example\n" in text
    assert "\n## Accuracy\n" in text
    assert f"<!-- table: errors {name} -->" in text or name not in GENERAL_MODELS
    assert f"({name}.md)" in read("models/index.md").partition("## When to use which")[2]


def test_every_rule_has_a_section_with_a_fault_and_its_cure() -> None:
    sections = {section.partition("\n")[0]: section for section in read("guide/advice.md").split("\n### ")[1:]}
    assert set(RULES) <= set(sections)
    for section in sections.values():
        (shown,) = (block for block in blocks(section) if block.language == "diff")
        assert {line[0] for line in shown.body.splitlines()} <= {"-", "+", " "} and "\n+" in shown.body


def test_pages_of_models_that_do_not_exist() -> None:
    assert {Path(page).stem for page in PAGES if page.startswith("models/")} == {"index", *MODELS}


def test_every_key_of_set_is_in_the_guide() -> None:
    text = read("guide/machines.md")
    missing = [p.key for p in parameters().values() if f"`{p.key}`" not in text]
    assert not missing
    assert "`launch.warps_per_sm`" in text
    assert "`launch.blocks_per_sm`" in text


def test_every_machine_is_listed() -> None:
    listed = read("guide/machines.md").partition("## Machines that ship")[2]
    assert all(f"| `{name}` |" in listed for name in gpu_names())


def test_every_reproduction_has_a_section_a_file_and_a_picture() -> None:
    text = read("reproductions.md")
    for name, recipe in RECIPES.items():
        assert f"{{#{name}}}" in text
        if not recipe.timed:
            assert f"(reproductions/{name}.csv)" in text
            assert f"(img/reproduce/{name}.png)" in text
    named = {reproductions.FOLDER / f"{name}.csv" for name in reproductions.untimed()}
    assert set(reproductions.FOLDER.iterdir()) == named | {reproductions.STATEMENTS}


def test_every_example_is_in_the_gallery_with_its_picture() -> None:
    text = read("gallery.md")
    for script in (ROOT / "examples").glob("*.py"):
        assert f"$ python examples/{script.name}" in text
    for picture in re.findall(r"\((img/gallery/[^)]+)\)", text):
        assert (DOCS / picture).is_file()


def test_every_tutorial_and_reference_is_there() -> None:
    tutorials = {"slow-kernel", "design-space", "your-gpu", "accelsim", "new-model", "new-machine"}
    assert tutorials == {Path(page).stem for page in PAGES if page.startswith("tutorials/")}
    commands = read("reference/cli.md")
    assert all(f"## {name}\n" in commands for name in reference.commands() if name != "warplens")
    names = [name for name in warplens.__all__ if not name.startswith("__")]
    assert all(f"### warplens.{name} " in read("reference/api.md") for name in names)


def test_a_model_in_thirty_lines() -> None:
    (shown,) = (block for block in blocks(read("tutorials/new-model.md")) if block.title == "little.py")
    model = shown.body.partition('if __name__ == "__main__"')[0].strip("\n")
    assert len(model.splitlines()) <= 30


def test_deviations_are_numbered_without_gaps() -> None:
    numbers = [(int(a), int(b)) for a, b in re.findall(r"^### D(\d+) .*\{#d(\d+)\}$", read("deviations.md"), re.M)]
    assert numbers == [(n, n) for n in range(1, len(numbers) + 1)]


# -- what is shown is what the code does ---------------------------------------------------


@pytest.mark.parametrize("page", [page for page in PAGES if page != reproductions.PAGE])
def test_tables_are_what_the_code_says(page: str) -> None:
    text = read(page)
    assert refreshed(text, commands=False) == text, "out of date; run: python tests/docs/pages.py"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_commands_do_what_is_shown(page: str) -> None:
    text = read(page)
    with page_folder(text):
        for block in blocks(text):
            if not block.command:
                continue
            status, output = run(block.command)
            assert block.language in ("console", "text")
            assert status == (block.status if block.language == "text" else 0), output
            assert output == block.output, "out of date; run: python tests/docs/pages.py"


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_python_examples(page: str) -> None:
    text = read(page)
    source = "\n".join(block.body for block in blocks(text) if block.language == "pycon")
    runner = doctest.DocTestRunner()
    with page_folder(text):
        runner.run(doctest.DocTestParser().get_doctest(source, {}, page, page, 0))
    assert runner.summarize(verbose=False).failed == 0


# -- the site -----------------------------------------------------------------------------


class _Loads(html.parser.HTMLParser):
    """Addresses that a browser fetches by itself: scripts, styles, pictures, frames, fonts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found += [given[name] or "" for name in ("src", "srcset", "data", "poster") if name in given]
        if tag == "link":
            self.found.append(given.get("href") or "")


@pytest.mark.slow
def test_site_builds_strictly_and_loads_nothing_from_outside(site: Path) -> None:
    made = list(site.rglob("*.html"))
    assert len(made) >= len(PAGES)
    for page in made:
        loads = _Loads()
        text = page.read_text(encoding="utf-8")
        assert text.count("<h1") == 1, f"{page.name}: a line that begins with # became a heading"
        loads.feed(text)
        outside = [address for address in loads.found if re.match(r"\s*(https?:)?//", address)]
        assert not outside, f"{page.name}: {outside}"
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*['\"]?(https?:)?//", sheet.read_text(encoding="utf-8")), sheet.name
