"""Our own model: the warps of one SM circulate in a closed queueing network of the machine's resources."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..analysis.atomics import atomic_passes
from ..analysis.spinning import spins
from ..errors import MissingInputError
from ..machine import Gpu
from ..workload import Facts, Needs, adapted, resident
from ..workload.facts import batch_shape
from ..workload.samples import form_of, latencies_of, sample_batches
from . import _network_records as k
from .base import Array, Aspect, Case, Model, Outcome, option
from .interval import given_stalls
from .network import CLUSTER_BARRIER, FLIT_BYTES, Demand, LaunchSize, demand_config, demand_of_sample, l1_sets
from .network_by_hand import demands_by_hand
from .network_solution import Solved, most_blocks, solve_all, solve_network, solve_own
from .papers import WARPLENS
from .prediction import Condition

#: Resources that can limit a launch; the ports of an SM and of the L2 have two directions.
RESOURCES = {
    "issue": (k.R_ISSUE,),
    "units": (k.R_UNIT,),
    "L1": (k.R_PORT, k.R_WAY),
    "NoC_SM": (k.R_SM_OUT, k.R_SM_IN),
    "NoC": (k.R_NET_IN, k.R_NET_OUT),
    "DRAM": (k.R_DRAM,),
}
_IN_WORDS = {
    "issue": "the issue slots",
    "units": "a functional unit",
    "L1": "the L1 port",
    "NoC_SM": "the SM's port to the network",
    "NoC": "the L2 ports",
    "DRAM": "DRAM bandwidth",
}
#: Half-widths of the range, as fractions of the prediction, chosen by judgement; `UNSEEN` so that 80 % of the suite's
#: launches are held, and three quarters of those of public programs. A saturated resource fixes the time; without
#: one, the time depends on how waits overlap. PTX of the suite has 0.6 to 1.4 times the instructions of the machine
#: code. Limits that micro-benchmarks do not show make kernels slower, never faster.
ALWAYS, NOT_FULL, OF_PTX, UNSEEN = 0.10, 0.40, 0.20, 0.12
#: Mechanisms that can be left out. `network`: the time of the busiest resource replaces the solution.
WITHOUT = (
    *("none", "network", "arrivals", "sets", "banks", "conflicts", "queue", "mshrs", "places", "scheduler"),
    *("crowds", "stores", "write-backs", "imbalance"),
)
#: Busy fraction from which a resource decides the time.
BOUND = 0.6
#: Approximate number of events to follow; fewest and most events per warp, as powers of two.
MOST_EVENTS, EVENT_BITS = 16384, (5, 12)
_UNLIMITED = 4096


class Blames(NamedTuple):
    """A solved network: what was asked of which machine, and to what its warps owe their time."""

    demand: Demand
    machine: Any
    #: Cycles of warps by cause, those that resources are busy, and those because of each event.
    waits: Array
    busy: Array
    by_event: Array


@dataclass(frozen=True)
class Warplens(Model):
    """A closed network of warps over issue slots, units, L1 port, MSHRs, network, L2 banks and DRAM."""

    name = "warplens"
    title = "warplens"
    paper = WARPLENS
    equations = "W §1–6"
    needs = "interval_profile"
    aspects = frozenset(Aspect)
    categories: ClassVar[tuple[str, ...] | None] = k.CAUSE_NAMES
    has_launch = True

    without: str = option("none", "leaves one mechanism out, to show its effect", WITHOUT)
    assembler: bool = option(True, "reorders a PTX trace as the assembler would: loads move ahead of their uses")
    machine_code: bool = option(True, "takes the compiler's machine code in place of PTX, where the trace has it")
    launch_overhead: bool = option(True, "adds the machine's launch and block start times, if it gives any")
    ahead: int = option(0, "issues the loads of loops this many iterations earlier, if their addresses allow it")

    @property
    def requirements(self) -> Needs:
        return Needs(self.needs, events=True)

    def evaluate(self, case: Case) -> Outcome:
        size = case.size
        cycles = np.empty(size)
        waits, busy = np.zeros((size, k.CAUSES)), np.zeros((size, k.RESOURCES))
        instructions = 0.0
        for rows, demand in self._demands(case):
            part = solve_all(demand, self._machines(case, demand)[rows], self._named(case, demand, rows))
            self._put_atomics(case, rows, part)
            cycles[rows], waits[rows], busy[rows] = part
            if self.without == "network":
                cycles[rows] = np.maximum(busy[rows].max(axis=1), 1.0)
            instructions = demand.instructions_per_warp
        return self._outcome(case, instructions, cycles, waits, busy)

    def blames(self, case: Case) -> Blames:
        """To what the warps of a single traced machine owe the time that they spend."""
        ((rows, demand),) = self._demands(case)
        machines = self._machines(case, demand)[rows]
        solve_own(demand, machines)
        sm = k.new_sm(demand.stream, machines, blames=True)
        _, waits, busy = solve_network(demand.stream, machines, sm=sm)
        return Blames(demand, machines[0], waits[0], busy[0], sm.blame)

    def own_cycles(self, case: Case, gpu: Gpu) -> Array:
        """Cycles of the launch of a single machine on each of a batch that differ from it in times.

        Each serves warps in its own order, as they come: warps of two that are nearly alike meet elsewhere.
        """
        ((_, demand),) = self._demands(case)
        launch = case.workload.launch
        batch = Case(Facts(case.workload, gpu, batch_shape(launch, gpu), resident(launch, gpu)), case.model_name)
        solved = solve_all(demand, self._machines(batch, demand), None)
        self._put_atomics(case, np.zeros(batch.size, dtype=np.int64), solved)
        return solved[0] + self._overhead(case)

    def _demands(self, case: Case) -> Any:
        """(Rows of the batch, their demand); machines with the same demand share it."""
        workload, traced, needed_by = case.workload, case.facts.traced, case.model_name
        if traced is None:
            yield from demands_by_hand(case)
            return
        machine_code = self._takes_machine_code(case)
        classes = list(latencies_of(case.facts, case.gpu, needed_by, machine_code=machine_code))
        batches = sample_batches(
            case.facts,
            needed_by,
            reorder=self.assembler and workload.is_ptx,
            most_events=self._most_events(case),
            ahead=self.ahead,
            machine_code=machine_code,
            also_by=demand_config(case.gpu, classes, needed_by).columns,
        )
        recorded, instructions = traced.recorded_blocks, traced.instructions_per_block
        for rows, machine, sample, misses in batches:
            launch = LaunchSize(recorded, instructions, (workload.launch.blocks or recorded) / max(recorded, 1))
            config = demand_config(machine, classes, needed_by)
            yield rows, demand_of_sample(sample, misses, launch, config, self.without)

    def _takes_machine_code(self, case: Case) -> bool:
        return self.machine_code and self.assembler and case.workload.is_ptx and case.facts.traced is not None

    def _machine_share(self, case: Case) -> float:
        """Share of the executed PTX for which machine code stands."""
        form = form_of(case.facts) if self._takes_machine_code(case) else None
        return form.share if form else 0.0

    def _put_atomics(self, case: Case, rows: Any, part: Solved) -> None:
        """No bank is done before it has served, one by one, the lanes of atomics that meet at a word.

        The network follows packets, whatever lanes they have.
        """
        workload, traced, gpu = case.workload, case.facts.traced, case.gpu.with_defaults
        if traced is None or gpu.noc.atomic_word_cycles is None or self.without == "banks":
            return
        trace = traced.trace
        try:
            found = workload.results.once("passes", lambda: atomic_passes(trace, assembled=not workload.is_ptx))
        except MissingInputError:  # a profile has no warps
            return
        if not len(found.block):
            return
        of_words = gpu.noc.atomic_word_cycles, _or(gpu.noc.float_atomic_word_cycles, gpu.noc.atomic_word_cycles)
        words = np.stack([case.array(each)[rows] for each in of_words], axis=1)
        windows = (case.array(case.residency.blocks_per_sm) * case.active_sms)[rows]
        slices = case.array(gpu.llc.banks)[rows]
        known = workload.results
        one = [
            known.once(("busiest", key), functools.partial(found.busiest, *key))
            for key in zip(map(int, windows), map(int, slices), map(tuple, words.tolist()), strict=True)
        ]
        spread = found.requests.sum() * case.array(_or(gpu.noc.atomic_cycles, 0.0))[rows]
        spread = spread + found.further * case.array(_or(gpu.noc.atomic_lane_cycles, 0.0))[rows]
        repeats = (workload.launch.blocks or traced.recorded_blocks) / max(traced.recorded_blocks, 1)
        serial = np.maximum(one, spread) * repeats
        cycles, waits, busy = part
        busy[:, k.R_NET_IN] = np.where(serial > cycles, serial, busy[:, k.R_NET_IN])
        longer = np.maximum(serial / cycles, 1.0)
        waits[:, k.C_NOC] += waits.sum(axis=1) * (longer - 1.0)
        cycles *= longer

    def _most_events(self, case: Case) -> Any:
        """Events to keep per warp, so that the network follows a few thousand in total."""
        blocks, slots, per_block = self._blocks(case)
        blocks = np.ceil(blocks - 1e-9)
        followed = np.minimum(blocks, np.maximum(k.LEAST_WAVES * slots, k.MOST_WARPS // per_block)) * per_block
        return (2 ** np.clip(np.floor(np.log2(MOST_EVENTS / followed)), *EVENT_BITS)).astype(np.int64)

    @staticmethod
    def _blocks(case: Case) -> tuple[Array, Array, Array]:
        """(Blocks that an SM runs, blocks that it holds at a time, warps of a block).

        If less than one block fits on the SM, a block shrinks to the warps that fit.
        """
        residency = case.residency
        held, per_block = case.array(residency.blocks_per_sm), case.array(residency.warps_per_block)
        whole = held >= 1.0
        warps = np.where(whole, np.ceil(per_block), np.maximum(np.round(case.W), 1.0))
        blocks = case.array(residency.total_warps) / np.where(whole, per_block, warps) / case.active_sms
        return blocks, np.maximum(np.floor(held), 1.0), warps

    def _machines(self, case: Case, demand: Demand) -> Any:
        """One record per machine; a parameter that the machine does not give sets no limit."""
        gpu, sms = case.gpu.with_defaults, case.active_sms
        machines = np.zeros(case.size, k.MACHINE)
        machines["schedulers"] = gpu.schedulers
        machines["arrivals"] = 1.0
        machines["issue_interval"] = np.divide(1.0, gpu.issue_width)
        machines["greedy"] = gpu.scheduler in ("gto", "oldest") and self.without != "scheduler"
        machines["in_order"] = self.without == "places"
        modern = gpu.compute_capability is not None  # all that are described are 7.0 or later
        machines["partitions"] = gpu.schedulers if modern else 1
        machines["posted"] = modern
        machines["l1_latency"] = gpu.l1.latency_cycles
        machines["tags"] = (case.gpu.original or case.gpu).with_defaults.l1.latency_cycles
        machines["llc_latency"] = gpu.llc.latency_cycles
        if gpu.dram.latency_cycles is not None:
            machines["dram_latency"] = gpu.dram_latency_cycles_now(case.model_name)
        self._put_network(machines["network"], case, demand)
        self._put_queues(machines, case, demand)
        misses = gpu.noc.queue_entries if gpu.l1.streaming else gpu.l1.mshrs
        machines["together"] = gpu.l1.streaming and gpu.l1.reserving
        machines["outstanding"] = _UNLIMITED if self.without == "mshrs" else _or(misses, _UNLIMITED)
        machines["queue"] = _UNLIMITED if self.without == "queue" else gpu.l1.queue_entries
        machines["sets"] = l1_sets(gpu) if demand.has_sets and self.without != "sets" else 0
        machines["ways"] = gpu.l1.ways
        for name, what in (("barrier", "barrier"), ("cluster_barrier", CLUSTER_BARRIER)):
            barrier = case.timing(what)  # its interval is in the units
            machines[name] = np.maximum(np.subtract(barrier.latency_cycles, barrier.interval_cycles), 0.0)
        blocks, held, machines["warps_per_block"] = self._blocks(case)
        machines["blocks"], machines["blocks_per_sm"] = blocks, held
        machines["most_blocks"] = most_blocks(blocks, held, case.array(case.active_sms))
        if self.launch_overhead:
            start, launch = gpu.block_start_cycles, _or(gpu.block_launch_cycles, 0.0)
            if case.workload.launch.cluster_blocks > 1:
                start, launch = _or(gpu.cluster_start_cycles, start), _or(gpu.cluster_launch_cycles, launch)
            machines["block_start"], machines["block_launch"] = start, np.multiply(launch, sms)
            machines["cold_start"] = np.subtract(_or(gpu.cold_start_cycles, 0.0), _last(case))
        return machines

    def _named(self, case: Case, demand: Demand, rows: Any) -> Any:
        """The machine as named, if the case has overrides; a row each where launches of a batch differ."""
        if case.gpu.original is None or not case.gpu.overrides:
            return None
        launch = case.workload.launch
        gpu = adapted(case.gpu.original, launch)
        facts = Facts(case.workload, gpu, batch_shape(launch, gpu), resident(launch, gpu))
        machines = self._machines(Case(facts, case.model_name), demand)
        return machines[rows] if facts.shape else machines

    def _put_network(self, network: Any, case: Case, demand: Demand) -> None:
        """Set the cycles per request and flit; the machine may limit stores and atomics separately."""
        gpu, sms = case.gpu.with_defaults, case.active_sms
        flit = np.multiply(FLIT_BYTES, gpu.clock_hz)
        noc, port = gpu.noc.bandwidth_bytes_per_s, gpu.noc.sm_bandwidth_bytes_per_s
        request, sm_request = gpu.noc.request_cycles, gpu.noc.sm_request_cycles
        alone = np.subtract(1.0, np.multiply(gpu.noc.shared_reads, demand.shared_loads))
        for kind in (k.LOAD, k.STORE, k.ATOMIC):
            if kind == k.STORE and self.without != "stores":
                noc = _or(gpu.noc.write_bandwidth_bytes_per_s, noc)
                port = _or(gpu.noc.sm_write_bandwidth_bytes_per_s, port)
                request = _or(gpu.noc.store_cycles, request)
                sm_request = _or(gpu.noc.sm_store_cycles, sm_request)
            elif kind == k.ATOMIC and self.without != "stores":
                request = _or(gpu.noc.atomic_cycles, request)
                sm_request = _or(gpu.noc.sm_atomic_cycles, sm_request)
            rates = network[:, kind - k.LOAD]
            if noc is not None:
                rates["net_flit"] = flit / noc * sms * demand.busiest_bank
                rates["sm_flit"] = flit / gpu.sm_port_bytes_per_s(noc, port)
            rates["request"] = sm_request
            rates["net_request"] = np.multiply(request, sms) * demand.busiest_bank
            if kind == k.LOAD:
                for name in ("net_flit", "net_request"):
                    rates[name] = rates[name] * alone

    @staticmethod
    def _put_queues(machines: Any, case: Case, demand: Demand) -> None:
        """Set the queue sizes and the service times of banks and channels."""
        gpu = case.gpu.with_defaults
        machines["injection"] = gpu.noc.injection_entries
        machines["stores"] = np.multiply(4, gpu.noc.injection_entries)
        if gpu.l1.line_bytes is None:
            return
        if gpu.noc.bandwidth_bytes_per_s is not None:
            machines["bank"] = np.multiply(gpu.service_cycles_now("noc", case.model_name), gpu.llc.banks)
        if gpu.dram.bandwidth_bytes_per_s is not None:
            service = gpu.service_cycles_now("dram", case.model_name)
            channels = _or(gpu.dram.channels, gpu.llc.banks)
            machines["dram_service"] = service * case.active_sms * demand.busiest_channel
            machines["dram_queue"] = np.multiply(gpu.dram.queue_entries, channels) * service
            machines["channel"] = np.multiply(service, channels)

    def _overhead(self, case: Case) -> Array:
        """Cycles of a launch in which the SM that is followed does nothing."""
        launch = _or(case.gpu.launch_overhead_cycles, 0.0)
        return case.array(np.add(launch, _last(case)) if self.launch_overhead else 0.0)

    def _outcome(self, case: Case, instructions: float, solved: Array, waits: Array, busy: Array) -> Outcome:
        overhead = self._overhead(case)
        cycles = solved + overhead
        used = {name: busy[:, columns].max(axis=1) / cycles for name, columns in RESOURCES.items()}
        parts = np.stack(list(used.values()))
        busiest, most = parts.argmax(axis=0), parts.max(axis=0)
        low, high, reasons = self._range(case, cycles, overhead, most)
        conditions = [
            Condition(text.format(_IN_WORDS[name]), (busiest == index) & holds)
            for index, name in enumerate(used)
            for text, holds in (("bound by {}", most >= BOUND), ("bound by latency; busiest: {}", most < BOUND))
        ]
        return Outcome(
            instructions_per_warp=instructions,
            cycles=cycles,
            stack=self._stack(case, instructions, cycles, overhead, waits, busy),
            terms={
                **{f"busy_{name}": value for name, value in used.items()},
                "launch": overhead,
                "cycles_low": low,
                "cycles_high": high,
                **({"machine_code": case.array(share)} if (share := self._machine_share(case)) else {}),
            },
            conditions=(*conditions, *reasons, *given_stalls(case), *_waits_for_others(case)),
        )

    def _range(
        self, case: Case, cycles: Array, overhead: Array, busiest: Array
    ) -> tuple[Array, Array, tuple[Condition, ...]]:
        """(Low, high) cycles, and the largest cause of the uncertainty."""
        measured = any(source.kind == "measured" for source in case.gpu.sources.values())
        slower = "limits that no micro-benchmark shows"
        parts = {
            slower: case.array(UNSEEN if measured else 0.0),
            "how latencies overlap": NOT_FULL * (1.0 - np.minimum(busiest, 1.0)),
            "the GPU's own instructions, of which PTX says little": case.array(
                OF_PTX * (1.0 - self._machine_share(case)) if case.workload.is_ptx else 0.0
            ),
            "how memory requests queue": case.array(ALWAYS),
        }
        stacked = np.stack(list(parts.values()))
        up = np.sqrt((stacked**2).sum(axis=0))
        down = np.sqrt(up**2 - parts[slower] ** 2)
        largest = np.argmax(stacked, axis=0)
        reasons = tuple(
            Condition(f"the range allows mostly for {reason}", largest == index) for index, reason in enumerate(parts)
        )
        ran = cycles - overhead
        return overhead + ran / (1.0 + down), overhead + ran * (1.0 + up), reasons

    def _stack(
        self, case: Case, instructions: float, cycles: Array, overhead: Array, waits: Array, busy: Array
    ) -> dict[str, Array]:
        """BASE is the used issue slots; the rest of the time is divided in proportion to the warps' waits."""
        blocks = self._blocks(case)[0]
        total = instructions * case.array(case.residency.total_warps)
        if case.facts.total_instructions is not None:
            total = case.array(case.facts.total_instructions)
        cpi = cycles * case.active_sms / total  # of an SM with work
        issuing = np.minimum(total / case.active_sms / case.issue_rate, cycles) / cycles
        # Launch overhead, and SMs with fewer blocks than the fullest one.
        most = np.ceil(blocks - 1e-9)
        idle = np.minimum((overhead + (cycles - overhead) * (1.0 - blocks / most)) / cycles, 1.0 - issuing)
        shares = np.maximum(waits, 0.0)
        shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
        rest = (1.0 - issuing - idle)[:, None] * shares
        rest[:, 0] += issuing
        rest[:, -1] += idle
        return {name: cpi * rest[:, index] for index, name in enumerate(k.CAUSE_NAMES)}


def _last(case: Case) -> Array:
    """Cycles that the slowest of all SMs takes longer than one of them, where each waits for a load from DRAM.

    The measured cold start has them: it is that of a load on every SM.
    """
    gpu = case.gpu.with_defaults
    cold = _or(gpu.cold_start_cycles, 0.0)
    return case.array(np.minimum(cold, np.multiply(gpu.dram.spread_cycles, np.log2(case.active_sms))))


def _waits_for_others(case: Case) -> tuple[Condition, ...]:
    """What a launch says whose warps wait in loops until others have written."""
    traced = case.facts.traced
    if traced is None or traced.blocks is None or not spins(traced.blocks, traced.trace.static):
        return ()
    text = (
        "warps wait in a loop for what others write: the trace has as many turns as when it was recorded, and the "
        "time depends on which block runs when"
    )
    return (Condition(text),)


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
