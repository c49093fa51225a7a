"""`warplens characterize` without a GPU."""

from __future__ import annotations

import builtins
import json

import pytest
from click.testing import CliRunner

from warplens.characterize import measure
from warplens.characterize.device import Device
from warplens.characterize.machine_file import bundled, read_raw
from warplens.cli.characterize import characterize
from warplens.errors import MissingPackageError, WarplensError
from warplens.machine import load_gpu


def run(*arguments):
    return CliRunner().invoke(characterize, list(map(str, arguments)))


def test_from_shipped_data(tmp_path):
    output = tmp_path / "h200.toml"
    result = run("--from", "h200", "-o", output, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.output)
    assert document["output"] == str(output) and document["raw"] is None
    assert {row["path"] for row in document["measured"]} >= {"l1.size_bytes", "instructions.fp32.interval_cycles"}
    assert not (tmp_path / "h200.raw.json").exists()


def test_a_measurement_leaves_its_raw_data_beside_the_description(tmp_path, monkeypatch):
    raw = read_raw(bundled("h200").raw)

    def measured(command, *, ordinal, report):
        for n in range(200):
            report(f"step {n}")
        small = raw["device"] | {"l2_bytes": 4 << 20}
        return raw | {"provenance": raw["provenance"] | {"command": command}, "device": small}

    monkeypatch.setattr(measure, "measure", measured)
    result = run("-o", tmp_path / "gpu.toml", "--base", "h200")
    assert result.exit_code == 0, result.output
    assert "warning: the L2 cache is smaller than 40 MiB" in result.output
    written = read_raw(tmp_path / "gpu.raw.json")
    assert written["chains"] == raw["chains"]
    assert written["provenance"]["command"] == "warplens characterize -o gpu.toml"
    assert load_gpu(tmp_path / "gpu.toml").l1.sector_bytes == 32


def test_a_table_for_people(tmp_path):
    result = run("--from", "h200", "-o", tmp_path / "h200.toml")
    assert result.exit_code == 0
    assert "NVIDIA H200" in result.output and "dram.latency_cycles" in result.output


def test_nothing_is_overwritten(tmp_path):
    output = tmp_path / "gpu.toml"
    output.write_text("keep")
    result = run("--from", "h200", "-o", output)
    assert result.exit_code == 2 and "--force" in result.output
    assert output.read_text() == "keep"
    assert run("--from", "h200", "-o", output, "--force").exit_code == 0


def test_the_name_must_be_that_of_a_description(tmp_path):
    result = run("--from", "h200", "-o", tmp_path / "gpu.json")
    assert result.exit_code == 2 and ".toml" in result.output


def test_without_bindings(monkeypatch):
    real = builtins.__import__

    def missing(name, *arguments, **keywords):
        if name == "cuda.bindings":
            raise ImportError(name)
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingPackageError, match="pip install cuda-bindings"):
        Device()


def test_without_a_driver(monkeypatch):
    from cuda.bindings import driver

    def absent(flags):
        raise RuntimeError("libcuda is not found\nmore")

    monkeypatch.setattr(driver, "cuInit", absent)
    with pytest.raises(WarplensError, match=r"no CUDA driver in this machine \(libcuda is not found\)"):
        Device()


def test_without_a_gpu(monkeypatch):
    from cuda.bindings import driver

    monkeypatch.setattr(driver, "cuInit", lambda flags: (driver.CUresult.CUDA_ERROR_NO_DEVICE,))
    with pytest.raises(WarplensError, match=r"no usable CUDA GPU.*NO_DEVICE"):
        Device()


def test_an_old_gpu_is_refused(monkeypatch):
    class Old:
        name, architecture = "Old GPU", "sm_75"
        attributes = {"compute_capability_major": 7}

    monkeypatch.setattr(measure, "Device", lambda ordinal: Old())
    with pytest.raises(WarplensError, match=r"Old GPU has compute capability 7\.5; .* need 8\.0"):
        measure.measure("test")
