"""Predictions, stacks, comparisons and sweeps show themselves as figures, in text where nothing else is possible."""

import base64
import json
import re
import sys

import numpy as np
import pytest

import warplens
from warplens.reports.figures import batch_curve, sweep_curves

from .checks import check_view


def shown(result):
    """The bundle, checked as a notebook would take it: JSON, and a picture that is there."""
    bundle = result._repr_mimebundle_()
    json.dumps(bundle, allow_nan=False)
    assert bundle["text/plain"] == repr(result)
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', bundle["text/html"])[1]
    assert b"<svg" in base64.b64decode(data)
    return bundle


def test_a_prediction_and_its_stack():
    mdm = warplens.predict("mdm-baseline", model="mdm")
    figure = shown(mdm)["application/vnd.plotly.v1+json"]
    assert {trace.get("name") for trace in figure["data"]} >= {"MSHR", "QUEUE"}
    assert "CPI from 143 (mdm)" in shown(mdm)["text/html"]
    assert {trace.get("name") for trace in shown(mdm.stack)["application/vnd.plotly.v1+json"]["data"]} >= {"MSHR"}
    assert mdm.stack == dict(mdm.stack) and json.loads(json.dumps(mdm.stack)) == mdm.stack


def test_a_model_without_a_stack_has_its_cpi():
    shown(warplens.predict("lemeire-example", model="volkov"))


def test_a_batch_is_a_curve(tmp_path):
    batch = warplens.predict("mdm-baseline", model="mdm", overrides={"l1.mshrs": np.array([256, 16, 64])})
    shown(batch)
    view = batch_curve(batch)
    check_view(view, tmp_path)
    assert view.key == "l1.mshrs" and view.curves[0].values == (16.0, 64.0, 256.0)
    assert view.curves[0].ipc == tuple(np.asarray(batch.ipc)[[1, 2, 0]])
    assert batch.stack is not None and "text/html" not in batch.stack._repr_mimebundle_()
    changed = {"l1.mshrs": np.array([16, 64]), "sms": np.array([28, 56])}
    both = warplens.predict("mdm-baseline", model="mdm", overrides=changed)
    assert batch_curve(both).key == ""


def test_a_comparison_has_all_models():
    bundle = shown(warplens.compare("mdm-baseline"))
    assert "mdm-mshr" in bundle["text/html"]


def test_sweeps(tmp_path):
    one = warplens.sweep("mdm-baseline", None, {"l1.mshrs": [32, 64]}, models=["mdm", "gpumech"])
    shown(one)
    check_view(sweep_curves(one.table, "l1.mshrs", "mdm-baseline", ["mdm", "gpumech"]), tmp_path)
    two = warplens.sweep("mdm-baseline", None, {"l1.mshrs": [32, 64], "sms": [14, 28]}, models=["mdm"])
    assert shown(two)["application/vnd.plotly.v1+json"]["data"][0]["type"] == "heatmap"
    none = warplens.sweep("mdm-baseline", None, {"l1.mshrs": [32]}, models=["mdm"])
    assert none._repr_mimebundle_() == {"text/plain": repr(none)}


def test_names_are_escaped():
    from dataclasses import replace

    evil = replace(warplens.predict("mdm-baseline", model="mdm"), kernel='"><script>alert(1)</script>')
    assert "<script" not in shown(evil)["text/html"]


def test_without_matplotlib_there_are_words_and_plotly(monkeypatch):
    mdm = warplens.predict("mdm-baseline", model="mdm")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    bundle = mdm._repr_mimebundle_()
    assert bundle["text/html"].startswith("<p>mdm-baseline on mdm2020: CPI from 143")
    assert "application/vnd.plotly.v1+json" in bundle


def test_pickles_keep_their_kind():
    import pickle

    mdm = warplens.predict("mdm-baseline", model="mdm")
    copy = pickle.loads(pickle.dumps(mdm))
    assert copy == mdm and type(copy.stack) is type(mdm.stack)


@pytest.mark.parametrize("model", ["mdm", "gpumech"])
def test_a_stack_still_sums_to_the_cpi(model):
    made = warplens.predict("mdm-baseline", model=model)
    assert sum(made.stack.values()) == made.cpi
