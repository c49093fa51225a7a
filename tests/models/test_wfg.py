"""WFG and its correction: every arc of L-30 … L-36 and L-42."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from making import gpu, run, with_flow, with_graph
from reference import work_flow as oracle
from warplens.analysis import FlowNode
from warplens.api import load_workload
from warplens.errors import InputError


def compute(count=1.0, ilp=1.0, name="comp"):
    return FlowNode("compute", name, count, ilp)


def memory(count=1.0, *, dependent=True, name="mem"):
    return FlowNode("memory", name, count, dependent=dependent)


BARRIER = FlowNode("barrier", "barrier")


def wfg(*nodes, warps, model="wfg", **changes):
    return run(model, with_flow(*nodes, warps_per_sm=warps), gpu("lemeire-example", **changes))


# -- arcs ------------------------------------------------------------------------------------


def test_a_compute_arc_is_bound_by_latency_or_by_throughput():
    """L-30"""
    assert wfg(compute(3), warps=1).terms["CPW"] == 3 * 4
    assert wfg(compute(3), warps=2).terms["CPW"] == 3 * 2
    assert wfg(compute(3), warps=8).terms["CPW"] == 3 * 1


def test_ilp_hides_compute_latency_as_warps_do():
    assert wfg(compute(4, 2.0), warps=1).terms["CPW"] == 4 * 2
    assert wfg(compute(4, 2.0), warps=4).terms["CPW"] == 4 * 1


def test_a_memory_instruction_occupies_the_compute_pipeline_in_the_original():
    """L-31 with λ_instr_mem = λ_comp; the correction has 0."""
    assert wfg(compute(3), memory(2), warps=8).terms["CYC_comp"] == 3 + 2
    assert wfg(compute(3), memory(2), warps=8, model="wfg-corrected").terms["CYC_comp"] == 3


def test_the_compute_cycles_do_not_multiply_by_alpha_twice():
    """L-31 as printed would: L-38 shows α once."""
    assert wfg(compute(10), warps=8).terms["CYC_comp"] == 10


@pytest.mark.parametrize(
    ("computations", "arc"),
    [
        (0, 2),  # λ_mem alone: nothing to overlap with
        (4, 1),  # L-34: max(λ_instr, λ_mem - λ_comp·CI) with CI = 4
    ],
)
def test_a_memory_arc_that_nobody_waits_for(computations, arc):
    nodes = [compute(computations)] if computations else []
    terms = wfg(*nodes, memory(dependent=False), warps=64).terms
    assert terms["CPW"] == computations + arc


def test_a_memory_arc_pays_what_computation_does_not_cover():
    """L-33 between its limits: λ_instr + max(0, λ_mem - CYC_comp/α_mem)."""
    terms = wfg(compute(1), memory(dependent=False), warps=64, instructions__mem__interval=5).terms
    assert terms["CYC_comp"] == 2
    assert terms["CPW"] == 1 + (1 + (5 - 2))


def test_a_dependence_arc_exposes_the_latency_that_other_warps_do_not_cover():
    """L-35, L-36"""
    prediction = wfg(compute(4), memory(), warps=2)
    cyc_comp = 4 * 2 + 1
    assert prediction.terms["NBC_avg"] == cyc_comp / 2
    assert prediction.terms["Lambda_exposed"] == 6 - 1 * cyc_comp / 2
    assert prediction.terms["CPW"] == 4 * 2 + (6 - cyc_comp / 2)


def test_the_larger_of_a_memory_nodes_arcs_counts():
    few = wfg(compute(4), memory(), warps=1)
    assert few.terms["CPW"] == 4 * 4 + 6  # exposed latency
    many = wfg(compute(4), memory(), warps=64)
    assert many.terms["CPW"] == 4 + 1  # transition: the latency is hidden, exposed would be negative
    assert many.terms["Lambda_exposed"] == 0


def test_barriers_spread_the_compute_cycles_and_take_no_cycles():
    """α_sync in L-35"""
    without = wfg(compute(4), memory(), warps=2)
    with_one = wfg(compute(4), BARRIER, memory(), warps=2)
    assert with_one.terms["NBC_avg"] == without.terms["NBC_avg"] * 2 / 3
    assert wfg(compute(4), BARRIER, warps=64).terms["CPW"] == 4


# -- the correction ---------------------------------------------------------------------------


def test_corrected_exposed_latency_is_shared_by_the_warps():
    """L-42 where the preceding computation hides nothing extra"""
    terms = wfg(compute(1), memory(), warps=2, model="wfg-corrected", instructions__mem__latency=100).terms
    assert terms["Lambda_exposed"] == 100 / 2 - max(0, 0.5 * 1 - 4 / 2)


def test_corrected_overlap_beyond_the_compute_latency_hides_memory():
    """L-42 with the maximum above 0: enough warps that compute cycles are left over"""
    terms = wfg(compute(8), memory(), warps=16, model="wfg-corrected", instructions__mem__latency=200).terms
    overlap = 15 / 16 * (8 / 2) - 8 * 4 / 16
    assert overlap > 0
    assert terms["Lambda_exposed"] == 200 / 16 - overlap


def test_corrected_looks_at_the_computation_before_the_access():
    wide, narrow = (
        wfg(compute(8, ilp), memory(), warps=16, model="wfg-corrected", instructions__mem__latency=200).terms
        for ilp in (4.0, 1.0)
    )
    assert wide["Lambda_exposed"] < narrow["Lambda_exposed"]


def test_without_computation_before_the_access_nothing_precedes_it():
    terms = wfg(memory(), compute(8), warps=16, model="wfg-corrected", instructions__mem__latency=200).terms
    assert terms["Lambda_exposed"] == 200 / 16 - 15 / 16 * (8 / 2)


@given(ilp=st.floats(1, 4), count=st.integers(1, 20), latency=st.integers(0, 500))
def test_one_warp_alone_is_the_same_in_both(ilp, count, latency):
    """But for λ_instr_mem, which the correction leaves out: 1 cycle where the transition arc counts."""
    nodes = compute(count, ilp), memory()
    original, corrected = (
        wfg(*nodes, warps=1, model=model, instructions__mem__latency=latency).terms["CPW"]
        for model in ("wfg", "wfg-corrected")
    )
    assert corrected <= original <= corrected + 1


# -- whole graphs -----------------------------------------------------------------------------

nodes = st.one_of(
    st.builds(compute, st.integers(1, 30), st.floats(1, 4), st.sampled_from(["comp", "sfu"])),
    st.builds(memory, st.integers(1, 4), dependent=st.booleans(), name=st.sampled_from(["mem", "store_global"])),
    st.just(BARRIER),
)
TIMING = {
    "comp": (1.0, 4.0),
    "sfu": (4.0, 20.0),
    "mem": (2.0, 60.0),
    "store_global": (3.0, 10.0),
    "barrier": (1.0, 4.0),
}


@pytest.mark.parametrize("model", ["wfg", "wfg-corrected"])
@given(
    graph=st.lists(nodes, min_size=1, max_size=8).filter(lambda g: any(n.kind != "barrier" for n in g)),
    warps=st.integers(1, 64),
)
def test_cycles_per_warp_are_the_oracles(model, graph, warps):
    changes = {}
    for name, (interval, latency) in TIMING.items():
        changes |= {f"instructions__{name}__interval": interval, f"instructions__{name}__latency": latency}
    prediction = wfg(*graph, warps=warps, model=model, **changes)
    plain = [oracle.Node(n.kind, n.count, *TIMING[n.instruction_class], n.ilp, n.dependent) for n in graph]
    expected = oracle.cycles_per_warp(plain, warps, corrected=model == "wfg-corrected")
    assert prediction.terms["CPW"] == pytest.approx(expected, rel=1e-12)
    assert prediction.terms["CPR"] == pytest.approx(expected * warps, rel=1e-12)
    assert prediction.cycles == pytest.approx(expected * warps, rel=1e-12)


def test_the_warning_that_warps_together_are_faster_than_one():
    prediction = wfg(compute(11), memory(), warps=2, instructions__comp__latency=1, instructions__comp__interval=0,
                     instructions__mem__latency=3, instructions__mem__interval=0)  # fmt: skip
    assert prediction.terms["CPR"] == 11.5
    assert prediction.warnings


def test_a_graph_with_only_barriers_takes_no_time_and_is_refused():
    with pytest.raises(InputError, match="gives no finite time above 0"):
        wfg(BARRIER, warps=2)


def test_a_dependence_graph_is_turned_into_a_work_flow():
    """The example kernel: (2 computations, ILP 2), access, (2, ILP 1), access."""
    graph = with_graph("comp", "comp", ("mem", (0, 1)), ("comp", (2,)), ("comp", (3,)), ("mem", (4,)), warps_per_sm=3)
    flow = with_flow(compute(2, 2.0), memory(), compute(2), memory(), warps_per_sm=3)
    for model in ("wfg", "wfg-corrected"):
        machine = gpu("lemeire-example")
        assert run(model, graph, machine).terms == run(model, flow, machine).terms


# -- branches and work groups ----------------------------------------------------------------


def flow_from(text, tmp_path):
    path = tmp_path / "branch.toml"
    path.write_text(f'name = "branch"\n[launch]\nwarps_per_sm = 2\n{text}')
    return load_workload(path)


def test_a_side_of_a_branch_counts_by_the_share_of_warps_that_take_it(tmp_path):
    """Averages over warps (Lemeire §4.1); a warp whose lanes take both sides runs both."""
    node = '[[work_flow_graph]]\nkind = "compute"\ncount = {}\n'
    uneven = flow_from(node.format(4) + node.format("8\nshare = 0.25"), tmp_path)
    assert [each.count for each in uneven.flow.nodes] == [4, 2]
    with pytest.raises(InputError, match="share"):
        flow_from(node.format("8\nshare = 1.5"), tmp_path)


def test_warps_of_a_group_may_hide_less_than_all_of_them():
    """WLP_effect = 2 of 4 warps: the arcs are those of 2 warps, the run has 4."""
    nodes = compute(3), memory()
    machine = gpu("lemeire-example")
    two, four = (with_flow(*nodes, warps_per_sm=warps) for warps in (2, 4))
    together = run("wfg", four, machine, effective_warps=2.0)
    assert together.terms["CPW"] == run("wfg", two, machine).terms["CPW"] > run("wfg", four, machine).terms["CPW"]
    assert together.terms["CPR"] == 4 * together.terms["CPW"]


def test_work_groups_in_step_hide_as_one_warp_each():
    """WLP_effect lies between the resident groups and ω."""
    workload = with_graph("comp", ("mem", (0,)), ("comp", (1,)), warps_per_sm=8, blocks_per_sm=2)
    alone = run("wfg", workload, "lemeire-example")
    in_step = run("wfg", workload, "lemeire-example", work_groups="in-step")
    assert in_step.cycles == run("wfg", workload, "lemeire-example", effective_warps=2.0).cycles
    assert in_step.cycles > alone.cycles
