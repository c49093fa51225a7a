"""Views of a traced kernel: lines, caches, intervals, timelines, and what the reference simulator saw."""

from dataclasses import replace

import numpy as np
import pytest

from warplens.api import compare, load_workloads, place, simulate
from warplens.errors import InputError
from warplens.reports.figures import (
    disagreement,
    intervals,
    memory_use,
    simulated,
    source_use,
    timeline,
    transit_diagram,
)
from warplens.reports.perfetto import perfetto_events
from warplens.workload import analyse
from warplens.workload.instructions import instruction_table
from warplens.workload.traced import cache_misses

from .checks import check_view

GPU = "mdm2020"


@pytest.fixture(scope="module")
def placed(half_of_spmv):
    return place(load_workloads(half_of_spmv, gpu=GPU)[0], GPU)


@pytest.fixture(scope="module")
def predictions(placed):
    return compare(placed[0], (placed[1],)).predictions


def test_instructions_add_up_to_the_launch(placed):
    workload, gpu = placed
    found = instruction_table(workload, gpu)
    groups = list(workload.trace.groups())
    assert found.executions.sum() == sum(group.instructions for group in groups)
    lanes = sum(sum(bin(mask).count("1") for mask in group.mask.tolist()) for group in groups)
    assert found.executions @ found.active_lanes == pytest.approx(lanes)
    misses = cache_misses(workload, gpu)
    assert found.requests.sum() == misses.l1_accesses
    assert found.dram_bytes.sum() == misses.dram_read_bytes + misses.dram_write_bytes
    assert np.all(found.requests >= found.least_requests * (found.requests > 0))


def test_lines_are_those_of_the_source(placed, tmp_path):
    view = source_use(*placed)
    check_view(view, tmp_path)
    assert view.text_of(18) == "sum += values[i] * x[columns[i]];"
    worst = max(view.lines, key=lambda row: row.share)
    assert worst.line == 18 and worst.share > 0.5
    assert "of the time goes to line 18" in view.summary and "'warplens'" in view.summary
    for rows in (view.lines, view.instructions):
        assert sum(row.share for row in rows) + sum(view.rest.values()) == pytest.approx(1.0)
        assert sum(row.counts.executions for row in rows) == instruction_table(*placed).executions.sum()
    assert all(row.opcode for row in view.instructions)


def test_requests_are_served_by_some_level(placed, predictions, tmp_path):
    view = memory_use(*placed, list(predictions))
    check_view(view, tmp_path)
    found = instruction_table(*placed)
    assert sum(sum(each.requests.values()) for each in view.instructions) <= found.requests.sum()
    mdm = next(p for p in predictions if p.model == "mdm")
    moved = analyse(placed[0], placed[1]).bytes_per_instruction()["DRAM"] * mdm.cycles * mdm.ipc
    assert view.dram_use["mdm"] == pytest.approx(moved / mdm.seconds / placed[1].dram.bandwidth_bytes_per_s)


def test_intervals_keep_their_totals(placed, tmp_path):
    view = intervals(*placed)
    check_view(view, tmp_path)
    assert view.total_stall_cycles == pytest.approx(sum(view.stalls_by_cause.values()))
    assert len(view.instructions) == min(view.total_intervals, 120)


def test_transit_meets_where_the_model_does(placed, tmp_path):
    view = transit_diagram(*placed)
    check_view(view, tmp_path)
    at = view.waiting.index(view.k)
    assert view.supply[at] == pytest.approx(view.demand[at]) == pytest.approx(view.warps_per_cycle)


