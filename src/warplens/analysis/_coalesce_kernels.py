"""Memory accesses of warps, coalesced to cache lines, and what they wait for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..jit import allocating_kernel, inlined, kernel
from ..traces._bit_kernels import bit_count
from ..traces._codes import IRREGULAR
from ._cache_records import ATOMIC, BARRIER, LOAD, NOTHING

#: Stands for no register where an instruction names one.
NO_REGISTER = 255
#: A register of a warp: the event that loads it (or -1), and when it is computed.
REGISTER = np.dtype([("event", np.int64), ("ready", np.float64)])


class Instructions(NamedTuple):
    """Static instructions: what they do to memory, their latency in cycles, and the registers they use.

    A warp issues its next instruction `issue` cycles after one, and `jump` later still if it is not the one behind.
    """

    kind: Any
    access_bytes: Any
    latency: Any
    issue: Any
    jump: Any
    destinations: Any
    destination_offsets: Any
    sources: Any
    source_offsets: Any


class Group(NamedTuple):
    """Warps of a trace: their instructions and accesses. An irregular access lists the address of each lane."""

    start: Any
    static: Any
    mask: Any
    access_start: Any
    base: Any
    stride: Any
    lane_start: Any
    lanes: Any


class EventColumns(NamedTuple):
    """Room for the events of a group and their lines."""

    event_start: Any
    event_static: Any
    event_instructions: Any
    event_gap: Any
    event_dependence: Any
    event_tail: Any
    event_runs: Any
    line_start: Any
    line_id: Any
    line_words: Any


@allocating_kernel
def count_events(start, static, kind, access_bytes, mask, line_bytes):
    """(events, most lines) of a group: how much `collect` has to hold."""
    events = 0
    lines = 0
    for i in range(start[0], start[len(start) - 1]):
        s = static[i]
        if kind[s] != NOTHING:
            events += 1
            if kind[s] != BARRIER:
                # An access that starts at the last byte of a line touches most.
                lines += bit_count(np.int64(mask[i])) * ((access_bytes[s] + line_bytes - 2) // line_bytes + 1)
    return events, lines


@inlined
def touch_lines(byte, width, begin, used, line_shift, columns):
    """Add the lines of one lane's access to those of its instruction, which begin at `begin`; returns their end."""
    last = byte + width - 1
    granule_shift = line_shift - 5
    while byte <= last:
        number = byte >> line_shift
        line_begin = number << line_shift
        end = min(last, line_begin + (np.int64(1) << line_shift) - 1)
        low = (byte - line_begin) >> granule_shift
        high = (end - line_begin) >> granule_shift
        words = np.uint32((np.int64(2) << high) - (np.int64(1) << low))
        found = used - 1
        while found >= begin and columns.line_id[found] != number:
            found -= 1
        if found < begin:
            columns.line_id[used] = number
            columns.line_words[used] = words
            used += 1
        else:
            columns.line_words[found] |= words
        byte = end + 1
    return used


@inlined
def coalesce(access, lane, active, width, used, line_shift, accesses, columns):
    """Add the lines that the active lanes of one access touch; returns the end of all lines."""
    begin = used
    base = accesses.base[access]
    stride = accesses.stride[access]
    if stride == width and np.int64(base) > 0:  # side by side: one access that is as wide as all of them
        width *= active
        active = 1
    for k in range(active):
        address = accesses.lanes[lane + k] if stride == IRREGULAR else base + np.uint64(k) * np.uint64(stride)
        if address != 0:
            used = touch_lines(np.int64(address), width, begin, used, line_shift, columns)
    return used


@inlined
def read_registers(s, time, last_event, registers, instructions):
    """(when an instruction can issue, the last event of the warp that it needs or needed before)."""
    for r in range(instructions.source_offsets[s], instructions.source_offsets[s + 1]):
        if instructions.sources[r] < NO_REGISTER:
            register = registers[instructions.sources[r]]
            time = max(time, register.ready)
            last_event = max(last_event, register.event)
    return time, last_event


@inlined
def write_registers(s, event, ready, registers, instructions):
    """The results of an instruction come with an event, or are computed at a time (`event` is -1)."""
    for r in range(instructions.destination_offsets[s], instructions.destination_offsets[s + 1]):
        if instructions.destinations[r] < NO_REGISTER:
            register = registers[instructions.destinations[r]]
            register.event = event
            register.ready = ready


@inlined
def collect_warp(w, events, used, group, instructions, line_shift, registers, columns):
    """Append the events of one warp and their lines; returns the ends of both."""
    first = events
    access = group.access_start[w]
    lane = group.lane_start[w]
    time = 0.0
    previous_time = 0.0
    count = 0
    runs = 0
    dependence = np.int64(-1)
    dependence_time = 0.0
    for i in range(group.start[w], group.start[w + 1]):
        s = group.static[i]
        issue, needed = read_registers(s, time, dependence, registers, instructions)
        if needed > dependence:
            dependence = needed
            dependence_time = issue
        what = instructions.kind[s]
        if what == NOTHING and (runs == 0 or issue > time):
            runs += 1
        time = issue + instructions.issue[s]
        if i + 1 < group.start[w + 1] and group.static[i + 1] != s + 1:
            time += instructions.jump[s]
        count += 1
        width = np.int64(instructions.access_bytes[s])
        active = bit_count(np.int64(group.mask[i])) if width else 0
        if what != NOTHING:
            columns.event_static[events] = s
            columns.event_instructions[events] = count
            columns.event_gap[events] = issue - previous_time
            columns.event_dependence[events] = dependence
            columns.event_tail[events] = issue - dependence_time
            columns.event_runs[events] = runs
            columns.line_start[events] = used
            previous_time = issue
            count = 0
            runs = 0
            if what != BARRIER and active > 0:
                used = coalesce(access, lane, active, width, used, line_shift, group, columns)
            events += 1
        loads = what in (LOAD, ATOMIC)
        ready = 0.0 if loads else issue + instructions.latency[s]
        write_registers(s, events - 1 - first if loads else -1, ready, registers, instructions)
        if width:
            if group.stride[access] == IRREGULAR:
                lane += active
            access += 1
    return events, used


@kernel
def collect(group, instructions, line_bytes, registers, columns):
    """Memory accesses and barriers of every warp, with their cache lines and what they wait for.

    Fills `columns`. Per event: `gap` is its distance in cycles from the previous
    one as if memory took no time, `dependence` the last event of the warp whose
    data was needed before it (or -1), `tail` the cycles between that need and the
    event, `runs` the runs of instructions since the previous one that need not
    wait for each other. Lines are in the order in which lanes touch them first, each with the
    granules touched. `line_bytes` is a power of two, `registers` scratch space.
    Returns the number of lines.
    """
    line_shift = np.int64(0)
    while (1 << line_shift) < line_bytes:
        line_shift += 1
    warps = len(group.start) - 1
    events = np.int64(0)
    used = np.int64(0)
    for w in range(warps):
        columns.event_start[w] = events
        for r in range(len(registers)):
            registers[r].event = -1
            registers[r].ready = 0.0
        events, used = collect_warp(w, events, used, group, instructions, line_shift, registers, columns)
    columns.event_start[warps] = events
    columns.line_start[events] = used
    return used
