"""Views: their numbers are those of the results they come from, and both drawings show them."""

import json

import numpy as np
import pytest

import warplens
from warplens.api import compare, load_workloads, place
from warplens.errors import InputError
from warplens.machine import load_gpu
from warplens.reports.figures import Reference, cpi_stacks, flop_roofline, occupancy, roofline
from warplens.reports.quoted import quoted
from warplens.reports.style import CATEGORY_COLOURS, model_style
from warplens.workload import analyse
from warplens.workload.flops import flops_of, lane_flops, peak_flops, product_flops

from .checks import check_view


@pytest.fixture(scope="module")
def predictions():
    return compare("mdm-baseline").predictions


def test_stacks_have_every_model_and_sum_to_its_cpi(predictions, tmp_path):
    view = cpi_stacks(predictions)
    figure = check_view(view, tmp_path)
    (group,) = view.groups
    assert [bar.model for bar in group.bars] == [p.model for p in predictions]
    for bar, p in zip(group.bars, predictions, strict=True):
        assert bar.cpi == p.cpi
        if bar.stack is not None:
            assert sum(bar.stack.values()) == p.cpi
    shares = {trace["name"]: trace["x"] for trace in figure["data"] if trace.get("legendgroup")}
    assert list(shares) == [name for name in CATEGORY_COLOURS if name in shares]
    mdm = [p.model for p in predictions].index("mdm")
    assert sum(values[mdm] for values in shares.values()) == pytest.approx(100.0, abs=0.5)


def test_a_reference_is_a_line_in_the_units_of_the_bars(predictions, tmp_path):
    mdm = next(p for p in predictions if p.model == "mdm")
    line = Reference("mdm-baseline", None, "measured", 2.0 * mdm.cycles)
    other = Reference("another", None, "measured", 1.0)
    view = cpi_stacks(predictions, [line, other])
    assert view.groups[0].lines == {"measured": pytest.approx(2.0 * mdm.cpi)}
    shapes = check_view(view, tmp_path)["layout"]["shapes"]
    assert [shape["x0"] for shape in shapes] == [pytest.approx(2.0 * mdm.cpi)]


def test_a_simulated_stack_is_a_bar_too(predictions):
    stack = {"BASE": 0.25, "MSHR": 0.75}
    bars = cpi_stacks(predictions, [Reference("mdm-baseline", "mdm2020", "simulated", 100.0, stack)]).groups[0].bars
    assert bars[-1].model == "simulated" and bars[-1].stack == stack


def test_a_reference_of_other_instructions_brings_its_own_cpi(predictions):
    part = Reference("mdm-baseline", None, "simulated", 10.0, cpi=7.0)
    assert cpi_stacks(predictions, [part]).groups[0].lines == {"simulated": 7.0}


def test_parts_are_stacked_only_where_the_axis_is_linear(predictions):
    few = [p for p in predictions if p.model in ("mdm", "gpumech", "mdm-queue")]
    assert cpi_stacks(few).groups[0].linear and not cpi_stacks(predictions).groups[0].linear
    layout = cpi_stacks(predictions).figure()["layout"]
    assert layout["xaxis"]["type"] == "log"


def test_names_cannot_carry_markup(predictions):
    from dataclasses import replace

    bad = [replace(p, kernel="<script>alert(1)</script>") for p in predictions]
    good = cpi_stacks(predictions).figure()
    assert "<script" not in json.dumps(cpi_stacks([*bad, *predictions]).figure())
    assert good["data"]


def under_the_roofs(view):
    """No dot lies above the bandwidth of its level, nor above a ceiling that binds."""
    slopes = {level.label: level.slope for level in view.levels}
    ceiling = min(each.speed for each in view.ceilings if each.binds)
    assert view.points
    for point in view.points:
        assert point.speed <= (1 + 1e-9) * slopes[point.level] * point.intensity
        assert point.speed <= (1 + 1e-9) * ceiling or point.label != view.points[0].label


@pytest.mark.parametrize("gpu", ["h200", "mdm2020", "accelsim-mdm"])
@pytest.mark.parametrize("kernel", ["saxpy", "matmul"])
def test_dots_of_a_traced_kernel_lie_under_their_roofs(kernel, gpu, tmp_path):
    workload, machine = place(load_workloads(kernel, gpu=gpu)[0], gpu)
    prediction = warplens.predict(workload, machine, "warplens")
    for make in (roofline, flop_roofline):
        view = make(workload, machine, prediction)
        check_view(view, tmp_path)
        under_the_roofs(view)


