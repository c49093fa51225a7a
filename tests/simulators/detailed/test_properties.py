"""Latencies come out as configured, bounds are reached and not exceeded, and nothing is lost on the way."""

from __future__ import annotations

import dataclasses
from unittest import mock

import numpy as np
import pytest

from reference import detailed as reference
from reference.detailed import Machine
from reference.traces import Step, evenly, memory_trace
from warplens.analysis import InstructionMix, events
from warplens.errors import InputError, MachineError, SimulationError
from warplens.simulators.detailed import _kernels, _records, simulate_detailed
from warplens.traces import StaticInstruction
from warplens.workload import Launch, Workload, workload_of_trace

from .machines import counters, final_state, gpu_of, totals, totals_of

ROWS = [
    StaticInstruction(0, "BAR", "barrier"),
    StaticInstruction(16, "FADD", "fp32", destinations=(1,), sources=(0,)),
    StaticInstruction(32, "MUFU", "sfu"),
    StaticInstruction(48, "LDG", "load_global", "global", 4, (0,)),
    StaticInstruction(64, "STG", "store_global", "global", 4),
    StaticInstruction(80, "FADD", "fp32"),
    StaticInstruction(96, "LDS", "load_shared", "shared", 4, (0,)),
    StaticInstruction(112, "LDG", "load_global", "global", 4),
    StaticInstruction(128, "RED", "atomic_global", "global", 4),
]
BARRIER, USE, SFU, LOAD, STORE, COMPUTE, SHARED, TOUCH, ATOMIC = range(len(ROWS))

#: Wide everywhere: each test narrows what it is about.
WIDE = Machine(
    sms=2,
    schedulers=1,
    policy="gto",
    issue_width=1,
    blocks_per_sm=16,
    timings={"fp32": ("fma", 1.0, 4.0), "sfu": ("sfu", 4.0, 20.0)},
    l1_sets=16,
    l1_ways=4,
    l1_latency=20.0,
    mshrs=256,
    merges=8,
    sm_flit=0.125,
    bank_flit=0.125,
    banks=4,
    llc_sets=64,
    llc_ways=8,
    llc_latency=100.0,
    llc_mshrs=256,
    channels=4,
    dram_latency=150.0,
    dram_queue=256,
    service=0.125,
)


def narrowed(**changes):
    return dataclasses.replace(WIDE, **changes)


def line(number, row=LOAD):
    return Step(row, evenly(2**20 + 128 * number, 4))


def streaming(blocks=32, warps=4, loads=16, row=TOUCH, distinct=None):
    """Warps that touch line after line; all lines are different unless `distinct` says how many there are."""
    count = blocks * warps * loads
    numbers = iter(np.arange(count) % (distinct or count))
    return [[[line(int(next(numbers)), row) for _ in range(loads)] for _ in range(warps)] for _ in range(blocks)]


def computing(row, blocks=32, warps=4, instructions=60):
    return [[[Step(row)] * instructions] * warps] * blocks


def cycles(blocks, machine):
    return totals(ROWS, blocks, machine)["CYCLES"]


# -- latencies ------------------------------------------------------------------


def load_to_use(before, machine=WIDE):
    """Cycles from the issue of a load to that of the instruction that needs it, with `before` issued long before."""
    wait = [Step(USE)] * 200 if before else []  # its own results, 4 cycles each
    one = [*before, *wait, line(0)]
    return cycles([[[*one, Step(USE)]]], machine) - cycles([[[*one[:-1], Step(COMPUTE)]]], machine)


def test_hit_in_l1_takes_its_latency_and_a_cycle_to_enter():
    assert load_to_use([line(0)]) == WIDE.l1_latency + 1


def test_hit_in_llc_takes_its_latency_and_a_cycle_to_enter():
    evicting = [line(16 * n) for n in range(5)]  # one set of the L1, which has four ways
    assert load_to_use(evicting) == WIDE.llc_latency + 1


def test_dram_takes_both_latencies_and_a_cycle_to_enter():
    assert load_to_use([]) == WIDE.llc_latency + WIDE.dram_latency + 1


@pytest.mark.parametrize(("stride", "degree"), [(4, 1), (0, 1), (8, 2), (128, 32)])
def test_shared_access_takes_its_latency_and_its_conflicts(stride, degree):
    one = [Step(SHARED, evenly(1024, stride)), Step(USE)]
    assert cycles([[one]], WIDE) - cycles([[[Step(COMPUTE)]]], WIDE) == WIDE.shared_latency + degree


