"""Counts of executions: the pages of Nsight Compute, and shares of branches."""

from __future__ import annotations

import numpy as np
import pytest

from warplens.errors import TraceError
from warplens.frontends.sass.counts import Counts, branch_shares, read_counts
from warplens.frontends.sass.flow import build_program, recordings

from .making import Made, sample_pages


def test_pages_of_an_h200():
    source, raw = sample_pages()
    assert sum('"Kernel Name"' in line for line in source) == 16  # every table comes twice
    counts = read_counts(source, raw)
    assert len(counts) == 8
    assert [int(each.warps.sum()) for _, each in counts] == [152, 1285, 5375, 1079, 1080, 2657, 264, 144]
    assert counts[0][1].threads[0] == 3 * 96


HEAD = '"Address","Source","inst_executed","thread_inst_executed"\n'


def _tables(*rows):
    return "".join(f'"Kernel Name","{name}",\n{HEAD}"0x0","NOP","{count}","32"\n' for name, count in rows)


def test_launches_without_their_tables_have_no_counts():
    raw = '"ID","Kernel Name"\n"",""\n' + "".join(f'"{i}","{name}"\n' for i, name in enumerate("aabcc"))
    source = _tables(("a", 1), ("a", 1), ("a", 2), ("a", 2), ("c", 5), ("c", 5), ("c", 6))
    found = [
        (name, None if each is None else int(each.warps[0]))
        for name, each in read_counts(source.splitlines(), raw.splitlines())
    ]
    assert found == [("a", 1), ("a", 2), ("b", None), ("c", None), ("c", None)]


@pytest.mark.parametrize(
    ("source", "raw"),
    [("", ""), ('"Kernel Name","k"\n"Address","Source"\n"0x0","NOP"\n', '"ID"\n"0"\n'),
     ('"Kernel Name","k"\n"Address","Source","inst_executed","thread_inst_executed"\n"0x0","NOP","x","1"\n', '"0"'),
     ("==ERROR== permission\n", "==ERROR== permission\n")],
)  # fmt: skip
def test_pages_that_say_nothing(source, raw):
    with pytest.raises(TraceError, match="Nsight Compute printed"):
        read_counts(source.splitlines(), raw.splitlines())


def _shares(rows, warps, threads):
    made = Made()
    for row in rows:
        made.add(*row)
    kernel = made.kernel()
    program = build_program(kernel, recordings(kernel, {2, 3}, ()), np.zeros(len(rows), dtype=bool))
    return branch_shares(program, Counts(np.array(warps), np.array(threads)))


def test_shares_of_a_loop():
    rows = [("MOV",), ("FFMA",), ("BRA", "P0", ("x",), 1), ("EXIT",)]
    shares = _shares(rows, [4, 40, 40, 4], [128, 1280, 1280, 128])
    assert shares.cases[2].tolist() == pytest.approx([0.1, 0.9, 0.0])
    assert shares.lanes[2] == pytest.approx(0.9)


def test_shares_of_a_branch_that_splits_warps():
    # Of 10 warps 2 go one way, 3 the other, and 5 both.
    rows = [
        ("BSSY", "", ("B0", "x"), 6), ("BRA", "P0", ("x",), 4), ("FFMA",), ("BRA", "", ("x",), 5), ("FADD",),
        ("BSYNC", "", ("B0",)), ("EXIT",),
    ]  # fmt: skip
    shares = _shares(rows, [10, 10, 7, 7, 8, 15, 10], [320, 320, 140, 140, 180, 320, 320])
    assert shares.cases[1].tolist() == pytest.approx([0.2, 0.3, 0.5])
    assert shares.lanes[1] == pytest.approx(180 / 320)


def test_branches_that_never_ran_have_no_shares():
    rows = [("BRA", "P0", ("x",), 2), ("FFMA",), ("EXIT",)]
    assert _shares(rows, [0, 0, 0], [0, 0, 0]).cases[0].tolist() == [0.5, 0.5, 0.0]
