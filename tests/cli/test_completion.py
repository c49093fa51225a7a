"""Names that the shell completes, and commands that install what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from warplens import errors, gpu_names
from warplens.cli import cli
from warplens.explanation import RULES
from warplens.models import MODELS
from warplens.suite.catalog import SUITE
from warplens.suite.execution import write_trace
from warplens.traces import TraceWriter

from .printed import document


def completed(*words, incomplete=""):
    found = ShellComplete(cli, {}, "warplens", "_WARPLENS_COMPLETE").get_completions(list(words), incomplete)
    return {item.value for item in found if item.type == "plain"}


def test_gpus_models_rules_kernels_and_examples_complete():
    assert completed("predict", "--gpu") == set(gpu_names())
    assert completed("gpus", incomplete="h2") == {"h200"}
    assert completed("predict", "--model") == {*MODELS, "all"}
    assert completed("sweep", "--model", incomplete="gpumech-m") == {"gpumech-mt", "gpumech-mt-mshr"}
    assert completed("models", incomplete="war") == {"warplens"}
    assert completed("models", "--rules") == {*RULES}
    assert completed("suite", "run") == set(SUITE)
    assert "saxpy" in completed("compare", "matmul", incomplete="sax")


def test_kernels_of_traces_complete(tmp_path):
    trace, damaged = tmp_path / "vector_add.wlt", tmp_path / "damaged.wlt"
    with TraceWriter(trace) as writer:
        write_trace("vector_add", "small", writer)
    damaged.write_bytes(b"no trace")
    assert completed("predict", str(trace), str(damaged), "--kernel") == {"vector_add"}
    assert completed("predict", str(trace), "--kernel", incomplete="x") == set()


def test_every_rule_is_listed_and_explained(good, bad):
    text = good("models", "--rules")
    assert max(map(len, text.splitlines())) <= 80
    for name, rule in RULES.items():
        assert f"\n{name} " in f"\n{text}" and rule.title in " ".join(text.split()), name
    one = good("models", "--rules", "bank-conflicts")
    assert "do: Pad rows" in one and "docs/guide/advice.md#bank-conflicts" in one
    assert "no rule is named 'bank-conflict'; did you mean 'bank-conflicts'" in bad(
        "models", "--rules", "bank-conflict"
    )
    found = document(good("models", "--rules", "--json"))
    assert [row["name"] for row in found["rules"]] == sorted(RULES)
    assert all(list(row) == ["name", "title", "remedy", "cost"] for row in found["rules"])


@pytest.mark.parametrize(
    ("extra", "checkout", "wheel"),
    [("web", "'.[web]'", "'warplens[web]'"), ("", "'./studies'", "warplens-studies")],
)
def test_what_is_missing_is_installed_from_where_warplens_comes(monkeypatch, tmp_path, extra, checkout, wheel):
    monkeypatch.setattr(errors, "__file__", str(tmp_path / "src" / "warplens" / "errors.py"))
    assert errors.install_command(extra) == f"python -m pip install {wheel}"
    (tmp_path / "pyproject.toml").touch()
    assert errors.install_command(extra) == f"python -m pip install {checkout.replace('.', str(tmp_path), 1)}"
    monkeypatch.chdir(tmp_path)
    assert errors.install_command(extra) == f"python -m pip install {checkout}"
    assert Path.cwd() == tmp_path
