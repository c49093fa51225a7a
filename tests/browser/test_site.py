"""The built documentation in a real browser: nothing is fetched from outside, pictures load, nothing sticks out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Page

PAGES = ("index", "start", "gallery", "tutorials/slow-kernel", "models/mdm", "reproductions", "reference/api")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
def test_pages_are_whole(page: Page, address: str, width: int) -> None:
    """The fixture of the page fails the test where a script fails, or a request leaves the machine."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if width < 1000 else "light")
    for name in PAGES:
        page.goto(f"{address}/{name}.html")
        assert page.locator("h1").count() == 1
        broken = page.evaluate("""async () => {
            const all = [...document.images];
            await Promise.all(all.map((each) => { each.loading = "eager"; return each.decode().catch(() => {}); }));
            return all.filter((each) => !each.naturalWidth).map((each) => each.src);
        }""")
        assert not broken
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than the window"


@pytest.mark.slow
def test_search_finds_a_model_without_leaving_the_machine(page: Page, address: str) -> None:
    page.goto(f"{address}/index.html", wait_until="networkidle")
    box, found = page.locator("input.md-search__input"), page.locator(".md-search-result__item a[href*='mdm']")
    # The search listens to keys, and what is typed before it has its index is lost: type until it answers.
    for _ in range(20):
        box.fill("")
        box.press_sequentially("memory divergence")
        page.wait_for_timeout(2_000)
        if found.count():
            return
    pytest.fail("the search does not find the model")


@pytest.mark.slow
def test_a_page_opens_from_disk(page: Page, site: Path) -> None:
    page.goto((site / "models/mdm.html").as_uri())
    assert "S_MSHR" in page.inner_text("article")
