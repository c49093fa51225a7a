"""The Pipeline model among the others: batches, launches, and the bounds that other models give."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import warplens
from making import complete_gpu, run, with_flow, with_graph, with_mix
from reference.traces import Step, evenly, memory_trace
from warplens.analysis import FlowNode
from warplens.errors import MissingInputError, OptionError
from warplens.machine import load_gpu
from warplens.models import MODELS, Aspect, get_model
from warplens.simulators.pipeline import simulate_pipeline
from warplens.simulators.pipeline.execution import PARTIAL_GROUP, SOME_WAVES
from warplens.traces import StaticInstruction
from warplens.workload import Workload, workload_of_trace

CHAIN = (("comp", ()), ("sfu", (0,)), ("mem", (1,)), ("comp", (2,)), ("mem", (3,)))


def test_is_registered_after_mdm():
    names = list(MODELS)
    assert names[names.index("gcom") + 1] == "pipeline"
    assert MODELS["pipeline"].aspects == frozenset(Aspect)


class TestInputs:
    @pytest.mark.parametrize(
        "workload",
        [
            with_mix({"comp": 4, "mem": 2}, {"warps_per_sm": 4}),
            with_flow(FlowNode("compute", "comp"), warps_per_sm=4),
        ],
    )
    def test_needs_a_dependence_graph(self, workload):
        with pytest.raises(MissingInputError, match="model 'pipeline' needs a dependence graph"):
            run("pipeline", workload, complete_gpu())

    @pytest.mark.parametrize(
        ("option", "value"),
        [("policy", "random"), ("in_order", "maybe"), ("warps", "some"), ("dram_ratio", "-1"), ("issue_limit", "2")],
    )
    def test_options_that_are_not(self, option, value):
        with pytest.raises(OptionError, match=option):
            get_model("pipeline", {option: value})

    def test_options_as_typed(self):
        model = get_model(
            "pipeline", {"policy": "gto", "in_order": "true", "dram_ratio": "1.5", "issue_limit": "false"}
        )
        assert (model.policy, model.in_order, model.dram_ratio, model.issue_limit) == ("gto", True, 1.5, False)


def strided(words: int, repeats: int = 50) -> Workload:
    """Loads from shared memory, `words` apart from lane to lane, computation, and a load from global memory."""
    rows = (
        StaticInstruction(0x00, "LDS", "load_shared", "shared", 4, (1,), (2,)),
        StaticInstruction(0x10, "FFMA", "fp32", "none", 0, (2,), (1, 2)),
        StaticInstruction(0x20, "LDG.E", "load_global", "global", 4, (3,), ()),
    )
    warp = [
        Step(2, evenly(1 << 20, 4)),
        *(step for _ in range(repeats) for step in (Step(0, evenly(0, 4 * words)), Step(1))),
    ]
    return workload_of_trace(memory_trace(rows, [[warp] * 8] * 8, registers_per_thread=16))


class TestAddresses:
    """§6.3's rules, where a trace says what its accesses do."""

    @pytest.mark.parametrize("words", [1, 2, 32])
    def test_bank_conflicts_of_a_trace_count(self, words):
        machine = load_gpu("h200")
        auto = run("pipeline", strided(words), machine)
        given = run("pipeline", strided(words), machine, bank_conflicts=words - 1.0)
        assert auto.cycles == given.cycles
        held = 50 * 8 * words * machine.timing("load_shared", "a test").interval_cycles
        assert auto.cycles >= held
        assert run("roofline", strided(words), machine).terms["busy_shared"] == held / 8

    def test_interval_models_say_that_they_have_no_banks(self):
        warned = [any("bank conflicts" in text for text in run("mdm", strided(n), "h200").warnings) for n in (1, 32)]
        assert warned == [False, True]

    def test_a_ratio_of_one_is_a_ratio(self):
        """R = 1 means DRAM for every byte, whatever the cache simulation finds; nothing jumps there."""
        below, one, above = (
            run("pipeline", strided(1), "h200", dram_ratio=ratio).cycles for ratio in (1 - 1e-6, 1.0, 1 + 1e-6)
        )
        assert below == pytest.approx(one, rel=1e-3) and above == pytest.approx(one, rel=1e-3)


class TestPrediction:
    def test_is_the_simulation(self):
        workload = with_graph(*CHAIN, blocks=300, threads_per_block=96, blocks_per_sm=3)
        machine = complete_gpu()
        made, simulated = run("pipeline", workload, machine), simulate_pipeline(workload, machine)
        assert made.cycles == simulated.cycles
        assert made.ipc == simulated.ipc
        assert made.terms["WPC"] == simulated.warps_per_cycle
        assert made.terms["overlap"] == simulated.overlap
        for name, use in simulated.pipelines.items():
            assert made.terms[f"fill_{name}"] == use.fill_rate
        assert made.stack is None

    def test_cycles_per_run(self):
        made = run("pipeline", with_graph(*CHAIN, warps_per_sm=12), complete_gpu())
        assert made.terms["CPR"] == made.cycles
        assert made.terms["WPC"] == pytest.approx(12 / made.cycles)
        waves = run(
            "pipeline", with_graph(*CHAIN, blocks=28 * 40, threads_per_block=96, blocks_per_sm=4), complete_gpu()
        )
        assert waves.terms["simulated_waves"] == 10
        assert waves.terms["CPR"] == pytest.approx(waves.cycles / 10)

    def test_golden_example(self):
        """Lemeire's example: 25 cycles for one warp, never above Volkov."""
        occupancies = {"launch.warps_per_sm": np.arange(1.0, 21.0)}
        volkov = warplens.predict("lemeire-example", model="volkov", overrides=occupancies)
        for policy in ("rr", "lrr", "gto", "oldest"):
            for in_order in (True, False):
                options = {"policy": policy, "in_order": in_order, "issue_limit": False}
                made = warplens.predict("lemeire-example", model="pipeline", overrides=occupancies, options=options)
                assert made.cycles[0] == 25
                assert np.all(made.cycles >= volkov.cycles * (1 - 1e-12))

    def test_nothing_that_takes_time(self):
        zero = {f"instructions__comp__{leaf}": 0 for leaf in ("latency", "interval")}
        with pytest.raises(warplens.InputError, match="no finite time above 0"):
            run("pipeline", with_graph("comp", warps_per_sm=2), complete_gpu(**zero), issue_limit=False)


