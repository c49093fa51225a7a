"""Workloads from traces: every model runs, batches equal single runs, launches add up."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from reference.traces import Step, memory_trace
from warplens.api import compare, join, place, predict
from warplens.errors import MachineError, MissingInputError
from warplens.machine import load_gpu
from warplens.models import GENERAL_MODELS as MODELS
from warplens.models.base import Aspect
from warplens.models.prediction import Prediction
from warplens.traces import CLASS_NAMES, MemoryTrace, StaticInstruction
from warplens.workload import Needs, Workload, analyse, workload_of_trace
from warplens.workload.traced import cache_misses, representative_of
from warplens_studies.validate import accelsim
from warplens_studies.validate.harness import DIVERGENT_DPKI

from .traces import EXIT, FFMA, GATHER, LDG, RED, ROWS, S2R, fresh, machine, made_trace, warp


def divergence(workload: Workload) -> float:
    return analyse(workload, load_gpu(accelsim.GPU)).traced.divergent_loads_per_kilo_instruction


# -- every model runs ----------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ("made", "matmul"))
def test_every_model_runs_on_a_trace(kernel):
    workload, gpu = fresh(kernel), machine()
    instructions = sum(group.instructions for group in workload.trace.groups())
    bound = instructions / (gpu.sms * gpu.issue_rate)
    for name in MODELS:
        prediction = predict(workload, gpu, name)
        assert prediction.cycles * prediction.ipc == pytest.approx(instructions), name
        # Zhang & Owens limit each component; all of them together may issue more.
        if Aspect.ISSUE_LIMIT in MODELS[name].aspects and name != "zhang-owens":
            assert prediction.cycles >= bound * (1 - 1e-9), name
        assert prediction.seconds == pytest.approx(prediction.cycles / 1.4e9), name
        if prediction.stack is not None:
            assert sum(prediction.stack.values()) == pytest.approx(prediction.cpi, rel=1e-12), name


@pytest.mark.parametrize("order", ("round-robin", "oldest-8", "progress"))
@pytest.mark.parametrize("selection", ("clustering", "max", "min"))
def test_orders_and_selections_reach_the_models(order, selection):
    workload = fresh(order=order, selection=selection)
    assert cache_misses(workload, machine()).order == order
    assert representative_of(workload, machine()).selection == selection
    assert predict(workload, machine(), "mdm").cycles > 0


def test_a_kernel_without_memory_instructions_runs_where_a_model_allows_it():
    trace = memory_trace(ROWS, [[[Step(S2R), *[Step(FFMA)] * 30, Step(EXIT)]]] * 56)
    found = compare(workload_of_trace(trace), [machine()])
    predictions = {prediction.model: prediction for prediction in found.predictions}
    assert {"roofline", "mdm", "gpumech", "naive-interval"} <= predictions.keys()
    for prediction in found.predictions:
        assert np.isfinite(prediction.cycles)
        memory = {"L1", "L2", "DRAM", "MSHR", "NOC", "QUEUE"} & (prediction.stack or {}).keys()
        assert not any((prediction.stack or {})[name] for name in memory), prediction.model


def test_warps_without_instructions_do_no_harm():
    empty = memory_trace(ROWS, [[[], [], warp(block, 2), []] for block in range(40)])
    found = compare(workload_of_trace(empty), [machine()])
    assert {prediction.model for prediction in found.predictions} == set(MODELS)
    assert [item.model for item in found.skipped] == ["crisp"]


def test_the_launch_is_the_recorded_one():
    launch = fresh().launch
    assert (launch.blocks, launch.threads_per_block, launch.registers_per_thread) == (70.0, 128, 32)
    assert launch.shared_memory_per_block_bytes is None


def test_machines_without_a_line_size_are_refused_by_name():
    gpu = load_gpu("gtx1060")
    with pytest.raises(MissingInputError, match=r"model 'mdm' needs .*gtx1060"):
        predict(fresh(), gpu, "mdm")
    odd = dataclasses.replace(machine(), original=None)
    odd = dataclasses.replace(odd, l1=dataclasses.replace(odd.l1, line_bytes=96))
    with pytest.raises(MachineError, match=r"l1\.line_bytes: 96"):
        cache_misses(fresh(), odd)


# -- views ------------------------------------------------------------------------------------------


def test_the_instruction_mix_is_the_representative_warps():
    """Three rounds; the divergent load touches eight lines, the reduction two, the others one."""
    workload, gpu = fresh(), machine()
    mix = analyse(workload, gpu, Needs("instruction_mix")).mix
    counts = {name: entry.count for name, entry in mix.entries.items()}
    assert counts == {
        "move": 1,
        "load_global": 6,
        "fp32": 6,
        "store_shared": 1,
        "barrier": 1,
        "load_shared": 1,
        "sfu": 1,
        "store_global": 1,
        "atomic_global": 1,
        "control": 1,
    }
    assert mix.synchronizations == 1
    assert mix.entries["load_global"].uncoalesced == pytest.approx(3)
    assert mix.entries["store_global"].uncoalesced == 0
    lines = cache_misses(workload, gpu).per_execution("lines")
    assert lines[GATHER] == pytest.approx(8, abs=0.2)  # a few lanes meet in one line
    divergent = [3.0, float(mix.entries["atomic_global"].uncoalesced)]
    expected = (divergent[0] * lines[GATHER] + divergent[1] * lines[RED]) / sum(divergent)
    assert mix.uncoalesced_transactions == pytest.approx(expected)


def test_timings_of_memory_classes_are_averages_over_their_executions():
    """λ is that of the busiest of L1 port, NoC and DRAM; Λ is the average memory access time."""
    workload, gpu = fresh(), machine()
    facts = analyse(workload, gpu, Needs("dependence_graph"))
    misses, timing = facts.traced.misses, facts.timing("load_global", "the test")
    executed = misses.executed[[LDG, GATHER]]
    levels = (misses.levels[[LDG, GATHER]].T @ executed) / executed.sum()
    assert timing.latency_cycles == pytest.approx(levels @ [24.0, 120.0, 340.0])

    def mean(values):
        return float(values[[LDG, GATHER]] @ executed / executed.sum())

    noc = gpu.service_cycles_now("noc", "the test") * 28 * mean(misses.misses_per_execution)
    dram = gpu.service_cycles_now("dram", "the test") * 28 * mean(misses.per_execution("llc_misses"))
    port = mean(misses.per_execution("lines"))
    assert timing.interval_cycles == pytest.approx(max(noc, dram, port))
    assert facts.timing("fp32", "the test") == gpu.timing("fp32")


def test_work_flow_and_dependence_views_fit_together():
    workload, gpu = fresh(), machine()
    graph = analyse(workload, gpu, Needs("dependence_graph")).graph
    flow = analyse(workload, gpu, Needs("work_flow_graph")).flow
    assert flow.total == len(graph.instructions) == analyse(workload, gpu, Needs("instruction_mix")).mix.total
    assert len(flow.of_kind("memory")) == 8
    assert len(flow.of_kind("barrier")) == 1


# -- a batch is its machines ------------------------------------------------------------------------

SWEEPS = {
    "dram.bandwidth": [120e9, 480e9, 960e9],
    "noc.bandwidth": [262e9, 1050e9, 2100e9],
    "l1.mshrs": [8, 128, 31],
    "dram.latency": [50.0, 220.0, 700.5],
    "llc.latency": [60.0, 120.0, 121.7],
    "clock": [0.7e9, 1.4e9, 1.93e9],
    "sms": [7, 28, 61],
    "instructions.fp32.latency": [4, 18, 9.5],
    "launch.warps_per_sm": [4, 8, 17],
    "launch.blocks_per_sm": [1, 2, 3],
}


def assert_identical(one: Prediction, other: Prediction) -> None:
    """Every number, bit for bit."""
    for name in ("cycles", "seconds", "ipc", "cpi"):
        assert getattr(one, name) == getattr(other, name), name
    assert one.stack == other.stack
    assert one.terms.keys() == other.terms.keys()
    for name, term in one.terms.items():
        assert np.array_equal(term, other.terms[name], equal_nan=True), name
    assert one.warnings == other.warnings


#: These go the same ways as others that always run.
SLOW = ("noc.bandwidth", "llc.latency", "instructions.fp32.latency", "launch.blocks_per_sm")


@pytest.mark.parametrize("key", [pytest.param(key, marks=[pytest.mark.slow] * (key in SLOW)) for key in SWEEPS])
def test_a_row_of_a_batch_is_the_prediction_of_its_machine(key):
    """Batch and single runs start from a workload that remembers nothing: neither may depend on what ran before."""
    values = SWEEPS[key]
    moved = set()
    for name in MODELS:
        batch = predict(*place(fresh(), machine(), {key: np.array(values, dtype=float)}), name)
        assert len(batch) == len(values)
        for index, value in enumerate(values):
            single = predict(*place(fresh(), machine(), {key: value}), name)
            assert_identical(batch.row(index), single)
        if len(set(batch.cycles.tolist())) > 1:
            moved.add(name)
    assert "mdm" in moved


@pytest.mark.parametrize("name", ("mdm", "roofline"))
def test_several_parameters_at_once(name):
    grid = {"dram.bandwidth": np.array([240e9, 480e9, 240e9]), "sms": np.array([14, 14, 28])}
    grid |= {"launch.warps_per_sm": np.array([8.0, 16.0, 8.0])}
    batch = predict(*place(fresh(), machine(), grid), name)
    for index in range(3):
        one = {key: float(values[index]) for key, values in grid.items()}
        assert_identical(batch.row(index), predict(*place(fresh(), machine(), one), name))


def test_a_bundled_kernel_in_a_batch():
    values = [32, 64, 256]
    batch = predict(*place(fresh("stencil"), machine(), {"l1.mshrs": np.array(values)}), "mdm")
    workload = fresh("stencil")
    for index, value in reversed(list(enumerate(values))):
        assert_identical(batch.row(index), predict(*place(workload, machine(), {"l1.mshrs": value}), "mdm"))


# -- several launches ----------------------------------------------------------------------------------


def test_launches_of_an_application_add_up():
    """IPC of the whole is the sum of instructions over the sum of cycles (docs/conventions.md §5)."""
    launches = [workload_of_trace(made_trace()), workload_of_trace(made_trace(30, longer=9))]
    parts = [compare(launch, [machine()], ["mdm", "roofline"]) for launch in launches]
    whole = join(parts)
    assert len(whole.predictions) == 6
    assert whole.skipped == ()
    for model in ("mdm", "roofline"):
        one, other, both = (p for p in whole.predictions if p.model == model)
        assert (both.kernel, both.launch) == ("all launches", None)
        instructions = [sum(g.instructions for g in launch.trace.groups()) for launch in launches]
        assert both.cycles == one.cycles + other.cycles
        assert both.seconds == one.seconds + other.seconds
        assert both.ipc == pytest.approx(sum(instructions) / (one.cycles + other.cycles))
        assert both.cpi == pytest.approx(28 / both.ipc)
        assert both.ipc != pytest.approx((one.ipc + other.ipc) / 2, rel=1e-3)
        if both.stack is not None:
            assert sum(both.stack.values()) == pytest.approx(both.cpi)


def test_one_launch_alone_is_not_added_up():
    found = join([compare(fresh(), [machine()], ["mdm"])])
    assert [prediction.kernel for prediction in found.predictions] == ["made"]


# -- the bundled kernels ----------------------------------------------------------------------------------

COALESCED = ("copy", "saxpy", "saxpy_lowocc", "compute_ilp1", "compute_ilp4_lowocc", "matmul")
DIVERGENT = ("strided8", "strided32", "strided32_l2", "listing1_gs32", "gather_dram", "gather_l2", "graph")


@pytest.mark.parametrize("kernel", COALESCED)
def test_kernels_that_coalesce_have_no_divergent_loads(kernel):
    assert divergence(fresh(kernel, order="round-robin")) == 0.0


@pytest.mark.parametrize("kernel", DIVERGENT)
def test_kernels_that_do_not_are_memory_divergent(kernel):
    assert divergence(fresh(kernel, order="round-robin")) > DIVERGENT_DPKI


@pytest.mark.parametrize("kernel", ("strided8", "strided32"))
def test_divergent_loads_are_those_that_touch_more_than_one_line(kernel):
    """Every load of the strided kernels does: DPKI is their part of the instructions."""
    workload = fresh(kernel, order="round-robin")
    classes = np.array(workload.trace.static.class_id)
    executed = np.concatenate([group.static for group in workload.trace.groups()])
    loads = np.count_nonzero(classes[executed] == CLASS_NAMES.index("load_global"))
    assert loads > 0
    assert divergence(workload) == pytest.approx(1000 * loads / len(executed))


@pytest.mark.parametrize("kernel", accelsim.kernels())
def test_l1_accesses_are_those_of_the_simulator(kernel):
    """Coalescing makes exactly the accesses that the third-party simulator counted."""
    workload = fresh(kernel, order="round-robin")
    found = cache_misses(workload, load_gpu(accelsim.GPU))
    measured = accelsim.measurements()["base", kernel]
    assert found.l1_accesses == measured.l1_accesses
    assert found.llc_accesses >= found.l1_misses


def test_predictions_of_a_trace_say_what_was_found_out_about_it():
    found = compare(fresh("matmul"), [accelsim.GPU], ["mdm", "volkov"])
    (item,) = found.to_dict()["inputs"]
    assert (item["kernel"], item["gpu"], item["order"]) == ("matmul", accelsim.GPU, "progress")
    assert sum(item["cluster_sizes"]) == item["warps"] == 1792
    assert item["llc_miss_ratio"] == pytest.approx(0.067, abs=0.001)


def test_a_kernel_that_the_gpu_cannot_run_says_so():
    """A GPU without clusters, wgmma and TMA gets a time all the same, for comparisons; it says what it is."""
    rows = [StaticInstruction(0, "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", "fp32"), ROWS[EXIT]]
    trace = memory_trace(rows, [[[Step(0), Step(1)]]])
    clustered = dataclasses.replace(trace.header, extra={**trace.header.extra, "cluster_blocks": 2})
    trace = MemoryTrace(clustered, trace.static, tuple(trace.groups()))
    said = {
        name: [
            each for each in predict(workload_of_trace(trace), load_gpu(name), "roofline").warnings if "lack" in each
        ]
        for name in ("a100", "h200")
    }
    assert said["h200"] == []
    assert said["a100"] == [
        "the kernel uses wgmma and clusters, which GPUs of compute capability 8.0 lack: it does not run on this one"
    ]
