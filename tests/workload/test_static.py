"""Workloads counted without running: the [static] table, and what models make of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens import compare, load_gpu
from warplens.errors import PtxError, WorkloadError
from warplens.workload import Needs, analyse
from warplens.workload.source import load_cuda_launch
from warplens.workload.static import static_mix_of, static_workload

WORKLOAD = '''
name = "{name}"

[cuda]
code = """
extern "C" __global__ void strided(float* x, const int* rows, int stride) {{
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  float sum = 0;
  for (int i = 0; i < rows[0]; ++i)
    sum += x[t * stride + i];
  x[t] = sum;
}}
"""
grid = [64]
block = [128]
arguments = [
  {{ dtype = "float32", shape = [1048576] }},
  {{ dtype = "int32", shape = [1] }},
  {{ dtype = "int32", value = {stride} }},
]

[static]
{static}
'''


def _launch(folder: Path, stride: int = 1, static: str = 'trip_counts = { "9" = 16 }'):
    path = folder / "strided.toml"
    path.write_text(WORKLOAD.format(name="strided", stride=stride, static=static), encoding="utf-8")
    return load_cuda_launch(path)


def test_models_that_need_a_mix_run_and_the_others_say_why(tmp_path: Path) -> None:
    workload = static_workload(_launch(tmp_path))
    found = compare(workload, ["h200"])
    assert {each.model for each in found.predictions} == {
        "roofline", "instruction-roofline", "zhang-owens", "volkov", "transit", "mwp-cwp",
        "mwp-cwp-corrected", "gpuperf",
    }  # fmt: skip
    assert all("mdm" not in each.model for each in found.predictions) and found.skipped
    assert workload.launch.threads_per_block == 128 and workload.launch.blocks == 64
    assert workload.launch.registers_per_thread
    assert any("without running" in text for text in found.predictions[0].warnings)


def test_more_lines_per_access_take_longer(tmp_path: Path) -> None:
    cycles = {}
    for stride in (1, 32):
        launch = _launch(tmp_path, stride)
        mix = analyse(static_workload(launch), load_gpu("h200"), Needs("instruction_mix")).mix
        assert mix.entries["load_global"].count == 17  # one of the bound, and one in each iteration
        assert (mix.uncoalesced_transactions or 1) == (2 if stride == 1 else 32)
        predicted = compare(static_workload(launch), ["h200"], ["roofline", "mwp-cwp"]).predictions
        cycles[stride] = [each.cycles for each in predicted]
    assert cycles[32][0] > 10 * cycles[1][0]  # Roofline, by bandwidth
    assert cycles[32][1] > cycles[1][1]  # MWP-CWP, where few warps leave latency to dominate


def test_the_mix_has_what_was_counted(tmp_path: Path) -> None:
    launch = _launch(tmp_path)
    counted = static_mix_of(launch)
    mix = analyse(static_workload(launch), load_gpu("h200"), Needs("instruction_mix")).mix
    assert mix.total == pytest.approx(counted.total)
    assert all(0 <= entry.independent <= entry.count for entry in mix.entries.values())


def test_a_loop_without_trips_is_an_error_with_its_line_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(PtxError, match="source line 9"):
        static_workload(_launch(tmp_path, static=""))


@pytest.mark.parametrize(
    ("static", "message"),
    [
        ("trips = 3", "unknown key 'static.trips'"),
        ('trip_counts = { "line" = 3 }', "names no loop"),
        ('trip_counts = { "10" = -1 }', "at least 0"),
        ('trip_counts = { "10" = "many" }', "not a number"),
        ("trip_counts = 3", "must be a table"),
        ("branch_weight = 1.5", "at most 1"),
    ],
)
def test_mistakes_in_the_table(tmp_path: Path, static: str, message: str) -> None:
    with pytest.raises(WorkloadError, match=message):
        _launch(tmp_path, static=static)
