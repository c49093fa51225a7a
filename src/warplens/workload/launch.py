"""A kernel launch and its occupancy on a GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import OverrideError, WorkloadError, nearest
from ..machine import Gpu, Quantity, carve_out, occupancy, warps_of_block
from ..traces import LaunchTrace
from ..units import LARGEST, parse_number

#: Launch parameters that `--set` and `--vary` can change.
LAUNCH_KEYS = ("launch.warps_per_sm", "launch.blocks_per_sm")


@dataclass(frozen=True)
class Launch:
    """What the programmer chose. Absent values follow from the GPU; without any, occupancy is full.

    `blocks_per_sm` and `warps_per_sm` are the residents of one SM, if known (arrays
    in an occupancy sweep); otherwise the GPU's occupancy rules give them.
    """

    blocks: float | None = None
    threads_per_block: int | None = None
    registers_per_thread: int | None = None
    shared_memory_per_block_bytes: int | None = None
    cluster_blocks: int = 1
    blocks_per_sm: Quantity = None
    warps_per_sm: Quantity = None


@dataclass(frozen=True)
class Residency:
    """The residents of a launch on a machine: W and related counts. Values are arrays for a batch."""

    warps_per_sm: Quantity
    blocks_per_sm: Quantity
    warps_per_block: Quantity
    active_sms: Quantity
    total_warps: Quantity
    runs: Quantity
    """#Rep of Eq. (H-21): how many times an SM is filled with residents."""
    notes: tuple[str, ...] = ()


def resident(launch: Launch, gpu: Gpu) -> Residency:
    """Resident warps and blocks per SM, active SMs and the warps of the whole launch."""
    notes: list[str] = []
    threads = launch.threads_per_block
    warps_per_block = None if threads is None else warps_of_block(gpu, threads)
    blocks_per_sm, warps_per_sm = launch.blocks_per_sm, launch.warps_per_sm
    given = blocks_per_sm is not None or warps_per_sm is not None
    if blocks_per_sm is None and warps_per_sm is None and threads is not None:
        fitted = occupancy(gpu, threads, launch.registers_per_thread or 0, launch.shared_memory_per_block_bytes or 0)
        blocks_per_sm = fitted.blocks_per_sm
    if blocks_per_sm is not None and warps_per_sm is None:
        warps_per_sm = np.multiply(blocks_per_sm, 1 if warps_per_block is None else warps_per_block)
    if warps_per_sm is None:
        warps_per_sm = gpu.max_warps
        notes.append("the workload gives no launch: full occupancy assumed")
    if blocks_per_sm is None:
        blocks_per_sm = np.divide(warps_per_sm, warps_per_sm if warps_per_block is None else warps_per_block)
    if np.any(np.greater(warps_per_sm, gpu.max_warps)):
        raise WorkloadError(
            f"{np.max(warps_per_sm):g} resident warps exceed the {np.min(gpu.max_warps):g} of {gpu.name!r}; "
            "lower launch.warps_per_sm or --set max_warps=…"
        )
    per_block = np.divide(warps_per_sm, blocks_per_sm)
    if launch.blocks is None:
        return Residency(
            warps_per_sm,
            blocks_per_sm,
            per_block,
            gpu.sms,
            np.multiply(warps_per_sm, gpu.sms),
            1.0,
            tuple(notes),
        )
    active_sms = np.minimum(gpu.sms, launch.blocks)
    if not given:
        # A small launch has fewer blocks than would fit.
        blocks_per_sm = np.minimum(blocks_per_sm, np.ceil(np.divide(launch.blocks, active_sms)))
        warps_per_sm = blocks_per_sm * per_block
    runs = np.divide(launch.blocks, np.multiply(blocks_per_sm, active_sms))  # Eq. (H-21)
    return Residency(
        warps_per_sm, blocks_per_sm, per_block, active_sms, launch.blocks * per_block, runs, tuple(notes)
    )


def adapted(gpu: Gpu, launch: Launch) -> Gpu:
    """The machine with the L1 that a launch's shared memory leaves of the storage that they share, if they do.

    A machine's L1 size is that without shared memory. It may be less than the
    storage: so much of it is no L1 anyway, also where the size is changed.
    """
    storage, named = gpu.l1.unified_bytes, gpu.original or gpu
    if storage is None:
        return gpu
    never_l1: Quantity = 0
    if named.l1.unified_bytes is not None and named.l1.size_bytes is not None:
        never_l1 = np.subtract(named.l1.unified_bytes, named.l1.size_bytes)
        if "l1.size" in gpu.overrides:
            storage = np.add(gpu.overrides["l1.size"], never_l1)
    fitting = resident(dataclasses.replace(launch, blocks=None), gpu).blocks_per_sm
    shared = launch.shared_memory_per_block_bytes or 0
    taken = np.maximum(carve_out(gpu, fitting, launch.threads_per_block or 0, shared), never_l1)
    left = np.maximum(np.floor(np.subtract(storage, taken)), 0.0)
    size = left.astype(np.int64) if np.ndim(left) else int(left)
    return dataclasses.replace(gpu, l1=dataclasses.replace(gpu.l1, size_bytes=size), original=named)


def launch_with_overrides(launch: Launch, overrides: Mapping[str, Any]) -> Launch:
    """A copy with `launch.warps_per_sm` or `launch.blocks_per_sm` set; the other one then follows."""
    changes: dict[str, Any] = {}
    for key, raw in overrides.items():
        if key not in LAUNCH_KEYS:
            raise OverrideError(f"unknown parameter {key!r}; {nearest(key, LAUNCH_KEYS)}")
        try:
            value = parse_number(raw, None) if isinstance(raw, str) else raw
            changes[key.removeprefix("launch.")] = _positive(value)
        except (ValueError, TypeError) as error:
            raise OverrideError(f"{key}: {error}") from None
    if not changes:
        return launch
    return dataclasses.replace(launch, **({"warps_per_sm": None, "blocks_per_sm": None} | changes))


def _positive(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError(f"{value!r} is not a number")
    numbers = np.asarray(value, dtype=np.float64)
    if numbers.ndim > 1 or numbers.size == 0:
        raise ValueError(f"an array of shape {numbers.shape} is not one-dimensional or is empty")
    if not np.all(np.isfinite(numbers)) or np.any(numbers <= 0) or np.any(numbers > LARGEST):
        raise ValueError(f"{value!r} must be a finite number above 0")
    return float(numbers) if numbers.ndim == 0 else numbers


def launch_of(trace: LaunchTrace) -> Launch:
    """The recorded launch. Registers or shared memory that the trace lacks do not limit occupancy."""
    header = trace.header
    return Launch(
        blocks=float(header.blocks),
        threads_per_block=header.threads_per_block,
        registers_per_thread=header.registers_per_thread or None,
        shared_memory_per_block_bytes=header.shared_memory_per_block_bytes or None,
        cluster_blocks=header.cluster_blocks,
    )
