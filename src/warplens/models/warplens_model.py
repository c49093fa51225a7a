"""Our own model: the warps of one SM as customers of a closed network of the machine's resources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..intervals.blocks import BlockSample
from ..machine import Gpu
from ..memory import MissProfile
from ..memory import _kernels as memory
from ..workload import Workload
from ..workload.traced import TracedWorkload
from .base import Array, Aspect, Case, Model, Outcome, option
from .papers import LEMEIRE

FLIT_BYTES = 32
#: The golden ratio's fraction: multiples of it spread evenly over the unit interval, however many there are.
_GOLDEN = 0.6180339887498949


def spread(groups: Any, offset: float = 0.5) -> Any:
    """A point of the unit interval for each entry; those of one group are spread evenly, however many there are."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = ordered[1:] != ordered[:-1]
    first = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order)) - first
    return ((rank + offset) * _GOLDEN) % 1.0


def draw_levels(sample: BlockSample, misses: MissProfile) -> tuple[Any, Any]:
    """(Level that serves each event, part of a miss that is left where its data are on their way).

    Executions of an instruction are spread over levels as the caches found.
    """
    from . import _network_kernels as k

    static = sample.static
    levels = misses.levels
    mine = levels[static]
    point = spread(static)
    level = np.where(point < mine[:, 2], k.DRAM, np.where(point < mine[:, 2] + mine[:, 1], k.LLC, k.L1))
    left = np.zeros(len(static))
    if misses.arrivals is not None:
        for of, count, sum_left, becomes in (
            (k.L1, memory.A_L1, memory.A_L1_LEFT, k.COMING),
            (k.LLC, memory.A_LLC, memory.A_LLC_LEFT, k.LLC),
        ):
            found = misses.arrivals[:, count]
            part = found / np.maximum(levels[:, of] * misses.executed, 1.0)
            mean = misses.arrivals[:, sum_left] / np.maximum(found, 1.0)
            here = np.flatnonzero(level == of)
            coming = here[spread(static[here]) < part[static[here]]]
            level[coming] = becomes
            left[coming] = mean[static[coming]]
    return level.astype(np.int64), left


def event_matrix(sample: BlockSample, misses: MissProfile, gpu: Gpu) -> tuple[Any, Any, Any]:
    from . import _network_kernels as k

    static, weight = sample.static, sample.weight
    levels = misses.levels
    level, left = draw_levels(sample, misses)
    is_store = sample.kind == k.STORE
    access = np.isin(sample.kind, (k.LOAD, k.STORE, k.ATOMIC))
    level = np.where(access, level, k.L1)
    misses_here = (level == k.LLC) | (level == k.DRAM)
    leaving_part = np.maximum(levels[:, 1] + levels[:, 2], 1e-300)[static]
    dram_part = np.maximum(levels[:, 2], 1e-300)[static]
    leaving = np.where(misses_here, misses.misses_per_execution[static] / leaving_part, 0.0)
    reads = np.where(level == k.DRAM, misses.per_execution("DRAM_READS")[static] / dram_part, 0.0)
    writes = misses.per_execution("DRAM_WRITES")[static] * access
    transfer = float(gpu.transfer_bytes)
    matrix = np.zeros((len(static), k.EVENT_COLUMNS))
    matrix[:, k.E_ISSUE] = sample.instructions * weight
    matrix[:, k.E_GAP] = sample.gap * weight
    matrix[:, k.E_TAIL] = sample.tail * weight
    per_cycle = 1.0
    matrix[:, k.E_PORT] = np.where(access, np.maximum(sample.lines / per_cycle, 1.0), 0.0) * weight
    matrix[:, k.E_SHARED] = sample.shared_cycles * weight
    matrix[:, k.E_MISSES] = np.minimum(leaving, np.maximum(sample.lines, 1)) if not gpu.l1.streaming else leaving
    data = transfer / FLIT_BYTES
    line_flits = float(gpu.l1.line_bytes) / FLIT_BYTES
    written = np.minimum(sample.access_bytes / np.maximum(sample.lines, 1) / FLIT_BYTES, line_flits)
    write_flits = np.minimum(np.maximum(np.ceil(written), 1) + 1.0, np.maximum(line_flits, 2.0))
    packets = np.where(is_store, np.minimum(leaving, sample.lines), leaving)
    out = np.where(sample.kind == k.LOAD, leaving, packets * write_flits)
    back = np.where(sample.kind == k.LOAD, leaving * data, packets)
    matrix[:, k.E_FLITS_OUT] = out * weight
    matrix[:, k.E_FLITS_IN] = back * weight
    matrix[:, k.E_DRAM_READS] = reads * weight
    matrix[:, k.E_DRAM_WRITES] = writes * weight
    matrix[:, k.E_WEIGHT] = weight
    matrix[:, k.E_LEFT] = left
    sets = np.zeros(len(static), dtype=np.int64)
    count = l1_sets(gpu)
    if count:
        sets, most = sample.sets(count)
        matrix[:, k.E_SET_LINES] = most * np.minimum(leaving / np.maximum(sample.lines, 1.0), 1.0)
    return matrix, level, sets


