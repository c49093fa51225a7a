"""Memory events in the order of their time, and requests on their way."""

from __future__ import annotations

from ...jit import inlined


@inlined
def push(events, chip, time, request, stage):
    """Add an event; events of the same time keep the order in which they were added."""
    child = chip.events
    while child > 0:
        parent = (child - 1) // 2
        if events[parent].time <= time:
            break
        events[child].time = events[parent].time
        events[child].sequence = events[parent].sequence
        events[child].request = events[parent].request
        events[child].stage = events[parent].stage
        child = parent
    events[child].time = time
    events[child].sequence = chip.sequence
    events[child].request = request
    events[child].stage = stage
    chip.events += 1
    chip.sequence += 1


@inlined
def pop(events, chip):
    """Remove the first event, which the caller has read."""
    chip.events -= 1
    size = chip.events
    time = events[size].time
    sequence = events[size].sequence
    request = events[size].request
    stage = events[size].stage
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        other = child + 1
        if other < size and comes_before(events[other].time, events[other].sequence, events[child]):
            child = other
        if comes_before(time, sequence, events[child]):
            break
        events[hole].time = events[child].time
        events[hole].sequence = events[child].sequence
        events[hole].request = events[child].request
        events[hole].stage = events[child].stage
        hole = child
    events[hole].time = time
    events[hole].sequence = sequence
    events[hole].request = request
    events[hole].stage = stage


@inlined
def comes_before(time, sequence, event):
    return time < event.time or (time == event.time and sequence < event.sequence)
