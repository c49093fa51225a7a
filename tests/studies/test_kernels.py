"""What the figures on the kernels of the validation data are made of."""

from __future__ import annotations

import numpy as np
import pytest

from warplens.api import place
from warplens.simulators.detailed import simulate_detailed
from warplens.traces.checks import problem_of
from warplens.workload import workload_of_trace
from warplens_studies.reproduce import kernels, speed
from warplens_studies.reproduce.control_divergence import BLOCKS, PLANS, WARPS_PER_BLOCK, trace_of
from warplens_studies.reproduce.kernels import OURS, THEIRS
from warplens_studies.validate import accelsim
from warplens_studies.validate.recorded import GPUMECH_GPU, GPUMECH_PARTS, recorded

SMALL = ("compute_ilp4_lowocc", "saxpy_lowocc")


def test_kinds_of_kernels():
    assert set(kernels.divergent_kernels()) | set(kernels.other_kernels()) == set(accelsim.kernels())
    assert kernels.divergence("strided32") > 10 > kernels.divergence("scatter") == 0


def test_errors_are_of_ipc_against_either_reference():
    predicted = kernels.cycles_of("mdm", "base", "strided32")
    for source, cycles in ((OURS, recorded()["base", "strided32"].cycles), (THEIRS, 86143)):
        assert kernels.reference_cycles(source, "base", "strided32") == cycles
        assert kernels.error("mdm", "base", "strided32", source) == pytest.approx(cycles / predicted - 1)
    one, other = (abs(kernels.error("mdm", "base", name, OURS)) for name in SMALL)
    assert kernels.mean_error("mdm", "base", OURS, SMALL) == pytest.approx(50 * (one + other))


def test_a_variant_and_a_selection_reach_the_model():
    plain, capped = (kernels.cycles_of(name, "base", "strided8") for name in ("gpumech", "gpumech[mshr-capped]"))
    assert capped < plain
    assert kernels.workload("copy", "max").selection == "max"


class TestControlDivergence:
    @pytest.mark.parametrize("name", PLANS)
    def test_trace_is_sound_and_warps_differ(self, name):
        trace = trace_of(name)
        (group,) = trace.held
        assert problem_of(group, trace.static, trace.header) is None
        assert len(group) == BLOCKS * WARPS_PER_BLOCK
        lengths, accesses = np.diff(group.start), np.diff(group.access_start)
        assert len(set(zip(lengths.tolist(), accesses.tolist(), strict=True))) > 1

    def test_all_loads_miss(self):
        placed, gpu = place(workload_of_trace(trace_of("1 to 16 iterations")), GPUMECH_GPU, GPUMECH_PARTS)
        assert simulate_detailed(placed, gpu).l1_miss_ratio == 1.0


class TestSpeed:
    def test_every_step_is_timed(self):
        found = speed.measure("gpumech", SMALL)
        assert found.read > 0 and found.caches > 0 and found.simulation > 0
        assert found.one_time == found.read + found.caches + found.warps
        assert found.recurrent == found.caches_again + found.equations
        recorded_seconds = [accelsim.measurements()["base", kernel].simulator_cpu_seconds for kernel in SMALL]
        assert found.accelsim == pytest.approx(sum(recorded_seconds))

    @pytest.mark.parametrize(
        ("seconds", "text"),
        [(0.0181, "18.1 ms"), (0.19, "0.19 s"), (80, "80.00 s"), (95, "1.6 minutes"), (6480, "1.8 hours")],
    )
    def test_duration(self, seconds, text):
        assert speed.duration(seconds) == text
        assert speed.duration(9.8 * 86400) == "9.8 days"
