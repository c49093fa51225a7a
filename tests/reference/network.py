"""The closed network of one SM's warps in plain Python: one object per warp, block and ring, no arrays.

It follows docs/models/warplens.md; floating-point operations come in the same
order as in the compiled network, so that results agree exactly.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from warplens.models._network_records import DRAWS, GUMBEL

from .network_parts import CAUSES, NEVER, PARTS, Event, Ring, Slot, Warp, having, warps_of

#: A server: its name, or for a functional unit its number and partition.
Server = str | int | tuple[str | int, int]
SMOOTHING = 0.1
LEAST_FREE = 0.02
SERVERS = ("issue", "units", "port", "out", "in", "bank in", "bank out", "dram", "way")


def draw(warp: int, event: int) -> float:
    """A quantile of a Gumbel distribution of mean 0, by a hash of a warp of the launch and its event."""
    mask = (1 << 64) - 1
    mixed = (warp * 0x9E3779B97F4A7C15 + event * 0xC2B2AE3D27D4EB4F) & mask
    mixed = (mixed ^ (mixed >> 29)) * 0xBF58476D1CE4E5B9 & mask
    return float(GUMBEL[(mixed ^ (mixed >> 32)) % DRAWS])


class Network:
    """`machine` is a record of `warplens.models._network_records.MACHINE`."""

    def __init__(
        self,
        blocks: list[list[list[Event]]],
        traffic: list[float],
        machine: Any,
        divided: list[bool],
        slower: list[bool],
    ) -> None:
        self.blocks = blocks  # in the order in which an SM is given them
        self.traffic = traffic
        self.m = machine
        self.waits = dict.fromkeys(CAUSES, 0.0)
        self.units = range(len(blocks[0][0][0].units))
        self.divided, self.slower = divided, slower
        self.busy: dict[Server, float] = dict.fromkeys((*SERVERS, *self.units), 0.0)
        self.free: defaultdict[Server, float] = defaultdict(float)
        self.in_order = bool(machine["in_order"])
        self.loads, self.stores = (
            Ring(int(machine[name]), in_order=self.in_order) for name in ("outstanding", "stores")
        )
        self.sets: dict[int, Ring] = {}
        self.recent = {"llc": machine["llc_latency"], "dram": machine["llc_latency"] + machine["dram_latency"]}
        self.split = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        self.schedulers = max(int(machine["schedulers"]), 1)
        self.issue_free = [0.0] * self.schedulers
        self.calendar: defaultdict[Server, list[list[float]]] = defaultdict(lambda: [[NEVER, 1.0]])
        self.greedy = bool(machine["greedy"])
        events = [event for block in blocks for warp in block for event in warp]
        self.ahead = any(event.shared > 0.0 or event.special > 0.0 for event in events)

    # -- memory -------------------------------------------------------------------------

    def serve(self, server: str, first: float, last: float, count: float, total: float) -> tuple[float, float]:
        begin = max(first, self.free[server])
        each = total / count
        end = max(last, begin + total - each)
        self.free[server] = end + each
        self.busy[server] += total
        return begin, end

    def clear_and_hold(self, begin: float, event: Event) -> tuple[float, float]:
        """When servers are done with what came before, and cycles for which a miss then holds its place."""
        m = self.m
        clear = max(begin, *(self.free[name] for name in ("out", "bank in", "bank out", "in")))
        latency = event.left if event.level == "given" else m["llc_latency"]
        if event.kind != "store":
            from_dram = min(event.dram_reads / (event.misses * event.weight), 1.0)
            clear += from_dram * max(self.free["dram"] - clear, 0.0)
            if event.level == "dram":
                latency += from_dram * m["dram_latency"]
        return clear, max(latency - m["tags"], 0.0) * event.weight

    def through(self, server: str, now: float, begin: float, held: float) -> float:
        """When an access that gets to a server of the L1 at `begin` is through it."""
        if self.greedy and self.ahead:
            return self.reserve(server, now, begin, held, held)[1]
        self.free[server] = max(begin, self.free[server]) + held
        return self.free[server]

    def scattered(self, now: float, event: Event, draw: float, queued: float) -> float:
        """Cycles that a load takes longer than the mean; in DRAM the more, the busier that is."""
        cycles = event.scatter * draw
        if event.level == "dram":
            cycles *= 1.0 + min(self.busy["dram"] / max(now, self.recent["dram"]), 1.0)
            cycles = max(cycles - queued, 0.0) if cycles > 0.0 else min(cycles + queued, 0.0)
        return cycles

    def access(self, now: float, event: Event, draw: float, share: float) -> tuple[float, float, list[float]]:
        m, weight = self.m, event.weight
        pipe = m["tags"] * weight
        begin = max(now, self.free["port"])
        if event.turn > 0.0:
            begin = self.through("way", now, begin, event.turn) - event.turn
            self.busy["way"] += event.turn
        through = self.through("port", now, begin, event.port)
        self.free["port"] = through
        self.busy["port"] += event.port
        last_in = max(through - weight, begin)
        back = last_in + pipe
        part = [back - now, 0.0, 0.0, 0.0, 0.0, 0.0]
        if event.level == "coming":
            recent = self.recent["llc"] + event.from_dram * (self.recent["dram"] - self.recent["llc"])
            back = max(back, begin + event.left * m["arrivals"] * recent * weight)
            part[1] = back - now - part[0]
        elif event.level == "given":
            back = begin + event.left * weight
        if event.misses <= 0.0:
            return begin, back, part
        ring = self.loads if event.kind == "load" else self.stores
        count = max(int(event.places + 0.5), 1)
        arrives = last_in
        clear, hold = self.clear_and_hold(begin, event)
        first_in, last_in, taken = ring.enter(count, begin, last_in, clear, hold)
        ways = None
        if event.kind == "load" and m["sets"] > 0.0:
            ways = self.sets.setdefault(event.set, Ring(int(m["ways"]), in_order=self.in_order))
            lines = max(int(event.set_lines + 0.5), 1)
            first_in, last_in, lines = ways.enter(lines, first_in, last_in, clear, hold)
        self.free["port"] = max(self.free["port"], last_in)
        part[3] = last_in - arrives
        rates = m["network"][("load", "store", "atomic").index(event.kind)]
        total = max(event.flits_out * rates["sm_flit"], event.requests * rates["request"])
        first, last = self.serve("out", first_in, last_in, event.misses, total)
        self.free["port"] = max(self.free["port"], self.free["out"] - m["injection"] * total / event.misses)
        total = max(event.flits_out * rates["net_flit"], (event.requests + event.lookups) * rates["net_request"])
        first, last = self.serve("bank in", first, last, event.misses, total * share)
        part[4] = last - last_in
        sent = last
        latency = event.left * weight if event.level == "given" else m["llc_latency"] * weight
        part[1] = latency
        service = m["dram_service"] * share
        written = event.dram_writes * service
        if written > 0.0:
            self.free["dram"] = max(self.free["dram"], first) + written
            self.busy["dram"] += written
        before = last
        if event.dram_reads > 0.0 and event.kind != "store":
            reads = max(event.dram_reads / weight, 1.0)
            first, last = self.serve("dram", first, last, reads, event.dram_reads * service)
            crowd = event.channel * m["channel"] * weight
            first, last = first + crowd, last + crowd
            if event.level == "dram":
                latency += m["dram_latency"] * weight
        if event.level == "llc" and event.left > 0.0:
            longer = max(self.recent["dram"] - self.recent["llc"], m["dram_latency"])
            latency += event.left * m["arrivals"] * longer * weight
        full = self.free["dram"] - m["dram_queue"]
        if full > self.free["bank in"]:
            self.free["bank in"] = full
            if event.kind == "store":
                first, last = max(first, full), max(last, full)
        part[2] = latency - part[1]
        part[5] = last - before
        before = last
        first, last = self.serve(
            "bank out", first, last, event.misses, event.flits_in * m["network"][0]["net_flit"] * share
        )
        first, last = self.serve("in", first, last, event.misses, event.flits_in * m["network"][0]["sm_flit"])
        if event.kind == "load":
            crowd = event.bank * m["bank"] * weight
            first, last = first + crowd, last + crowd
        part[4] += last - before
        longer = max(event.spread * weight + self.scattered(now, event, draw, part[5]), first - last)
        first += latency
        last += latency + longer
        part[2 if event.level == "dram" else 1] += longer
        leaves = last if m["together"] and event.kind == "load" else first
        ring.take(taken, leaves - pipe, last - pipe)
        if ways is not None:
            ways.take(lines, last - pipe, last - pipe)
        if event.kind == "load":
            took = (last - first_in) / weight
            if event.level == "dram":
                self.recent["dram"] += SMOOTHING * (took - self.recent["dram"])
            elif event.left == 0.0:
                self.recent["llc"] += SMOOTHING * (took - self.recent["llc"])
        part[0] = max(begin - now, 0.0)
        self.split = [old + SMOOTHING * (new / weight - old) for old, new in zip(self.split, part, strict=True)]
        return begin, max(back, sent if m["posted"] and event.kind == "store" else last), part

    # -- issue --------------------------------------------------------------------------

    def book(self, cycles: float, parts: list[float], source: Event | None = None) -> None:
        total = 0.0
        for each in parts:
            total += each
        if total > 0.0:
            for name, each in zip(PARTS, parts, strict=True):
                self.waits[name] += cycles * each / total
                if source is not None:
                    source.blame[name] += cycles * each / total

    def go_on(self, warp: Warp, now: float) -> None:
        event = warp.event
        reach, start = now + event.gap, now
        if event.needs >= 0:
            reach = max(reach, warp.done[event.needs] + event.tail)
            start = max(now, reach - event.gap)
            self.book(start - now, warp.parts[event.needs], warp.source[event.needs])
        warp.gap, warp.left = reach - start, max(event.steps, 1)
        warp.state, warp.ready = "data", start

    def reserve(self, server: Server, clock: float, now: float, work: float, alone: float) -> tuple[float, float]:
        """(Begins, ends): work waits for those who came before; a calendar has (until, free) of its spans."""
        spans = [span for span in self.calendar[server] if span[0] > clock]
        before = [span for span in spans if span[0] <= now]
        spans = spans[len(before) :]
        if now > clock:
            before.append([now, spans[0][1]])
        begin, left = NEVER, work
        while left > 0.0:
            until, free = spans.pop(0)
            taken, end = 0.0, NEVER
            if free > LEAST_FREE:
                taken = 1.0 / (alone / work + (1.0 - free) / free)
                end, begin = now + left / taken, min(begin, now)
            if end < until:
                before += [[end, free - taken], [until, free]]
                now = end
                break
            left -= taken * (until - now)
            before.append([until, free - taken])
            now = until
        self.calendar[server] = before + spans
        return min(begin, now), now

    def take_turns(self, warp: Warp, q: int, now: float, work: float) -> float:
        """A warp waits for what others have to issue, and at most for as much of each as it has itself."""
        free = max(self.issue_free[q], now)
        self.issue_free[q] = free + work
        ahead, others = free - now, 0
        for other in self.warps[q :: self.schedulers]:
            if other is not warp and other.state == "issuing" and other.ready < NEVER:
                others += 1
            elif other is not warp and other.state == "data" and other.ready <= now:
                others += 1
                ahead += other.event.issue / max(other.event.steps, 1) * self.m["issue_interval"]
        return now + work + min(ahead, others * work)

    def held(
        self, server: Server, now: float, span: tuple[float, float], cycles: float, many: float
    ) -> tuple[float, float]:
        """(Begins, ends) what a warp does in a span of time if that also takes some cycles of a server."""
        begin, reach = span
        if self.greedy:
            return self.reserve(server, now, begin, cycles, max(reach - begin, cycles))
        ahead = max(self.free[server], now) - now
        self.free[server] = max(self.free[server], now) + cycles
        return begin, max(reach, now + cycles + min(ahead, many * cycles))

    def issue(self, warp: Warp, q: int, now: float) -> None:
        event, many = warp.event, len(self.warps) - 1.0
        part = 1.0 / max(event.steps, 1)
        work = event.issue * self.m["issue_interval"] * part
        alone = max(warp.gap * part, work)
        begin = now
        if self.greedy:
            begin, reach = self.reserve(("scheduler", q), now, now, work, alone)
            self.issue_free[q] = 0.0
            for until, free in self.calendar["scheduler", q]:
                if free > LEAST_FREE:
                    break
                self.issue_free[q] = until
        else:
            reach = self.take_turns(warp, q, now, work)
        reach = max(now + alone, reach)
        self.waits["BASE"] += work + (reach - now - alone)
        event.blame["BASE"] += work + (reach - now - alone)
        self.waits["DEP"] += alone - work
        event.blame["DEP"] += alone - work
        self.busy["issue"] += work / self.schedulers
        before, span = reach, (begin, reach)
        partitions = int(self.m["partitions"])
        for u, of_all in enumerate(event.units):
            cycles = of_all * part
            self.busy[u] += cycles
            if cycles > 0.0 and self.slower[u]:
                own = partitions > 1 and self.divided[u]
                unit = (u, warp.number % partitions) if own else u
                span = self.held(unit, now, span, cycles * partitions if own else cycles, many)
        if event.special > 0.0:
            self.busy["way"] += event.special * part
            span = self.held("way", now, span, event.special * part, many)
        self.waits["DEP"] += span[1] - before
        event.blame["unit"] += span[1] - before
        if event.shared > 0.0:
            before = span[1]
            self.busy["port"] += event.shared * part
            span = self.held("port", now, span, event.shared * part, many)
            self.waits["L1"] += span[1] - before
            event.blame["shared"] += span[1] - before
        warp.left -= 1
        warp.state, warp.ready = "data" if warp.left else "issuing", span[1]

    def call_next(self, q: int) -> None:
        """Of the warps that wait for a scheduler, the oldest goes on when it is free."""
        waiting = [warp for warp in self.warps[q :: self.schedulers] if warp.state == "at scheduler"]
        for warp in waiting:
            warp.ready = NEVER
        if waiting:
            min(waiting, key=lambda warp: warp.age).ready = self.issue_free[q]

    def chosen(self, state: str, candidates: list[Warp], last: int) -> Warp:
        """The oldest, or the next in turn after the last one."""
        found = [warp for warp in candidates if warp.state == state]
        if self.greedy:
            return min(found, key=lambda warp: warp.age)
        return next((warp for warp in found if warp.number > last), found[0])

    # -- the launch ---------------------------------------------------------------------

    def enter(self, slot: Slot, block: int, place: int, begin: float, per_block: int) -> None:
        streams = self.blocks[place]
        slot.alive = 0
        for k, warp in enumerate(slot.warps):
            warp.ready, warp.state = NEVER, "data"
            if k >= len(streams) > 1:
                continue
            warp.events = streams[min(k, len(streams) - 1)]
            if not warp.events:
                continue
            warp.at, warp.age, warp.back = 0, block * per_block + k, begin
            warp.gap, warp.ready = warp.events[0].gap, begin
            warp.left = max(warp.events[0].steps, 1)
            warp.done, warp.parts = [0.0] * len(warp.events), [[0.0] * 6 for _ in warp.events]
            warp.source = list(warp.events)
            warp.signalled = [NEVER] * len(warp.events)
            slot.alive += 1

    def run(self) -> float:
        m, per_block = self.m, int(self.m["warps_per_block"])
        blocks = int(m["most_blocks"])
        count = min(int(m["blocks_per_sm"]), blocks)
        full = int(m["blocks"] / count + 1e-9) * count
        skipped = max((full - max(3 * count, 160 // per_block)) // count, 0)
        block = skipped * count
        self.warps = [Warp(number) for number in range(count * per_block)]
        slots = [Slot(self.warps[s * per_block : (s + 1) * per_block]) for s in range(count)]
        queue, accesses, last_port, clock = [0.0] * max(int(m["queue"]), 1), 0, -1, 0.0
        ends: list[float] = []
        while True:
            for slot in slots:
                if slot.alive == 0 and block < blocks:
                    launched = max((block - skipped * count + 1) * m["block_launch"], m["cold_start"])
                    begin = max(slot.left_at + m["block_start"], launched)
                    place = (block - skipped * count) % len(self.blocks)
                    slot.share = having(block, full, count, float(m["blocks"])) * self.traffic[place]
                    self.enter(slot, block, place, begin, per_block)
                    slot.left_at, slot.waiting, slot.gathered = begin, 0, 0.0
                    block += 1
                    if slot.alive == 0:
                        ends.append(begin)
            warp = min(self.warps, key=lambda each: each.ready)
            now = warp.ready
            outside = any(each.state == "at port" for each in self.warps)
            enters = outside and queue[accesses % len(queue)] <= now
            if enters:
                now = max(queue[accesses % len(queue)], clock)
                warp = self.chosen("at port", self.warps, last_port)
                total = sum(self.split)
                for name, each in zip(PARTS, self.split, strict=True):
                    self.waits[name] += (now - warp.since) * each / total
            if now >= NEVER:
                stuck = next((each for each in self.warps if each.state == "at mbarrier"), None)
                if stuck is None:
                    break
                slot = slots[stuck.number // per_block]
                self.pass_mbarrier(stuck, slot, stuck.since)
                self.meet(slot)
                if slot.alive == 0:
                    ends.append(slot.left_at)
                continue
            clock = now
            slot, q = slots[warp.number // per_block], warp.number % self.schedulers
            event = warp.event
            if warp.state == "data":
                if self.greedy and self.issue_free[q] > now:
                    warp.state, warp.since, warp.ready = "at scheduler", now, NEVER
                else:
                    self.issue(warp, q, now)
                self.call_next(q)
                continue
            if warp.state == "at scheduler":
                self.issue(warp, q, warp.since)
                self.call_next(q)
                continue
            if event.is_access and not enters and queue[accesses % len(queue)] > now:
                warp.state, warp.since, warp.ready = "at port", now, NEVER
            else:
                if event.is_access:
                    leaves, back, part = self.access(now, event, draw(warp.age, warp.at), slot.share)
                    queue[accesses % len(queue)] = leaves
                    accesses += 1
                    last_port = warp.number
                    warp.back = max(warp.back, back)
                    later = warp.at > 0 and (event.kind == "store" or back < warp.done[warp.at - 1])
                    warp.done[warp.at] = warp.done[warp.at - 1] if later else back
                    warp.parts[warp.at] = list(warp.parts[warp.at - 1]) if later else part
                else:
                    if event.kind == "end":
                        warp.back = max(warp.back, now + event.left)
                    later = warp.at > 0 and now < warp.done[warp.at - 1]
                    warp.done[warp.at] = warp.done[warp.at - 1] if later else now
                    warp.parts[warp.at] = list(warp.parts[warp.at - 1]) if later else [0.0] * 6
                if later:
                    warp.source[warp.at] = warp.source[warp.at - 1]
                warp.signalled[warp.at] = warp.done[warp.at] if event.kind == "load" else now
                self.leave(warp, slot, event, now)
                if slot.alive == 0:
                    ends.append(slot.left_at)
        ends.sort()
        cycles = ends[-1]
        self.busy["units"] = max(self.busy.pop(unit) for unit in self.units)
        if skipped:
            waves = (full - skipped * count - count) // count
            took = 0.0
            for k in range(count):
                took += (ends[k + waves * count] - ends[k]) / (waves * count)
            cycles += skipped * took
            for name in self.busy:
                all_blocks = float(m["blocks"]) if name in ("bank in", "bank out", "dram") else float(blocks)
                self.busy[name] *= all_blocks / (all_blocks - skipped * count)
        return cycles

    def leave(self, warp: Warp, slot: Slot, event: Event, now: float) -> None:
        """On to the next event, or out. With the last one at a barrier, or of a phase, all go on that wait there."""
        if event.kind == "await":
            warp.state, warp.since, warp.ready = "at mbarrier", now, NEVER
        elif event.kind == "barrier":
            warp.state, warp.since, warp.ready = "at barrier", now, NEVER
            slot.waiting += 1
            slot.gathered = max(slot.gathered, now)
        else:
            self.advance(warp, slot, now)
        for other in slot.warps:
            if other.state == "at mbarrier":
                needed = [slot.warps[who].signalled[what] for who, what in other.event.awaits]
                if max(needed, default=0.0) < NEVER:
                    self.pass_mbarrier(other, slot, max(*needed, other.since, 0.0))
        self.meet(slot)

    def pass_mbarrier(self, warp: Warp, slot: Slot, opens: float) -> None:
        """A warp goes on that waited for a phase."""
        self.waits["SYNC"] += opens - warp.since
        warp.event.blame["SYNC"] += opens - warp.since
        self.advance(warp, slot, opens)

    def meet(self, slot: Slot) -> None:
        """A barrier opens when all others have left or wait at mbarriers."""
        parked = sum(other.state == "at mbarrier" for other in slot.warps)
        if slot.waiting > 0 and slot.waiting + parked == slot.alive:
            gathered, slot.waiting, slot.gathered = slot.gathered, 0, 0.0
            for other in slot.warps:
                if other.state == "at barrier":
                    name = "cluster_barrier" if other.event.clustered else "barrier"
                    opens = gathered + self.m[name] * other.event.weight
                    self.waits["SYNC"] += opens - other.since
                    other.event.blame["SYNC"] += opens - other.since
                    self.advance(other, slot, opens)

    def advance(self, warp: Warp, slot: Slot, now: float) -> None:
        """On to the next event, or out."""
        warp.at += 1
        warp.state = "data"
        if warp.at < len(warp.events):
            self.go_on(warp, now)
            return
        warp.ready = NEVER
        slot.alive -= 1
        slot.gathered = max(slot.gathered, now)
        slot.left_at = max(slot.left_at, now, warp.back)
        self.book(max(warp.back - now, 0.0), self.split)


def solved(stream: Any, machine: Any) -> tuple[float, dict[str, float], dict[Server, float], list[dict[str, float]]]:
    """(Cycles, waits, busy, blame of each event) of a compiled network's input."""
    warps, begins = warps_of(stream), stream.block_start
    order = stream.order.tolist()
    blocks = [warps[begins[b] : begins[b + 1]] for b in order]
    traffic = [float(stream.traffic[b]) for b in order]
    network = Network(blocks, traffic, machine, stream.divided.tolist(), stream.slower.tolist())
    return network.run(), network.waits, network.busy, [event.blame for warp in warps for event in warp]
