"""What is kept, and what is predicted anew."""

from __future__ import annotations

import pytest

from warplens.gate import predicting
from warplens.gate.predicting import snapshots, take
from warplens.machine import load_gpu, with_overrides

from .making import LAUNCH, SCALE


@pytest.fixture
def kernel(tmp_path, monkeypatch):
    monkeypatch.setenv("WARPLENS_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "first"
    folder.mkdir()
    (folder / "scale.cu").write_text(SCALE)
    (folder / "scale.toml").write_text(LAUNCH)
    return folder / "scale.toml"


@pytest.fixture
def predicted(monkeypatch):
    """Workloads that were run."""
    found = []
    real = predicting.load_workloads
    monkeypatch.setattr(
        predicting, "load_workloads", lambda *given, **how: found.append(given) or real(*given, **how)
    )
    return found


def test_the_same_kernel_is_predicted_once_wherever_it_lies(kernel, predicted, tmp_path):
    gpu = load_gpu("h200")
    (first,) = take(kernel, kernel.parent, gpu)
    assert first.lines[0].text == "out[i] = factor * in[i];"
    moved = kernel.parent.rename(tmp_path / "second") / "scale.toml"
    source = moved.with_name("scale.cu")
    source.write_text(SCALE.replace("in[i];", "in[i];  // the product"))
    (second,) = take(moved, tmp_path, gpu)
    assert len(predicted) == 1
    assert (second.identity.path, second.source) == ("second/scale.toml", "second/scale.cu")
    assert second.timing == first.timing
    assert second.lines[0].text == "out[i] = factor * in[i];  // the product"
    for change in ("262144]\nfill", "value = 2.0"):
        moved.write_text(LAUNCH.replace(change, change.replace("2", "3", 1)))
        take(moved, tmp_path, gpu)
    take(moved, tmp_path, with_overrides(gpu, {"sms": 100}))
    assert len(predicted) == 4


def test_all_inputs_on_all_gpus_in_order(kernel):
    found = snapshots([kernel], [load_gpu("h200"), load_gpu("a100")], kernel.parent)
    assert [each.gpu for each in found] == ["h200", "a100-40gb"]
    assert found[0].counts["warps per SM"] == 64.0
