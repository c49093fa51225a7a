"""A report in a real browser, opened from disk: figures, light and dark, printing, and names that are scripts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import expect

from warplens.api import load_workloads
from warplens.reports.build import make_report

EXAMPLES = Path(__file__).parents[2] / "examples" / "cuda"
EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked=1'>"


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    """A traced kernel with an evil name, and a profile written by hand, on one page."""
    path = tmp_path_factory.mktemp("report") / "out.html"
    traced = replace(load_workloads("saxpy", gpu="mdm2020")[0], name=EVIL)
    by_hand = load_workloads("mdm-baseline")[0]
    make_report([traced, by_hand], path, gpus=["mdm2020"], models=["gpumech", "mdm"])
    return path


def opened(page, path: Path, *, unfolded: bool = False):
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=true]")
    if unfolded:
        for summary in page.locator(".fold > summary").all():
            summary.click()
    return page


def test_the_answer_stands_before_the_fold(page, report):
    opened(page, report)
    first = page.locator("section.kernel").first
    headings = first.locator("h2, h3, .fold > summary")
    shown = [each.inner_text() for each in headings.all() if each.is_visible()]
    assert shown[1:3] == ["Where the time goes", "What to change"]
    assert shown[-2:] == ["Source, line by line", "For model researchers"]
    parts = first.locator(".time-bar > span")
    widths = [part.bounding_box()["width"] for part in parts.all()]
    assert sum(widths) == pytest.approx(first.locator(".time-bar").bounding_box()["width"], rel=0.02)
    assert first.locator(".meters > div").count() == 5
    # Nothing lies over a legend, and no number has more digits than it can mean.
    assert page.locator(".modebar").count() == 0
    assert not re.search(r"\d\.\d{3,} %", page.inner_text("main"))


def test_a_kernel_on_two_gpus_takes_four_screens(page, tmp_path):
    for name in (
        "matmul.cu",
        "matmul.toml",
    ):  # with matrices of a quarter of the size, which is an eighth of the work
        text = (EXAMPLES / name).read_text(encoding="utf-8").replace("256", "128")
        (tmp_path / name).write_text(text.replace("grid = [16, 16]", "grid = [8, 8]"), encoding="utf-8")
    make_report(
        tmp_path / "matmul.toml", tmp_path / "out.html", gpus=["h200", "accelsim-mdm"], models=["mdm", "warplens"]
    )
    opened(page, tmp_path / "out.html")
    assert page.evaluate("document.documentElement.scrollHeight") <= 4 * 900
    assert page.locator("section.kernel").count() == 2
    pair = page.locator(".pair").first.locator("figure")
    assert [each.inner_text() for each in pair.locator("h3").all()] == ["FLOP roofline", "Instruction roofline"]
    left, right = (each.bounding_box() for each in pair.all())
    assert left["y"] == right["y"] and left["x"] + left["width"] <= right["x"]


def test_all_figures_are_drawn(page, report):
    opened(page, report, unfolded=True)
    places = page.locator(".plot")
    assert places.count() >= 14
    expect(page.locator(".plot:not(:has(.main-svg))")).to_have_count(0)
    assert page.evaluate("window.hacked") is None
    assert page.locator("h2", has_text="<script>window.hacked").count() == 1
    # Nothing is wider than the window.
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_light_and_dark(page, report):
    page.emulate_media(color_scheme="dark")
    opened(page, report)

    def colours():
        axis = page.locator(".plot .xtick text").first
        return (
            page.evaluate("getComputedStyle(document.body).backgroundColor"),
            axis.evaluate("text => getComputedStyle(text).fill"),
        )

    dark = colours()
    page.get_by_role("button", name="Switch between light and dark").click()
    light = colours()
    assert dark == ("rgb(18, 22, 28)", "rgb(230, 237, 243)")
    assert light == ("rgb(255, 255, 255)", "rgb(31, 35, 40)")


def test_tables_open_on_demand(page, report):
    opened(page, report)
    details = page.locator(".pair figure details", has_text="Numbers").first
    assert not details.locator("table").is_visible()
    details.locator("summary").focus()
    page.keyboard.press("Enter")
    assert details.locator("table").is_visible()


def test_an_instruction_leads_to_its_line(page, report):
    opened(page, report)
    page.get_by_text("Source, line by line").first.click()
    page.get_by_text("Instructions (").first.click()
    page.locator("details table a", has_text="6").first.click()
    assert page.url.endswith("-line-6")
    assert "y[i] = a * x[i] + y[i];" in page.locator("tr:target").inner_text()


def test_a_narrow_window_and_paper(page, report, tmp_path):
    page.set_viewport_size({"width": 400, "height": 800})
    opened(page, report)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.pdf(path=tmp_path / "out.pdf", format="A4")
    assert (tmp_path / "out.pdf").stat().st_size > 50_000