def test_dependent_instruction_waits_for_the_latency():
    assert cycles([[[Step(USE)] * 11]], WIDE) - cycles([[[Step(USE)]]], WIDE) == 40


def test_operands_take_their_cycles_beyond_latencies():
    later = dataclasses.replace(WIDE, operand_cycles=5.0)
    assert cycles([[[Step(USE)] * 11]], later) - cycles([[[Step(USE)] * 11]], WIDE) == 10 * 5
    one = [[[Step(SHARED, evenly(1024, 4)), Step(USE)]]]
    assert cycles(one, later) - cycles(one, WIDE) == 4  # the cycle of the load-store unit is one of the five


def test_a_result_the_warp_does_not_need_does_not_hold_it():
    """A shared access in conflict comes back long after the load that the warp waits for."""
    hit = [line(0), *[Step(USE)] * 100]
    conflict = dataclasses.replace(ROWS[SHARED], destinations=(9,))
    rows = [*ROWS, conflict]
    alone = [*hit, line(0), Step(USE)]
    beside = [*hit, line(0), Step(len(ROWS), evenly(1024, 128)), Step(USE)]
    assert totals(rows, [[beside]], WIDE)["CYCLES"] == totals(rows, [[alone]], WIDE)["CYCLES"]


# -- bandwidths -----------------------------------------------------------------


def reaches(work, bound, found, at_the_end=WIDE.sms):
    """`work` units at `bound` a cycle: at least 90 % of it, never more than that and what is under way at the end."""
    assert 0.9 * bound * found <= work <= bound * found + at_the_end


@pytest.mark.parametrize(("schedulers", "width"), [(1, 1), (2, 1), (1, 2), (1, 0.5)])
def test_issue_rate(schedulers, width):
    machine = narrowed(schedulers=schedulers, issue_width=width, timings={"fp32": ("fma", 0.25, 4.0)})
    reaches(32 * 4 * 60, 2 * schedulers * width, cycles(computing(COMPUTE), machine))


def test_interval_of_a_pipeline():
    reaches(32 * 4 * 60, 2 / 4, cycles(computing(SFU), WIDE))


def test_l1_takes_a_line_a_cycle():
    blocks = streaming(loads=100, distinct=8)
    reaches(32 * 4 * 100, 2, cycles(blocks, WIDE))


def test_port_of_an_sm():
    """A line is four flits of a reply."""
    reaches(32 * 4 * 16, 2 / (4 * 2.0), cycles(streaming(), narrowed(sm_flit=2.0)))


def test_network():
    reaches(32 * 4 * 16, 4 / (4 * 4.0), cycles(streaming(), narrowed(bank_flit=4.0)))


def test_dram():
    reaches(32 * 4 * 16, 4 / 16, cycles(streaming(), narrowed(service=16.0)))


def test_dram_writes():
    """Written through: every store goes on to DRAM. Those that wait there when the launch ends were acknowledged."""
    machine = narrowed(service=16.0, write_back=False, dram_queue=4)
    reaches(32 * 4 * 16, 4 / 16, cycles(streaming(row=STORE), machine), at_the_end=4 * (4 + 1))


# -- write policies ---------------------------------------------------------------

BACK = narrowed(l1_write_back=True, l1_allocate=True)


def counts(machine, *steps):
    """(Requests, L1 misses, LLC accesses, LLC misses, DRAM reads, DRAM writes) of a warp with its steps far apart."""
    warp = [each for step in steps for each in (step, *[Step(USE)] * 100)]
    found = totals(ROWS, [[warp]], machine)
    assert found["REQUESTS"] == found["RETURNED"]
    names = ("REQUESTS", "L1_MISSES", "LLC_ACCESSES", "LLC_MISSES", "DRAM_READS", "DRAM_WRITES")
    return tuple(found[name] for name in names)


def test_stores_stay_in_a_write_back_l1():
    assert counts(BACK, line(0, STORE), line(0, STORE), line(0)) == (0, 1, 0, 0, 0, 0)
    around = narrowed(l1_write_back=True)
    assert counts(around, line(0, STORE), line(0), line(0, STORE)) == (2, 2, 2, 1, 0, 0)
    through = narrowed(l1_allocate=True)
    assert counts(through, line(0, STORE), line(0), line(0, STORE)) == (2, 1, 2, 1, 0, 0)


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("row", [LOAD, STORE])
def test_a_dirty_line_is_written_back_when_it_leaves(row, streaming):
    """Four ways: the fifth line of the set makes the first leave."""
    machine = dataclasses.replace(BACK, streaming=streaming)
    own = row == LOAD
    sent = counts(machine, line(0, STORE), *(line(16 * n, row) for n in range(1, 5)))
    assert sent == (1 + 4 * own, 5, 1 + 4 * own, 1 + 4 * own, 4 * own, 0)


