"""The recorded runs of the reference simulator are what it gives now.

One command records all runs, so a sample of them tells whether the file is current. `scripts/record-simulations`
followed by `git diff` compares every run.
"""

from __future__ import annotations

from collections import Counter

import pytest

from warplens.machine import load_gpu
from warplens_studies.validate import accelsim
from warplens_studies.validate.recorded import (
    BANDWIDTHS,
    GRID,
    Simulated,
    bandwidth_name,
    grid_name,
    recorded,
    settings,
    simulate_again,
)

#: Small, and bound by what settings change.
SAMPLE = "chase_divergent"
#: Two thirds of all simulated cycles.
LONG = ("gather_dram", "gather_l2", "graph", "listing1_gs32", "scatter", "strided32", "strided32_l2")
SHORT = tuple(name for name in accelsim.kernels() if name not in LONG)


def sampled_runs() -> list[tuple[str, str]]:
    """On every setting three short kernels and a long one in turn; on a setting of few kernels, all of them."""
    found = []
    for turn, (name, setting) in enumerate(settings().items()):
        kept = {SHORT[(3 * turn + place) % len(SHORT)] for place in range(3)} | {LONG[turn % len(LONG)]}
        few = len(setting.kernels) <= len(LONG)
        found += [(name, kernel) for kernel in setting.kernels if few or kernel in kept]
    return found


def assert_same(found: Simulated, expected: Simulated) -> None:
    """To the nine digits that are kept."""
    assert found.cycles == expected.cycles
    assert found.cpi == pytest.approx(expected.cpi, rel=1e-8)
    assert found.stack == pytest.approx(expected.stack, rel=1e-8, abs=1e-12)
    assert found.miss_latency == pytest.approx(expected.miss_latency, rel=1e-8, abs=1e-12)
    assert found.run == pytest.approx(expected.run, rel=1e-8, abs=1e-12)


def test_every_setting_is_recorded_and_nothing_else():
    assert set(recorded()) == {(name, kernel) for name, each in settings().items() for kernel in each.kernels}
    assert set(accelsim.measurements()) <= set(recorded())


def test_settings_of_the_figures():
    assert {grid_name(*point) for point in GRID} | {bandwidth_name(*pair) for pair in BANDWIDTHS} <= set(settings())
    for sms, bandwidth in GRID:
        setting = settings()[grid_name(sms, bandwidth)]
        gpu = load_gpu(setting.gpu, setting.changes)
        assert (gpu.sms, gpu.dram.bandwidth_bytes_per_s) == (sms, bandwidth * 1e9)
    for noc, dram in BANDWIDTHS:
        setting = settings()[bandwidth_name(noc, dram)]
        gpu = load_gpu(setting.gpu, setting.changes)
        bandwidths = (gpu.noc.bandwidth_bytes_per_s, gpu.noc.sm_bandwidth_bytes_per_s, gpu.dram.bandwidth_bytes_per_s)
        assert bandwidths == (noc * 1e9, pytest.approx(noc / 24 * 1e9), dram * 1e9)


def test_a_sample_of_every_setting_of_all_kernels():
    runs = [(name, SAMPLE) for name, setting in settings().items() if SAMPLE in setting.kernels]
    assert len(runs) == 25
    for run, found in simulate_again(runs).items():
        assert_same(found, recorded()[run])


@pytest.mark.slow
def test_kernels_in_turn_on_every_setting():
    runs = sampled_runs()
    assert {name for name, _ in runs} == set(settings())
    assert min(Counter(kernel for _, kernel in runs).values()) >= 3
    for run, found in simulate_again(runs, workers=1).items():
        assert_same(found, recorded()[run])
