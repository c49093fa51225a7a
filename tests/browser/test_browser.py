"""The browser itself: what the fixture promises."""

from __future__ import annotations

from playwright.sync_api import Page


def test_page_of_a_text(page: Page) -> None:
    page.set_content("<h1>warps</h1>")
    assert page.inner_text("h1") == "warps"
