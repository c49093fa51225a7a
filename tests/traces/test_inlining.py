"""Chains of places in a trace's header."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.traces import LaunchHeader
from warplens.traces.inlining import chains_of, packed_chains

PLACES = st.tuples(st.sampled_from(["a.h", "b.cuh", "c"]), st.integers(1, 5))
CHAINS = st.lists(st.lists(PLACES, max_size=3).map(tuple), max_size=20)


def header(**extra) -> LaunchHeader:
    return LaunchHeader("k", (1, 1, 1), (32, 1, 1), extra=extra)


@given(CHAINS)
def test_chains_come_back_from_json(chains):
    kept = json.loads(json.dumps(packed_chains(chains)))
    assert chains_of(header(**kept), len(chains)) == chains
    assert chains_of(header(**kept), len(chains) + 2) == [*chains, (), ()]


def test_code_of_one_file_needs_no_table():
    assert packed_chains([(), (), ()]) == {}
    assert chains_of(header(), 3) == [(), (), ()]


def test_runs_are_short():
    chains = [(("a.h", 3),)] * 1000 + [()] * 1000
    assert len(json.dumps(packed_chains(chains))) < 100


@pytest.mark.parametrize(
    "table",
    [
        "text",
        {},
        {"files": ["a.h"], "chains": [[[7, 1]]], "runs": [[0, 2]]},
        {"files": 5, "chains": [], "runs": []},
        {"files": ["a.h"], "chains": [[[0, "x"]]], "runs": [[0, 2]]},
        {"files": ["a.h"], "chains": [], "runs": [[0, 1 << 60]]},
    ],
)
def test_a_damaged_table_is_none(table):
    assert chains_of(header(inlined=table), 2) == [(), ()]


def test_a_run_never_makes_more_than_there_are():
    table = {"files": ["/home/me/a.h"], "chains": [[[0, 1]]], "runs": [[0, 1 << 60], [0, 1]]}
    assert chains_of(header(inlined=table), 2) == [(("a.h", 1),)] * 2