def test_an_atomic_writes_a_dirty_copy_back_first():
    """What it touches is then in the LLC, and nothing is left in the L1."""
    assert counts(BACK, line(0, STORE), line(0, ATOMIC), line(0)) == (3, 3, 3, 1, 0, 0)


def test_a_fill_that_evicts_a_dirty_line_keeps_its_own_request():
    """Two loads of a line, the second after part of the miss: the line they bring evicts the stored one."""
    machine = narrowed(sms=1, l1_sets=1, l1_ways=1, l1_write_back=True, l1_allocate=True, streaming=True)
    launch = [[[line(0, STORE), line(1, TOUCH), line(1, TOUCH)]]]
    simulation = reference.Simulation(ROWS, launch, machine)
    simulation.run()
    found = counters(final_state(ROWS, launch, machine))
    assert found[STORE, "EXECUTED"] == found[TOUCH, "WRITEBACK_MISSES"] == found[TOUCH, "COMING_L1"] == 1
    assert 0.5 < found[TOUCH, "COMING_L1_LEFT"] == simulation.counters[TOUCH, "COMING_L1_LEFT"] < 1


@pytest.mark.parametrize("write_back", [True, False])
def test_stores_pass_an_llc_that_does_not_allocate(write_back):
    machine = narrowed(allocate=False, write_back=write_back)
    assert counts(machine, line(0, STORE), line(0, STORE)) == (2, 2, 2, 2, 0, 2)
    assert counts(machine, line(0), line(0, STORE)) == (2, 1, 2, 1, 1, 0 if write_back else 1)


def test_a_write_through_llc_remembers_what_was_written():
    assert counts(narrowed(write_back=False), line(0, STORE), line(0)) == (2, 2, 2, 1, 0, 1)


def test_blocks_stay_until_their_dirty_lines_are_acknowledged():
    """The last store makes a line leave: the launch ends when the LLC has taken it, not before."""
    machine = narrowed(l1_sets=1, l1_ways=1, l1_write_back=True, l1_allocate=True)
    one, two = cycles([[[line(0, STORE)]]], machine), cycles([[[line(0, STORE), line(1, STORE)]]], machine)
    assert one < WIDE.l1_latency + 5
    assert two > one + (WIDE.llc_latency - WIDE.l1_latency) / 2


# -- more of anything ------------------------------------------------------------

TIGHT = {
    "issue_width": 0.5,
    "schedulers": 1,
    "lsu_queue": 1,
    "mshrs": 4,
    "merges": 1,
    "sm_flit": 4.0,
    "bank_flit": 8.0,
    "banks": 2,
    "llc_mshrs": 2,
    "channels": 2,
    "dram_queue": 2,
    "service": 16.0,
    "blocks_per_sm": 2,
    "sms": 1,
    "dram_latency": 300.0,
    "llc_latency": 200.0,
}


@pytest.mark.parametrize("resource", TIGHT)
@pytest.mark.parametrize("kernel", [streaming(16), computing(USE, 16)], ids=["streaming", "compute"])
def test_more_of_a_resource_never_hurts(kernel, resource):
    less = narrowed(**{resource: TIGHT[resource]})
    assert cycles(kernel, WIDE) <= 1.03 * cycles(kernel, less)


# -- nothing is lost --------------------------------------------------------------


def mixed_launch():
    warp = [
        line(0),
        Step(USE),
        Step(BARRIER),
        line(3, STORE),
        line(9),
        Step(SFU),
        Step(SHARED, evenly(1024, 8)),
        line(1),
    ]
    return [[warp, warp[:6], warp] for _ in range(9)]


