"""Every link resolves: in the Markdown files as the repository shows them, and in the built site."""

from __future__ import annotations

import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from .pages import DOCS, ROOT
from .pictures import drawings

IMAGES = DOCS / "img"
_LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)(?: \"[^\"]*\")?\)")
_BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.M | re.S)


def markdown_files() -> list[Path]:
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    found = [ROOT / name for name in tracked.stdout.split("\n") if name]
    return found or [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]  # a source archive has no git


def links(text: str) -> list[str]:
    return _LINK.findall(_CODE.sub("", text))


def anchors(text: str) -> set[str]:
    """Those that headings have, by their words or as given, and those of explicit elements."""
    found = set(re.findall(r"\{#([^}\s]+)\}", text)) | set(re.findall(r"(?:id|name)=\"([^\"]+)\"", text))
    for heading in re.findall(r"^#+ (.+?)(?:\s*\{#[^}]+\})?$", _BLOCK.sub("", text), re.M):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        words = re.sub(r"[^\w\s-]", "", words).strip()
        found |= {re.sub(r"\s", "-", words), re.sub(r"[\s-]+", "-", words)}
    return found


def test_links_and_anchors_are_found_where_they_are() -> None:
    text = "# Some `code` here\n## Other {#own}\n[a](b.md#c) ![d](e.png) `[no](no.md)` [f [g]](h.md)\n"
    text += "```\n[no](no.md)\n```\n"
    assert links(text) == ["b.md#c", "e.png", "h.md"]
    assert {"some-code-here", "own"} <= anchors(text)


@pytest.mark.parametrize("page", markdown_files(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_of_markdown_files_resolve(page: Path) -> None:
    broken = []
    for link in links(page.read_text(encoding="utf-8")):
        place = urlsplit(link)
        if place.scheme or place.netloc:
            continue
        target = (page.parent / unquote(place.path)).resolve() if place.path else page
        if target.is_relative_to(IMAGES) and target.relative_to(IMAGES).as_posix() in drawings():
            continue  # drawn when the site is built
        if not target.exists() or (
            place.fragment and target.suffix == ".md" and place.fragment not in anchors(target.read_text("utf-8"))
        ):
            broken.append(link)
    assert not broken


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids |= {given[name] or "" for name in ("id", "name") if name in given}
        self.links += [given[name] or "" for name in ("href", "src") if name in given]


@pytest.mark.slow
def test_links_of_the_site_resolve(site: Path) -> None:
    parsed: dict[Path, _Page] = {}
    for file in site.rglob("*.html"):
        parsed[file] = _Page()
        parsed[file].feed(file.read_text(encoding="utf-8"))
    broken = []
    for file, page in parsed.items():
        if file.name == "404.html":  # its links are meant from anywhere, so they begin at the root
            continue
        for link in page.links:
            place = urlsplit(link)
            if place.scheme or place.netloc or link in ("", "javascript:void(0)"):
                continue
            target = (file.parent / unquote(place.path)).resolve() if place.path else file
            target = target / "index.html" if target.is_dir() else target
            if not target.exists() or (
                place.fragment and target in parsed and unquote(place.fragment) not in parsed[target].ids
            ):
                broken.append(f"{file.relative_to(site)}: {link}")
    assert not broken
