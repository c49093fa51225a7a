"""`warplens report`: pages, pictures of single views, Perfetto, and what is refused."""

from __future__ import annotations

import json

import pytest

from .printed import document


def test_a_page_of_two_machines(good, tmp_path):
    page = tmp_path / "new" / "out.html"
    text = good("report", "mdm-baseline", "--gpu", "mdm2020", "--gpu", "mdm2019", "-o", page)
    assert "mdm-baseline on mdm2020: 15.5 µs; limited by DRAM bandwidth" in text
    assert f"page: {page}" in text.replace("\n", "")
    assert page.read_text().startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_one_view_is_a_picture(good, tmp_path, suffix):
    picture = tmp_path / f"roof.{suffix}"
    good("report", "mdm-baseline", "--view", "roofline", "--model", "mdm", "-o", picture)
    assert picture.stat().st_size > 5000


def test_stacks_of_several_kernels_are_one_picture(good, tmp_path):
    picture = tmp_path / "stacks.svg"
    good("report", "mdm-baseline", "gpumech-fig9", "--view", "stacks", "-o", picture)
    assert picture.exists()


def test_json_has_the_numbers_behind_every_view(good, tmp_path):
    found = document(good("report", "mdm-baseline", "--view", "stacks", "--view", "roofline", "--json",
                          "-o", tmp_path / "out.html"))  # fmt: skip
    (section,) = found["sections"]
    assert [view["view"] for view in section["views"]] == ["roofline", "stacks"]
    assert section["answer"] is None  # views alone were asked for
    assert found["output"].endswith("out.html")


def test_both_timelines_for_perfetto(good, tmp_path):
    trace = tmp_path / "trace.json"
    good("report", "saxpy", "--gpu", "mdm2020", "--model", "mdm", "--view", "timeline", "--simulate",
         "--perfetto", trace, "-o", tmp_path / "out.html")  # fmt: skip
    events = json.loads(trace.read_text())["traceEvents"]
    named = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert [name.partition(":")[0].partition(",")[0] for name in named] == [
        "reference simulator", "reference simulator", "Pipeline model", "Pipeline model",
    ]  # fmt: skip


def test_a_profile_is_a_line(good, tmp_path):
    profile = tmp_path / "ncu.csv"
    profile.write_text(
        '"ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'
        '"0","mdm-baseline(float *)","sm__cycles_elapsed.max","cycle","73278"\n'
    )
    text = good(
        "report",
        "mdm-baseline",
        "--profile",
        profile,
        "--model",
        "mdm",
        "--view",
        "stacks",
        "-o",
        tmp_path / "out.html",
    )
    assert "mdm is 50 % below" in text.replace("\n", " ")


def test_refusals(usage, bad, tmp_path):
    out = tmp_path / "out.png"
    assert "one view" in usage("report", "mdm-baseline", "-o", out)
    assert "pictures end in" in bad("report", "mdm-baseline", "-o", tmp_path / "out.gif")
    assert "no view is named 'roofs'; did you mean 'roofline'" in bad(
        "report", "mdm-baseline", "--view", "roofs", "-o", out
    )
    assert "needs a trace or a CUDA source" in usage("report", "mdm-baseline", "--view", "source", "-o", out)
    assert "2 views are named intervals" in usage(
        "report", "mdm-baseline", "gpumech-fig9", "--view", "intervals", "-o", out
    )
    assert "match no kernel" in usage("report", "mdm-baseline", "--kernel", "other", "-o", tmp_path / "out.html")
    assert "cannot be read as text" in bad(
        "report", "mdm-baseline", "--source", tmp_path / "absent.cu", "-o", tmp_path / "out.html"
    )
    assert "--perfetto: needs the timeline" in usage(
        "report", "mdm-baseline", "--perfetto", tmp_path / "t.json", "-o", tmp_path / "out.html"
    )
    assert "no such file" in bad("report", tmp_path / "absent.parquet", "-o", tmp_path / "out.html").lower()
