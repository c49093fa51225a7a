"""The same warps in other groups, and launches that repeat others."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference.traces import Step, evenly, memory_trace, spelled_out
from warplens import api
from warplens.analysis import EventStream, events
from warplens.cli.main import cli
from warplens.errors import InputError
from warplens.traces import StaticInstruction, TraceWriter, WarpGroup, first_alike, read_trace
from warplens.traces.grouping import joined, only_blocks, part_of, with_neighbours

ROWS = (
    StaticInstruction(0, "ld", "load_global", "global", 4, (1,), (2, 3)),
    StaticInstruction(16, "add", "int32", destinations=(2,), sources=(1,)),
)
STEPS = st.one_of(st.just(Step(1)), st.builds(lambda base: Step(0, evenly(base, 4)), st.integers(1, 1 << 30)))
BLOCKS = st.lists(st.lists(st.lists(STEPS, max_size=3), min_size=1, max_size=2), min_size=1, max_size=9)


def cut(group: WarpGroup, places: set[int]) -> list[WarpGroup]:
    """A group cut into several, at borders of blocks."""
    borders = [0, *(int(at) + 1 for at in np.flatnonzero(np.diff(group.block)) if int(at) in places), len(group)]
    return [part_of(group, *pair) for pair in pairwise(borders)]


@given(BLOCKS, st.integers(1, 4), st.sets(st.integers(0, 20)))
def test_neighbours_are_in_one_group(blocks: Any, together: int, places: set[int]) -> None:
    trace = memory_trace(ROWS, blocks)
    whole = joined(list(trace.groups()))
    found = list(with_neighbours(cut(whole, places), together))
    assert spelled_out(joined(found), trace.static) == spelled_out(whole, trace.static)
    held = [set((group.block // together).tolist()) for group in found]
    assert all(not one & other for at, one in enumerate(held) for other in held[:at])


@given(BLOCKS, st.integers(2, 9), st.integers(1, 4), st.sets(st.integers(0, 20)))
def test_a_part_has_the_blocks_that_are_asked_for(blocks: Any, first: int, count: int, places: set[int]) -> None:
    whole = memory_trace(ROWS, blocks)
    trace = replace(whole, held=tuple(cut(joined(list(whole.groups())), places)))
    wanted = [0, *range(len(blocks))[first : first + count]]
    found = only_blocks(trace, [range(1), range(len(blocks))[first : first + count]])
    group = joined(list(found.groups()))
    assert found.header.extra["recorded_blocks"] == len(wanted)
    assert np.unique(group.block).tolist() == wanted
    alone = memory_trace(ROWS, [blocks[block] for block in wanted])
    assert spelled_out(group, trace.static) == spelled_out(joined(list(alone.groups())), trace.static)


@pytest.mark.parametrize("kept", [0, 2**30])
@pytest.mark.parametrize("chunk", [0, 2**30])
def test_events_of_a_stream_are_the_same_whether_they_are_kept(kept: int, chunk: int, monkeypatch: Any) -> None:
    blocks = [[[Step(0, evenly(128 * block, 4)), Step(1)]] for block in range(1, 6)]
    trace = memory_trace(ROWS, blocks, blocks_per_group=2)
    monkeypatch.setattr(events, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(events, "KEPT_BYTES", kept)
    stream = EventStream(trace, 128, lambda name: 4.0)
    expected = [[1, 2, 3, 4, 5]] if chunk else [[1], [2], [3], [4], [5]]
    assert [each.line_id.tolist() for each in stream] == expected
    assert stream.blocks == 5
    assert [each.line_id.tolist() for each in stream] == expected


def test_launches_that_repeat_others_share_their_results(tmp_path: Path) -> None:
    path = tmp_path / "many.wlt"
    with TraceWriter(path) as writer:
        for index, steps in enumerate((1, 2, 1, 2, 3)):
            trace = memory_trace(ROWS, [[[Step(1)] * steps]], registers_per_thread=16)
            for group in trace.groups():
                writer.write(group)
            writer.end_launch(replace(trace.header, launch_index=index), trace.static)
    assert first_alike(read_trace(path)) == [0, 1, 0, 1, 4]
    workloads = api.load_workloads(path)
    asked: list[int] = []

    def ask(workload: Any) -> Any:
        asked.append(workload.launch_index)
        return api.compare(workload, ["h200"], ["roofline"])

    found = api.of_launches(workloads, ask)
    assert asked == [0, 1, 4]
    alone = [api.compare(api.workload_of_trace(launch), ["h200"], ["roofline"]) for launch in read_trace(path)]
    assert [each.to_dict() for each in found] == [each.to_dict() for each in alone]


def launches_with(path: Path, *shared_bytes: int) -> list[Any]:
    """Launches of a trace with so much shared memory."""
    with TraceWriter(path) as writer:
        for index, size in enumerate(shared_bytes):
            trace = memory_trace(ROWS, [[[Step(1)] * (index + 1)]], registers_per_thread=16)
            for group in trace.groups():
                writer.write(group)
            header = replace(trace.header, launch_index=index, shared_memory_per_block_bytes=size)
            writer.end_launch(header, trace.static)
    return api.load_workloads(path)


def test_a_launch_that_cannot_run_does_not_end_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workloads = launches_with(tmp_path / "some.wlt", 0, 1 << 20, 0)
    found = api.of_launches(workloads, lambda workload: api.predict_best(workload, ["h200"]))
    assert [len(each.predictions) for each in found] == [1, 0, 1]
    ((left_out,),) = (each.skipped for each in found if not each.predictions)
    assert left_out.model == "" and left_out.reason.startswith("launch 1: ")
    asked = ["predict", str(tmp_path / "some.wlt"), "--gpu", "h200", "--advice", "0", "--json"]
    cli(asked, standalone_mode=False)
    out, err = capsys.readouterr()
    assert [each["launch"] for each in json.loads(out)["predictions"]] == [0, 2]
    assert "is left out: launch 1: " in err


def test_if_no_launch_can_run_the_first_error_tells_why(tmp_path: Path) -> None:
    workloads = launches_with(tmp_path / "none.wlt", 1 << 20, 1 << 21)
    with pytest.raises(InputError, match="shared memory"):
        api.of_launches(workloads, lambda workload: api.predict_best(workload, ["h200"]))
