"""The interactive page in a real browser."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from warplens.api import load_workload
from warplens.web.server import PageServer
from web.serving import running_page

SOURCE = """extern "C" __global__ void twice(float *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= 2;
}
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PageServer]:
    with running_page() as found:
        yield found


@pytest.fixture
def opened(page: Page, server: PageServer) -> Page:
    """The page with its first answer."""
    page.goto(server.url)
    answered(page, 1)
    return page


def answered(page: Page, least: int) -> None:
    """Wait for an answer; scripts in texts are forbidden on the page, so an attribute tells."""
    page.wait_for_selector("html[data-answered]", state="attached")
    expect(page.locator("#results")).to_have_attribute("aria-busy", "false")
    assert count(page) >= least


def count(page: Page) -> int:
    return int(page.locator("html").get_attribute("data-answered") or 0)


def after(page: Page, action) -> None:
    """Do something that asks a question, and wait for its answer."""
    before = count(page)
    action()
    page.wait_for_selector(f"html:not([data-answered='{before}'])", state="attached")
    answered(page, before + 1)


def numbers(page: Page, machine: int = 0) -> dict[str, str]:
    rows = page.locator(".column").nth(machine).locator(".predictions tbody tr")
    return {row.locator("th").text_content(): row.locator("td").first.text_content() for row in rows.all()}


def unfold(page: Page) -> None:
    """Open what is for model researchers."""
    for fold in page.locator(".research").all():
        if fold.get_attribute("open") is None:
            fold.locator("summary").click()


def advised(page: Page) -> None:
    """Wait for advice on what is shown."""
    page.wait_for_selector("html[data-advised]", state="attached")
    expect(page.locator("#progress")).to_be_hidden()


def fits(page: Page) -> bool:
    """Whether nothing sticks out to the right."""
    return page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_the_first_page_answers_before_it_shows_models(opened: Page) -> None:
    card = opened.locator(".column .verdict-card")
    assert re.match(r"[\d.]+ µs [\d.]+ to [\d.]+ µs\n+Limited by ", card.locator(".said").inner_text())
    assert opened.locator(".meters > div").count() == 5
    expect(opened.locator(".time-bar")).to_be_visible()
    expect(opened.locator(".plot[data-view=roofline] .main-svg").first).to_be_visible()
    assert set(numbers(opened)) >= {"roofline", "mwp-cwp", "gpumech", "mdm"}
    expect(opened.locator(".predictions")).to_be_hidden()
    unfold(opened)
    for view in ("stacks", "occupancy"):
        expect(opened.locator(f".plot[data-view={view}] .main-svg").first).to_be_visible()
    expect(opened.locator("#banner")).to_be_hidden()
    assert fits(opened)


def test_advice_names_the_rule_the_gain_and_the_lines(opened: Page) -> None:
    advised(opened)
    first = opened.locator(".advised li").first
    expect(first).to_have_attribute("data-rule", "uncoalesced-loads")
    expect(first.locator(".gain b")).to_have_text(re.compile(r"^\d+(\.\d+)?×$"))
    expect(first.locator(".place").first).to_have_text("transpose.cu:7")
    expect(first.locator("code").first).to_contain_text("output[")
    expect(first).to_contain_text("Do: ")
    hot = opened.locator(".hot tr").first
    expect(hot.locator(".place")).to_have_text("transpose.cu:7")
    expect(hot.locator(".does")).to_contain_text("sectors")


def test_results_are_outdated_the_moment_an_input_changes(opened: Page) -> None:
    mark, field = opened.locator("#outdated"), opened.locator("#dram-bandwidth-0")
    expect(mark).to_be_hidden()
    own = field.input_value()
    field.press("End")
    field.press("1")  # nothing is asked yet
    assert mark.is_visible()
    expect(opened.locator("#columns")).to_have_class(re.compile("stale"))
    field.press("Backspace")
    assert field.input_value() == own
    field.blur()
    expect(mark).to_be_hidden()
    opened.select_option("#kernel", "suite:vector_add")
    assert mark.is_visible()
    expect(mark).to_be_hidden()


def test_sliders_move_the_predictions_and_go_back(opened: Page) -> None:
    first = numbers(opened)
    slider = opened.locator("#machine-0 input[data-key='dram.bandwidth']")
    after(opened, lambda: slider.press("Home"))
    assert numbers(opened)["roofline"] != first["roofline"]
    expect(opened.locator(".changes").first).to_contain_text("DRAM bandwidth")
    assert "dram.bandwidth~" in opened.url
    after(opened, lambda: opened.get_by_role("button", name="Reset DRAM bandwidth").click())
    assert numbers(opened) == first


