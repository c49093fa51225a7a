"""Workloads from traces: every model runs, batches equal single runs, caches are simulated no more than needed."""

from __future__ import annotations

import dataclasses
from functools import cache

import numpy as np
import pytest

from reference.traces import Step, evenly, memory_trace
from warplens.api import compare, join, load_workloads, place, predict
from warplens.errors import MachineError, MissingInputError
from warplens.machine import Gpu, load_gpu
from warplens.models import GENERAL_MODELS as MODELS
from warplens.models.base import Aspect
from warplens.models.prediction import Prediction
from warplens.traces import MemoryTrace, StaticInstruction
from warplens.workload import Needs, Workload, analyse, traced, workload_of_trace
from warplens.workload.traced import cache_misses, representative_of
from warplens_studies.validate import accelsim
from warplens_studies.validate.harness import DIVERGENT_DPKI

ROWS = (
    StaticInstruction(0x00, "S2R", "move", "none", 0, (0,), ()),
    StaticInstruction(0x10, "LDG.E", "load_global", "global", 4, (1,), (0,)),
    StaticInstruction(0x20, "LDG.E", "load_global", "global", 4, (2,), (0,)),
    StaticInstruction(0x30, "FFMA", "fp32", "none", 0, (3,), (1, 2, 3)),
    StaticInstruction(0x40, "STS", "store_shared", "shared", 4, (), (3,)),
    StaticInstruction(0x50, "BAR.SYNC", "barrier"),
    StaticInstruction(0x60, "LDS", "load_shared", "shared", 4, (4,), (0,)),
    StaticInstruction(0x70, "MUFU.RCP", "sfu", "none", 0, (5,), (4,)),
    StaticInstruction(0x80, "STG.E", "store_global", "global", 4, (), (5, 0)),
    StaticInstruction(0x90, "RED.E.ADD", "atomic_global", "global", 4, (), (5, 0)),
    StaticInstruction(0xA0, "EXIT", "control"),
)
S2R, LDG, GATHER, FFMA, STS, BAR, LDS, MUFU, STG, RED, EXIT = range(len(ROWS))
WARPS_PER_BLOCK = 4


def warp(number: int, rounds: int) -> list[Step]:
    """A coalesced and a divergent load per round, shared memory around a barrier, then results."""
    mine = evenly(2**20 + 128 * number, 4)
    steps = [Step(S2R)]
    for turn in range(rounds):
        scattered = tuple(2**21 + 128 * ((37 * (number + lane) + turn) % 500) for lane in range(0, 32, 4))
        steps += [Step(LDG, mine), Step(GATHER, scattered), Step(FFMA), Step(FFMA)]
    steps += [Step(STS, evenly(64, 4)), Step(BAR), Step(LDS, evenly(64, 8)), Step(MUFU), Step(STG, mine)]
    return [*steps, Step(RED, (2**22, 2**22 + 4 * number)), Step(EXIT)]


@cache
def made_trace(blocks: int = 70, longer: int = 0) -> MemoryTrace:
    """Every seventh warp does twice the work."""
    launch = []
    for block in range(blocks):
        numbers = range(WARPS_PER_BLOCK * block, WARPS_PER_BLOCK * (block + 1))
        launch.append([warp(number, (6 if number % 7 == 0 else 3) + longer) for number in numbers])
    return memory_trace(ROWS, launch, blocks_per_group=9, kernel="made", registers_per_thread=32)


@cache
def bundled_trace(kernel: str):
    (workload,) = load_workloads(accelsim.trace_path(kernel))
    return workload.trace


def fresh(kernel: str = "made", **options: str) -> Workload:
    """A workload that remembers nothing."""
    return workload_of_trace(made_trace() if kernel == "made" else bundled_trace(kernel), **options)


def divergence(workload: Workload) -> float:
    return analyse(workload, load_gpu(accelsim.GPU)).traced.divergent_loads_per_kilo_instruction


#: What some models need and the simulator's description does not give.
COMPLETE = {"dram.departure_coalesced": 4, "dram.departure_uncoalesced": 10}


def machine(**overrides: object) -> Gpu:
    return load_gpu("accelsim-mdm", COMPLETE | {key.replace("__", "."): value for key, value in overrides.items()})