def test_disagreement_names_the_term_that_differs_most(predictions, tmp_path):
    view = disagreement(predictions, "mdm")
    check_view(view, tmp_path)
    own = {p.model: p for p in predictions}
    for each in view.differences:
        assert each.cpi == own[each.model].cpi
        if each.by_category is not None:
            assert sum(each.by_category.values()) == pytest.approx(each.cpi - own["mdm"].cpi)
            assert abs(each.by_category[each.term]) == max(map(abs, each.by_category.values()))
    furthest = max(own.values(), key=lambda p: max(p.cpi / own["mdm"].cpi, own["mdm"].cpi / p.cpi))
    assert f"furthest from mdm (CPI {own['mdm'].cpi:.3g}) is {furthest.model} (CPI {furthest.cpi:.3g}" in view.summary
    with pytest.raises(InputError, match="no two models"):
        disagreement([own["mdm"]], "mdm")


def test_a_model_that_is_far_off_does_not_hide_the_others(predictions, tmp_path):
    far = replace(predictions[0], cpi=1000.0, stack=None)
    view = disagreement([far, *predictions[1:]], "mdm")
    figure = check_view(view, tmp_path)
    assert figure["layout"]["xaxis"]["range"][1] < 50
    (own,) = (each.cpi for each in predictions if each.model == "mdm")
    assert f"+{1000.0 - own:.3g}" in [note["text"] for note in figure["layout"]["annotations"]]


def test_both_simulators_have_timelines(placed, tmp_path):
    for simulator in ("pipeline", "detailed"):
        result = simulate(*placed, simulator, record=True)
        view = timeline(result)
        check_view(view, tmp_path)
        assert len(view.profile) == 600
        assert f"first 600 of {view.total_instructions} instructions" in view.summary
        events = perfetto_events(result.profile)["traceEvents"]
        assert sum(event["ph"] == "X" for event in events) == len(result.profile)
        with pytest.raises(InputError, match="record=True"):
            timeline(simulate(*placed, simulator))


def test_the_reference_simulators_profile_is_what_it_executed(placed):
    """Issues of a warp follow its trace, one a cycle, and no result is read before it is there."""
    workload, gpu = placed
    result = simulate(workload, gpu, record=True)
    assert result.cycles == simulate(workload, gpu).cycles
    profile, static = result.profile, workload.trace.static
    assert profile.complete and profile.done.max() <= result.cycles + 1000
    traced = [
        group.static[group.start[w] : group.start[w + 1]].tolist()
        for group in workload.trace.groups()
        for w in range(len(group))
    ]
    warps_per_block = 4
    first_block = [profile.instruction[profile.warp == w].tolist() for w in range(warps_per_block)]
    assert first_block == traced[:warps_per_block]
    for w in range(warps_per_block):
        ready: dict[int, float] = {}
        for row in np.flatnonzero(profile.warp == w).tolist():
            index = int(profile.instruction[row])
            assert all(ready.get(register, 0.0) <= profile.start[row] for register in static.sources_of(index))
            ready |= {r: float(profile.done[row]) for r in static.destinations_of(index) if r < 255}


def test_empty_slots_are_booked_to_instructions(placed, tmp_path):
    workload, gpu = placed
    result = simulate(workload, gpu)
    check_view(simulated(result), tmp_path)
    held = {name: float(slots.sum()) for name, slots in result.stalled_slots.items()}
    stack = {name: part / result.cpi for name, part in result.stack.items()}
    assert held["barrier"] == pytest.approx(stack["SYNC"])
    assert held["dependence"] + held["pipeline"] == pytest.approx(stack["DEP"])
    assert sum(held.values()) == pytest.approx(1.0 - stack["BASE"] - stack["IDLE"])
    with_slots = source_use(workload, gpu, simulated=result)
    lines = {row.line: row.lost_slots for row in with_slots.lines}
    nothing = sum(float(slots[-1]) for slots in result.stalled_slots.values())
    assert sum(lines.values()) + nothing == pytest.approx(sum(held.values()))
    assert max(lines, key=lambda line: lines[line]) == 18
    # A warp that waits for a load is booked to the instruction that reads it, which has sources.
    worst = int(np.argmax(result.stalled_slots["memory"][:-1]))
    assert workload.trace.static.sources_of(worst)
