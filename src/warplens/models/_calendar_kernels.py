"""Servers of an SM: what warps have reserved of each, as shares of its time in spans one after the other."""

from __future__ import annotations

from ..jit import inlined
from ._network_records import LEAST_FREE, NEVER


@inlined
def forget(row, clock, servers, calendar):
    """Drop the spans of a server that are over. The last one has no end."""
    server, past = servers[row], 0
    while past < server.booked and calendar[row, past].until <= clock:
        past += 1
    server.booked -= past
    if past > 0:
        for i in range(server.booked):
            calendar[row, i] = calendar[row, i + past]
    if server.booked == 0:
        calendar[row, 0].free = 1.0
        calendar[row, 0].until = NEVER
        server.booked = 1


@inlined
def divide(row, i, until, servers, calendar):
    """Divide a span in two; nothing changes if there is no room."""
    server = servers[row]
    if server.booked == calendar.shape[1]:
        return False
    for j in range(server.booked, i, -1):
        calendar[row, j] = calendar[row, j - 1]
    calendar[row, i].until = until
    server.booked += 1
    return True


@inlined
def reserve(row, clock, now, work, alone, servers, calendar):
    """(Begins, ends): `work` of a server that can begin `now` and takes `alone` cycles if nobody else wants it.

    Those who came first have what they reserved. Work comes at random: where others have a share u of the server, it
    waits for them, u / (1 - u) of its own time in the mean.
    """
    forget(row, clock, servers, calendar)
    i = 0
    while calendar[row, i].until <= now:
        i += 1
    if now > clock and divide(row, i, now, servers, calendar):
        i += 1
    begin, left = NEVER, work
    while left > 0.0:
        free, until = calendar[row, i].free, calendar[row, i].until
        taken, end = 0.0, NEVER
        if free > LEAST_FREE:
            taken = 1.0 / (alone / work + (1.0 - free) / free)
            end = now + left / taken
            begin = min(begin, now)
        if end < until:
            divide(row, i, end, servers, calendar)
            calendar[row, i].free = free - taken
            return begin, end
        left -= taken * (until - now)
        calendar[row, i].free = free - taken
        now = until
        i += 1
    return min(begin, now), now


@inlined
def hold(row, now, begin, reach, held, many, greedy, servers, calendar):
    """(Begins, ends) what a warp does from `begin` to `reach` if that also takes `held` cycles of a server.

    Under a greedy policy the warp gets what others have left. Else, or without calendars, the server takes turns: the
    warp waits at most as if all others asked for as much as it does.
    """
    if greedy and calendar.shape[1] > 0:
        return reserve(row, now, begin, held, max(reach - begin, held), servers, calendar)
    server = servers[row]
    free = max(server.free, now)
    server.free = free + held
    return begin, max(reach, now + held + min(free - now, many * held))


@inlined
def full_until(row, servers, calendar):
    """The time until which all of a server is reserved; 0 if some of it is free now."""
    found = 0.0
    for i in range(servers[row].booked):
        if calendar[row, i].free > LEAST_FREE:
            break
        found = calendar[row, i].until
    return found
