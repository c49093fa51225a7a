"""`warplens init`: a workload file for a source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from warplens.api import load_workload

SOURCE = (
    "__global__ void add(const float *a, float *b, int n)"
    " { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) b[i] += a[i]; }\n"
    "__global__ void stop(int *x) { __trap(); }\n"
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "add.cu"
    path.write_text(SOURCE)
    return path


def test_init_writes_a_file_that_runs(good, source):
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    text = good("init", str(source))
    assert "add.toml: add, runs" in text and "other kernels: stop" in text and "guessed: grid, block, a, b, n" in text
    assert all(len(line) <= 80 for line in text.splitlines() if str(source.parent) not in line)
    assert load_workload(source.with_suffix(".toml")).trace is not None


def test_init_says_what_it_guessed(good, source):
    document = json.loads(good("init", str(source), "--no-run", "--json"))
    assert document["kernels"] == ["add", "stop"] and document["runs"] is None
    assert {"key": "grid", "value": [4096]} in document["guesses"]
    good("init", str(source), "--no-run", "--kernel", "stop", "--output", str(source.with_name("second.toml")))
    assert 'name = "stop"' in source.with_name("second.toml").read_text()


def test_init_keeps_files_and_says_what_does_not_run(warplens_command, bad, usage, source):
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    code, out, err = warplens_command("init", source, "--kernel", "stop")
    assert code == 2 and "does not run yet" in out and "the kernel stops itself" in err
    assert "exists; give another name with -o" in usage("init", str(source))
    assert "no such file" in bad("init", "nothing.cu")
