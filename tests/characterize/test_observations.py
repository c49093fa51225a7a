"""What the curves of paths.cu say, and its kernels where the CPU can run them."""

from __future__ import annotations

import numpy as np
import pytest

import warplens
from warplens.characterize import paths
from warplens.characterize.device import compile_cubin, kernel_source
from warplens.characterize.machine_file import (
    bundled,
    differences,
    machine_toml,
    measured_values,
    read_raw,
    shipped_card,
)
from warplens.characterize.observations import observations, plateaus
from warplens.machine import load_gpu


def rows(key, values):
    return [{key: size, "cycles": [cycles] * 5} for size, cycles in values.items()]


@pytest.fixture(scope="module")
def raw():
    """Raw data of the H200, with paths in round numbers."""
    kib = 1024
    fetch = {16: 1.03, 32: 1.2, 64: 2.8, 128: 2.9, 192: 5.9}
    found = {
        "constant": {
            "latency": rows("bytes", {kib: 29, 2 * kib: 29, 4 * kib: 75, 64 * kib: 260}),
            "reads": [{"groups": 1, "cycles": [1.0] * 5}],
        },
        "texture": {"latency": rows("bytes", {8 * kib: 90, 2048 * kib: 330}), "reads": {"cycles": [2.0] * 5}},
        "fetch": [
            {"bytes": size * kib, "warps": warps, "cycles": [cycles if warps == 1 else 7.2] * 5}
            for size, cycles in fetch.items()
            for warps in (1, 16)
        ],
        "ports": [{"sources": 3, "cycles": [0.25] * 5}],
        "additions": [{"space": "global", "pattern": "one word of all", "sms": 132, "cycles": [40.0] * 5}],
        "lines": {"steps": 64, "cycles": [210.0] * 300 + [410.0] * 212},
        "pages": [{**row, "page_bytes": 2 << 20} for row in rows("pages", {8: 280, 16: 281, 4096: 500})],
        "loads": [{"load": "fp32_fma", "clock_hz": [1.755e9] * 5, "nvidia_smi": "1755 MHz, 640 W"}],
    }
    return {**read_raw(bundled("h200").raw), "paths": found}


def test_a_curve_has_plateaus():
    found = plateaus([1, 2, 4, 8], [10.0, 10.2, 30.0, 30.4], 1.5)
    assert [(each.last, each.cycles) for each in found] == [(2, pytest.approx(10.1)), (8, pytest.approx(30.2))]


def test_parameters_of_a_machine(raw):
    found = {path: item.value for path, item in measured_values(raw).items()}
    assert (found["code_cache_bytes"], found["far_code_cache_bytes"]) == (32768, 131072)
    assert (found["fetch_cycles"], found["far_fetch_cycles"], found["fetch_interval_cycles"]) == (2.85, 5.9, 0.45)
    assert found["clocks.sustained_hz"] == 1.755e9
    assert found["dram.departure_coalesced_cycles"] < 32 * found["dram.departure_uncoalesced_cycles"]


def test_a_curve_without_a_second_cache_gives_none(raw):
    flat = [{**row, "cycles": [1.0]} for row in raw["paths"]["fetch"]]
    given = {**raw, "paths": {**raw["paths"], "fetch": flat}}
    assert "code_cache_bytes" not in measured_values(given)


def test_facts_stand_in_the_file_as_comments(raw, tmp_path):
    told = {each.what: each.value for each in observations(raw)}
    assert told["L2 latency of one SM, nearer lines"] == 210 and told["farther lines"] == pytest.approx(
        100 * 212 / 512
    )
    assert told["L2 latency, pages up to 32 MiB"] == pytest.approx(280.5)
    assert told["constant latency, up to 2 KiB"] == 29
    text = machine_toml(raw, load_gpu("h200"), "mine")
    assert "# farther lines: 41.41 %" in text
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    assert load_gpu(tmp_path / "mine.toml").code_cache_bytes == 32768
    older = {key: value for key, value in raw.items() if key != "paths"}
    assert observations(older) == [] and "code_cache_bytes" not in measured_values(older)


@pytest.mark.parametrize(
    ("name", "machine"),
    [
        ("NVIDIA A100-PCIE-40GB", "a100-40gb-pcie"),
        ("NVIDIA A100-SXM4-40GB", "a100-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA GeForce RTX 3090 Ti", None),
    ],
)
def test_the_card_that_ships(name, machine):
    assert shipped_card({"provenance": {"gpu": name}}) == machine


def test_differences_from_the_shipped_machine(raw):
    older = {key: value for key, value in raw.items() if key != "paths"}
    slower = {**older, "latency": {**raw["latency"], "dram_cold": {"cycles": [1500.0] * 5}}}
    shipped = load_gpu("h200")
    first = differences(slower, shipped)[0]
    assert first.path == "dram.latency_cycles" and first.relative > 1.0
    assert max(abs(each.relative) for each in differences(older, shipped)) < 0.1


def test_kernels_compile():
    code, names = compile_cubin(kernel_source("paths"), [*paths.kernel_names(), "body<512>"], "sm_80")
    assert code[:4] == b"\x7fELF" and "link_pages" in names


def test_a_ring_of_pages_and_sums_of_additions():
    """On the CPU: every page points to the next, and no addition is lost, whoever shares a word."""
    source = warplens.cuda(kernel_source("paths"))
    pages, page_bytes = 8, 8192
    base, order = np.zeros(pages * page_bytes, np.uint8), np.random.default_rng(1).permutation(pages)
    arguments = base, order.astype(np.uint32), np.int32(pages), np.uint64(page_bytes)
    source.kernel("link_pages").launch(1, 32, *arguments)
    places = order * page_bytes + order * 33 * 128 % page_bytes
    pointers = base.view(np.uint64)[places // 8].astype(np.int64)
    assert np.array_equal(np.diff(pointers), np.diff(np.roll(places, -1)))
    kernel = source.kernel("additions<GLOBAL>")
    for apart in paths.ADDITIONS.values():
        words, records = np.zeros(2 * paths.COUNTER_WORDS, np.uint32), np.zeros(2 * 4 * 48, np.uint8)
        kernel.launch(2, 128, records, words, np.int32(4), *(np.int32(each) for each in apart))
        assert words.sum() == 2 * 128 * (0 + 1 + 2 + 3)
