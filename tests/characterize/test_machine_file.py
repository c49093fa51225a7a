"""The description that ships comes from the raw data that ship, and says where each value comes from."""

from __future__ import annotations

import csv
import json
import statistics
import tomllib
from pathlib import Path

import pytest

import warplens.machine
from warplens.characterize import analysis
from warplens.characterize.machine_file import (
    bundled,
    machine_toml,
    measured_values,
    merged_values,
    read_raw,
)
from warplens.errors import FileError
from warplens.machine import load_gpu

SHIPPED = Path(warplens.machine.__file__).parent / "data" / "h200.toml"
HOME = bundled("h200")


@pytest.fixture(scope="module")
def raw():
    return read_raw(HOME.raw)


@pytest.fixture(scope="module")
def base():
    return load_gpu(str(HOME.base))


def test_the_shipped_machine_is_made_from_the_shipped_data(raw, base):
    assert machine_toml(raw, base, "h200") == SHIPPED.read_text("utf-8")


def test_raw_data_are_small_and_say_where_they_come_from(raw):
    assert HOME.raw.stat().st_size < 1_000_000
    origin = raw["provenance"]
    assert set(origin) >= {"gpu", "driver", "compiler", "date", "command", "sm_clock_hz", "repeats", "seconds"}
    assert origin["seconds"] < 180


def test_every_measured_value_names_its_measurement(raw, base):
    found = merged_values(raw, base)
    assert sum(item.source.kind == "measured" for item in found.values()) > 40
    for path, item in measured_values(raw).items():
        assert len(item.source.text) > 15, path


def test_the_structure_of_an_h200(raw):
    """What is known of the chip from elsewhere."""
    assert round(analysis.issue_limit(raw).value) == 4
    assert analysis.sector_bytes(raw, "l1") == 32
    lines = {name: analysis.interval(raw, name).value for name in ("fp32_fma", "int32_add", "fp64_fma", "sfu_ex2")}
    lanes = {"fp32_fma": 128, "int32_add": 64, "fp64_fma": 64, "sfu_ex2": 16}
    for name, interval in lines.items():
        assert 32 / interval == pytest.approx(lanes[name], rel=0.02)
    # Dense half precision: 989 TFLOPS at 1.83 GHz on 132 SMs (NVIDIA H100 data sheet).
    wide = analysis.interval(raw, "matrix_m64n256k16").value
    assert 64 * 256 * 16 / 4 / wide == pytest.approx(2048, rel=0.02)
    subsystems = analysis.subsystems(analysis.mixes(raw))
    assert (subsystems["int32_logic"], subsystems["float_to_int"]) == ("int32_add", "sfu_ex2")
    l1 = analysis.plateaus(*analysis.latency_curve(raw, cached=True))
    assert len(l1) == 1 and 128 << 10 < l1[0].last_bytes < 256 << 10
    read = analysis.bandwidth(raw["bandwidth"]["dram"]["read"])
    assert 0.85 < read.value / 4.8e12 < 1
    assert read.spread < 0.05
    shared = analysis.interval(raw, "load_shared")
    assert 128 / shared.value == pytest.approx(128, rel=0.02)
    for row in raw["bandwidth"]["l1"]:
        assert analysis.bytes_per_cycle(row).value == pytest.approx(128, rel=0.03)


def test_what_only_a_profiler_sees(raw, base):
    """The cold start and the dirty lines are those of the profiled launches that ship."""
    gpu = load_gpu("h200")
    with HOME.raw.with_name("h200-profiled.csv").open() as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))

    def median(launch, column):
        return statistics.median(float(row[column]) for row in rows if row["launch"] == launch)

    own = gpu.launch_overhead_cycles + gpu.llc.latency_cycles + gpu.dram.latency_cycles
    cold = [
        median(f"cold {steps}", "elapsed_cycles") - own - steps * gpu.timing("fp32").latency_cycles
        for steps in (32, 128, 512)
    ]
    assert gpu.cold_start_cycles == pytest.approx(statistics.median(cold), abs=1)
    kept = [(size << 20) - median(f"written {size} MiB", "dram_write_bytes") for size in (64, 128, 256, 512)]
    assert gpu.llc.dirty_bytes == pytest.approx(statistics.median(kept), rel=0.01)


def test_repeats_agree_where_one_sm_is_timed(raw):
    for name in analysis.operations(raw):
        assert analysis.latency(raw, name).spread < 0.01, name
        assert analysis.interval(raw, name).spread < 0.03, name


def test_values_of_another_gpu_are_assumptions(raw, tmp_path):
    other = dict(raw) | {"provenance": raw["provenance"] | {"gpu": "Other GPU"}}
    path = tmp_path / "other.toml"
    path.write_text(machine_toml(other, load_gpu("mdm2020"), "other"), "utf-8")
    gpu = load_gpu(str(path))
    assert gpu.sources["l1.ways"].kind == "assumed"
    assert gpu.sources["l1.ways"].text.startswith("not measured: as mdm2020")
    assert gpu.sources["sms"].kind == "datasheet" and gpu.sms == 132
    assert tomllib.loads(path.read_text("utf-8"))["name"] == "other"


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 0, "chains": []}'])
def test_what_is_not_raw_data_is_refused(text, tmp_path):
    path = tmp_path / "raw.json"
    path.write_text(text)
    with pytest.raises(FileError, match=r"raw\.json: not"):
        read_raw(path)


def test_missing_raw_data(tmp_path):
    with pytest.raises(FileError, match="cannot be read"):
        read_raw(tmp_path / "none.json")
    assert bundled("none") is None and bundled("../h200") is None


def test_pictures_are_drawn(raw, tmp_path):
    from warplens.characterize.plots import draw_all

    paths = draw_all(raw, tmp_path)
    assert len(paths) == 7
    assert all(path.stat().st_size > 10_000 for path in paths)


def test_a_gpu_without_products_of_warpgroups_has_neither_their_times_nor_their_picture(raw, tmp_path):
    from warplens.characterize.plots import draw_all

    older = {**raw, "chains": [row for row in raw["chains"] if not row["operation"].startswith("matrix_m64")]}
    assert not any("tensor_n" in path for path in measured_values(older))
    assert len(draw_all(older, tmp_path)) == 6


def test_numbers_are_kept_short():
    text = HOME.raw.read_text("utf-8")
    assert json.loads(text)["schema"] == 2
    assert "\n" not in text.strip()
