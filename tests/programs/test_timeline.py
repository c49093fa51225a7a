"""When work happens on a GPU: streams, engines, events and waits."""

import pytest

from warplens.machine import load_gpu
from warplens.programs.timeline import Timeline, copy_seconds

ISSUE_SECONDS = 2.5e-6


def spans(line):
    return [(each.start_seconds, each.start_seconds + each.seconds) for each in line.slices]


def test_a_stream_is_in_order_and_the_host_does_not_wait():
    line = Timeline(0, ISSUE_SECONDS)
    for _ in range(2):
        line.add("k", "compute", 2, 1.0, 0, 0)
    (first, second) = spans(line)
    assert first == (ISSUE_SECONDS, 1.0 + ISSUE_SECONDS) and second[0] == first[1]
    assert line.host_seconds == 2 * ISSUE_SECONDS


def test_copies_run_beside_kernels_of_other_streams():
    line = Timeline(0, ISSUE_SECONDS)
    line.add("k", "compute", 2, 1.0, 0, 0)
    line.add("copy", "to device", 3, 1.0, None, 8)
    line.add("k", "compute", 3, 1.0, 1, 0)
    assert [round(start) for start, _ in spans(line)] == [0, 0, 1]


def test_the_legacy_stream_waits_for_all_and_all_for_it():
    line = Timeline(0, ISSUE_SECONDS)
    line.add("k", "compute", 2, 1.0, 0, 0)
    line.add("copy", "to host", 0, 1.0, None, 8)
    line.add("copy", "to device", 3, 1.0, None, 8)
    assert [round(start) for start, _ in spans(line)] == [0, 1, 2]


def test_events_tell_the_time_of_their_stream():
    line = Timeline(0, ISSUE_SECONDS)
    line.record(1, 2)
    line.add("k", "compute", 2, 1.0, 0, 0)
    line.record(2, 2)
    line.wait(3, 2)
    line.add("copy", "to host", 3, 1.0, None, 8)
    assert line.events[2] - line.events[1] == pytest.approx(1.0 + ISSUE_SECONDS)
    assert spans(line)[1][0] == line.events[2]
    line.synchronize(-1)
    assert line.host_seconds == line.end_seconds


def test_links_are_those_of_the_generation():
    v100, a100, h200 = map(load_gpu, ("v100", "a100", "h200"))
    assert copy_seconds(v100, 1, 10**9, pinned=True) > copy_seconds(a100, 1, 10**9, pinned=True)
    assert copy_seconds(a100, 2, 10**9, pinned=True) > copy_seconds(h200, 2, 10**9, pinned=True) > 0.01
    assert copy_seconds(h200, 2, 10**9, pinned=False) > 5 * copy_seconds(h200, 2, 10**9, pinned=True)
    assert copy_seconds(h200, 0, 10**9, pinned=True) == 0.0