def test_caches_are_simulated_again_for_other_machines(opened: Page) -> None:
    first = numbers(opened)
    field = opened.locator("#sms-0")
    field.fill("16")
    after(opened, lambda: field.press("Enter"))
    assert numbers(opened)["mdm"] != first["mdm"]


def test_a_kernel_a_gpu_and_models_are_chosen(opened: Page) -> None:
    after(opened, lambda: opened.select_option("#kernel", "papers:mdm-baseline"))
    before = set(numbers(opened))
    assert before >= {"gpumech", "mdm"} and "roofline" not in before
    expect(opened.locator(".notes").first).to_contain_text("roofline cannot run")
    opened.locator("#models-box summary").click()
    after(opened, lambda: opened.get_by_label("mdm-queue", exact=True).check())
    assert set(numbers(opened)) == before | {"mdm-queue"}
    after(opened, lambda: opened.select_option("#gpu-0", "accelsim-mdm"))
    expect(opened.locator(".column h2")).to_have_text("accelsim-mdm")


def test_models_that_can_are_offered(opened: Page) -> None:
    after(opened, lambda: opened.select_option("#kernel", "papers:wfg-case1"))
    after(opened, lambda: opened.get_by_role("button", name="Choose those that can").click())
    assert set(numbers(opened)) == {"wfg", "wfg-corrected"}


def test_two_machines_stand_side_by_side(opened: Page) -> None:
    after(opened, lambda: opened.click("#compare"))
    field = opened.locator("#dram-bandwidth-1")
    field.fill("1000")
    after(opened, lambda: field.press("Enter"))
    columns = opened.locator(".column")
    expect(columns).to_have_count(2)
    left, right = (columns.nth(index).bounding_box() for index in (0, 1))
    assert left and right and left["y"] == right["y"] and left["x"] + left["width"] < right["x"]
    expect(opened.locator("#verdict")).to_contain_text("slower roofline")
    assert numbers(opened, 0)["roofline"] != numbers(opened, 1)["roofline"]
    after(opened, lambda: opened.click("#compare"))
    expect(columns).to_have_count(1)


def test_an_address_is_a_state(page: Page, server: PageServer) -> None:
    page.goto(f"{server.url}#kernel=papers:mdm-baseline&models=mdm&gpu=@file&set=l1.mshrs~256&gpu2=mdm2019")
    answered(page, 1)
    expect(page.locator("#l1-mshrs-0")).to_have_value("256")
    assert page.locator(".column h2").all_inner_texts() == ["A: mdm2020", "B: mdm2019"]
    shared = page.url
    page.goto("about:blank")
    page.goto(shared)
    answered(page, 1)
    expect(page.locator("#l1-mshrs-0")).to_have_value("256")


def test_wrong_addresses_are_explained_at_the_field(opened: Page, server: PageServer) -> None:
    opened.on("dialog", lambda dialog: pytest.fail("a script of the address ran"))
    for fragment, place, words in (
        ("kernel=%3Cimg%20src=x%20onerror=alert(1)%3E", "kernel", "unknown"),
        ("kernel=own:123", "kernel", "paste it again"),
        ("models=%3Cscript%3Ealert(1)%3C/script%3E", "models", "no model"),
        ("gpu=../../etc/passwd", "machines.0.gpu", "no machine"),
        ("gpu=h200&set=l1.size~1000", "machines.0.set.l1.size", "multiple"),
        ("gpu=h200&set=sms~1e30", "machines.0.set.sms", "is more than 1024"),
        ("gpu=h200&set=sms~many", "machines.0.set.sms", "not a number"),
    ):
        opened.goto(f"{server.url}#{fragment}")
        expect(opened.locator(f"#controls [data-error='{place}']")).to_contain_text(words)
        assert opened.locator(".error:visible").count() == 1
    opened.goto(f"{server.url}#gpu=h200&set=warp_size~1")  # there is no field for that
    expect(opened.locator("#banner")).to_contain_text("no parameter of the page")


def test_an_error_is_shown_at_its_field_until_it_is_mended(opened: Page) -> None:
    field, error = opened.locator("#sms-0"), opened.locator("[data-error='machines.0.set.sms']")
    field.fill("1.5")
    field.press("Enter")
    expect(error).to_have_text("is not a whole number")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(opened.locator(".columns")).to_have_class(re.compile("stale"))
    field.fill("66")
    after(opened, lambda: field.press("Enter"))
    expect(error).to_be_hidden()
    expect(opened.locator(".columns")).not_to_have_class(re.compile("stale"))


