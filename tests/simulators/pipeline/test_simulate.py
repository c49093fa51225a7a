"""From a workload and a machine to a result: the share of an SM, traces, and what is reported."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from making import complete_gpu, gpu, with_graph, with_mix
from warplens.api import predict
from warplens.errors import MissingInputError, WorkloadError
from warplens.models import get_model
from warplens.simulators.pipeline import IDLE_CAUSES, simulate_pipeline
from warplens.simulators.pipeline.execution import FIRST_INSTRUCTIONS, SOME_WAVES
from warplens.simulators.pipeline.simulate import TWO_LEVEL
from warplens.traces import LaunchHeader, MemoryTrace, WarpGroup
from warplens.traces.schema import StaticInstruction, static_table
from warplens.workload import Needs, analyse, workload_of_trace

CHAIN = (("comp", ()), ("comp", (0,)), ("mem", (1,)), ("comp", (2,)))


class TestShare:
    def test_one_run_where_no_blocks_are_given(self):
        result = simulate_pipeline(with_graph(*CHAIN, warps_per_sm=6), gpu("lemeire-example"))
        assert (result.groups, result.group_size, result.instructions) == (1, 6, 24)
        assert result.warps_per_cycle == 6 / result.cycles

    def test_the_sm_with_most_blocks_counts(self):
        """28 SMs: 29 blocks take as long as 56, one more than an SM can hold at a time makes a second wave."""

        def cycles(blocks):
            launch = {"blocks": blocks, "threads_per_block": 64, "blocks_per_sm": 2}
            return simulate_pipeline(with_graph(*CHAIN, **launch), complete_gpu(sms=28))

        assert cycles(29).cycles == cycles(56).cycles
        assert cycles(29).groups == 2
        assert cycles(57).groups == 3
        assert cycles(57).cycles > cycles(56).cycles
        assert cycles(57).cycles < 2 * cycles(56).cycles  # the third block enters when the first leaves

    def test_ipc_is_of_the_whole_gpu(self):
        workload = with_graph(*CHAIN, blocks=56, threads_per_block=64)
        result = simulate_pipeline(workload, complete_gpu(sms=28))
        assert result.ipc == pytest.approx(56 * 2 * 4 / result.cycles)
        assert result.seconds == result.cycles / complete_gpu().clock_hz

    def test_no_graph(self):
        with pytest.raises(MissingInputError, match="dependence graph"):
            simulate_pipeline(with_mix({"comp": 4}, {"warps_per_sm": 4}), gpu("lemeire-example"))


class TestSettings:
    def test_the_machine_gives_the_policy(self):
        for policy in ("rr", "lrr", "gto", "oldest"):
            result = simulate_pipeline(with_graph(*CHAIN, warps_per_sm=4), complete_gpu(scheduler=policy))
            assert result.policy == policy
        result = simulate_pipeline(with_graph(*CHAIN, warps_per_sm=4), complete_gpu(scheduler="two-level"))
        assert result.policy == "lrr"
        assert TWO_LEVEL in result.warnings

    def test_a_graph_by_hand_fixes_no_order(self):
        workload = with_graph("mem", ("comp", (0,)), "mem", warps_per_sm=1)
        machine = gpu("lemeire-example")
        assert not simulate_pipeline(workload, machine).in_order
        assert (
            simulate_pipeline(workload, machine).cycles < simulate_pipeline(workload, machine, in_order=True).cycles
        )

    def test_issue_limit(self):
        workload = with_graph(*["comp", "mem"] * 5, warps_per_sm=8)
        machine = gpu("lemeire-example", schedulers=1, issue_width=0.5)
        limited = simulate_pipeline(workload, machine)
        free = simulate_pipeline(workload, machine, issue_limit=False)
        assert limited.cycles > free.cycles
        assert limited.issue_fill > 0.95
        assert free.issue_fill == 0

    def test_long_launches_are_scaled_and_say_so(self):
        workload = with_graph(*CHAIN, blocks=100_000, threads_per_block=64, blocks_per_sm=4)
        machine = complete_gpu()
        whole = simulate_pipeline(workload, machine)
        part = simulate_pipeline(workload, machine, most_issues=2000)
        assert SOME_WAVES in part.warnings and SOME_WAVES not in whole.warnings
        assert part.instructions <= 2000 < whole.instructions
        assert part.cycles == pytest.approx(whole.cycles, rel=0.05)

    def test_long_warps_are_cut_and_say_so(self):
        graph = [("comp", (i - 1,) if i else ()) for i in range(3000)]
        workload = with_graph(*graph, warps_per_sm=4)
        whole = simulate_pipeline(workload, gpu("lemeire-example"))
        part = simulate_pipeline(workload, gpu("lemeire-example"), most_issues=1000)
        assert FIRST_INSTRUCTIONS in part.warnings
        assert part.cycles == pytest.approx(whole.cycles, rel=0.02)

    def test_full_occupancy_is_noted(self):
        assert any(
            "full occupancy" in text for text in simulate_pipeline(with_graph(*CHAIN), complete_gpu()).warnings
        )


class TestResult:
    def test_times_add_up(self):
        result = simulate_pipeline(with_graph(*CHAIN, warps_per_sm=16), complete_gpu())
        for use in result.pipelines.values():
            assert set(use.idle_cycles) == set(IDLE_CAUSES)
            assert use.busy_cycles + sum(use.idle_cycles.values()) == pytest.approx(
                result.simulated_cycles, rel=1e-12
            )

    def test_plain_data(self):
        result = simulate_pipeline(with_graph(*CHAIN, warps_per_sm=3), gpu("lemeire-example", sms=2))
        document = json.loads(json.dumps(result.to_dict(), allow_nan=False))
        assert document["simulator"] == "pipeline"
        assert document["overrides"] == {"sms": 2}
        assert document["pipelines"]["compute"]["idle"]["barrier"] == 0

    def test_profile_on_request(self):
        workload, machine = with_graph(*CHAIN, warps_per_sm=3), gpu("lemeire-example")
        assert simulate_pipeline(workload, machine).profile is None
        profile = simulate_pipeline(workload, machine, record=True).profile
        assert len(profile) == 12 and profile.complete
        assert not simulate_pipeline(workload, machine, record=True, most_rows=5).profile.complete
        for row, producer in enumerate(profile.waited_for.tolist()):
            if producer >= 0:
                assert profile.done[producer] == profile.start[row]
                assert profile.warp[producer] == profile.warp[row]


# -- traces ------------------------------------------------------------------------------------

STATIC = static_table(
    [
        StaticInstruction(0, "IADD", "int32", destinations=(1,)),
        StaticInstruction(16, "LDG", "load_global", "global", 4, destinations=(2,), sources=(1,)),
        StaticInstruction(32, "FADD", "fp32", destinations=(3,), sources=(2, 2)),
        StaticInstruction(48, "EXIT", "control"),
    ]
)


def recorded(warps, blocks=4):
    """A trace whose warps run the given static instructions, in blocks of as many warps as are left for each."""
    per_block = len(warps) // blocks
    static = np.array([i for warp in warps for i in warp], dtype=np.uint32)
    accesses = [sum(STATIC.access_bytes[i] > 0 for i in warp) for warp in warps]
    starts = np.concatenate(([0], np.cumsum([len(warp) for warp in warps])))
    count = sum(accesses)
    group = WarpGroup(
        block=np.repeat(np.arange(blocks), per_block),
        warp=np.tile(np.arange(per_block, dtype=np.int32), blocks),
        start=starts,
        static=static,
        mask=np.full(len(static), 2**32 - 1, dtype=np.uint32),
        access_start=np.concatenate(([0], np.cumsum(accesses))),
        base=(np.arange(count, dtype=np.uint64) + 1) * 4096,
        stride=np.full(count, 4, dtype=np.int64),
        lane_start=np.zeros(len(warps) + 1, dtype=np.int64),
        lanes=np.zeros(0, dtype=np.uint64),
    )
    header = LaunchHeader("kernel", (blocks, 1, 1), (32 * per_block, 1, 1))
    return workload_of_trace(MemoryTrace(header, STATIC, (group,)))


class TestTraces:
    ALIKE = [[0, 1, 2, 3]] * 8
    # The warps of every second block are four times as long.
    UNEVEN = [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2] * 4 + [3], [0, 1, 2] * 4 + [3]] * 2

    def test_a_recorded_warp_issues_in_order(self):
        assert simulate_pipeline(recorded(self.ALIKE), complete_gpu(sms=2)).in_order
        assert not simulate_pipeline(recorded(self.ALIKE), complete_gpu(sms=2), in_order=False).in_order

    def test_warps_that_are_alike_need_no_graphs_of_their_own(self):
        one, every = (simulate_pipeline(recorded(self.ALIKE), complete_gpu(sms=2), warps=w) for w in WARPS)
        assert one.cycles == every.cycles
        assert one.pipelines == every.pipelines
        assert every.instructions == 16

    def test_every_warp_of_the_busiest_sm(self):
        """Blocks 1 and 3 go to the second SM: it has all the long warps."""
        every = simulate_pipeline(recorded(self.UNEVEN), complete_gpu(sms=2), warps="all", record=True)
        assert every.instructions == 4 * 13
        assert every.profile.instruction.max() == 12
        single = simulate_pipeline(recorded(self.UNEVEN), complete_gpu(sms=1), warps="all")
        assert single.instructions == 4 * 4 + 4 * 13

    def test_the_representative_warp_is_scaled_to_the_mean(self):
        result = simulate_pipeline(recorded(self.UNEVEN), complete_gpu(sms=2))
        length = result.instructions / (result.groups * result.group_size)
        assert result.cycles == pytest.approx(result.simulated_cycles * 8.5 / length)

    def test_a_long_trace_is_cut_at_whole_blocks(self):
        result = simulate_pipeline(recorded(self.ALIKE), complete_gpu(sms=1), warps="all", most_issues=9)
        assert (result.groups, result.instructions) == (2, 16)
        assert SOME_WAVES in result.warnings
        assert result.cycles == pytest.approx(2 * result.simulated_cycles)

    def test_incomplete_blocks(self):
        workload = recorded(self.ALIKE)
        wrong = replace(workload, launch=replace(workload.launch, threads_per_block=96))
        with pytest.raises(WorkloadError, match="3 warps of every block"):
            simulate_pipeline(wrong, complete_gpu(sms=2), warps="all")

    def test_memory_times_are_those_of_the_cache_simulation(self):
        workload, machine = recorded(self.ALIKE), complete_gpu(sms=2)
        result = simulate_pipeline(workload, machine, record=True)
        timing = analyse(workload, machine, Needs("dependence_graph")).timing("load_global", "test")
        loads = [i for i, name in enumerate(result.profile.instruction_class) if name == "load_global"]
        taken = result.profile.done[loads] - result.profile.start[loads]
        assert taken == pytest.approx(timing.latency_cycles, abs=1e-5)

    @pytest.mark.parametrize("warps", ["representative", "all"])
    def test_batches_are_the_single_predictions(self, warps):
        keys = {"dram.bandwidth": np.array([480e9, 100e9, 480e9]), "sms": np.array([2, 2, 1])}
        model = get_model("pipeline", {"warps": warps})
        batch = predict(
            recorded(self.UNEVEN), complete_gpu(**{k.replace(".", "__"): v for k, v in keys.items()}), model
        )
        for index in range(3):
            one = {key.replace(".", "__"): value[index].item() for key, value in keys.items()}
            single = predict(recorded(self.UNEVEN), complete_gpu(**one), model)
            assert batch.row(index).cycles == single.cycles
            assert batch.row(index).terms == single.terms


WARPS = ("representative", "all")
