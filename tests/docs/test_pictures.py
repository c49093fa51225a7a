"""Pictures of the documentation: each that a page shows is committed or can be drawn, and drawing works."""

from __future__ import annotations

from pathlib import Path

import pytest

from . import pictures
from .pages import DOCS

#: Screenshots, and what the README and the gallery show.
COMMITTED = {
    *("spmv.png", "report.png", "serve.png", "serve-compare.png"),
    *("gallery/design-space.png", "gallery/python-kernel.png", "gallery/tuning.png"),
}
SAMPLE = ("reproduce/gpumech-fig8.png", "validation/h200-scatter.png", "characterize/latency.png")


def test_every_picture_is_committed_or_drawn_and_shown() -> None:
    images = DOCS / "img"
    assert {path.relative_to(images).as_posix() for path in images.rglob("*.png")} == COMMITTED
    assert not COMMITTED & set(pictures.drawings())
    shown = pictures.wanted()
    assert shown <= {*COMMITTED, *pictures.drawings()}
    assert set(pictures.drawings()) <= shown


@pytest.mark.parametrize("name", SAMPLE)
def test_drawing_keeps_one_picture_of_the_sources(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "KEPT", tmp_path)
    old = tmp_path / Path(name).with_suffix(".000000000000.png")
    old.parent.mkdir(parents=True, exist_ok=True)
    old.touch()
    assert pictures.missing([name]) == [name]
    pictures.draw([name])
    assert pictures.missing([name]) == []
    assert not old.exists()
    assert pictures.drawings()[name].kept(name).stat().st_size > 10_000


def test_a_picture_follows_its_sources(tmp_path: Path) -> None:
    source = tmp_path / "numbers.csv"
    source.write_text("1\n")
    drawing = pictures.Drawing(("a.png",), lambda folder: None, (source,))
    before = drawing.kept("a.png")
    source.write_text("2\n")
    assert drawing.kept("a.png") != before