def test_a_pasted_kernel_is_predicted(opened: Page) -> None:
    opened.click("#open-upload")
    opened.fill("#source", SOURCE.replace("*= 2", "*= two"))
    expect(opened.locator(".argument")).to_have_count(2)
    opened.get_by_label("grid x").fill("64")
    opened.click("#run")
    expect(opened.locator("#source-error")).to_have_text('kernel.cu:5: identifier "two" is undefined')
    opened.fill("#source", SOURCE)
    expect(opened.locator("#source-error")).to_be_hidden()
    after(opened, lambda: opened.click("#run"))
    expect(opened.locator("#kernel option:checked")).to_have_text("twice")
    expect(opened.locator("#kernel-text")).to_have_text("64×1×1 blocks of 256×1×1 threads")
    assert "mdm" in numbers(opened)


def test_templates_and_structs_have_fields(opened: Page) -> None:
    opened.click("#open-upload")
    opened.fill(
        "#source",
        "#include <cuda/pipeline>\nstruct Span { float *data; int size; };\n"
        "template <typename T, int TIMES> __global__ void scale(T *x, Span out)\n"
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < out.size) out.data[i] = (float)(TIMES * x[i]); }",
    )
    expect(opened.locator(".argument")).to_have_count(3)
    opened.get_by_label("grid x").fill("16")
    opened.get_by_label("typename T").fill("double")
    expect(opened.get_by_label("type of x")).to_have_value("float64")
    opened.get_by_label("TIMES").fill("3")
    expect(opened.get_by_label("elements of out.data")).to_have_value("4096")
    opened.get_by_label("value of out.size").fill("4000")
    after(opened, lambda: opened.click("#run"))
    expect(opened.locator("#kernel option:checked")).to_have_text("scale<double, 3>")


def test_kernels_that_are_not_ready_keep_nobody_waiting(page: Page, tmp_path: Path) -> None:
    """An input is run when it is chosen: one that cannot be compiled does not stop the others."""
    broken = tmp_path / "broken.toml"
    broken.write_text('[cuda]\ncode = "__global__ void broken() { no; }"\ngrid = [1]\nblock = [32]\n')
    with running_page(inputs=["mdm-baseline", str(broken)]) as server:
        page.goto(server.url)
        answered(page, 1)
        expect(page.locator(".verdict-card")).to_contain_text("Limited by DRAM bandwidth")
        page.select_option("#kernel", "input:1")
        page.select_option("#gpu-0", "h200")
        expect(page.locator("#kernel-error")).to_contain_text('identifier "no" is undefined')


def test_a_shared_address_brings_its_kernel_and_runs_nothing(opened: Page, server: PageServer, browser) -> None:
    opened.click("#open-upload")
    opened.fill("#source", SOURCE + "// größer")
    expect(opened.locator(".argument")).to_have_count(2)
    opened.get_by_label("grid x").fill("32")
    opened.get_by_label("elements of x").fill("8192")
    opened.get_by_label("what x holds").select_option("arange")
    opened.get_by_label("value of n").fill("8000")
    after(opened, lambda: opened.click("#run"))
    found, shared = numbers(opened), opened.url
    opened.reload()  # the same visitor has it already
    answered(opened, 1)
    expect(opened.locator("#upload")).to_be_hidden()
    assert numbers(opened) == found
    other = browser.new_context().new_page()
    other.goto(shared)
    answered(other, 1)
    expect(other.locator("#upload-status")).to_contain_text("look at it before it is run")
    expect(other.locator("#kernel option", has_text="twice")).to_have_count(0)
    assert other.locator("#source").input_value() == SOURCE + "// größer"
    assert other.get_by_label("elements of x").input_value() == "8192"
    assert other.get_by_label("what x holds").input_value() == "arange"
    assert other.get_by_label("value of n").input_value() == "8000"
    after(other, lambda: other.click("#run"))
    expect(other.locator("#kernel-text")).to_have_text("32×1×1 blocks of 256×1×1 threads")
    assert numbers(other) == found
    other.context.close()
    opened.goto(f"{server.url}#kernel=own:123&own=cut")
    expect(opened.locator("#controls [data-error='kernel']")).to_contain_text("paste it again")


def test_a_file_is_opened_and_an_include_refused(opened: Page, tmp_path: Path) -> None:
    path = tmp_path / "kernel.cu"
    path.write_text('#include "/etc/passwd"\n' + SOURCE)
    opened.click("#open-upload")
    opened.set_input_files("#file", path)
    expect(opened.locator("#source-error")).to_contain_text("only headers that come with the compiler")
    path.write_text("x" * 100_000)
    opened.set_input_files("#file", path)
    expect(opened.locator("#source-error")).to_contain_text("larger than 64 KiB")
    opened.keyboard.press("Escape")
    expect(opened.locator("#upload")).to_be_hidden()