def test_flops_are_counted_by_precision():
    """16 x 16 blocks of 16 x 16 threads; each thread has an inner product of 256 elements."""
    workload, gpu = place(load_workloads("matmul", gpu="h200")[0], "h200")
    assert flops_of(workload) == {"fp32": 2.0 * 256**3}
    made = warplens.predict(workload, gpu, "warplens")
    reached = next(each.speed for each in flop_roofline(workload, gpu, made).points)
    assert reached == pytest.approx(2.0 * 256**3 / made.seconds / 1e12)


@pytest.mark.parametrize(
    ("opcode", "flops"),
    [("fma.rn.f32", 2), ("add.f32", 1), ("FFMA.FTZ", 2), ("HFMA2.MMA", 4), ("mul.rn.f16x2", 2), ("setp.lt.f32", 0)],
)
def test_flops_of_a_lane(opcode, flops):
    assert lane_flops(opcode) == flops


@pytest.mark.parametrize(
    ("opcode", "instruction_class", "flops"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "tensor", 4096),
        ("HMMA.1688.F32", "tensor", 2048),
        ("HMMA.16816.F32", "tensor", 4096),
        ("HGMMA.64x256x16.F32", "tensor_n256", 131_072),
    ],
)
def test_flops_of_a_warps_matrix_product(opcode, instruction_class, flops):
    assert product_flops(opcode, instruction_class) == flops


def test_peaks_are_the_data_sheets():
    """67 TFLOP/s of fp32, half of it in fp64, and 4096 a cycle of an SM in tensor cores, at 1.98 GHz."""
    peaks = {name: each / 1e12 for name, each in peak_flops(load_gpu("h200")).items()}
    assert peaks == {
        "fp64": pytest.approx(33.5, rel=0.01), "fp32": pytest.approx(66.9, rel=0.01),
        "fp16": pytest.approx(133.8, rel=0.01), "tensor": pytest.approx(1070, rel=0.01),
    }  # fmt: skip


def test_roofline_of_an_interval_profile_has_bytes(predictions, tmp_path):
    workload, gpu = place("mdm-baseline")
    view = roofline(workload, gpu, quoted(predictions))
    check_view(view, tmp_path)
    under_the_roofs(view)
    # 32 read misses in 4 instructions, all of which go to DRAM.
    moved = analyse(workload, gpu).bytes_per_instruction()
    assert moved == {"LLC": pytest.approx(32 * 128 / 4), "DRAM": pytest.approx(32 * 128 / 4)}
    dram = next(level for level in view.levels if level.label == "DRAM")
    assert dram.slope * dram.intensity == pytest.approx(gpu.dram.bandwidth_bytes_per_s / 1e9 / 1024)
    assert view.bound[0] == "DRAM"


def test_roofline_of_a_mix_is_the_models_roof(tmp_path):
    workload, gpu = place("lemeire-example")
    made = warplens.predict("lemeire-example", model="roofline")
    view = roofline(workload, gpu, made)
    check_view(view, tmp_path)
    under_the_roofs(view)
    assert view.bound[1] == pytest.approx(made.ipc / gpu.sms)


def test_occupancy_follows_predictions(tmp_path):
    view = occupancy("lemeire-example", models=["volkov", "pipeline"], points=5)
    check_view(view, tmp_path)
    assert [curve.model for curve in view.curves] == ["volkov", "pipeline"]
    for curve in view.curves:
        at = [warplens.predict("lemeire-example", model=curve.model, overrides={"launch.warps_per_sm": w}).ipc
              for w in view.warps]  # fmt: skip
        np.testing.assert_allclose(curve.ipc, at)
    assert view.resident_warps in view.warps


def test_occupancy_says_why_there_is_none():
    with pytest.raises(InputError, match="dependence graph"):
        occupancy("mdm-baseline", models=["pipeline"])


def test_every_model_has_a_look_of_its_own():
    looks = [model_style(name)[:2] for name in warplens.model_names()]
    assert len(set(looks)) == len(looks)
