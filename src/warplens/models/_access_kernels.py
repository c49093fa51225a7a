"""A memory access on its way through the network: L1 port, MSHRs, NoC, LLC and DRAM.

A server is the time at which it is free again. The misses of an access go
through a server one behind the other: only the first and the last are followed.
"""

from __future__ import annotations

from ..jit import inlined
from ._calendar_kernels import reserve
from ._network_records import (
    BY_DRAM,
    BY_LLC,
    COMING,
    DRAM,
    GIVEN,
    LLC,
    LOAD,
    LOADS,
    P_DRAM,
    P_L1,
    P_L2,
    P_MSHR,
    P_NOC,
    P_QUEUE,
    PARTS,
    PORT,
    R_DRAM,
    R_NET_IN,
    R_NET_OUT,
    R_PORT,
    R_SM_IN,
    R_SM_OUT,
    R_WAY,
    RESOURCES,
    SMOOTHING,
    STORE,
    STORES,
    WAY,
)


@inlined
def reset_memory(machine, memory):
    """Everything free, nothing on its way."""
    for r in range(RESOURCES):
        memory.free[r] = 0.0
    for r in range(2):
        memory.servers[r].free = 0.0
        memory.servers[r].booked = 0
        memory.next_place[r] = 0
        for k in range(memory.places.shape[1]):
            memory.places[r, k] = 0.0
    for r in range(memory.ways.shape[0]):
        memory.next_way[r] = 0
        for k in range(memory.ways.shape[1]):
            memory.ways[r, k] = 0.0
    memory.recent[BY_LLC] = machine.llc_latency
    memory.recent[BY_DRAM] = machine.llc_latency + machine.dram_latency
    for c in range(PARTS):
        memory.split[c] = 0.0
    memory.split[P_L1] = 1.0


@inlined
def serve(server, first, last, count, total, free, busy):
    """(First begins, last begins): `count` items that arrive from `first` to `last` keep a server for `total`."""
    begin = max(first, free[server])
    each = total / count
    end = max(last, begin + total - each)
    free[server] = end + each
    busy[server] += total
    return begin, end


@inlined
def let_in(rings, r, size, place, count, chosen, first, last, clear, hold, in_order):
    """(First, last) of `count` items as a limited number of places lets them in, and the places that they take.

    Each takes the place that is left first, for `hold` cycles; one of their own
    places, if that is left sooner. Or `in_order` the one that was taken first.
    Only the first of them wait until the servers are `clear` of what came before.
    `chosen` places, if any, are what they take on a machine that this one follows.
    """
    first = max(first, rings[r, place])
    clear = max(clear, first)
    taken = min(chosen if chosen > 0 else count, size)
    while True:
        last_place = place + taken - 1
        left = rings[r, last_place if last_place < size else last_place - size]
        if in_order or chosen > 0 or taken == 1 or left <= clear + (count - 1) // (taken - 1) * hold:
            break
        taken -= 1
    rounds = (count - 1) // taken
    return first, max(last, left, clear + rounds * hold if rounds else first), taken


@inlined
def hold_until(rings, r, size, place, count, first, last, in_order):
    """Items that are back from `first` to `last` hold their places until then; returns the place that is left first.

    From there on, round the ring, places are in the order in which they are left.
    """
    slope = (last - first) / max(count - 1, 1)
    start = place + count if place + count < size else place + count - size
    if first == last and not in_order:  # all at once: what is left later moves behind them, once for all
        here = place
        while here != start:
            before = here - 1 if here > 0 else size - 1
            if rings[r, before] <= last:
                break
            behind = before + count if before + count < size else before + count - size
            rings[r, behind] = rings[r, before]
            here = before
        for k in range(count):
            rings[r, here + k if here + k < size else here + k - size] = last
        return start
    for k in range(count):
        until = first + k * slope
        here = place + k if place + k < size else place + k - size
        while here != start and not in_order:
            before = here - 1 if here > 0 else size - 1
            if rings[r, before] <= until:
                break
            rings[r, here] = rings[r, before]
            here = before
        rings[r, here] = until
    return start


@inlined
def pass_server(row, now, begin, held, machine, memory):
    """When an access that gets there at `begin` is through a server of the L1."""
    server = memory.servers[row]
    if machine.greedy and memory.calendar.shape[1] > 0:
        begin, through = reserve(row, now, begin, held, held, memory.servers, memory.calendar)
        return through
    server.free = max(begin, server.free) + held
    return server.free