def test_data_can_be_downloaded(opened: Page) -> None:
    advised(opened)
    with opened.expect_download() as waiting:
        opened.click("#download-csv")
    rows = list(csv.DictReader(Path(waiting.value.path()).read_text().splitlines()))
    assert {row["model"] for row in rows} == set(numbers(opened))
    with opened.expect_download() as waiting:
        opened.click("#download-json")
    document = json.loads(Path(waiting.value.path()).read_text())
    assert [each["model"] for each in document["predictions"]] == list(numbers(opened))
    assert document["answers"][0]["advice"][0]["rule"] == "uncoalesced-loads"
    assert document["state"]["kernel"] == "suite:transpose_naive"


def test_the_keyboard_is_enough(opened: Page) -> None:
    opened.keyboard.press("Tab")
    expect(opened.locator(".skip")).to_be_focused()
    seen = []
    for _ in range(9):
        opened.keyboard.press("Tab")
        seen.append(opened.evaluate("document.activeElement.id || document.activeElement.tagName"))
    assert seen == [
        "share",
        "download-csv",
        "download-json",
        "theme",
        "kernel",
        "open-upload",
        "gpu-0",
        "SUMMARY",
        "sms-0",
    ]
    slider = opened.locator("#machine-0 input[data-key='clock']")
    slider.focus()
    before = numbers(opened)
    after(opened, lambda: opened.keyboard.press("ArrowLeft"))
    assert numbers(opened) != before
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"\d+ MHz"))
    opened.locator("#open-upload").focus()
    opened.keyboard.press("Enter")
    expect(opened.locator("#upload")).to_be_visible()
    opened.keyboard.press("Escape")
    expect(opened.locator("#open-upload")).to_be_focused()


def test_every_control_has_a_name(opened: Page) -> None:
    nameless = opened.evaluate(
        """() => [...document.querySelectorAll('input, select, textarea, button')]
        .filter((each) => !(each.labels?.length || each.getAttribute('aria-label') || each.textContent.trim()))
        .map((each) => each.outerHTML)"""
    )
    assert nameless == []


def test_windows_of_all_widths_hold_the_page(opened: Page) -> None:
    after(opened, lambda: opened.click("#compare"))
    unfold(opened)
    for width in (360, 768, 1000, 1920):
        opened.set_viewport_size({"width": width, "height": 740})
        opened.wait_for_timeout(500)  # figures follow a moment later
        assert fits(opened), width
        for figure in opened.locator(".view:visible").all():  # each box holds its figure
            outer, inner = figure.bounding_box(), figure.locator(".main-svg").first.bounding_box()
            assert outer and inner and inner["y"] + inner["height"] <= outer["y"] + outer["height"]
        opened.click("#open-upload")
        opened.click("#example")
        expect(opened.locator(".argument")).to_have_count(4)
        box = opened.locator("#upload").bounding_box()
        assert box and box["x"] >= 0 and box["x"] + box["width"] <= width
        opened.keyboard.press("Escape")


def test_light_and_dark(opened: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light = opened.evaluate(ground)
    opened.click("#theme")
    assert opened.evaluate(ground) != light
    colour = opened.locator(".plot[data-view=roofline] .xtick text").first.evaluate(
        "each => getComputedStyle(each).fill"
    )
    assert colour == "rgb(227, 231, 234)"


def test_work_can_be_stopped(opened: Page) -> None:
    opened.select_option("#kernel", "suite:kmeans_assign")
    opened.locator("#stop").click()
    expect(opened.locator("#status")).to_have_text("stopped")
    expect(opened.locator("#progress")).to_be_hidden()
    after(opened, lambda: opened.select_option("#kernel", "papers:mdm-baseline"))
    assert "mdm" in numbers(opened)


def test_a_script_in_the_name_of_a_kernel_stays_text(page: Page) -> None:
    name = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    page.on("dialog", lambda dialog: pytest.fail("the name ran"))
    evil = dataclasses.replace(load_workload("mdm-baseline"), name=name, description=name)
    with running_page(inputs=[evil]) as server:
        page.goto(server.url)
        answered(page, 1)
        expect(page.locator("#kernel option:checked")).to_have_text(name)
        expect(page.locator(".stacks figcaption")).to_contain_text(name)
        unfold(page)
        page.locator(".plot[data-view=occupancy] .nsewdrag").hover()
        assert page.locator("img").count() == 1  # the logo
