"""Fill the navigation from the folders' own tables: `FOLDER/*` stands for all pages that FOLDER/index.md links to."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


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
