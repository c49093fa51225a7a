"""The interactive page: from a slider to all figures, on the server alone and in Chromium, and the first figures of
heavy kernels.

Times in milliseconds are wall-clock times, so other load on the machine counts:
targets apply to the fastest run, and medians show how busy the machine was. The
browser needs Chromium on the PATH and Playwright (extra `dev`).
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import threading
import time
from typing import Any
from unittest import mock

from run import Row

from warplens.result_cache import CACHE_VARIABLE
from warplens.web.app import Page
from warplens.web.server import PageServer

PRESSES = 24
KERNELS = ("suite:transpose_naive", "suite:bfs")
#: Kernels with the slowest first answer.
HEAVY = ("suite:convolution_resnet", "suite:kmeans_assign", "suite:matmul_naive", "suite:matmul_tensor")


def measure() -> list[Row]:
    chromium = shutil.which("chromium")
    measured = {f"answer of the server, {kernel}": _server(kernel) for kernel in KERNELS}
    if chromium:
        measured["slider to all figures in Chromium"] = _browser(chromium)
    rows = []
    for what, times in measured.items():
        rows.append(Row(f"{what}, least", min(times), "ms", target=100.0, lower_is_better=True))
        rows.append(Row(f"{what}, median", statistics.median(times), "ms"))
    return rows + _first_figures()


def _first_figures() -> list[Row]:
    """First figures from a warm server: with an empty cache folder, and after a restart."""
    rows = []
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {CACHE_VARIABLE: folder}):
        for start in ("nothing known", "started again"):
            page = Page()
            page.warm_up()
            for kernel in HEAVY:
                rows.append(Row(f"first figures of {kernel}, {start}", _to_first_figure(page, kernel), "s of CPU"))
            page.close()
    return rows


def _to_first_figure(page: Page, kernel: str) -> float:
    began, seen = time.process_time(), []

    def tell(part: dict[str, Any]) -> None:
        if part["type"] == "view":
            seen.append(time.process_time() - began)

    page.parts({**page.first_state, "kernel": kernel}, page.visitors.get(None), lambda: None, tell)
    return seen[0]


def _server(kernel: str) -> list[float]:
    page = Page()
    visitor = page.visitors.get(None)
    state: dict[str, Any] = {**page.first_state, "kernel": kernel}
    times = []
    for step in range(PRESSES + 1):
        state["machines"] = [{"gpu": "h200", "set": {"dram.bandwidth": 2e12 + step * 1e11} if step else {}}]
        began = time.perf_counter()
        page.parts(state, visitor, lambda: None, lambda part: None)
        times.append(1e3 * (time.perf_counter() - began))
    page.close()
    return times[1:]  # the first simulates caches


def _browser(chromium: str) -> list[float]:
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
    return times
