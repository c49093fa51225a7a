"""`warplens suite` and `warplens validate suite` as users type them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import pytest

from warplens.suite.catalog import SIZES, SUITE
from warplens.traces import read_trace

FEW = ("vector_add", "stencil_3d", "matmul_tensor")


def test_list(good):
    text = good("suite", "list")
    assert all(name in text for name in SUITE)
    document = json.loads(good("suite", "list", "--json"))
    assert [row["name"] for row in document["kernels"]] == list(SUITE)
    hotspot = document["kernels"][0]
    assert list(hotspot["sizes"]) == list(SIZES)
    assert hotspot["sizes"]["small"] == {"width": 50, "height": 40}
    assert hotspot["group"] == "non-divergent" and hotspot["source"] == "hotspot.cu"


def test_run(good):
    text = good("suite", "run", *FEW)
    assert "3 of 3 kernels give NumPy's result" in text
    document = json.loads(good("suite", "run", *FEW, "vector_add", "--json"))
    assert document["size"] == "small"
    assert [row["name"] for row in document["kernels"]] == list(FEW)
    first = document["kernels"][0]
    assert first["ok"] and first["max_ulps"] == 0 and first["problems"] == []
    assert first["blocks"] == first["grid"][0] == 79
    assert first["warp_instructions"] <= first["thread_instructions"] <= 32 * first["warp_instructions"]
    rate = first["thread_instructions"] / first["seconds"]
    assert first["thread_instructions_per_second"] == pytest.approx(rate)


def test_a_wrong_result_fails(warplens_command, monkeypatch):
    kernel = SUITE["vector_add"]
    wrong = replace(kernel, reference=lambda launch: {2: kernel.reference(launch)[2] + 1})
    monkeypatch.setitem(SUITE, "vector_add", wrong)
    code, out, _ = warplens_command("suite", "run", "vector_add", "stencil_3d")
    assert code == 1
    assert "wrong" in out and "1 of 2 kernels" in out and "20000 of 20000 elements differ" in out
    code, out, _ = warplens_command("suite", "run", "vector_add", "--json")
    assert code == 1
    (row,) = json.loads(out)["kernels"]
    assert not row["ok"] and len(row["problems"]) == 1


def test_unknown_kernel(warplens_command):
    code, _, err = warplens_command("suite", "run", "vectoradd")
    assert code == 2
    assert "no kernel of the suite is called 'vectoradd'; did you mean 'vector_add'" in err


def test_trace(good, warplens_command, tmp_path):
    document = json.loads(good("suite", "trace", *FEW, "-o", tmp_path / "all.wlt", "--json"))
    launches = read_trace(tmp_path / "all.wlt")
    assert [launch.header.kernel for launch in launches] == list(FEW)
    assert document["files"] == {str(tmp_path / "all.wlt"): (tmp_path / "all.wlt").stat().st_size}
    text = good("suite", "trace", *FEW, "-o", tmp_path / "folder")
    assert all(f"{name}.wlt" in text for name in FEW)
    files = sorted((tmp_path / "folder").iterdir())
    assert [path.name for path in files] == sorted(f"{name}.wlt" for name in FEW)
    counted = sum(group.instructions for group in launches[0].groups())
    assert counted == document["kernels"][0]["warp_instructions"]
    for place in ("all.wlt", "folder"):
        code, _, err = warplens_command("suite", "trace", *FEW, "-o", tmp_path / place)
        assert code == 2 and "exists; give another name, or --force" in err
        good("suite", "trace", "vector_add", "-o", tmp_path / place, "--force")
    assert len(read_trace(tmp_path / "all.wlt")) == 1
    (tmp_path / "file").touch()
    code, _, err = warplens_command("suite", "trace", "bfs", "-o", tmp_path / "file")
    assert code == 2 and "is not a folder" in err


def test_validate_suite(good, warplens_command, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- validate: suite results small -->\nold\n<!-- /validate -->\nafter\n")
    code, _, err = warplens_command("validate", "suite", "--kernel", "svm", "--markdown", page, "-o", tmp_path)
    assert code == 2 and "--markdown needs all kernels" in err
    code, _, err = warplens_command("validate", "suite", "--model", "mdm", "-o", tmp_path)
    assert code == 2 and "suite runs no model" in err
    code, _, err = warplens_command("validate", "suite", "--kernel", "nosuch", "-o", tmp_path)
    assert code == 2 and "no kernel matches 'nosuch'" in err
    text = good("validate", "suite", "--kernel", "^(vector_add|stencil_3d|svm)", "-o", tmp_path)
    assert "NumPy's result on the CPU" in text and "contraction" in text and "ex2.approx.ftz.f32" in text
    with (tmp_path / "suite.csv").open(encoding="utf-8") as file:
        rows = {row["kernel"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["stencil_3d", "vector_add", "svm_naive", "svm_constant", "svm_optimised"]
    assert rows["vector_add"]["identical"] == "true"
    document = json.loads(good("validate", "suite", "--kernel", "vector_add", "-o", tmp_path, "--json"))
    (dataset,) = document["datasets"]
    assert dataset["provenance"]["GPU"] == "NVIDIA H200"
    (row,) = dataset["rows"]
    assert row["load_sectors"] == row["h200_load_sectors"] == 5000