class TestBatches:
    def same(self, workload, keys, **options):
        size = len(next(iter(keys.values())))
        batch = run("pipeline", *_place(workload, keys), **options)
        for index in range(size):
            single = run("pipeline", *_place(workload, {k: v[index].item() for k, v in keys.items()}), **options)
            row = batch.row(index)
            assert (row.cycles, row.ipc, row.seconds) == (single.cycles, single.ipc, single.seconds)
            assert row.terms == single.terms
            assert row.warnings == single.warnings

    def test_occupancies_in_one_call(self):
        self.same(with_graph(*CHAIN), {"launch.warps_per_sm": np.arange(1.0, 33.0)})

    def test_occupancies_of_blocks(self):
        self.same(
            with_graph(*CHAIN, threads_per_block=128, blocks=500), {"launch.warps_per_sm": np.arange(1.0, 33.0)}
        )

    def test_machines(self):
        keys = {
            "issue_width": np.array([1.0, 0.5, 1.0, 2.0]),
            "instructions.comp.latency": np.array([4.0, 4.0, 4.0, 11.5]),
            "dram.latency": np.array([220.0, 220.0, 220.0, 300.25]),
            "clock": np.array([1.4e9, 1.4e9, 1.4e9, 1.7e9]),
        }
        self.same(with_graph(*CHAIN, warps_per_sm=7), keys)

    def test_what_is_scaled_is_said_of_its_rows_only(self):
        workload = with_graph(*CHAIN, threads_per_block=128, blocks=280)
        batch = run("pipeline", *_place(workload, {"launch.warps_per_sm": np.array([8.0, 10.0])}), most_issues=100)
        assert PARTIAL_GROUP not in batch.row(0).warnings and PARTIAL_GROUP in batch.row(1).warnings
        assert all(SOME_WAVES in batch.row(index).warnings for index in range(2))


def _place(workload, keys):
    launch = {key: value for key, value in keys.items() if key.startswith("launch.")}
    machine = {key.replace(".", "__"): value for key, value in keys.items() if key not in launch}
    return workload.with_overrides(launch) if launch else workload, complete_gpu(**machine)


@st.composite
def workloads(draw):
    classes = st.sampled_from(["comp", "comp", "sfu", "load_global", "load_shared", "barrier"])
    instructions = []
    for position in range(draw(st.integers(1, 12))):
        depends = draw(st.sets(st.integers(0, position - 1), max_size=2)) if position else set()
        instructions.append((draw(classes), tuple(sorted(depends))))
    launch = draw(
        st.one_of(
            st.fixed_dictionaries({"warps_per_sm": st.integers(1, 40)}),
            st.fixed_dictionaries(
                {
                    "blocks": st.integers(1, 200),
                    "threads_per_block": st.sampled_from([32, 64, 96, 160]),
                    "blocks_per_sm": st.integers(1, 6),
                }
            ),
        )
    )
    return with_graph(*instructions, **launch)


@given(
    workloads(),
    st.sampled_from(["rr", "lrr", "gto", "oldest"]),
    st.booleans(),
    st.sampled_from([0.25, 0.75, 1.0, 2.0]),
)
def test_never_above_the_roofline(workload, policy, in_order, width):
    machine = complete_gpu(issue_width=width)
    made = run("pipeline", workload, machine, policy=policy, in_order=in_order)
    roof = run("roofline", workload, machine)
    # The last of several issues opens the valve for nobody: it is not waited for.
    spared = 1.0 / (machine.schedulers * width)
    assert made.cycles + spared >= roof.cycles * (1 - 1e-12)
    assert all(0 <= value <= 1 + 1e-12 for name, value in made.terms.items() if name.startswith(("fill_", "overlap")))


@pytest.mark.parametrize("policy", ["rr", "lrr", "gto", "oldest"])
def test_saturates_at_the_roofline(policy):
    """Many waves of many warps: the busiest pipeline has hardly any idle time, and Volkov's bound is the roof."""
    launch = {"blocks": 28 * 500, "threads_per_block": 128, "blocks_per_sm": 12}
    memory_bound, compute_bound = CHAIN, [("comp", (i - 1,) if i else ()) for i in range(60)]
    # Both pipelines are needed: a greedy scheduler serves old warps first and leaves the memory idle meanwhile.
    mixed = (*CHAIN, *[("sfu", (4,))] * 9)
    loss = 0.25 if policy in ("gto", "oldest") else 0.05
    for graph, most in ((memory_bound, 1.02), (compute_bound, 1.001), (mixed, 1 + loss)):
        workload = with_graph(*graph, **launch)
        made = run("pipeline", workload, complete_gpu(), policy=policy)
        roof, volkov = (run(model, workload, complete_gpu()) for model in ("roofline", "volkov"))
        assert volkov.cycles == pytest.approx(roof.cycles, rel=1e-9)
        assert roof.cycles <= made.cycles < most * roof.cycles
