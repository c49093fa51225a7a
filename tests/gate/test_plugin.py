"""Claims in a project's own tests."""

from __future__ import annotations

import subprocess
import sys

import pytest

from warplens.errors import InputError
from warplens.gate.check import scope_of, update_baseline
from warplens.gate.project import load_project
from warplens.pytest_plugin import CheckedKernel

from .making import STRIDED, make_project


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    folder = make_project(tmp_path_factory.mktemp("claims"))
    project = load_project(folder)
    return CheckedKernel(project, folder / "kernels" / "scale.toml")


def test_a_limit_holds_or_says_why_not(kernel):
    assert kernel.faster_than("1ms", gpu="h200")
    claim = kernel.faster_than("1ns", gpu="h200")
    assert not claim
    assert repr(claim).startswith("<fails: scale takes ")
    assert repr(claim).endswith("on h200, the limit is 1 ns>")
    with pytest.raises(ValueError, match="expected a number such as 12us"):
        kernel.faster_than("1 furlong", gpu="h200")


def test_the_baseline_is_kept(kernel):
    claim = kernel.not_slower_than_baseline
    update_baseline(scope_of(kernel.project), kernel.project.root / kernel.project.baseline)
    assert claim(gpu="h200")
    assert "has no scale on a100-40gb; run `warplens check --update --gpu a100-40gb`" in repr(claim(gpu="a100"))
    source = kernel.path.with_suffix(".cu")
    before = source.read_text()
    source.write_text(STRIDED)
    assert repr(claim(gpu="h200")).startswith("<fails: scale is ")
    assert claim(gpu="h200", fail_above="1000%")
    source.write_text(before)


def test_a_kernel_that_is_not_there_is_named(kernel):
    with pytest.raises(InputError, match=r"has 1 launches \(scale\); name one"):
        CheckedKernel(kernel.project, kernel.path, "other").seconds("h200")


def test_the_plugin_costs_other_tests_nothing():
    code = "import sys, warplens.pytest_plugin; print([name for name in ('numpy', 'numba') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
