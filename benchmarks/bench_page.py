"""The interactive page: from a slider to all figures, on the server alone and in Chromium.

The browser's time is wall-clock time, with the server beside it on the same
machine; it needs Chromium on the PATH and Playwright (extra `dev`).
"""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from typing import Any

from run import Row

from warplens.web.app import Page
from warplens.web.server import PageServer

PRESSES = 24
KERNELS = ("suite:transpose_naive", "suite:bfs")


def measure() -> list[Row]:
    rows = [_server(kernel) for kernel in KERNELS]
    chromium = shutil.which("chromium")
    return rows + (_browser(chromium) if chromium else [])


def _server(kernel: str) -> Row:
    page = Page()
    visitor = page.visitors.get(None)
    state: dict[str, Any] = {**page.first_state, "kernel": kernel}
    spent = []
    for step in range(PRESSES):
        state["machines"] = [{"gpu": "h200", "set": {"dram.bandwidth": 2e12 + step * 1e11} if step else {}}]
        began = time.process_time()
        page.parts(state, visitor, lambda: None, lambda part: None)
        spent.append(time.process_time() - began)
    page.close()
    value = 1e3 * statistics.median(spent[1:])
    return Row(f"answer on the server, {kernel}", value, "ms CPU", target=100.0, lower_is_better=True)


def _browser(chromium: str) -> list[Row]:
    from playwright.sync_api import sync_playwright

    started = threading.Event()
    server = PageServer(started=started.set)
    thread = threading.Thread(target=server.run)
    thread.start()
    started.wait()
    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(server.url)
        page.wait_for_selector("html[data-answered='1']", state="attached", timeout=120_000)
        page.locator("#machine-0 input[data-key='dram.bandwidth']").focus()
        for press in range(PRESSES):
            page.keyboard.press("ArrowRight" if press % 8 < 4 else "ArrowLeft")
            page.wait_for_selector(f"html[data-answered='{press + 2}']", state="attached")
            times.append(float(page.locator("html").get_attribute("data-milliseconds") or "nan"))
        browser.close()
    server.stop()
    thread.join()
    median, least = statistics.median(times), min(times)
    # Whatever else runs on the machine counts, so the target is for the quickest; the median tells how busy it was.
    return [
        Row("slider to all figures in Chromium, least", least, "ms", target=100.0, lower_is_better=True),
        Row("slider to all figures in Chromium, median", median, "ms"),
    ]