def l1_sets(gpu: Gpu) -> int:
    """Sets in which ways wait for data; none where the L1 streams."""
    if gpu.l1.streaming or not gpu.l1.size_bytes:
        return 0
    return int(gpu.l1.size_bytes // (gpu.l1.line_bytes * (gpu.l1.ways or 1)))


def unit_matrix(sample: BlockSample, gpu: Gpu, needed_by: str) -> tuple[Any, tuple[str, ...]]:
    from ..machine import INSTRUCTION_CLASSES

    names: dict[str, int] = {}
    columns = []
    for index, name in enumerate(sample.classes):
        kind = INSTRUCTION_CLASSES[name].kind
        if kind in ("memory", "barrier") or (kind == "shared" and name != "load_constant"):
            continue
        timing = gpu.timing(name, needed_by)
        u = names.setdefault(timing.subsystem, len(names))
        columns.append((u, index, float(timing.interval_cycles)))
    held = np.zeros((len(sample.static), max(len(names), 1)))
    for u, index, interval in columns:
        held[:, u] += sample.counts[:, index] * interval * sample.weight
    return held, tuple(names)


def machine_row(workload: Workload, misses: MissProfile, gpu: Gpu, needed_by: str) -> Any:
    from . import _network_kernels as k
    from ..workload import resident

    res = resident(workload.launch, gpu)
    row = np.zeros(k.MACHINE_COLUMNS)
    sms = float(res.active_sms)
    row[k.M_SCHEDULERS] = gpu.schedulers
    row[k.M_ISSUE_INTERVAL] = 1.0 / gpu.issue_width
    row[k.M_L1_LATENCY] = gpu.l1.latency_cycles or 0.0
    row[k.M_LLC_LATENCY] = gpu.llc.latency_cycles or 0.0
    row[k.M_DRAM_LATENCY] = gpu.dram_latency_cycles_now(needed_by)
    noc = gpu.noc.bandwidth_bytes_per_s
    banks = gpu.llc.banks or 1
    if noc is not None:
        port = gpu.noc.sm_bandwidth_bytes_per_s
        row[k.M_NET_FLIT] = FLIT_BYTES * gpu.clock_hz / noc * sms * misses.busiest_bank
        row[k.M_SM_FLIT] = FLIT_BYTES * gpu.clock_hz / (noc / min(banks, gpu.sms) if port is None else port)
    row[k.M_DRAM_SERVICE] = gpu.service_cycles_now("dram", needed_by) * sms * misses.busiest_channel
    limit = gpu.noc.queue_entries if gpu.l1.streaming else gpu.l1.mshrs
    row[k.M_OUTSTANDING] = 1e4 if limit is None else limit
    injection = gpu.noc.injection_entries or 64
    row[k.M_INJECTION] = injection
    row[k.M_STORES] = 4 * injection
    channels = gpu.dram.channels or banks
    row[k.M_DRAM_QUEUE] = (gpu.dram.queue_entries or 64) * gpu.service_cycles_now("dram", needed_by) * channels
    barrier = gpu.instructions.get("barrier")
    row[k.M_BARRIER] = 1.0
    if barrier is not None and barrier.latency_cycles is not None:
        row[k.M_BARRIER_WARP] = barrier.interval_cycles or 0.0
        row[k.M_BARRIER] = max(barrier.latency_cycles - row[k.M_BARRIER_WARP], 0.0)
    row[k.M_BLOCKS_PER_SM] = max(int(res.blocks_per_sm), 1)
    row[k.M_WARPS_PER_BLOCK] = int(np.ceil(res.warps_per_block))
    row[k.M_BLOCKS] = float(res.total_warps) / float(res.warps_per_block) / sms
    row[k.M_SMS] = sms
    row[k.M_QUEUE] = gpu.l1.queue_entries or 8
    row[k.M_GREEDY] = gpu.scheduler in ("gto", "oldest")
    row[k.M_SETS] = l1_sets(gpu)
    row[k.M_WAYS] = gpu.l1.ways or 1
    return row