@inlined
def look_up(now, event, machine, memory, busy, part):
    """(Begins, last line enters the L1, data of a hit are back): an access goes through the port of the L1."""
    servers = memory.servers
    begin = max(now, servers[PORT].free)
    if event.turn > 0.0:
        busy[R_WAY] += event.turn
        begin = pass_server(WAY, now, begin, event.turn, machine, memory) - event.turn
    through = pass_server(PORT, now, begin, event.port, machine, memory)
    servers[PORT].free = through
    busy[R_PORT] += event.port
    last_in = max(through - event.weight, begin)
    back = last_in + machine.l1_latency * event.weight
    part[P_L1] = back - now
    for c in range(1, PARTS):
        part[c] = 0.0
    if event.level == COMING:
        recent = memory.recent[BY_LLC] + event.from_dram * (memory.recent[BY_DRAM] - memory.recent[BY_LLC])
        back = max(back, begin + event.left * machine.arrivals * recent * event.weight)
        part[P_L2] = back - now - part[P_L1]
    elif event.level == GIVEN:
        back = begin + event.left * event.weight
    return begin, last_in, back


@inlined
def clear_and_hold(begin, event, machine, free):
    """(When servers are done with what came before, mean cycles for which a miss then holds its place)."""
    weight = event.weight
    clear = max(begin, free[R_SM_OUT], free[R_NET_IN], free[R_NET_OUT], free[R_SM_IN])
    latency = event.left if event.level == GIVEN else machine.llc_latency
    if event.kind != STORE:
        from_dram = min(event.dram_reads / (event.misses * weight), 1.0)
        clear += from_dram * max(free[R_DRAM] - clear, 0.0)
        if event.level == DRAM:
            latency += from_dram * machine.dram_latency
    return clear, max(latency - machine.tags, 0.0) * weight


@inlined
def take_places(begin, last_in, event, step, machine, memory, part):
    """(First, last miss in, MSHRs that they take, ways that they take): the L1 waits for them, in order."""
    is_load = event.kind == LOAD
    ring = LOADS if is_load else STORES
    size = machine.outstanding if is_load else machine.stores
    count = max(int(event.places + 0.5), 1)
    arrives = last_in
    clear, hold = clear_and_hold(begin, event, machine, memory.free)
    first_in, last_in, taken = let_in(
        memory.places,
        ring,
        size,
        memory.next_place[ring],
        count,
        step.places,
        begin,
        last_in,
        clear,
        hold,
        machine.in_order,
    )
    lines = 0
    if is_load and machine.sets > 0:
        lines = max(int(event.set_lines + 0.5), 1)
        first_in, last_in, lines = let_in(
            memory.ways,
            event.set,
            machine.ways,
            memory.next_way[event.set],
            lines,
            step.ways,
            first_in,
            last_in,
            clear,
            hold,
            machine.in_order,
        )
    memory.servers[PORT].free = max(memory.servers[PORT].free, last_in)
    part[P_MSHR] = last_in - arrives
    if step.places == 0:
        step.places, step.ways = taken, lines
    return first_in, last_in, taken, lines


@inlined
def go_to_banks(first_in, last_in, share, event, machine, memory, busy, part):
    """(First, last) request at the banks. An SM's queue that is full holds back its L1."""
    free, rates = memory.free, machine.network[event.kind - LOAD]
    total = max(event.flits_out * rates.sm_flit, event.requests * rates.request)
    first, last = serve(R_SM_OUT, first_in, last_in, event.misses, total, free, busy)
    port = memory.servers[PORT]
    port.free = max(port.free, free[R_SM_OUT] - machine.injection * total / event.misses)
    total = max(event.flits_out * rates.net_flit, (event.requests + event.lookups) * rates.net_request)
    total *= share
    first, last = serve(R_NET_IN, first, last, event.misses, total, free, busy)
    part[P_NOC] = last - last_in
    return first, last


