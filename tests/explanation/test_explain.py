"""Ranges of gains: errors that two predictions share cancel."""

from __future__ import annotations

from dataclasses import replace

import pytest

import warplens
from reference.traces import Step, evenly
from warplens.explanation import RULES, words
from warplens.explanation.explain import explain, speedup_range
from warplens.traces.machine_code import MACHINE_CODE
from warplens.traces.rewrite import changed
from warplens.workload import part

from .small import advice, kernel, load, scene


@pytest.fixture(scope="module")
def prediction():
    return warplens.predict("mdm-baseline", model="warplens")


def with_range(prediction, low, high, **changes):
    terms = {**prediction.terms, "cycles_low": low * prediction.cycles, "cycles_high": high * prediction.cycles}
    return replace(prediction, terms=terms, **changes)


def test_a_prediction_against_itself_has_no_range(prediction):
    same = with_range(prediction, 0.8, 1.5)
    assert speedup_range(same, same) == pytest.approx((1.0, 1.0))


def test_independent_errors_add_up(prediction):
    """Stacks with nothing in common: ln 1/0.8 and ln 1.25 are equal, so both ends are sqrt(2) of them away."""
    before = with_range(prediction, 0.8, 1.25, stack={"DRAM": prediction.cpi})
    after = with_range(prediction, 0.8, 1.25, stack={"BASE": prediction.cpi})
    factor = 1.25**2**0.5
    assert speedup_range(before, after) == pytest.approx((1.0 / factor, factor))


def test_what_errs_alike_moves_the_ratio_by_the_difference(prediction):
    before, after = with_range(prediction, 0.5, 1.0), with_range(prediction, 0.8, 1.0)
    assert speedup_range(before, after) == pytest.approx((0.625, 1.6))


def test_machine_code_stays_where_only_addresses_move():
    """Nobody knows the machine code of changed instructions: both sides of such a gain are PTX."""
    plain = scene(kernel((load(0),), lambda warp: [Step(0, evenly(1 << 20, 4))]))
    header = plain.trace.header
    coded = changed(plain.trace, header=replace(header, extra={**header.extra, MACHINE_CODE: {}}))
    seen = replace(plain, workload=replace(plain.workload, trace=coded))
    assert plain.in_ptx is plain
    assert seen.with_addresses(lambda group, _: group).model.machine_code
    assert not seen.with_trace().model.machine_code


def test_a_part_of_a_long_trace_gives_the_same_advice(monkeypatch):
    """Lanes a sector apart: what that costs does not depend on how many of 128 blocks alike are looked at."""

    def steps(warp):
        return [Step(0, evenly((1 << 20) + 1024 * (16 * warp + k), 32)) for k in range(16)]

    long = kernel((load(0),), steps, blocks=128)
    whole = advice("uncoalesced-loads", long)
    assert scene(long).part.workload is long
    monkeypatch.setattr(part, "LONG_BYTES", 0)
    monkeypatch.setattr(part, "PART_BYTES", 64 * 8 * (17 * 4 + 16 * (32 + 8 * 12)))
    assert scene(long).part.facts.traced.recorded_blocks == 64
    some = advice("uncoalesced-loads", long)
    assert some.seconds == whole.seconds and some.speedup == pytest.approx(whole.speedup, rel=0.1)
    seen = scene(long)
    told = explain(seen.workload, seen.gpu, [RULES["uncoalesced-loads"]])
    assert told.note == "gains are estimated from 64 of 128 recorded thread blocks, as the trace is long"
    assert words.doubts(told)[-1] == told.note