# -- every model runs ----------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", ("made", "matmul"))
def test_every_model_runs_on_a_trace(kernel):
    workload, gpu = fresh(kernel), machine()
    instructions = sum(group.instructions for group in workload.trace.groups())
    bound = instructions / (gpu.sms * gpu.issue_rate)
    for name in MODELS:
        prediction = predict(workload, gpu, name)
        assert prediction.cycles * prediction.ipc == pytest.approx(instructions), name
        if Aspect.ISSUE_LIMIT in MODELS[name].aspects:
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


# -- simulations are shared --------------------------------------------------------------------------


@pytest.fixture
def simulations(monkeypatch) -> list[tuple[int, int]]:
    """(SMs, blocks per SM) of each cache simulation that is really made."""
    made: list[tuple[int, int]] = []
    real = traced.simulate_caches

    def counting(events, kinds, run):
        made.append((run.config.sms, run.config.blocks_per_sm))
        return real(events, kinds, run)

    monkeypatch.setattr(traced, "simulate_caches", counting)
    return made


@pytest.mark.parametrize("order", ("round-robin", "progress"))
def test_contention_alone_needs_one_simulation(simulations, order):
    workload = fresh(order=order)
    for name in ("mdm", "gpumech", "roofline", "wfg"):
        predict(workload, machine(), name)
        for key in ("dram.bandwidth", "noc.bandwidth", "dram.latency", "llc.latency", "clock"):
            predict(*place(workload, machine(), {key: np.array(SWEEPS[key])}), name)
            predict(*place(workload, machine(), {key: SWEEPS[key][0]}), name)
    assert len(simulations) == 1


@pytest.mark.parametrize(
    ("key", "value"),
    (
        ("l1.size", 24 * 1024),
        ("l1.ways", 3),
        ("l1.sector", 32),
        ("llc.size", 24 * 8 * 1024),
        ("llc.banks", 12),
        ("llc.write_policy", "through"),
        ("llc.write_allocate", False),
        ("l1.write_policy", "back"),
        ("l1.write_allocate", True),
        ("sms", 14),
    ),
)
def test_other_caches_need_another_simulation(simulations, key, value):
    workload = fresh()
    before = cache_misses(workload, machine())
    overridden = place(workload, machine(), {key: value})[1]
    changed = cache_misses(workload, overridden)
    assert len(simulations) == 2
    assert changed is not before
    described = cache_misses(fresh(), dataclasses.replace(overridden, original=None))
    assert np.array_equal(changed.counters, described.counters)
    simulations.pop()
    assert cache_misses(workload, place(workload, machine(), {key: value, "dram.bandwidth": 1e9})[1]) is changed
    assert cache_misses(workload, machine()) is before
    assert len(simulations) == 2


@pytest.mark.parametrize(
    ("key", "value", "given"),
    (
        ("scheduler", "lrr", {}),
        ("l1.mshrs", 4, {}),
        ("l1.queue", 2, {}),
        ("l1.streaming", True, {}),
        ("noc.queue", 8, {"l1__streaming": True}),
    ),
)
def test_what_decides_who_goes_first_matters_where_that_is_estimated(simulations, key, value, given):
    for order, count in (("round-robin", 1), ("oldest-4", 1), ("progress", 2)):
        simulations.clear()
        workload, gpu = fresh(order=order), machine(**given)
        cache_misses(workload, gpu)
        cache_misses(workload, place(workload, gpu, {key: value})[1])
        assert len(simulations) == count


def test_a_queue_that_nothing_waits_in_needs_no_other_simulation(simulations):
    """The MSHRs limit the misses of an L1 that keeps lines, the queue of the NoC those of one that streams."""
    for key, given in (("noc.queue", {"l1__streaming": False}), ("l1.mshrs", {"l1__streaming": True})):
        simulations.clear()
        workload, gpu = fresh(), machine(**given)
        cache_misses(workload, gpu)
        cache_misses(workload, place(workload, gpu, {key: 8})[1])
        assert len(simulations) == 1


def test_other_residents_need_another_simulation(simulations):
    workload = fresh()
    cache_misses(workload, machine())
    few = workload.with_overrides({"launch.blocks_per_sm": 1})
    cache_misses(few, machine())
    assert [blocks for _, blocks in simulations] == [3, 1]  # 70 blocks on 28 SMs
    cache_misses(workload, machine())
    assert len(simulations) == 2


