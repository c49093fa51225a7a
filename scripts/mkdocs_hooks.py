"""Hooks of mkdocs.

In the navigation `FOLDER/*` stands for all pages that FOLDER/index.md links to.
Links to sources work in the repository; the site has no sources, so it shows only
the text of the link.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_SOURCE_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:src|studies|tests|examples|CONTRIBUTING)[^)]*\)")


def on_config(config: Any) -> Any:
    config.nav = [_filled(entry, Path(config.docs_dir)) for entry in config.nav]
    return config


def _filled(entry: Any, docs: Path) -> Any:
    if isinstance(entry, dict):
        return {title: _filled(below, docs) for title, below in entry.items()}
    if isinstance(entry, list):
        return [_filled(each, docs) for each in entry]
    if not entry.endswith("/*"):
        return entry
    folder = entry.removesuffix("/*")
    linked = re.findall(r"\(([\w-]+\.md)\)", (docs / folder / "index.md").read_text(encoding="utf-8"))
    return [f"{folder}/{name}" for name in ("index.md", *dict.fromkeys(linked))]


def on_page_markdown(markdown: str, **_: Any) -> str:
    return _SOURCE_LINK.sub(r"\1", markdown)
