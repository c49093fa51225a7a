"""Memory accesses of warps, coalesced to cache lines, and what they wait for."""

from __future__ import annotations

import numpy as np

from ..jit import allocating_kernel
from ..traces._bit_kernels import bit_count
from ..traces._codes import IRREGULAR
from ._cache_records import ATOMIC, BARRIER, LOAD, NOTHING


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


@allocating_kernel
def collect(
    start,
    static,
    mask,
    access_start,
    base,
    stride,
    lane_start,
    lanes,
    kind,
    access_bytes,
    latency,
    destinations,
    destination_offsets,
    sources,
    source_offsets,
    line_bytes,
    event_start,
    event_static,
    event_instructions,
    event_gap,
    event_dependence,
    event_tail,
    line_start,
    line_id,
    line_words,
):
    """Memory accesses and barriers of every warp, with their cache lines and what they wait for.

    Per event: `gap` is its distance in cycles from the previous one as if memory
    took no time, `dependence` the last event of the warp whose data was needed
    before it (or -1), `tail` the cycles between that need and the event.
    Lines are in the order in which lanes touch them first, each with the
    granules touched. `line_bytes` is a power of two. Returns the number of lines.
    """
    line_shift = 0
    while (1 << line_shift) < line_bytes:
        line_shift += 1
    granule_shift = line_shift - 5
    events = 0
    used = 0
    writer = np.empty(256, dtype=np.int64)  # event that loads a register
    ready = np.empty(256, dtype=np.float64)  # time at which a register is computed
    for w in range(len(start) - 1):
        event_start[w] = events
        first = events
        access = access_start[w]
        lane = lane_start[w]
        writer[:] = -1
        ready[:] = 0.0
        time = 0.0
        previous_time = 0.0
        instructions = 0
        dependence = np.int64(-1)
        dependence_time = 0.0
        for i in range(start[w], start[w + 1]):
            s = static[i]
            issue = time
            for r in range(source_offsets[s], source_offsets[s + 1]):
                register = sources[r]
                if register >= 255:
                    continue
                issue = max(issue, ready[register])
            for r in range(source_offsets[s], source_offsets[s + 1]):
                register = sources[r]
                if register < 255 and writer[register] > dependence:
                    dependence = writer[register]
                    dependence_time = issue
            time = issue + 1.0
            instructions += 1
            what = kind[s]
            width = np.int64(access_bytes[s])
            n = bit_count(np.int64(mask[i])) if width else 0
            if what != NOTHING:
                event_static[events] = s
                event_instructions[events] = instructions
                event_gap[events] = issue - previous_time
                event_dependence[events] = dependence
                event_tail[events] = issue - dependence_time
                line_start[events] = used
                previous_time = issue
                instructions = 0
                if what != BARRIER:
                    begin = used
                    lanes_here = n
                    if n > 0 and stride[access] == width and np.int64(base[access]) > 0:
                        lanes_here = 1  # side by side: one access that is as wide as all of them
                        width *= n
                    for k in range(lanes_here):
                        if stride[access] == IRREGULAR:
                            address = lanes[lane + k]
                        else:
                            address = base[access] + np.uint64(k) * np.uint64(stride[access])
                        if address == 0:
                            continue
                        byte = np.int64(address)
                        last = byte + width - 1
                        while byte <= last:
                            number = byte >> line_shift
                            line_begin = number << line_shift
                            end = min(last, line_begin + line_bytes - 1)
                            low = (byte - line_begin) >> granule_shift
                            high = (end - line_begin) >> granule_shift
                            words = np.uint32((np.int64(2) << high) - (np.int64(1) << low))
                            found = used - 1
                            while found >= begin and line_id[found] != number:
                                found -= 1
                            if found < begin:
                                line_id[used] = number
                                line_words[used] = words
                                used += 1
                            else:
                                line_words[found] |= words
                            byte = end + 1
                events += 1
            for r in range(destination_offsets[s], destination_offsets[s + 1]):
                register = destinations[r]
                if register < 255:
                    if what in (LOAD, ATOMIC):
                        writer[register] = events - 1 - first
                        ready[register] = 0.0
                    else:
                        writer[register] = -1
                        ready[register] = issue + latency[s]
            if width:
                if stride[access] == IRREGULAR:
                    lane += n
                access += 1
    event_start[len(start) - 1] = events
    line_start[events] = used
    return used