def test_overridden_times_do_not_change_what_hits():
    """The order of accesses is estimated with the times of the machine as named."""
    workload, other = fresh(), fresh()
    changed = machine(dram__latency=5000, dram__bandwidth=1e9, instructions__fp32__latency=900)
    assert np.array_equal(cache_misses(workload, machine()).counters, cache_misses(other, changed).counters)


def test_machines_of_one_name_or_shape_are_told_apart():
    """A described machine with other times orders accesses otherwise, whatever was simulated before."""
    gpu = machine()
    gpu = dataclasses.replace(gpu, original=None, l1=dataclasses.replace(gpu.l1, size_bytes=6 * 128 * 2))
    slow = dataclasses.replace(gpu, dram=dataclasses.replace(gpu.dram, latency_cycles=9000.0))
    workload = fresh()
    first = cache_misses(workload, gpu)
    assert cache_misses(workload, slow).estimated_cycles == cache_misses(fresh(), slow).estimated_cycles
    assert cache_misses(workload, slow).estimated_cycles > 2 * first.estimated_cycles
    assert cache_misses(workload, gpu) is first


# -- the representative is chosen on the machine as named -------------------------------------------


def two_kinds() -> Workload:
    """Warps that wait for loads and warps that wait for special functions: which are faster is up to the machine."""
    waits_for_load = [Step(LDG, evenly(2**20, 4)), Step(FFMA)] * 4
    waits_for_sfu = [Step(MUFU), Step(STG, evenly(2**20, 4))] * 4
    trace = memory_trace(ROWS, [[waits_for_load, waits_for_sfu]] * 3)
    return workload_of_trace(trace, selection="max", order="round-robin")


def test_an_override_does_not_change_the_representative():
    gpu, slow = machine(), machine(instructions__sfu__latency=5000)
    assert representative_of(two_kinds(), gpu).index == 1
    # On a machine that is described that way the other kind is faster.
    described = dataclasses.replace(slow, original=None)
    assert representative_of(two_kinds(), described).index == 0
    for machines in ((gpu, slow), (slow, gpu)):
        workload = two_kinds()
        assert [representative_of(workload, each).index for each in machines] == [1, 1]
    # Its intervals follow the override.
    profile = next(iter(analyse(two_kinds(), slow, Needs("interval_profile")).intervals))[1]
    assert profile.column("stall_cycles").sum() == pytest.approx(4 * 5000)


def reuse_that_residents_destroy() -> Workload:
    """One kind of warp reuses lines that stay in L1 with one block per SM and not with all of them."""
    launch = []
    for block in range(28 * 8):
        private = [128 * (10_000 + 8 * block + part) for part in range(8)]
        reuses = [step for _ in range(6) for address in private for step in (Step(LDG, (address,)), Step(FFMA))]
        shares = [step for turn in range(48) for step in (Step(GATHER, (128 * (50_000 + turn),)), Step(FFMA))]
        launch.append([reuses, shares])
    trace = memory_trace(ROWS, launch)
    return workload_of_trace(trace, order="round-robin", selection="max")


def test_a_launch_override_does_not_change_the_representative():
    gpu = dataclasses.replace(load_gpu("accelsim-mdm"), l1=dataclasses.replace(machine().l1, size_bytes=6 * 128 * 8))
    plain = representative_of(reuse_that_residents_destroy(), gpu)
    crowded = cache_misses(reuse_that_residents_destroy(), gpu).levels[LDG, 0]
    workload = reuse_that_residents_destroy().with_overrides({"launch.blocks_per_sm": 1})
    assert cache_misses(workload, gpu).levels[LDG, 0] > crowded + 0.3
    assert representative_of(workload, gpu).index == plain.index
    assert representative_of(workload, gpu).mean_distance == plain.mean_distance


def test_selection_and_order_have_representatives_of_their_own():
    workload = two_kinds()
    slowest = dataclasses.replace(workload, selection="min")  # shares what is remembered
    assert representative_of(workload, machine()).index == 1
    assert representative_of(slowest, machine()).index == 0
    assert representative_of(workload, machine()).index == 1


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
    loads = np.count_nonzero(classes[executed] == traced.CLASS_NAMES.index("load_global"))
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
