"""The GPUs that people have: what NVIDIA publishes of them, what is assumed, and that nothing is kept silently."""

from __future__ import annotations

import pytest

from warplens.errors import MachineError, OverrideError, UnknownNameError
from warplens.machine import SHORT_NAMES, compute_capabilities, gpu_names, load_gpu, occupancy, with_overrides
from warplens.machine.load import _capability

CARDS = [name for name in gpu_names() if load_gpu(name).compute_capability is not None]
#: By compute capability: warps, blocks and KiB of shared memory of an SM, KiB of a block, FP32 and FP64 lanes.
LIMITS = {
    "7.0": (64, 32, 96, 96, 64, 32),
    "7.5": (32, 16, 64, 64, 64, 2),
    "8.0": (64, 32, 164, 163, 64, 32),
    "8.6": (48, 16, 100, 99, 128, 2),
    "8.9": (48, 24, 100, 99, 128, 2),
    "9.0": (64, 32, 228, 227, 128, 64),
    "10.0": (64, 32, 228, 227, 128, 64),
    "12.0": (48, 24, 100, 99, 128, 2),
}
#: Peak TFLOP/s of FP32 at the boost clock, and GB/s of the memory, as data sheets print them.
DATA_SHEETS = {
    "v100": (14.1, 900),
    "rtx2080ti": (13.4, 616),
    "a100-40gb": (19.5, 1555),
    "a100-40gb-pcie": (19.5, 1555),
    "a100-80gb": (19.5, 2039),
    "titan-rtx": (16.3, 672),
    "rtx3060": (12.7, 360),
    "rtx3080": (29.8, 760),
    "rtx3090": (35.6, 936),
    "rtx-a4000": (19.2, 448),
    "rtx-a6000": (38.7, 768),
    "l40s": (91.6, 864),
    "rtx4080": (48.7, 716.8),
    "rtx4090": (82.6, 1008),
    "h100-pcie": (51.2, 2000),
    "h100-sxm": (66.9, 3350),
    "h200": (66.9, 4800),
    "b200": (74.5, 7700),
    "rtx5090": (104.8, 1792),
}


def test_every_capability_from_volta_to_blackwell_is_described():
    assert compute_capabilities() == list(LIMITS)


@pytest.mark.parametrize("name", CARDS)
def test_the_sm_is_that_of_its_compute_capability(name):
    gpu = load_gpu(name)
    warps, blocks, shared, of_block, fp32, fp64 = LIMITS[gpu.compute_capability]
    assert (gpu.max_warps, gpu.max_blocks, gpu.registers) == (warps, blocks, 65536)
    assert (gpu.shared_memory_bytes, gpu.occupancy.shared_memory_per_block_bytes) == (shared * 1024, of_block * 1024)
    assert gpu.with_defaults.occupancy.shared_memory_reserved_bytes == (1024 if shared > of_block else 0)
    assert gpu.timing("fp32").interval_cycles == 32 / fp32
    assert gpu.timing("fp64").interval_cycles == 32 / fp64
    assert gpu.issue_rate == 4


@pytest.mark.parametrize("name", CARDS)
def test_peak_rates_are_those_of_the_data_sheet(name):
    gpu = load_gpu(name)
    tflops, bandwidth = DATA_SHEETS[name]
    assert 2 * 32 / gpu.timing("fp32").interval_cycles * gpu.sms * gpu.clock_hz / 1e12 == pytest.approx(
        tflops, rel=0.01
    )
    assert 0.85 < gpu.dram.bandwidth_bytes_per_s / 1e9 / bandwidth < 1.0


@pytest.mark.parametrize("name", CARDS)
def test_only_hopper_has_products_of_warpgroups(name):
    gpu = load_gpu(name)
    assert any(each.startswith("tensor_n") for each in gpu.instructions) == (gpu.compute_capability == "9.0")


