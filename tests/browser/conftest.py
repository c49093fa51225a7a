"""A real Chromium for the tests of pages: the system's own, driven by Playwright; nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect, sync_playwright

#: Patience with a machine on which much else runs.
MILLISECONDS = 60_000

LOCAL_SCHEMES = ("file", "data", "blob", "about")
LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Chromium, for the tests of this folder only: its driver keeps an event loop that other tests may need."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        reason = "no chromium on the PATH; install it with: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page of its own profile. The test fails where a script fails, or where a request leaves the machine."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.set_default_timeout(MILLISECONDS)
    expect.set_options(timeout=MILLISECONDS)
    opened = context.new_page()
    problems: list[str] = []

    def look_at(request: Request) -> None:
        place = urlsplit(request.url)
        if place.scheme not in LOCAL_SCHEMES and place.hostname not in LOCAL_HOSTS:
            problems.append(f"asked for {request.url}")

    def listen(message: ConsoleMessage) -> None:
        # An answer of 4xx is the server's word to the page, which has to show it; a test looks for that.
        if message.type == "error" and "the server responded with a status of 4" not in message.text:
            problems.append(message.text)

    context.on("request", look_at)
    opened.on("console", listen)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    yield opened
    context.close()
    assert not problems, "\n".join(problems)