@pytest.mark.parametrize("policy", ["gto", "lrr", "oldest", "two-level"])
@pytest.mark.parametrize(("width", "slots"), [(1, 1), (2, 2), (0.5, 1)])
@pytest.mark.parametrize("writes", [{}, {"l1_write_back": True, "l1_allocate": True, "l1_sets": 1, "l1_ways": 1}])
def test_everything_comes_back_and_every_slot_is_booked(policy, width, slots, writes):
    machine = narrowed(policy=policy, issue_width=width, mshrs=2, lsu_queue=1, schedulers=2, **writes)
    state = final_state(ROWS, mixed_launch(), machine)
    found = totals_of(state)
    assert found["REQUESTS"] == found["RETURNED"] > 0
    assert state.chip["events"][0] == state.chip["stores_flying"][0] == 0
    assert not state.sms["mshrs_used"].any()
    assert (state.mshrs["line"] == -1).all()
    assert state.chip["loads_free"][0] == len(state.loads)
    assert state.chip["requests_free"][0] == len(state.requests)
    assert sorted(state.load_pool) == list(range(len(state.loads)))
    assert not state.l1["reserved"].any()
    assert state.slots.sum() == found["CYCLES"] * machine.sms * machine.schedulers * slots


def test_stack_sums_to_cpi_and_runs_are_alike(monkeypatch):
    """However the trace is stored, and however little of it other simulations hold at a time."""
    workload = workload_of_trace(memory_trace(ROWS, mixed_launch()))
    first = simulate_detailed(workload, gpu_of(WIDE)).to_dict()
    monkeypatch.setattr(events, "CHUNK_BYTES", 0)
    for blocks in (1, 1000):
        stored = workload_of_trace(memory_trace(ROWS, mixed_launch(), blocks_per_group=blocks))
        assert simulate_detailed(stored, gpu_of(WIDE)).to_dict() == first
    assert sum(first["stack"].values()) == pytest.approx(first["cpi"], rel=1e-12)
    assert first["cpi"] * first["ipc"] == pytest.approx(WIDE.sms)


