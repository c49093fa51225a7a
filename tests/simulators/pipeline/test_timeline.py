"""Execution profiles as pictures and as Perfetto traces."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from making import gpu, with_graph
from warplens.errors import InputError
from warplens.reports.perfetto import perfetto_events, write_perfetto
from warplens.reports.timeline import draw_simulation, first_rows, timeline_height
from warplens.simulators.pipeline import simulate_pipeline


def recorded(warps=3, **options):
    workload = with_graph("comp", "comp", ("mem", (0, 1)), ("comp", (2,)), ("mem", (3,)), warps_per_sm=warps)
    return simulate_pipeline(workload, gpu("lemeire-example"), record=True, **options)


def test_events_are_what_chrome_and_perfetto_read():
    profile = recorded().profile
    document = json.loads(json.dumps(perfetto_events(profile, 1e9), allow_nan=False))
    events = document["traceEvents"]
    assert {event["ph"] for event in events} == {"M", "X", "b", "e"}
    assert all({"ph", "pid", "tid", "name"} <= set(event) for event in events)
    slices = [event for event in events if event["ph"] == "X"]
    assert len(slices) == len(profile)
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert set(names.values()) == {"compute", "memory", "warp 0", "warp 1", "warp 2"}
    assert all((event["pid"], event["tid"]) in names for event in events if event["ph"] != "M")


def test_slices_of_a_pipeline_do_not_overlap_and_latencies_pair_up():
    events = perfetto_events(recorded(10).profile)["traceEvents"]
    for pipeline in (1, 2):
        slices = [(e["ts"], e["ts"] + e["dur"]) for e in events if e["ph"] == "X" and e["tid"] == pipeline]
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(slices))
    begins = {e["id"]: e["ts"] for e in events if e["ph"] == "b"}
    ends = {e["id"]: e["ts"] for e in events if e["ph"] == "e"}
    assert begins.keys() == ends.keys() and len(begins) == 50
    assert all(ends[key] - begins[key] in (4, 6) for key in begins)


def test_file(tmp_path):
    write_perfetto(recorded().profile, tmp_path / "new" / "trace.json", 1e9)
    assert json.loads((tmp_path / "new" / "trace.json").read_text())["otherData"]["clock_hz"] == 1e9
    with pytest.raises(InputError, match="cannot be written"):
        write_perfetto(recorded().profile, tmp_path)


def test_instructions_in_flight_lie_side_by_side():
    from warplens.reports.timeline import _lanes

    profile = recorded(8).profile
    lane, counts = _lanes(profile)
    for p in range(2):
        for place in range(counts[p]):
            rows = np.flatnonzero((profile.pipeline == p) & (lane == place))
            assert np.all(profile.done[rows[:-1]] <= profile.start[rows[1:]])
    assert timeline_height(profile) > timeline_height(recorded(1).profile)


def test_long_profiles_are_shown_in_part():
    profile = recorded(40).profile
    assert first_rows(profile) is profile
    short = first_rows(profile, 30)
    assert len(short) == 30 and not short.complete
    assert len(short.instruction_class) == len(short.waited_for) == 30


@pytest.mark.parametrize("warps", [1, 12])
def test_picture(warps, tmp_path):
    path = tmp_path / "profile.png"
    draw_simulation(recorded(warps), path)
    assert path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 10_000
