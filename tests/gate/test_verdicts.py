"""Verdicts and their causes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from warplens.gate import words
from warplens.gate.snapshot import BANK_CYCLES, LOCAL_BYTES
from warplens.gate.verdicts import verdict, verdicts

from .making import result, slowed, snapshot


@pytest.mark.parametrize(
    ("part", "outcome"), [(0.14, "slower"), (-0.14, "faster"), (0.015, "same"), (-0.015, "same"), (0.0, "same")]
)
def test_the_outcome_follows_the_change(part, outcome):
    found = verdict(snapshot(), slowed(snapshot(), part))
    assert found.outcome == outcome
    assert found.change == pytest.approx(part)
    assert bool(found.causes) == (outcome != "same")


def test_only_a_slower_kernel_beyond_the_limit_fails():
    assert [each.fails(0.05) for each in result(0.14, 0.03, -0.2).verdicts] == [True, False, False]


def test_kernels_come_and_go():
    gone = snapshot(kernel="old")
    gone = replace(gone, identity=replace(gone.identity, path="kernels/old.toml"))
    assert [each.outcome for each in verdicts([gone, snapshot()], [snapshot(), snapshot(kernel="fresh")])] == [
        *("same", "new", "removed"),
    ]


def test_a_kernel_with_another_name_or_in_another_file_is_compared():
    old, apart = snapshot(kernel="old"), snapshot(kernel="apart")
    moved = replace(old, identity=replace(old.identity, path="math/softmax.toml"))
    for fresh in (snapshot(kernel="fresh"), moved):
        (found,) = verdicts([old], [slowed(fresh, 0.2)])
        assert (found.outcome, found.is_renamed) == ("slower", True)
    (same,) = verdicts([old], [old])
    assert not same.is_renamed
    # Which of two is meant is anyone's guess.
    assert [each.outcome for each in verdicts([old], [apart, snapshot(kernel="fresh")])] == ["new", "new", "removed"]
    later = replace(old, identity=replace(old.identity, launch=1))
    assert [each.outcome for each in verdicts([later], [apart])] == ["new", "removed"]
    other = replace(apart, identity=replace(apart.identity, path="math/softmax.toml"))
    assert [each.outcome for each in verdicts([old], [other])] == ["new", "removed"]


def test_the_same_kernel_on_two_gpus_is_two():
    found = verdicts([snapshot(gpu="a100"), snapshot()], [slowed(snapshot(), 0.2), snapshot(gpu="a100")])
    assert {each.gpu: each.outcome for each in found} == {"h100": "slower", "a100": "same"}


def test_spills_and_occupancy_are_named_first():
    before = snapshot(counts={"warps per SM": 64.0, "registers per thread": 32.0})
    counts = {"warps per SM": 48.0, "registers per thread": 40.0, LOCAL_BYTES: 96.0}
    found = verdict(before, slowed(before, 0.2, counts=counts))
    assert [cause.kind for cause in found.causes] == ["spills", "occupancy", "registers", "stall"]
    assert words.reason(found).startswith("local memory: 96 bytes per thread, 0 before")
    assert "warps per SM (occupancy): 48, 64 before" in [cause.text for cause in found.causes]


def test_a_headline_does_not_speak_for_the_opposite():
    before = snapshot(counts={"warps per SM": 64.0, "DRAM bytes": 2e6})
    found = verdict(before, slowed(before, -0.2, counts={"warps per SM": 48.0, "DRAM bytes": 1e6}))
    assert [cause.kind for cause in found.causes] == ["occupancy", "stall", "sectors"]
    assert "occupancy" not in words.reason(found)
    assert "occupancy" in words.reason(verdict(before, slowed(before, 0.2, counts={"warps per SM": 48.0})))


def test_a_line_that_was_edited_is_compared_with_what_it_was():
    before = snapshot(lines=[(4, 0.7, "out[i] = factor * in[i];"), (3, 0.1, "int i = threadIdx.x;")])
    after = slowed(before, 0.5)
    edited = replace(before.lines[0], line=6, share=0.8, text="out[i] = factor * in[32 * i];")
    found = verdict(before, replace(after, lines=(edited, before.lines[1])))
    line = next(cause for cause in found.causes if cause.kind == "line")
    assert line.text == "+5 µs at softmax.cu:6: out[i] = factor * in[32 * i];"
    assert (line.before, line.after) == pytest.approx((7e-6, 12e-6))
    assert found.line == edited


def test_traffic_and_instructions_are_counted():
    before = snapshot(counts={"DRAM bytes": 1e6, "fp32": 100.0, "warp instructions": 1000.0})
    after = slowed(before, 0.2, counts={"DRAM bytes": 2e6, "fp64": 100.0, "warp instructions": 1000.0})
    kinds = [cause.kind for cause in verdict(before, after).causes]
    assert kinds == ["stall", "sectors", "instructions", "instructions"]


def test_words():
    (found,) = result(0.14).verdicts
    assert words.headline(found) == "k0 is 14 % slower on h100 (11 to 18 %): 10 → 11.4 µs"
    assert words.reason(found) == "+980 ns at softmax.cu:41: x[i] = <y>;"
    assert words.summary(result(0.14, 0.03, -0.2, 0.0)) == (
        "1 of 4 slower than allowed, 1 slower within the limit, 1 faster, 1 the same; "
        "against main (1a2b3c4), limit 5 %"
    )


def test_registers_alone_are_no_cause():
    before = snapshot(counts={"warps per SM": 64.0, "registers per thread": 32.0})
    found = verdict(before, slowed(before, 0.2, counts={"warps per SM": 64.0, "registers per thread": 31.0}))
    assert [cause.kind for cause in found.causes] == ["stall"]


def test_shared_memory_alone_is_no_cause():
    shared = "shared memory per block, bytes"
    before = snapshot(counts={"warps per SM": 64.0, shared: 4224.0, BANK_CYCLES: 1e5})
    after = slowed(before, 0.2, counts={"warps per SM": 64.0, shared: 4096.0, BANK_CYCLES: 32e5})
    found = verdict(before, after)
    assert [cause.kind for cause in found.causes] == ["stall", "sectors"]
    assert "banks of shared memory" in found.causes[1].text
    after = replace(after, counts={**after.counts, "warps per SM": 32.0})
    assert [cause.kind for cause in verdict(before, after).causes][:2] == ["occupancy", "launch"]


def test_other_arguments_come_first():
    before = replace(snapshot(counts={"DRAM bytes": 1e6}), arguments="1a")
    after = slowed(before, 0.7, counts={"DRAM bytes": 2e6}, arguments="2b")
    assert [cause.kind for cause in verdict(before, after).causes] == ["workload", "stall", "sectors"]
    assert words.reason(verdict(before, after)) == "the arguments of the launch are others than before"
    assert words.reason(verdict(before, replace(after, arguments=""))) != words.reason(verdict(before, after))