@pytest.mark.parametrize("name", CARDS)
def test_what_comes_from_another_machine_says_so(name):
    gpu = load_gpu(name)
    common = _capability(gpu.compute_capability)[1]
    for path, source in gpu.sources.items():
        assert source.machine != name
        if "h200" in source.text and name != "h200":
            assert source.kind in ("assumed", "paper", "derived") or source.machine, path
        if source.machine:
            assert source.machine in gpu_names() and common.get(path) != source, path


def test_a_variant_marks_what_it_takes_from_its_base():
    gpu = load_gpu("a100-80gb")
    assert gpu.sources["llc.latency_cycles"].machine == "a100-40gb" and gpu.sources["llc.latency_cycles"].is_guess
    assert not gpu.sources["dram.bandwidth_bytes_per_s"].machine
    assert not gpu.sources["max_warps"].machine  # of the compute capability
    assert load_gpu("h100-pcie").sources["noc.store_cycles"].kind == "assumed"
    assert load_gpu("h100-pcie").sources["l1.mshrs"].machine == "h200"


@pytest.mark.parametrize(("short", "full"), SHORT_NAMES.items())
def test_short_names(short, full):
    assert short not in gpu_names()
    assert load_gpu(short) == load_gpu(full)


def test_a_mistyped_card_is_suggested():
    with pytest.raises(UnknownNameError, match="no machine is named 'a100x'; did you mean 'a100'"):
        load_gpu("a100x")


def test_another_capability_than_the_base_replaces_its_sm(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('base = "h200"\ncompute_capability = "8.0"\n')
    gpu = load_gpu(path)
    assert (gpu.timing("fp32").interval_cycles, gpu.shared_memory_bytes) == (0.5, 164 * 1024)
    assert "tensor_n256" not in gpu.instructions
    assert gpu.sources["sms"].machine == "h200"


def test_a_capability_that_is_not_described(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('base = "h200"\ncompute_capability = "8.1"\n')
    with pytest.raises(MachineError, match=r"own.toml:2: compute_capability: '8.1' is not described; did you mean"):
        load_gpu(path)


# -- clocks -----------------------------------------------------------------------------------------


def test_clocks_are_apart():
    gpu = load_gpu("a100-40gb-pcie")
    assert (gpu.clocks.base_hz, gpu.clocks.boost_hz, gpu.clocks.sustained_hz) == (765e6, 1410e6, None)
    assert (gpu.clock_hz, gpu.clock_name) == (1410e6, "boost")


def test_a_clock_by_its_name():
    gpu = with_overrides(load_gpu("a100-40gb-pcie"), {"clock": "base"})
    assert (gpu.clock_hz, gpu.clock_name, gpu.overrides["clock"]) == (765e6, "base", 765e6)
    assert with_overrides(gpu, {"clock": "1GHz"}).clock_name == ""


def test_a_clock_that_is_not_published():
    with pytest.raises(
        OverrideError, match="clock: machine 'a100-40gb-pcie' gives no sustained clock; write boost, base or a number"
    ):
        load_gpu("a100-40gb-pcie", {"clock": "sustained"})


# -- occupancy --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared_kib", "warps"),
    [
        ("v100", 256, 32, 0, 64),
        ("rtx2080ti", 256, 64, 0, 32),
        ("a100", 256, 64, 0, 32),
        ("a100", 128, 32, 40, 16),  # 41 KiB each of 164
        ("rtx3090", 256, 40, 0, 48),
        ("rtx3090", 32, 32, 0, 16),  # 16 blocks
        ("rtx4090", 32, 32, 0, 24),  # 24 blocks
        ("h100", 32, 32, 0, 32),
        ("b200", 1024, 64, 0, 32),
        ("rtx5090", 512, 40, 0, 48),
    ],
)
def test_resident_warps(name, threads, registers, shared_kib, warps):
    assert occupancy(load_gpu(name), threads, registers, shared_kib * 1024).warps_per_sm == warps
