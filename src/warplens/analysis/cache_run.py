"""Everything a cache simulation depends on, as one record: equal records give equal results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import MachineError, OptionError
from ..machine import INSTRUCTION_CLASSES, Gpu, Quantity, distinct
from ._cache_records import GRANULES, CacheConfig, Timing

DEFAULT_ORDER = "progress"
#: Misses in flight of an SM without a limit.
NO_LIMIT = 1_000_000


class Coalescing(NamedTuple):
    """What the events of a trace depend on."""

    line_bytes: int
    #: Latency cycles by instruction class, without memory classes: the caches decide theirs.
    latencies: tuple[tuple[str, float], ...] = ()
    #: PTX in the order that an assembler gives it.
    assembled: bool = False

    def latency_of(self, instruction_class: str) -> float:
        return dict(self.latencies).get(instruction_class, 0.0)


@dataclass(frozen=True, slots=True)
class CacheRun:
    """Everything a cache simulation of a trace depends on: the key of its result."""

    order: str
    config: CacheConfig
    #: None if the order of accesses needs no timing.
    timing: Timing | None
    coalescing: Coalescing
    transfer_bytes: int

    def filled_by(self, blocks: int, launched: int) -> tuple[CacheRun, float]:
        """(The run on no more SMs than some blocks of a launch fill, time of the launch over theirs).

        An SM must have as many blocks as in the launch, since they share its L1. What the SMs share is that much
        slower.
        """
        if not 0 < blocks < launched:
            return self, 1.0
        sms, timing = self.config.sms, self.timing
        resident = min(self.config.blocks_per_sm, -(-launched // sms))
        fewer = min(sms, -(-blocks // resident))
        if timing is not None:
            less = sms / fewer
            shared = ("noc_service", "noc_request", "noc_store_service", "dram_service")
            timing = timing._replace(**{name: getattr(timing, name) * less for name in shared})
        fitted = replace(self, config=self.config._replace(sms=fewer), timing=timing)
        return fitted, launched / blocks * fewer / sms


def order_window(order: str) -> int:
    """Number of oldest warps of an SM that take turns (0: all); `OptionError` for an unknown order."""
    if order in ("round-robin", "progress"):
        return 0
    match = re.fullmatch(r"oldest-([1-9]\d{0,5})", order)
    if not match:
        raise OptionError(f"order {order!r} is not one of round-robin, oldest-N (for example oldest-8), progress")
    return int(match[1])


def cache_run(
    gpu: Gpu,
    named: Gpu,
    blocks_per_sm: Quantity,
    *,
    order: str = DEFAULT_ORDER,
    classes: Sequence[str] = (),
    needed_by: str = "the cache simulation",
) -> CacheRun:
    """The run of one machine; see `cache_runs`."""
    runs, _ = cache_runs(gpu, named, blocks_per_sm, 1, order=order, classes=classes, needed_by=needed_by)
    return runs[0]


def cache_runs(
    gpu: Gpu,
    named: Gpu,
    blocks_per_sm: Quantity,
    size: int,
    *,
    order: str = DEFAULT_ORDER,
    classes: Sequence[str] = (),
    ptx: bool = False,
    needed_by: str = "the cache simulation",
) -> tuple[list[CacheRun], NDArray[np.int64]]:
    """(Distinct runs of a batch of `size` machines, index of each machine's run).

    Caches, SMs, queues and scheduler come from `gpu`. Times come from `named`, the
    machine without overrides: a changed bandwidth, latency or clock does not change
    the hits, so a sweep over it shares one simulation. `classes` are the
    instruction classes of the trace, which holds `ptx` or machine code.
    """
    config = _config(gpu, blocks_per_sm, order, needed_by)
    timing = _timing(gpu, named, needed_by) if order == "progress" else {}
    line_bytes, transfer_bytes = gpu.l1.line_bytes, gpu.transfer_bytes
    latencies = tuple((name, _latency(named, name, needed_by)) for name in classes)
    first, which = distinct([*config.values(), *timing.values(), line_bytes, transfer_bytes], size)
    runs = [
        CacheRun(
            order,
            CacheConfig(**{name: _plain(_at(value, row)) for name, value in config.items()}),
            Timing(**{name: float(_at(value, row)) for name, value in timing.items()}) if timing else None,
            Coalescing(int(_at(line_bytes, row)), latencies, ptx and order == "progress"),
            int(_at(transfer_bytes, row)),
        )
        for row in first.tolist()
    ]
    return runs, which


def cache_config(gpu: Gpu, blocks_per_sm: Quantity, *, order: str = DEFAULT_ORDER) -> CacheConfig:
    """The structure of one machine's caches."""
    config = _config(gpu, blocks_per_sm, order, "the cache simulation")
    return CacheConfig(**{name: _plain(_at(value, 0)) for name, value in config.items()})


def _config(gpu: Gpu, blocks_per_sm: Quantity, order: str, needed_by: str) -> dict[str, Any]:
    """Fields of `CacheConfig`, each for one machine or for all of a batch."""
    gpu = gpu.with_defaults
    line = gpu.require("l1.line_bytes", needed_by)
    sectors = line // gpu.transfer_bytes
    uneven = np.mod(GRANULES, sectors) != 0
    if np.any(uneven):
        refused = np.broadcast_to(gpu.transfer_bytes, np.shape(uneven))[uneven][0]
        raise MachineError(
            f"machine {gpu.name!r}: l1.sector_bytes: {refused:g}: {needed_by} splits a line "
            f"into at most {GRANULES} sectors"
        )
    l1_size, llc_size = _given(gpu.l1.size_bytes, 0), _given(gpu.llc.size_bytes, 0)
    l1_ways, llc_ways, banks = gpu.l1.ways, gpu.llc.ways, gpu.llc.banks
    llc_sets = llc_size // (line * llc_ways * gpu.llc.partitions)
    banks = np.where(llc_sets < banks, 1, banks)
    config = {
        "sms": gpu.sms,
        "blocks_per_sm": np.maximum(np.floor(blocks_per_sm), 1),
        "window": order_window(order),
        "l1_sets": l1_size // (line * l1_ways),
        "l1_write_back": gpu.l1.writes_back,
        "l1_allocate": gpu.l1.allocates_stores,
        "llc_banks": banks,
        "llc_sets": llc_sets // banks,
        "llc_write_back": gpu.llc.writes_back,
        "llc_allocate": gpu.llc.allocates_stores,
        "sectors": sectors,
        "fetch_sectors": np.minimum(np.maximum(_given(gpu.llc.fetch_bytes, 0) // gpu.transfer_bytes, 1), sectors),
    }
    if order == "progress":
        config |= {
            "queue": gpu.l1.queue_entries,
            "greedy": gpu.scheduler in ("gto", "oldest"),
            "collects": _given(gpu.operand_collectors, NO_LIMIT) <= gpu.l1.queue_entries,
            "streaming": gpu.l1.streaming,
            "outstanding": _given(gpu.noc.queue_entries if gpu.l1.streaming else gpu.l1.mshrs, NO_LIMIT),
            "merge_lines": np.where(gpu.l1.writes_back, 0, gpu.l1.merge_lines),
            "l1_banked": gpu.l1.banked,
        }
    else:
        config |= {"queue": 0, "greedy": False, "collects": False}
        config |= {"streaming": False, "outstanding": 0, "merge_lines": 0, "l1_banked": False}
    return config | {name: _parameter(gpu, name) for name in CacheConfig._fields if name not in config}


def _parameter(gpu: Gpu, field: str) -> Quantity:
    """The machine parameter that a field of `CacheConfig` names: `llc_hashed` is `llc.hashed`."""
    section, _, name = field.partition("_")
    return getattr(getattr(gpu, section), name)


def _timing(gpu: Gpu, named: Gpu, needed_by: str) -> dict[str, Any]:
    """Fields of `Timing`, each for one machine or a batch; a time that the machine does not give is 0."""
    # A transfer takes its time on the machine as named, scaled to the current number of SMs and bytes.
    l1 = replace(named.l1, line_bytes=gpu.l1.line_bytes, sector_bytes=gpu.l1.sector_bytes)
    timed = replace(named, sms=gpu.sms, l1=l1)
    services: list[Quantity] = [0.0, 0.0, 0.0, 0.0]
    if timed.noc.bandwidth_bytes_per_s is not None:
        all_ports = timed.service_cycles_now("noc", needed_by)
        transfer_cycles = timed.clock_hz * timed.transfer_bytes
        writes, port = timed.noc.write_bandwidth_bytes_per_s, timed.noc.sm_bandwidth_bytes_per_s
        sm = all_ports * timed.sms if port is None else transfer_cycles / port
        write_port = timed.noc.sm_write_bandwidth_bytes_per_s
        services = [all_ports, sm, all_ports if writes is None else transfer_cycles / writes]
        services.append(sm if write_port is None else transfer_cycles / write_port)
    noc = timed.with_defaults.noc
    return {
        "issue_interval": 1.0 / timed.issue_rate,
        "l1_latency": timed.with_defaults.l1.latency_cycles,
        "llc_latency": timed.with_defaults.llc.latency_cycles,
        "dram_latency": timed.dram_latency_cycles_now(needed_by),
        "noc_service": services[0],
        "sm_service": services[1],
        "dram_service": timed.service_cycles_now("dram", needed_by),
        "noc_store_service": services[2],
        "sm_store_service": services[3],
        "noc_request": noc.request_cycles,
        "sm_request": noc.sm_request_cycles,
        "lookup": 1.0 / timed.with_defaults.l1.lines_per_cycle,
        "reply": timed.with_defaults.l1.reply_cycles,
    }


def _latency(gpu: Gpu, instruction_class: str, needed_by: str) -> float:
    if INSTRUCTION_CLASSES[instruction_class].kind == "memory":
        return 0.0
    return float(gpu.timing(instruction_class, needed_by).latency_cycles + gpu.with_defaults.operand_cycles)


def _at(value: Quantity, row: int) -> Any:
    """The value of one machine of a batch."""
    return value[row] if np.ndim(value) else value


def _plain(value: Any) -> Any:
    """A NumPy integer or bool as Python's own: kernels are compiled for one type per field."""
    return bool(value) if isinstance(value, bool | np.bool_) else int(value)


def _given(value: Quantity, default: float) -> Quantity:
    return default if value is None else value
