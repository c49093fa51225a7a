"""Headlines say what was computed for this input."""

import pytest

from reference.traces import Step, evenly, memory_trace
from warplens.api import compare, load_workloads, place
from warplens.errors import InputError
from warplens.reports.figures import Reference, Tornado, roofline
from warplens.reports.headline import headline, preferred_model
from warplens.sweeps import sensitivity
from warplens.traces import StaticInstruction
from warplens.workload import workload_of_trace


def told(name, gpu=None, overrides=None, references=(), models=("gpumech", "mdm")):
    workload = load_workloads(name, gpu=gpu)[0]
    placed, machine = place(workload, gpu, overrides)
    predictions = compare(workload, (gpu,), models, overrides=overrides).predictions
    tornado = Tornado("", tuple(sensitivity(placed, machine, preferred_model(predictions))))
    try:
        roof = roofline(placed, machine, predictions)
    except InputError:
        roof = None
    return headline(placed, machine, predictions, references, roof, tornado)


def test_a_divergent_interval():
    found = told("mdm-baseline")
    assert found.lead[:3] == (
        "divergent: 32 lines per load that misses",
        "MSHRs fill at W = 4",
        "94 % of the time waits for MSHRs (mdm)",
    )
    gains = {each.key: each.at_double for each in sensitivity("mdm-baseline")}
    assert f"doubling NoC bandwidth would give {gains['noc.bandwidth']:.2f}×" in found.lead[3]
    assert f"doubling DRAM bandwidth {gains['dram.bandwidth']:.2f}×" in found.lead[3]
    assert "64 of 64 warps per SM" in found.rest


def test_numbers_follow_the_machine():
    found = told("mdm-baseline", overrides={"l1.mshrs": 1024, "launch.warps_per_sm": 8})
    assert "MSHRs never fill (256 of 1024 at W = 8)" in found.lead
    assert "8 of 64 warps per SM" in found.rest


def test_a_traced_kernel():
    found = told("saxpy", "h200")
    assert found.lead[0] == "coalesced: 1 line per load"
    assert found.lead[1].startswith("entries of the NoC queue never fill")
    assert any(each.endswith("% of what DRAM allows") for each in found.rest)


def test_atomics_that_return_something_are_named():
    rows = (
        StaticInstruction(0x00, "ATOMG.E.ADD", "atomic_global", "global", 4, (1,), (0,)),
        StaticInstruction(0x10, "EXIT", "control"),
    )
    trace = memory_trace(rows, [[[Step(0, evenly(2**20, 128)), Step(1)]]])
    placed, machine = place(workload_of_trace(trace), "mdm2020", None)
    found = headline(placed, machine, compare(placed, (machine,), ("mdm",)).predictions)
    assert found.lead[0] == "divergent: 32 lines per load or atomic"


def test_what_was_measured_is_compared_with_the_quoted_model():
    mdm = next(p for p in compare("mdm-baseline").predictions if p.model == "mdm")
    found = told("mdm-baseline", references=[Reference("mdm-baseline", None, "measured", mdm.cycles * 2)])
    assert any(each.startswith("measured: ") and each.endswith("mdm is 50 % below") for each in found.rest)


def test_every_bundled_example_has_a_headline():
    for name in ("lemeire-example", "hong-kim-table2", "gpumech-fig9"):
        assert str(told(name, models=None)), name


@pytest.mark.parametrize(
    ("names", "chosen"),
    [(("roofline", "mdm"), "mdm"), (("mdm", "warplens"), "warplens"), (("roofline",), "roofline")],
)
def test_the_quoted_model(names, chosen):
    predictions = compare("saxpy", ("mdm2020",), names).predictions
    assert preferred_model(predictions) == chosen