def test_loads_without_a_register_do_not_run_out_of_records():
    """Nothing but the memory system limits them: more than any warp has registers."""
    machine = narrowed(sms=1, blocks_per_sm=1, mshrs=256, merges=8, dram_latency=100_000.0)
    blocks = [[[line(n // 8, TOUCH) for n in range(3000)]]]
    found = totals(ROWS, blocks, machine)
    assert found["REQUESTS"] == found["RETURNED"] == 375


def test_a_trace_that_is_read_block_by_block_is_the_same_launch():
    """Each block waits for the one before it, whose part of the trace is dropped by then."""
    machine = narrowed(sms=1, blocks_per_sm=1)
    blocks = streaming(blocks=6, warps=2, loads=3)
    assert totals(ROWS, blocks, machine, blocks_per_group=1) == totals(ROWS, blocks, machine)


# -- barriers ----------------------------------------------------------------------


def test_a_warp_that_exits_counts_as_arrived():
    found = totals(ROWS, [[[Step(BARRIER), Step(COMPUTE)], [Step(COMPUTE)]]], WIDE)
    assert found["ISSUED"] == 3


def test_a_warp_that_ends_with_the_barrier_does_not_open_it_for_others():
    """Three warps: one ends with the barrier, one waits there, the slow one keeps it until the end of its chain."""
    slow = [*[Step(USE)] * 50, Step(BARRIER)]
    found = totals(ROWS, [[[Step(BARRIER)], [Step(BARRIER), *[Step(USE)] * 50], slow]], WIDE)
    assert found["CYCLES"] > 2 * 49 * 4


def test_warps_that_can_never_go_on_are_an_error():
    """No trace does that (a warp that exits has arrived), so the compiled loop is made to say so."""
    workload = workload_of_trace(memory_trace(ROWS, mixed_launch()))
    stuck = mock.patch.object(_kernels, "run", lambda *_: _records.STUCK)
    with stuck, pytest.raises(SimulationError, match="wait for each other in cycle 0"):
        simulate_detailed(workload, gpu_of(WIDE))


def test_a_workload_without_a_trace_is_refused():
    mix = Workload("mix", Launch(), mix=InstructionMix({}))
    with pytest.raises(InputError, match="needs a trace"):
        simulate_detailed(mix, gpu_of(WIDE))


def test_a_trace_without_blocks_is_refused():
    with pytest.raises(InputError, match="no thread blocks"):
        simulate_detailed(workload_of_trace(memory_trace(ROWS, [])), gpu_of(WIDE))


@pytest.mark.parametrize("width", [1.5, 0.4, 2.5])
def test_a_width_that_is_no_number_of_instructions_or_cycles_is_refused(width):
    workload = workload_of_trace(memory_trace(ROWS, mixed_launch()))
    with pytest.raises(MachineError, match=rf"issue_width: {width}: the detailed simulator issues a whole number"):
        simulate_detailed(workload, gpu_of(narrowed(issue_width=width)))


def test_the_queue_at_the_port_is_a_parameter():
    """Stores that find no place hold those behind them; with more places the warps wait for data instead."""
    blocks = streaming(row=STORE)
    slow = {"sm_flit": 8.0, "lsu_queue": 64}
    few, many = (totals(ROWS, blocks, narrowed(noc_queue=count, **slow)) for count in (1, 64))
    assert few["NOC"] > many["NOC"]
    assert few["REQUESTS"] == many["REQUESTS"] == few["RETURNED"]


# -- what instructions and SMs share -----------------------------------------------


def test_memory_instructions_that_wait_keep_collectors_from_others():
    """Eight loads of 32 lines, five of them taken: one is served, one has left its collector, three hold theirs."""
    loads, others = [Step(TOUCH, evenly(2**20, 128))] * 8, [Step(COMPUTE)] * 400
    slots = {
        count: totals(ROWS, [[loads, others]], narrowed(sms=1, lsu_queue=4, collectors=count))["L1"]
        for count in (None, 4, 3, 2)
    }
    assert slots[None] == slots[4] == 0
    assert slots[3] == pytest.approx(4 * 32, abs=10)  # four have gone in, none is left to issue
    assert slots[2] == slots[3] + 32


def test_sms_take_turns_at_a_port():
    """Two SMs send every third cycle, in turn six lines of a set with five ways: in one order none would be found."""
    ports = {"banks": 1, "sm_flit": 0.75, "noc_queue": 1, "llc_latency": WIDE.l1_latency}
    machine = narrowed(blocks_per_sm=1, llc_sets=1, llc_ways=5, **ports)
    found = totals(ROWS, [[[line(2 * n + sm, STORE) for n in range(3)] * 20] for sm in range(2)], machine)
    assert found["LLC_ACCESSES"] == 2 * 3 * 20
    assert found["LLC_MISSES"] < 0.8 * found["LLC_ACCESSES"]


def test_traffic_over_time_sums_to_the_traffic():
    """Also of launches that last so long that bins are joined, and by bank."""
    state = final_state(ROWS, streaming(blocks=8, warps=4, loads=16), narrowed(service=512.0))
    assert state.chip["bin_cycles"][0] > 64.0
    moved = state.totals["dram_reads"][0] + state.totals["dram_writes"][0]
    assert state.traffic["dram"].sum() == state.banks["transfers"].sum() == moved > 0
    assert state.traffic["noc"].sum() == 4 * state.totals["requests"][0], "a line is four flits of a reply"


def test_line_0_is_a_line_like_any_other():
    """Its MSHR is not free."""

    def blocks(base):
        return [[[Step(TOUCH, evenly(base + 128 * each, 4)) for each in range(4)]] * 3]

    assert totals(ROWS, blocks(0), WIDE) == totals(ROWS, blocks(2**20), WIDE)


def test_waits_for_hits_alone_are_the_l1s():
    """No miss tells how to divide them."""
    kernel = memory_trace(ROWS, [[[line(0, STORE), *[line(0), Step(USE)] * 3]]])
    result = simulate_detailed(workload_of_trace(kernel), gpu_of(narrowed(l1_write_back=True, l1_allocate=True)))
    assert result.stack["L1"] == pytest.approx(3 * WIDE.l1_latency / 7)
    assert sum(result.stack.values()) == pytest.approx(result.cpi)


def test_every_request_has_room_for_its_event():
    """Kernels check no bounds."""
    state = final_state(ROWS, streaming(blocks=1, warps=1, loads=1), WIDE)
    assert len(state.events) > len(state.requests)


def test_a_store_that_stays_in_l1_does_not_wait_for_the_network():
    machine = narrowed(sms=1, l1_write_back=True, l1_allocate=True, sm_flit=32.0, noc_queue=1)
    loads = [line(number, TOUCH) for number in (1, 2, 3)]
    # The warp computes for longer than the loads take.
    blocks = [[[line(0, STORE), *loads, line(0, STORE), line(0), Step(USE), *[Step(COMPUTE)] * 600]]]
    expected = reference.Simulation(ROWS, blocks, machine).run()
    found = totals(ROWS, blocks, machine)
    assert found == {name: expected[name] for name in found}
