"""`warplens compare`: two versions of a kernel."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

import warplens
from warplens.explanation import words

from .printed import document
from .test_answers import LAUNCH, TRANSPOSE

TILED = """\
extern "C" __global__ void transpose(int n, const float *in, float *out)
{
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        tile[threadIdx.y + k][threadIdx.x] = in[(y + k) * n + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += 8)
        out[(y + k) * n + x] = tile[threadIdx.x][threadIdx.y + k];
}
"""


@pytest.fixture(scope="module")
def versions(tmp_path_factory):
    folder = tmp_path_factory.mktemp("versions")
    for name, source, grid in (("naive", TRANSPOSE, "[16, 64]"), ("tiled", TILED, "[16, 16]")):
        (folder / f"{name}.cu").write_text(source)
        launch = LAUNCH.replace("transpose.cu", f"{name}.cu").replace("[16, 64]", grid)
        (folder / f"{name}.toml").write_text(launch)
    return folder / "naive.toml", folder / "tiled.toml"


@pytest.fixture(scope="module")
def comparison(versions):
    return warplens.compare_versions(*versions, "h200")


def test_the_verdict_comes_first_and_causes_counts_and_advice_follow(good, versions):
    text = good("compare", *versions, "--gpu", "h200")
    first, *lines = text.splitlines()
    assert re.fullmatch(r"B is [\d.]+× faster than A on h200 \([\d.]+ to [\d.]+×\): [\d.]+ → [\d.]+ µs", first)
    assert max(map(len, lines)) <= 80
    assert re.search(r"^network to the L2 .* -\d+ %$", text, re.M)
    assert re.search(r"^sectors asked of the L1 +294\N{THIN SPACE}912 +65\N{THIN SPACE}536 +-78 %$", text, re.M)
    assert re.search(r"^load_shared +– +8192 +new$", text, re.M)
    assert "advice gone: uncoalesced-stores: " in text


def test_the_way_back_is_slower_and_its_advice_new(good, versions):
    text = good("compare", *reversed(versions), "--gpu", "h200")
    assert re.match(r"B is [\d.]+× slower than A on h200 \([\d.]+ to [\d.]+×\): ", text)
    assert "advice new: uncoalesced-stores: " in text


def test_json_has_everything(good, versions, comparison):
    found = document(good("compare", *versions, "--gpu", "h200", "--json"))
    assert list(found) == ["schema", "version", "comparisons"]
    (one,) = found["comparisons"]
    assert one["speedup_low"] < one["speedup"] < one["speedup_high"] and one["significant"] is True
    assert sum(each["before"] for each in one["causes"]) == pytest.approx(one["before"]["seconds"])
    assert sum(each["after"] for each in one["causes"]) == pytest.approx(one["after"]["seconds"])
    assert "uncoalesced-stores" in one["advice_gone"] and "uncoalesced-stores" not in one["advice_new"]
    assert one["speedup"] == pytest.approx(comparison.speedup)


def test_counts_are_those_of_the_whole_launch(comparison):
    counts = {each.name: (each.before, each.after) for each in comparison.counts}
    assert counts["store_global"] == counts["load_global"] == (8192, 8192)
    assert counts["thread blocks"] == (1024, 256)
    assert counts["sectors asked of the L1"] == (8192 * 36, 8192 * 8)


def test_a_kernel_does_not_differ_from_itself(good, versions):
    naive, _ = versions
    text = good("compare", naive, naive, "--gpu", "h200")
    assert re.match(r"B takes as long as A on h200: [\d.]+ µs\n", text)
    assert "counts that changed" not in text and "advice that stays: " in text


def test_lines_match_by_text(comparison):
    from warplens.explanation import Line
    from warplens.explanation.versions import _line_changes

    before = replace(comparison.before, lines=(Line("a.cu", 3, 0.5, "x = y;"), Line("a.cu", 9, 0.25, "old();")))
    after = replace(comparison.after, lines=(Line("b.cu", 4, 0.5, "x = y;"), Line("b.cu", 5, 0.5, "")))
    found = {(change.before and change.before.line, change.after and change.after.line) for change in
             _line_changes(before, after)}  # fmt: skip
    assert found == {(3, 4), (9, None), (None, 5)}


def test_a_model_without_a_range_says_so(good):
    text = " ".join(good("compare", "mb4-coalesced", "mb4-uncoalesced").split())
    assert text.startswith("B is ") and "the model gives no range" in text
    assert "mwp-cwp-corrected answers" in text


def test_several_launches_must_be_chosen_from(usage, bad, versions):
    assert "match no kernel" in usage("compare", *versions, "--gpu", "h200", "--kernel", "nothing")
    assert "names no machine" in bad("compare", *versions)


def test_a_verdict_is_one_sentence(comparison):
    unsure = replace(comparison, speedup_low=0.9)
    assert words.verdict(unsure).startswith("No difference that the model can tell on h200: B is ")
