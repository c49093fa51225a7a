"""Blocks that stand for a launch are spread over its grid."""

from itertools import pairwise

import pytest

from warplens.analysis.machine_form import machine_form
from warplens.frontends.runtime.recording import LaunchInfo, Recording
from warplens.traces.chosen_blocks import chosen_blocks
from warplens.traces.machine_code import code_of
from warplens.traces.rewrite import joined

from .listening import run


@pytest.mark.parametrize(
    ("total", "limit", "wave"), [(1000, 10, 132), (1000, 264, 132), (700, 33, 2), (5000, 1, 132)]
)
def test_runs_are_spread_evenly_and_centred(total, limit, wave):
    parts = chosen_blocks(total, limit, wave)
    assert 0.9 * limit <= sum(map(len, parts)) <= limit and all(len(part) <= max(wave, 8) for part in parts)
    assert all(a.stop <= b.start for a, b in pairwise(parts))
    assert abs(parts[0].start - (total - parts[-1].stop)) <= 1


def test_a_small_grid_is_recorded_whole():
    assert chosen_blocks(100, 200, 132) == [range(100)]
    assert Recording(waves=1).blocks(100, 132, 10) == [range(100)]


def test_long_blocks_are_fewer():
    assert sum(map(len, Recording().blocks(10_000, 1056, 30_000))) == 100
    assert sum(map(len, Recording(waves=2).blocks(10_000, 1056, 30_000))) == 2112
    assert sum(map(len, Recording().blocks(10_000, 1056, 1e12))) == 1


def test_some_launches_stand_for_others_of_their_shape_and_kernel():
    info = LaunchInfo(0, 0, "k", "k()", (1, 1, 1), (32, 1, 1), 16, 0, 0)
    chosen = [number for number in range(40) if Recording().wants(info, number, number, number)]
    assert chosen == [0, 1, 3, 7, 15, 31]
    shapes = [number for number in range(40) if Recording().wants(info, number, 0, number)]
    assert shapes == [*range(16), 31]
    assert Recording(launches=frozenset({5})).wants(info, 5, 9, 9)


def test_a_first_block_that_does_the_work_is_recorded(built, stand_in):
    text, code, notes = run([built("uneven.cu"), "200000"], stand_in, Recording())
    assert (text, code) == ("cudaSuccess\n", 0)
    (execution,) = notes.executions
    lengths = {int(each.block[0]): each.instructions for each in execution.groups}
    assert execution.blocks == 1000 and lengths[0] > 1_000_000


def test_a_first_block_joins_those_that_are_asked_for(built, stand_in):
    _, _, notes = run([built("uneven.cu"), "2000"], stand_in, Recording(max_blocks=10))
    (execution,) = notes.executions
    found = sorted({int(block) for group in execution.groups for block in group.block})
    assert execution.blocks == len(found) == 11 and found[0] == 0 and found[1] > 100


def test_divisions_of_rare_operands_are_counted(built, stand_in):
    _, _, notes = run([built("divisions.cu")], stand_in, Recording())
    (execution,) = notes.executions
    code = code_of(execution.header)
    if code is None:
        pytest.skip("needs ptxas")
    assert list(code.rare_paths.values()) == [(8, 4)]
    form = machine_form(joined(execution.groups), execution.trace)
    calls = sum(form.static.opcode[row] == "CALL" for row in form.group.static)
    assert calls == 4
