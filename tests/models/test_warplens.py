"""The limits that our own model is held to, and what it says of a prediction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from making import Interval, complete_gpu, gpu, run, with_graph, with_profile
from reference.traces import Step, evenly, memory_trace
from warplens.machine import with_overrides
from warplens.models.network import LaunchSize, demand_config, demand_of_sample
from warplens.suite.catalog import SUITE
from warplens.suite.execution import run_on_cpu
from warplens.traces import StaticInstruction
from warplens.workload import Needs, analyse, workload_of_trace
from warplens.workload.samples import block_sample
from warplens_studies.validate.h200_profiles import placed_launch, shipped_profiles

#: A machine whose memory system never makes anybody wait.
FREE = {"noc.bandwidth": "1e9GB/s", "dram.bandwidth": "1e9GB/s", "l1.mshrs": 4096}


def chain(count: int, *, every: int = 4) -> list[tuple[str, tuple[int, ...]]]:
    """Computation in a row with a load now and then, each needing what is before it."""
    return [("mem" if k % every == every - 1 else "comp", (k - 1,) if k else ()) for k in range(count)]


@pytest.mark.parametrize("kernel", ["spmv_csr", "svm_naive", "matmul_naive"])
def test_blocks_that_are_followed_ask_for_as_much_as_all(kernel):
    """Instructions that none of them executes, and levels that no event was given, are not lost."""
    workload, machine = placed_launch(shipped_profiles("sass", "medium")[0][kernel], 0)
    facts = analyse(workload, machine, Needs(events=True))
    sample, misses = block_sample(facts, machine, "test", reorder=False), facts.traced.misses
    recorded, instructions = facts.traced.recorded_blocks, facts.traced.instructions_per_block
    config = demand_config(machine, sample.classes, "test")
    events = demand_of_sample(sample, misses, LaunchSize(recorded, instructions, 1.0), config).stream.events
    asked = {name: events[name].sum() * recorded / sample.blocks for name in ("dram_reads", "requests")}
    assert asked["dram_reads"] == pytest.approx(misses.dram_read_bytes / misses.transfer_bytes)
    assert asked["requests"] == pytest.approx((misses.packets_per_execution * misses.executed).sum())


def test_the_l1_serves_instructions_that_the_sample_lacks():
    """A loop of many loads: a thinned sample has some of them, the launch has them all."""
    rows = [StaticInstruction(16 * k, "LDG", "load_global", "global", 4, (1,), (0,)) for k in range(64)]
    warp = [Step(k, evenly(2**20, 4)) for k in range(64)] * 4
    machine = complete_gpu()
    facts = analyse(workload_of_trace(memory_trace(rows, [[warp]] * 4)), machine, Needs(events=True))

    def port(most_events):
        sample = block_sample(facts, machine, "test", False, most_events)
        config = demand_config(machine, sample.classes, "test")
        found = demand_of_sample(sample, facts.traced.misses, LaunchSize(4, 256.0, 1.0), config)
        return len(np.unique(sample.static)), found.stream.events["port"].sum()

    (all_loads, whole), (some, thinned) = port(0), port(32)
    assert some < all_loads == 64 and thinned == pytest.approx(whole)


def test_one_block_of_many_that_works_alone_keeps_its_time():
    """79 blocks do little; one of them, which even distances miss, adds up everything."""
    rows = [
        StaticInstruction(0, "LDG", "load_global", "global", 4, (1,), (0,)),
        StaticInstruction(16, "FADD", "fp32", "none", 0, (3,), (1, 3)),
    ]
    blocks = [[[Step(0, evenly(2**20, 4)), *[Step(1)] * (2000 if block == 0 else 2)]] for block in range(79)]
    traces = (memory_trace(rows, part) for part in (blocks, blocks[:1]))
    together, alone = (run("warplens", workload_of_trace(trace), complete_gpu()) for trace in traces)
    assert together.cycles == pytest.approx(alone.cycles, rel=0.1)


@pytest.mark.parametrize("warps", [16, 32, 64])
@pytest.mark.parametrize("name", ["comp", "load_global"])
def test_many_independent_warps_reach_the_roofline(warps, name):
    """Instructions that wait for nothing: issue slots, or the bandwidth of DRAM, are all that counts."""
    workload = with_graph(*[name] * 200, warps_per_sm=warps)
    machine = complete_gpu()
    assert run("warplens", workload, machine).cycles == pytest.approx(
        run("roofline", workload, machine).cycles, rel=0.02
    )


@pytest.mark.parametrize("warps", [1, 2, 4])
def test_without_contention_the_latency_of_a_warp_is_volkovs(warps):
    workload = with_graph(*chain(32), warps_per_sm=warps)
    machine = with_overrides(complete_gpu(), FREE)
    assert run("warplens", workload, machine).cycles == pytest.approx(
        run("volkov", workload, machine).cycles, rel=0.05
    )


@pytest.mark.parametrize("warps", [1, 4, 8, 16, 48])
@pytest.mark.parametrize("scheduler", ["gto", "lrr"])
@pytest.mark.parametrize("classes", [("comp",), ("comp", "sfu"), ("comp", "barrier", "comp")])
def test_one_sm_without_memory_is_the_pipeline_model(warps, scheduler, classes):
    """Dependent computations, special functions and barriers: the same where one warp runs or all slots are used.

    Between the two, warps that want the same slot get in one another's way; the network knows only how often.
    """
    ours, pipeline = on_one_sm(classes, warps, {"scheduler": scheduler})
    assert (0.93 if warps in (1, 48) else 0.75) * pipeline < ours < 1.08 * pipeline


@pytest.mark.parametrize("warps", [1, 4, 16])
@pytest.mark.parametrize("scheduler", ["gto", "lrr"])
def test_loads_without_contention_are_the_pipeline_models(warps, scheduler):
    ours, pipeline = on_one_sm(("comp", "load_global", "comp"), warps, {"scheduler": scheduler} | FREE)
    assert ours == pytest.approx(pipeline, rel=0.05)


def on_one_sm(classes, warps, overrides):
    """Cycles of ours and of the Pipeline model, for instructions of which two of three need the one before."""
    names = list(classes) * 40
    workload = with_graph(*((name, (k - 1,) if k % 3 else ()) for k, name in enumerate(names)), warps_per_sm=warps)
    machine = with_overrides(gpu("mdm2020"), {"sms": 1} | overrides)
    return run("warplens", workload, machine).cycles, run("pipeline", workload, machine, in_order=True).cycles


#: What is given of each; from a quarter to four times as much is tried.
RESOURCES = {
    "l1.mshrs": 64,
    "noc.bandwidth": 1e12,
    "noc.sm_bandwidth": 4e10,
    "dram.bandwidth": 5e11,
    "issue_width": 1,
}


@pytest.mark.parametrize("resource", RESOURCES)
@settings(max_examples=40, deadline=None)
@given(
    reads=st.integers(0, 40),
    writes=st.integers(0, 40),
    instructions=st.integers(1, 40),
    stall=st.integers(0, 500),
    intervals=st.integers(1, 6),
    to_dram=st.floats(0, 1),
)
def test_more_of_a_resource_never_costs_time(reads, writes, instructions, stall, intervals, to_dram, resource):
    """One warp, so that the order of warps is the same whatever the machine."""
    rows = [Interval(instructions, stall, 1, reads, writes, to_dram)] * intervals
    workload = with_profile(*rows, warps_per_sm=1)
    machine = complete_gpu()
    values = np.array([0.25, 0.5, 1.0, 2.0, 4.0]) * RESOURCES[resource]
    cycles = run("warplens", workload, with_overrides(machine, {resource: values})).cycles
    assert np.all(np.diff(cycles) <= 1e-9 * cycles[:-1])


def test_what_binds_is_said():
    rows = [Interval(4, 400, 1, 32, 0, 1.0)] * 8
    prediction = run("warplens", with_profile(*rows, warps_per_sm=64), complete_gpu())
    assert any(text.startswith("bound by DRAM bandwidth") for text in prediction.warnings)
    assert prediction.terms["busy_DRAM"] > 0.9
    assert prediction.terms["cycles_low"] < prediction.cycles < prediction.terms["cycles_high"]


def test_the_launch_counts_where_the_machine_gives_it():
    workload = with_profile(Interval(100, 0), blocks=1000, threads_per_block=256)
    launch = {"launch_overhead": 2000, "cold_start": 1000, "block_launch": 10, "block_start": 400}
    machine = with_overrides(complete_gpu(), launch)
    with_launch = run("warplens", workload, machine)
    without = run("warplens", workload, machine, launch_overhead=False)
    assert with_launch.cycles >= max(3000 + 10 * 1000, without.cycles + 3000)
    assert with_launch.stack["IDLE"] > without.stack["IDLE"]


@pytest.mark.parametrize("blocks", [1, 4])
def test_clusters_start_as_the_machine_says(blocks):
    workload = with_profile(Interval(100, 0), blocks=1000, threads_per_block=256, cluster_blocks=blocks)
    launch = {"launch_overhead": 0, "block_launch": 1, "block_start": 0, "cluster_launch": 50, "cluster_start": 400}
    found = run("warplens", workload, with_overrides(complete_gpu(), launch))
    assert (found.cycles > 50 * 1000) == (blocks > 1)


def on_h200(kernel: str, changes=None, **options) -> float:
    workload = workload_of_trace(run_on_cpu(SUITE[kernel], "small", record=True).trace)
    machine = with_overrides(gpu("h200"), changes or {})
    return float(run("warplens", workload, machine, launch_overhead=False, **options).cycles)


@pytest.mark.parametrize(
    ("kernel", "changes", "factor"),
    [
        ("strided_square_32", {"l1.banked": False}, 0.9),
        ("gaussian_fan1", {"noc.sm_store": 40}, 1.4),
        ("gaussian_fan1", {"noc.store": 0.4}, 1.4),
        ("gaussian_fan1", {"noc.sm_request": 40}, 1.4),
        ("gaussian_fan1", {"llc.dirty": 1, "dram.bandwidth": "10GB/s"}, 2.0),
        ("histogram_global", {"noc.atomic": 0.4}, 2.0),
        ("matmul_tiled", {"instructions.shared.interval": 32}, 1.5),
        ("matmul_tiled", {"shared_memory_bytes_per_cycle": 4}, 1.5),
        ("transpose_naive", {"l1.bytes_per_cycle": 0.5}, 1.5),
    ],
)
def test_what_a_machine_says_of_scattered_accesses_counts(kernel, changes, factor):
    """Each changes the time at least by the factor."""
    assert (on_h200(kernel, changes) / on_h200(kernel) / factor - 1.0) * (factor - 1.0) > 0.0


@pytest.mark.parametrize("parameter", ["dram.write_factor", "llc.dirty", "noc.store"])
def test_a_row_of_a_batch_is_the_prediction_of_its_machine(parameter):
    workload = workload_of_trace(run_on_cpu(SUITE["gaussian_fan1"], "small", record=True).trace)
    machine = with_overrides(gpu("h200"), {"llc.dirty": 4096, "dram.bandwidth": "50GB/s"})
    values = {"dram.write_factor": [1.0, 3.0, 9.0], "llc.dirty": [1, 20_000, 1 << 30]}.get(
        parameter, [0.0, 1.0, 40.0]
    )
    batch = run("warplens", workload, with_overrides(machine, {parameter: np.array(values)})).cycles
    alone = [run("warplens", workload, with_overrides(machine, {parameter: value})).cycles for value in values]
    assert batch.tolist() == alone
    assert len(set(alone)) > 1


def test_machines_of_a_batch_may_differ_in_the_sets_of_their_l1():
    workload = workload_of_trace(run_on_cpu(SUITE["transpose_naive"], "small", record=True).trace)
    sizes = [24576, 49152, 98304]
    batch = run("warplens", workload, with_overrides(gpu("mdm2020"), {"l1.size": np.array(sizes)})).cycles
    alone = [run("warplens", workload, with_overrides(gpu("mdm2020"), {"l1.size": size})).cycles for size in sizes]
    assert batch.tolist() == alone


def test_mechanisms_that_are_left_out_are_those_of_the_machine():
    kernel = "strided_square_32"
    assert on_h200(kernel, without="conflicts") == pytest.approx(on_h200(kernel, {"l1.banked": False}), rel=1e-3)
    assert on_h200(kernel, without="conflicts") < on_h200(kernel)
    assert on_h200("histogram_global", without="stores") < on_h200("histogram_global")


def test_a_real_gpu_may_be_slower_than_its_description():
    rows = [Interval(4, 400, 1, 32, 0, 1.0)] * 8
    described, real = (
        run("warplens", with_profile(*rows, warps_per_sm=64), gpu(name)) for name in ("mdm2020", "h200")
    )
    for prediction, more in ((described, False), (real, True)):
        ran = prediction.cycles - prediction.terms["launch"]
        up = (prediction.terms["cycles_high"] - prediction.terms["launch"]) / ran
        down = ran / (prediction.terms["cycles_low"] - prediction.terms["launch"])
        assert (up > down + 0.02) == more


def test_a_warp_alone_takes_its_instructions_and_its_stalls():
    """A stall that no request explains is waited for all the same."""
    machine = complete_gpu()
    for reads in (0.0, 1.0):
        intervals = Interval(10, 100, reads, reads), Interval(7, 0)
        found = run("warplens", with_profile(*intervals, warps_per_sm=1), with_overrides(machine, FREE))
        assert found.cycles == pytest.approx(117, abs=1e-3)


@pytest.mark.parametrize(
    ("model", "launch"),
    [
        ("warplens", {"blocks": 28 * 12, "threads_per_block": 128, "blocks_per_sm": 1.0}),
        ("markov-chain", {"warps_per_sm": 1.0}),
    ],
)
def test_part_of_a_block_or_of_a_warp_is_not_resident(model, launch):
    def ipc(residents):
        changed = {name: residents if value == 1.0 else value for name, value in launch.items()}
        return run(model, with_profile(*[Interval(10, 300, 1, 1, 0, 1)] * 6, **changed), complete_gpu()).ipc

    assert ipc(2.5) == pytest.approx(ipc(2)) != pytest.approx(ipc(3))


def test_a_launch_with_a_long_block():
    """It comes first. Warps and units have the work of all blocks, not only of those that are followed."""
    rows = [
        StaticInstruction(0, "LDG", "load_global", "global", 4, (1,), (0,)),
        StaticInstruction(16, "FFMA", "fp32", "none", 0, (3,), (1, 2, 3)),
    ]
    lengths = [20 if block == 31 else 4 for block in range(48)]
    warps = [[Step(0, evenly(2**20 + 4096 * block, 4)), Step(1)] * length for block, length in enumerate(lengths)]
    machine = complete_gpu()
    facts = analyse(
        workload_of_trace(memory_trace(rows, [[warp] * 2 for warp in warps])), machine, Needs(events=True)
    )
    sample = block_sample(facts, machine, "test", reorder=False)
    config = demand_config(machine, sample.classes, "test")

    def demand(instructions):
        return demand_of_sample(sample, facts.traced.misses, LaunchSize(48, instructions, 1.0), config)

    mean = 2 * 2 * np.mean(lengths)
    found, twice = demand(mean), demand(2 * mean)
    numbers = facts.traced.blocks.block[sample.block_start[:-1]][found.stream.order].tolist()
    assert numbers[0] == 31 and numbers == [*sorted(each for each in numbers if each >= 31), *sorted(numbers)][:24]
    assert found.instructions_per_warp == pytest.approx(2 * np.mean(lengths))
    assert twice.instructions_per_warp == pytest.approx(2 * found.instructions_per_warp)
    # The long block stands for itself alone, so that its work and that of the others are neither more nor less.
    assert found.stream.units[found.stream.units > 0] == pytest.approx(machine.timing("fp32").interval_cycles)
