"""The schema: keys, checks on values, derived quantities."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.errors import MachineError, MissingInputError
from warplens.machine import (
    INSTRUCTION_CLASSES,
    InstructionTiming,
    find_parameter,
    gpu_names,
    lineage,
    load_gpu,
    parameters,
    with_overrides,
)
from warplens.machine.checks import check_value
from warplens.machine.classes import product_class
from warplens.machine.schema import LastLevelCache, parameters_by_key

INTERFACE_KEYS = """
    sms clock schedulers issue_width scheduler max_warps max_blocks registers shared_memory l1.size l1.ways
    l1.line l1.sector l1.mshrs l1.latency l1.streaming llc.size llc.ways llc.banks llc.mshrs llc.latency
    noc.bandwidth noc.queue noc.latency dram.bandwidth dram.latency dram.channels
"""
EXAMPLES = {  # one value in the form users type, for keys that are not plain counts
    "clock": "1.4GHz",
    "scheduler": "lrr",
    "shared_memory": "96KiB",
    "l1.size": "48KiB",
    "l1.ways": "3",
    "l1.line": "64B",
    "l1.sector": "32B",
    "l1.latency": "30 cycles",
    "l1.streaming": "true",
    "llc.size": "6MiB",
    "noc.bandwidth": "2.1TB/s",
    "dram.bandwidth": "480GB/s",
}


@pytest.mark.parametrize("key", INTERFACE_KEYS.split())
def test_every_key_of_the_interface_can_be_set(key):
    gpu = load_gpu("mdm2020", {key: EXAMPLES.get(key, "8")})
    assert list(gpu.overrides) == [key]
    assert gpu.sources[find_parameter(key).path].kind == "override"


def test_write_policies_where_absent_and_where_set():
    """L1: through; stores do not enter, except where that was measured. LLC: back, they do."""
    for gpu in map(load_gpu, gpu_names()):
        assert (gpu.l1.writes_back, gpu.l1.allocates_stores) == (False, gpu.name in ("h100-pcie", "h100-sxm", "h200"))
        assert (gpu.llc.writes_back, gpu.llc.allocates_stores) == (True, True)
    other = load_gpu(
        "mdm2020",
        {
            "l1.write_policy": "back",
            "l1.write_allocate": "true",
            "llc.write_policy": "through",
            "llc.write_allocate": "false",
        },
    )
    assert (other.l1.writes_back, other.l1.allocates_stores) == (True, True)
    assert (other.llc.writes_back, other.llc.allocates_stores) == (False, False)


@pytest.mark.parametrize("name", INSTRUCTION_CLASSES)
@pytest.mark.parametrize("leaf", ["latency", "interval"])
def test_every_instruction_class_can_be_set(name, leaf):
    gpu = load_gpu("mdm2020", {f"instructions.{name}.{leaf}": "7"})
    assert getattr(gpu.instructions[name], f"{leaf}_cycles") == 7.0


def test_keys_are_the_toml_paths_without_units():
    for path, param in parameters().items():
        assert param.path == path
        assert param.key == re.sub(r"_(bytes_per_s|bytes|hz|cycles|seconds|entries)$", "", path)
        assert param.doc
    short = [param.key for param in parameters().values()]
    assert len(set(short)) == len(short)


def test_full_toml_paths_are_understood_as_keys_too():
    assert find_parameter("l1.size_bytes") is find_parameter("l1.size")
    assert find_parameter("noc.queue_entries") is find_parameter("noc.queue")
    assert set(parameters()) <= set(parameters_by_key())


# -- values ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("sms", 0, "at least 1"),
        ("sms", -1, "at least 1"),
        ("sms", 1.5, "whole number"),
        ("sms", True, "not a number"),
        ("sms", np.bool_(True), "not a number"),
        ("sms", "28", "not a number"),
        ("sms", None, "not a number"),
        ("sms", [1, 2], "not a number"),
        ("sms", 1 + 2j, "not a number"),
        ("sms", np.complex128(1 + 2j), "not a number"),
        ("sms", float("nan"), "finite"),
        ("sms", float("inf"), "finite"),
        ("sms", 10**400, "too large"),
        ("sms", 1e19, "finite number of at most"),
        ("clock", 0.0, "above 0"),
        ("clock", -1.0, "above 0"),
        ("issue_width", 0, "above 0"),
        ("dram.latency", -0.5, "at least 0"),
        ("shared_memory", -1, "at least 0"),
        ("l1.streaming", 1, "true or false"),
        ("l1.streaming", "yes", "true or false"),
        ("l1.write_allocate", "back", "true or false"),
        ("llc.write_allocate", 0, "true or false"),
        ("scheduler", "fifo", "not one of rr, lrr, gto"),
        ("scheduler", 3, "not text"),
        ("l1.mshrs", np.array([32.0, 0.0]), "at least 1"),
        ("l1.mshrs", np.array([32.0, 64.5]), "whole number"),
        ("l1.mshrs", np.array([32.0, np.nan]), "finite"),
        ("l1.mshrs", np.array([[32.0]]), "one-dimensional"),
        ("l1.mshrs", np.array([]), "empty"),
        ("l1.mshrs", np.array([True]), "not a number"),
        ("l1.mshrs", np.array([1 + 2j]), "not a number"),
        ("l1.mshrs", np.array(["32"]), "not a number"),
        ("l1.mshrs", np.array([None]), "not a number"),
    ],
)
def test_unusable_values_are_refused(key, value, why):
    with pytest.raises(ValueError, match=why):
        check_value(find_parameter(key), value)


@pytest.mark.parametrize(
    ("key", "value", "stored"),
    [
        ("sms", 28, 28),
        ("sms", 28.0, 28),
        ("sms", np.int64(28), 28),
        ("clock", 1, 1.0),
        ("clock", np.float32(0.5), 0.5),
        ("issue_width", 0.25, 0.25),
        ("dram.latency", 0, 0.0),
        ("l1.streaming", np.bool_(True), True),
        ("scheduler", "gto", "gto"),
    ],
)
def test_values_are_stored_in_the_type_of_the_schema(key, value, stored):
    result = check_value(find_parameter(key), value)
    assert result == stored
    assert type(result) is type(stored)


@given(st.lists(st.integers(min_value=1, max_value=10**9), min_size=1, max_size=20))
def test_arrays_are_checked_element_wise_and_kept(numbers):
    stored = check_value(find_parameter("l1.mshrs"), np.array(numbers))
    assert stored.dtype == np.float64
    assert stored.tolist() == numbers
    numbers[len(numbers) // 2] *= -1
    with pytest.raises(ValueError, match="at least 1"):
        check_value(find_parameter("l1.mshrs"), np.array(numbers))


# -- a machine is a value ------------------------------------------------------------


def test_machines_are_frozen():
    gpu = load_gpu("mdm2020")
    with pytest.raises(dataclasses.FrozenInstanceError):
        gpu.sms = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        gpu.l1.mshrs = 1
    with pytest.raises(TypeError):
        gpu.instructions["comp"] = InstructionTiming()
    with pytest.raises(TypeError):
        gpu.sources["sms"] = None
    with pytest.raises(TypeError):
        gpu.overrides["sms"] = 1


def test_get_reaches_every_parameter_and_require_names_the_remedy():
    gpu = load_gpu("lemeire-example")
    for path in parameters():
        gpu.get(path)
    assert gpu.get("instructions.mem.latency_cycles") == 6.0
    assert gpu.get("instructions.sfu.latency_cycles") is None
    assert gpu.require("sms", "a test") == 1
    with pytest.raises(MissingInputError, match=r"mdm needs l1.mshrs.*'lemeire-example'.*--set l1.mshrs=VALUE"):
        gpu.require("l1.mshrs", "mdm")


def test_the_representation_shows_name_and_overrides():
    assert repr(load_gpu("mdm2020")) == "<Gpu mdm2020>"
    assert repr(load_gpu("mdm2020", {"l1.mshrs": 64})) == "<Gpu mdm2020, l1.mshrs=64>"


# -- derived quantities ----------------------------------------------------------------


def test_mdm_service_times_are_those_of_the_paper():
    gpu = load_gpu("mdm2020")
    # L_NoCService = 1.4e9 · 128 / 1050e9, L_DRAMService = 1.4e9 · 128 / 480e9 (M-7, M-8)
    assert gpu.service_cycles_now("noc", "mdm") == pytest.approx(0.170667, abs=1e-6)
    assert gpu.service_cycles_now("dram", "mdm") == pytest.approx(0.373333, abs=1e-6)
    assert gpu.memory_latency_cycles_now("mdm") == 340.0


def test_a_clock_change_scales_dram_cycles_but_not_those_of_the_llc():
    fast = load_gpu("mdm2020", {"clock": "2.8GHz"})
    assert fast.clock_ratio == 2.0
    assert fast.nominal_clock_hz == 1.4e9
    assert fast.llc.latency_cycles == 120.0
    assert fast.l1.latency_cycles == 25.0
    assert fast.dram.latency_cycles == 220.0  # as described, at the nominal clock
    assert fast.dram_latency_cycles_now("mdm") == 440.0
    assert fast.memory_latency_cycles_now("mdm") == 560.0
    # bandwidths keep their bytes per second, so a request takes twice the core cycles
    assert fast.service_cycles_now("dram", "mdm") == pytest.approx(2 * 1.4e9 * 128 / 480e9)
    assert fast.timing("fp32") == load_gpu("mdm2020").timing("fp32")


def test_measured_memory_timings_keep_their_seconds_too():
    base, slow = load_gpu("gtx1060"), load_gpu("gtx1060", {"clock": 1.506e9 / 2})
    assert slow.timing("load_global").latency_cycles == base.timing("load_global").latency_cycles / 2
    assert slow.timing("load_global").interval_cycles == base.timing("load_global").interval_cycles / 2
    assert slow.timing("load_shared") == base.timing("load_shared")


def test_a_second_clock_override_is_still_relative_to_the_described_clock():
    once = load_gpu("mdm2020", {"clock": "2.8GHz"})
    assert with_overrides(once, {"clock": "1.4GHz"}).dram_latency_cycles_now("mdm") == 220.0


def test_issue_rate_is_schedulers_times_width():
    assert load_gpu("mdm2019").issue_rate == 8.0
    assert load_gpu("hong-kim-example").issue_rate == 0.25


def test_timings_come_from_the_nearest_ancestor():
    gpu = load_gpu("gtx1060")
    assert lineage("fp32_div") == ["fp32_div", "fp32", "comp"]
    assert gpu.timing("fp32_div").latency_cycles == 18.0
    assert gpu.timing("conversion") == gpu.timing("comp")
    assert gpu.timing("store_global") == gpu.timing("mem")
    assert gpu.timing("store_shared") == gpu.timing("shared")
    assert load_gpu("rtx2070").timing("fp64_div") == load_gpu("rtx2070").timing("fp64")
    example = load_gpu("lemeire-example")
    assert example.timing("barrier") == example.timing("comp")


def test_a_class_that_stands_for_several_takes_their_time():
    changes = {"instructions.tensor.latency": "24", "instructions.tensor.interval": "2"}
    gpu = load_gpu("gtx1060", changes)
    assert INSTRUCTION_CLASSES["tensor_n64"].of_parent == 8
    assert gpu.timing("tensor_n64") == InstructionTiming(24.0 + 7 * 2.0, 16.0, gpu.timing("tensor").subsystem)
    assert gpu.timing("tensor_n8") == gpu.timing("tensor")
    measured = load_gpu("gtx1060", {**changes, "instructions.tensor_n64.interval": "9"}).timing("tensor_n64")
    assert (measured.latency_cycles, measured.interval_cycles) == (24.0 + 7 / 8 * 9.0, 9.0)


@pytest.mark.parametrize(
    ("columns", "name"),
    [(8, "n8"), (24, "n32"), (40, "n32"), (80, "n96"), (160, "n192"), (224, "n256"), (256, "n256")],
)
def test_products_of_warpgroups_have_the_nearest_class(columns, name):
    assert product_class(columns) == f"tensor_{name}"


@pytest.mark.parametrize(
    ("machine", "name", "interval"),
    [
        ("a100", "tensor", 2.0),
        ("a100", "tensor_half", 1.0),  # half of tensor's
        ("a100", "tensor_fp64", 4.0),
        ("rtx3090", "tensor_fp16", 4.0),  # GeForce cards halve the rate of sums in fp32
        ("rtx3090", "tensor_fp16_half", 2.0),
        ("rtx3090", "tensor_int_quarter", 1.0),
        ("rtx-a6000", "tensor", 4.0),
        ("h200", "tensor_half", 1.0),  # measured: more than half of tensor's
        ("h200", "tensor_fp64_eightfold", 15.0),
        ("v100", "tensor_int", 4.0),  # it has none: as tensor
    ],
)
def test_products_have_rates_by_shape_and_type(machine, name, interval):
    timing = load_gpu(machine).timing(name)
    assert (timing.interval_cycles, timing.subsystem) == (interval, "tensor")


def test_memory_without_timing_gets_the_dram_latency_and_an_sms_share_of_the_bandwidth():
    timing = load_gpu("hong-kim-example").timing("load_global")
    # 128 B of a coalesced warp at 80 GB/s / 16 SMs and 1 GHz
    assert timing == InstructionTiming(420.0, pytest.approx(128 / (80 / 16)), "memory")


def test_with_sectors_a_coalesced_access_still_moves_a_whole_line():
    gpu = load_gpu("h200")
    assert gpu.transfer_bytes == 32
    assert gpu.service_cycles_now("dram", "mdm") == pytest.approx(32 * 1.98e9 / gpu.dram.bandwidth_bytes_per_s)
    assert gpu.timing("load_global").interval_cycles == pytest.approx(
        128 * 1.98e9 / (gpu.dram.bandwidth_bytes_per_s / 132)
    )
    whole = dataclasses.replace(gpu, l1=dataclasses.replace(gpu.l1, sector_bytes=None))
    assert whole.timing("load_global") == gpu.timing("load_global")


def test_a_machine_without_llc_latency_has_the_dram_latency_alone():
    gpu = load_gpu("gpumech2014")
    assert gpu.memory_latency_cycles_now("gpumech") == 420.0
    bare = dataclasses.replace(gpu, llc=LastLevelCache())
    assert bare.memory_latency_cycles_now("gpumech") == 300.0


def test_a_missing_timing_says_what_to_set():
    bare = dataclasses.replace(load_gpu("lemeire-example"), instructions={})
    with pytest.raises(MissingInputError, match=r"'fp32'.*nor 'comp'.*--set instructions.fp32.latency"):
        bare.timing("fp32", "volkov")
    with pytest.raises(MissingInputError, match=r"volkov needs dram\."):
        bare.timing("load_global", "volkov")


# -- relations ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        ({"l1.size": "50000B"}, "l1.size_bytes"),
        ({"l1.ways": 7}, "l1.size_bytes"),
        ({"llc.size": "3MB"}, "llc.size_bytes"),
        ({"l1.sector": 48}, "l1.sector_bytes"),
        ({"l1.sector": np.array([32, 48])}, "l1.sector_bytes"),
        ({"l1.size": np.array([48, 50]) * 1000}, "l1.size_bytes"),
    ],
)
def test_parameters_that_contradict_each_other_are_refused(overrides, key):
    with pytest.raises(MachineError, match=re.escape(f"machine 'mdm2020': {key}: must")):
        load_gpu("mdm2020", overrides)


@given(
    ways=st.integers(1, 32),
    line=st.sampled_from([32, 64, 128, 256]),
    sets=st.integers(1, 512),
    off=st.integers(0, 3),
)
def test_cache_sizes_must_be_whole_sets(ways, line, sets, off):
    overrides = {"l1.size": ways * line * sets + off, "l1.ways": ways, "l1.line": line}
    if off % (ways * line):
        with pytest.raises(MachineError, match=r"l1\.size_bytes"):
            load_gpu("mdm2020", overrides)
    else:
        assert load_gpu("mdm2020", overrides).l1.size_bytes == ways * line * sets + off


def test_defaults_fill_what_a_machine_does_not_give():
    gpu = load_gpu("lemeire-example", {"l1.ways": 3})
    full = gpu.with_defaults
    for path, param in parameters().items():
        value = gpu.get(path)
        assert full.get(path) == (param.default if value is None else value), path
        if param.default is not None:
            assert check_value(param, param.default) == param.default
    assert (full.l1.ways, full.llc.ways, gpu.llc.ways) == (3, 1, None)


def test_a_default_is_no_value_of_the_machine():
    """What a model needs and a machine does not give is still missing."""
    gpu = load_gpu("lemeire-example")
    assert "l1.ways" not in gpu.given and "l1.ways" not in gpu.sources
    with pytest.raises(MissingInputError, match=r"l1\.ways"):
        gpu.require("l1.ways", "a model")
