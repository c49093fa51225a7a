"""What a cache simulation depends on: equal records for machines that it cannot tell apart, others for the rest."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from warplens.analysis import cache_run, cache_runs
from warplens.errors import MissingInputError, OptionError
from warplens.machine import load_gpu

#: Overrides of `h200` that caches see, whatever the order of accesses.
STRUCTURE = {
    "sms": 100,
    "l1.size": "64 KiB",
    "l1.ways": 8,
    "l1.hashed": False,
    "l1.line": 64,
    "l1.sector": 64,
    "l1.write_policy": "back",
    "l1.write_allocate": False,
    "llc.size": "10 MiB",
    "llc.ways": 8,
    "llc.banks": 5,
    "llc.hashed": False,
    "llc.fetch": 128,
    "llc.write_policy": "through",
    "llc.write_allocate": False,
}
#: And those that only an estimate of their order sees.
PROGRESS = {"scheduler": "lrr", "l1.streaming": False, "l1.queue": 3, "noc.queue": 77, "l1.merge_lines": 3}
TIMES = {
    "clock": "1 GHz",
    "dram.bandwidth": "1 TB/s",
    "noc.bandwidth": "1 TB/s",
    "dram.latency": 99,
    "llc.latency": 9,
}


def run_of(overrides=None, order="progress", blocks_per_sm=2, **options):
    named = load_gpu("h200")
    return cache_run(load_gpu("h200", overrides), named, blocks_per_sm, order=order, **options)


@pytest.mark.parametrize("order", ["progress", "round-robin", "oldest-4"])
@pytest.mark.parametrize("key", [*STRUCTURE, *PROGRESS, *TIMES])
def test_what_runs_depend_on(key, order):
    value = (STRUCTURE | PROGRESS | TIMES)[key]
    seen = key in STRUCTURE or (key in PROGRESS and order == "progress")
    plain, changed = run_of(order=order), run_of({key: value}, order=order)
    assert (changed != plain) == seen
    assert seen or hash(changed) == hash(plain)


def test_residents_order_and_classes_count():
    assert run_of(blocks_per_sm=3) != run_of() == run_of(blocks_per_sm=2.9)
    assert len({run_of(order=order) for order in ("progress", "round-robin", "oldest-2", "oldest-3")}) == 4
    assert run_of(classes=["fp32"]) != run_of()
    with pytest.raises(OptionError, match="oldest-N"):
        run_of(order="youngest")


def test_times_are_those_of_the_machine_as_named():
    named = load_gpu("h200")
    faster = load_gpu("h200", {"clock": "1 GHz", "instructions.fp32.latency": 40})
    run = cache_run(faster, named, 1, classes=("fp32", "load_global"))
    assert run == cache_run(named, named, 1, classes=("fp32", "load_global"))
    assert run.coalescing.latency_of("fp32") == named.timing("fp32").latency_cycles
    assert run.coalescing.latency_of("load_global") == 0.0


def test_transfers_take_the_time_of_as_many_bytes_and_sms_as_there_are():
    plain, changed = run_of(), run_of({"l1.sector": 64, "sms": 1})
    assert plain.timing is not None and changed.timing is not None
    assert changed.timing.dram_service == 2 * plain.timing.dram_service
    assert changed.timing.noc_service > 2 * plain.timing.noc_service  # one SM's port is narrower than the network
    assert changed.timing.sm_service == 2 * plain.timing.sm_service


@pytest.mark.parametrize("order", ["progress", "round-robin"])
def test_a_batch_has_the_runs_of_its_machines(order):
    vary = {
        "llc.ways": np.array([8, 16, 8, 16, 8]),
        "llc.banks": np.array([2, 2, 2, 2, 10**6]),
        "dram.bandwidth": np.array([1e12, 2e12, 3e12, 4e12, 5e12]),
        "l1.sector": np.array([32, 32, 32, 32, 64]),
        "sms": np.array([10, 10, 10, 11, 11]),
    }
    blocks = np.array([2, 2, 2.5, 2, 0.5])
    named, batch = load_gpu("h200"), load_gpu("h200", vary)
    runs, which = cache_runs(batch, named, blocks, 5, order=order, classes=("fp32",))
    alone = [
        cache_run(
            load_gpu("h200", {key: values[row] for key, values in vary.items()}),
            named,
            blocks[row],
            order=order,
            classes=("fp32",),
        )
        for row in range(5)
    ]
    assert [runs[index] for index in which] == alone
    assert len(runs) == len(set(runs)) == 4
    kinds = [[type(value) for value in (*run.config, *(run.timing or ()))] for run in (*runs, *alone)]
    assert all(each == kinds[0] for each in kinds) and set(kinds[0]) <= {int, bool, float}


def test_what_is_missing_is_named():
    named = load_gpu("h200")
    none = dataclasses.replace(named, l1=dataclasses.replace(named.l1, line_bytes=None, sector_bytes=None))
    with pytest.raises(MissingInputError, match=r"this test needs l1\.line_bytes"):
        cache_run(none, none, 1, needed_by="this test")


def test_an_llc_with_fewer_sets_than_banks_has_one_bank():
    sets = {"llc.ways": 16, "l1.line": 128, "llc.banks": 8, "llc.partitions": 1}
    assert run_of(sets | {"llc.size": 8 * 16 * 128}).config.llc_banks == 8
    assert run_of(sets | {"llc.size": 7 * 16 * 128}).config.llc_banks == 1
