"""The page says what `predict` says, and does not simulate caches again where only times change."""

from __future__ import annotations

import csv
import io
import time

import pytest

from warplens.api import compare, explain
from warplens.explanation.words import limit
from warplens.explanation.words import time as show_time
from warplens.web.app import Page
from warplens.web.errors import Cancelled

KERNEL = "suite:transpose_naive"
MODELS = ["roofline", "mwp-cwp", "gpumech", "mdm", "pipeline"]


@pytest.fixture(scope="module")
def page():
    made = Page()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("warplens.web.kernels.open_simulations", lambda: None)  # nothing is known from an earlier run
        yield made
    made.close()


def answer(page, machines, kernel=KERNEL, models=MODELS):
    parts: list = []
    visitor = page.visitors.get(None)
    document = {"kernel": kernel, "models": models, "machines": machines}
    page.parts(document, visitor, lambda: None, parts.append)
    return parts


def texts(tree) -> str:
    """The words of a tree of elements."""
    return tree if isinstance(tree, str) else "".join(texts(child) for child in tree[2])


def of_kind(parts, kind, machine=0):
    return [part for part in parts if part["type"] == kind and part.get("machine", 0) == machine]


def test_a_page_says_what_predict_says(page) -> None:
    changes = {"dram.bandwidth": 2e12, "l1.mshrs": 256, "scheduler": "lrr"}
    parts = answer(page, [{"gpu": "h200", "set": changes}, {"gpu": "mdm2020", "set": {}}])
    workload = page.kernels[KERNEL].load(None)
    for index, (gpu, overrides) in enumerate([("h200", changes), ("mdm2020", {})]):
        expected = compare(workload, [gpu], MODELS, overrides=overrides)
        (found,) = of_kind(parts, "predictions", index)
        assert found["predictions"] == [each.to_dict() for each in expected.predictions]
        views = {part["view"]: part for part in of_kind(parts, "view", index)}
        assert views.keys() == {"stacks", "roofline", "flops", "occupancy"}
        assert views.pop("flops")["message"] == "transpose_naive: does no floating-point arithmetic"
        assert all("figure" in part for part in views.values())
    (done,) = of_kind(parts, "done")
    rows = list(csv.DictReader(io.StringIO(done["csv"])))
    assert [(row["gpu"], row["model"]) for row in rows] == [
        (gpu, name) for gpu in ("h200", "mdm2020") for name in MODELS
    ]
    assert float(rows[0]["dram.bandwidth"]) == 2e12 and rows[-1]["dram.bandwidth"] == ""


def test_the_answer_and_its_advice_are_those_of_explain(page) -> None:
    machines = [{"gpu": "h200", "set": {}}]
    expected = explain(page.kernels[KERNEL].load(None), "h200")
    (said,) = of_kind(answer(page, machines), "answer")
    words = "".join(map(texts, said["nodes"]))
    assert show_time(expected.seconds) in words and limit(expected) in words
    parts: list = []
    page.advice({"kernel": KERNEL, "models": MODELS, "machines": machines}, page.visitors.get(None), lambda: None,
                parts.append)  # fmt: skip
    (advised,) = of_kind(parts, "advice")
    assert advised["answer"] == expected.to_dict()
    words = "".join(map(texts, advised["nodes"]))
    assert expected.advice and all(each.text in words and each.remedy in words for each in expected.advice)
    assert of_kind(parts, "progress")[-1]["text"] == "Looking for advice"
    assert parts[-1] == {"type": "done"}


def seconds_of_a_loop() -> float:
    """CPU time of a million turns of a plain loop: about 0.02 s on an idle core."""
    began = time.process_time()
    total = 0
    for turn in range(1_000_000):
        total += turn
    return time.process_time() - began


def test_times_bandwidths_and_clocks_need_no_cache_simulation_and_take_less_than_100_ms(page) -> None:
    answer(page, [{"gpu": "h200", "set": {}}])
    spent, loops = [], []
    changes = {"dram.latency": 400, "dram.bandwidth": 3e12, "noc.bandwidth": 4e12, "clock": 1.5e9, "l1.latency": 40}
    for key, value in (changes | {"llc.latency": 300}).items():
        began = time.process_time()  # of this process: other work on the machine does not count
        (done,) = of_kind(answer(page, [{"gpu": "h200", "set": {key: value}}]), "done")
        spent.append(time.process_time() - began)
        loops.append(seconds_of_a_loop())  # beside each answer: cores slow down while their neighbours are busy
        assert done["simulations"] == 0, key
    assert min(spent) < 5 * min(loops), (spent, loops)


def test_sizes_are_simulated_with_progress_and_then_known(page) -> None:
    machine = [{"gpu": "h200", "set": {"l1.size": 128 * 1024}}]
    first, again = answer(page, machine), answer(page, machine)
    assert "Simulating caches" in {part["text"] for part in of_kind(first, "progress")}
    assert of_kind(again, "done")[0]["simulations"] == 0


def test_a_kernel_says_how_far_its_run_is_and_can_be_stopped(page) -> None:
    parts: list = []

    def stopped() -> None:
        if parts and parts[-1].get("total", 0) > 1:
            raise Cancelled

    document = {"kernel": "suite:bandwidth", "models": ["mdm"], "machines": [{"gpu": "h200", "set": {}}]}
    with pytest.raises(Cancelled):
        page.parts(document, page.visitors.get(None), stopped, parts.append)
    told = {key: parts[-1][key] for key in ("type", "text", "total")}
    assert told == {"type": "progress", "text": "Running the thread blocks", "total": 1056}
    assert 0 <= parts[-1]["done"] < 1056


def test_a_curve_over_warps_does_not_depend_on_the_warps_chosen(page) -> None:
    def curve(parts):
        (found,) = [part for part in of_kind(parts, "view") if part["view"] == "occupancy"]
        return [(trace["x"], trace["y"]) for trace in found["figure"]["data"]]

    few = answer(page, [{"gpu": "h200", "set": {"launch.warps_per_sm": 16}}], models=["mdm", "roofline"])
    own = answer(page, [{"gpu": "h200", "set": {}}], models=["mdm", "roofline"])
    assert curve(few) == curve(own)
    (machine,) = of_kind(few, "machine")
    (row,) = [row for row in machine["controls"] if row["key"] == "launch.warps_per_sm"]
    assert (row["own"], row["value"]) == (64, 16)


def test_models_that_cannot_run_say_why(page) -> None:
    parts = answer(page, [{"gpu": "@file", "set": {}}], "papers:mdm-baseline", ["roofline", "mdm"])
    (found,) = of_kind(parts, "predictions")
    assert [each["model"] for each in found["predictions"]] == ["mdm"]
    assert [each["model"] for each in found["skipped"]] == ["roofline"]
    only = answer(page, [{"gpu": "@file", "set": {}}], "papers:mdm-baseline", ["roofline"])
    assert of_kind(only, "predictions")[0]["predictions"] == [] and of_kind(only, "done")


@pytest.mark.parametrize(
    "kernel", ["cuda:matmul", "papers:lemeire-example", "papers:wfg-case1", "suite:histogram_global"]
)
def test_kernels_of_every_kind_can_be_shown(page, kernel: str) -> None:
    gpu = "@file" if page.kernels[kernel].has_machine else "accelsim-mdm"
    (found,) = of_kind(answer(page, [{"gpu": gpu, "set": {}}], kernel), "predictions")
    (again,) = of_kind(answer(page, [{"gpu": gpu, "set": {}}], kernel, found["possible"]), "predictions")
    assert [each["model"] for each in again["predictions"]] == found["possible"] != []