@inlined
def go_to_dram(first, last, share, event, machine, memory, busy, part):
    """(First, last) request that the LLC or DRAM has served, and their latency. Nobody waits for what is written."""
    free, level, weight = memory.free, event.level, event.weight
    latency = event.left * weight if level == GIVEN else machine.llc_latency * weight
    part[P_L2] = latency
    service = machine.dram_service * share
    written = event.dram_writes * service
    if written > 0.0:
        free[R_DRAM] = max(free[R_DRAM], first) + written
        busy[R_DRAM] += written
    before = last
    if event.dram_reads > 0.0 and event.kind != STORE:
        reads = max(event.dram_reads / weight, 1.0)
        first, last = serve(R_DRAM, first, last, reads, event.dram_reads * service, free, busy)
        crowd = event.channel * machine.channel * weight
        first += crowd
        last += crowd
        if level == DRAM:
            latency += machine.dram_latency * weight
    if level == LLC and event.left > 0.0:  # the LLC has sent for it already
        longer = max(memory.recent[BY_DRAM] - memory.recent[BY_LLC], machine.dram_latency)
        latency += event.left * machine.arrivals * longer * weight
    full = free[R_DRAM] - machine.dram_queue  # the banks wait for room in the queues of the channels
    if full > free[R_NET_IN]:
        free[R_NET_IN] = full
        if event.kind == STORE:
            first, last = max(first, full), max(last, full)
    part[P_DRAM] = latency - part[P_L2]
    part[P_QUEUE] = last - before
    return first, last, latency


@inlined
def come_back(first, last, share, event, machine, memory, busy, part):
    """(First, last) answer at the SM."""
    rates, before = machine.network[0], last
    first, last = serve(
        R_NET_OUT, first, last, event.misses, event.flits_in * rates.net_flit * share, memory.free, busy
    )
    first, last = serve(R_SM_IN, first, last, event.misses, event.flits_in * rates.sm_flit, memory.free, busy)
    if event.kind == LOAD:
        crowd = event.bank * machine.bank * event.weight
        first += crowd
        last += crowd
    part[P_NOC] += last - before
    return first, last


@inlined
def keep_places(first, last, taken, lines, event, machine, memory):
    """Misses hold their places until they are back, from when the tags are read, at the end of the L1's pipeline."""
    is_load = event.kind == LOAD
    ring = LOADS if is_load else STORES
    size = machine.outstanding if is_load else machine.stores
    pipe = machine.tags * event.weight
    if machine.together and is_load:
        first = last
    memory.next_place[ring] = hold_until(
        memory.places, ring, size, memory.next_place[ring], taken, first - pipe, last - pipe, machine.in_order
    )
    if lines > 0:
        held, way = last - pipe, memory.next_way[event.set]
        memory.next_way[event.set] = hold_until(
            memory.ways, event.set, machine.ways, way, lines, held, held, machine.in_order
        )


@inlined
def remember(took, event, memory):
    """A load's latency enters the means of the last misses."""
    recent = memory.recent
    if event.level == DRAM:
        recent[BY_DRAM] += SMOOTHING * (took - recent[BY_DRAM])
    elif event.left == 0.0:
        recent[BY_LLC] += SMOOTHING * (took - recent[BY_LLC])


@inlined
def scattered(now, event, draw, memory, busy, part):
    """Cycles that a load takes longer than the mean, or shorter.

    In DRAM it may find another request ahead of it, the more often the busier DRAM is. What is queued there comes in
    another order: only what goes beyond the queue counts.
    """
    cycles = event.scatter * draw
    if event.level == DRAM:
        cycles *= 1.0 + min(busy[R_DRAM] / max(now, memory.recent[BY_DRAM]), 1.0)
        cycles = max(cycles - part[P_QUEUE], 0.0) if cycles > 0.0 else min(cycles + part[P_QUEUE], 0.0)
    return cycles


@inlined
def access(now, event, draw, share, step, machine, memory, busy, part):
    """(Time it leaves the memory queue, time its result is there) of an event that enters the queue at `now`.

    `step` says how many places it takes, or is told; `share` is the part of the SMs that have such a block; `part` is
    filled with what the result waits for.
    """
    begin, last_in, back = look_up(now, event, machine, memory, busy, part)
    if event.misses <= 0.0:
        return begin, back
    first_in, last_in, taken, lines = take_places(begin, last_in, event, step, machine, memory, part)
    first, last = go_to_banks(first_in, last_in, share, event, machine, memory, busy, part)
    sent = last
    first, last, latency = go_to_dram(first, last, share, event, machine, memory, busy, part)
    first, last = come_back(first, last, share, event, machine, memory, busy, part)
    longer = event.spread * event.weight + scattered(now, event, draw, memory, busy, part)
    longer = max(longer, first - last)
    first += latency
    last += latency + longer
    part[P_DRAM if event.level == DRAM else P_L2] += longer
    keep_places(first, last, taken, lines, event, machine, memory)
    if event.kind == LOAD:
        remember((last - first_in) / event.weight, event, memory)
    part[P_L1] = max(begin - now, 0.0)
    for c in range(PARTS):
        memory.split[c] += SMOOTHING * (part[c] / event.weight - memory.split[c])
    return begin, max(back, sent if machine.posted and event.kind == STORE else last)
