"""How many thread blocks fit on an SM, and how much shared memory it sets aside: the CUDA occupancy rules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import WorkloadError
from .load import load_gpu
from .schema import Gpu, Quantity

#: KiB of shared memory that an SM can be set to, by compute capability (CUDA programming guide).
_CARVE_OUTS = MappingProxyType(
    {
        "7.0": (0, 8, 16, 32, 64, 96),
        "7.5": (32, 64),
        "8.0": (0, 8, 16, 32, 64, 100, 132, 164),
        "8.6": (0, 8, 16, 32, 64, 100),
        "8.9": (0, 8, 16, 32, 64, 100),
        "9.0": (0, 8, 16, 32, 64, 100, 132, 164, 196, 228),
        "10.0": (0, 8, 16, 32, 64, 100, 132, 164, 196, 228),
        "12.0": (0, 8, 16, 32, 64, 100),
    }
)


@dataclass(frozen=True)
class Occupancy:
    """Resident blocks and warps of one SM, and the resource that limits them."""

    blocks_per_sm: Quantity
    warps_per_sm: Quantity
    warps_per_block: Quantity
    limits: dict[str, Quantity]

    @property
    def limiter(self) -> str:
        """Names of the resources that limit occupancy, of a single machine."""
        return ", ".join(name for name, blocks in self.limits.items() if blocks == self.blocks_per_sm)


def warps_of_block(gpu: Gpu, threads_per_block: int) -> Quantity:
    """Warps of a block; a partial warp counts."""
    warps = np.ceil(np.divide(threads_per_block, gpu.warp_size))
    return int(warps) if np.ndim(warps) == 0 else warps


def _round_up(value: Any, unit: Any) -> Any:
    return np.ceil(np.divide(value, unit)) * unit


def occupancy(
    gpu: Gpu | str | Path,
    threads_per_block: int,
    registers_per_thread: int = 0,
    shared_memory_per_block_bytes: int = 0,
) -> Occupancy:
    """Resident blocks per SM by warps, blocks, registers and shared memory. `gpu` may be the name of a machine.

    The arithmetic follows NVIDIA's published calculator. Registers are allocated
    per warp and partition since compute capability 2.0, and per block before.
    Shared memory is allocated per block in units, plus what the system reserves.
    """
    gpu = gpu if isinstance(gpu, Gpu) else load_gpu(gpu)
    if threads_per_block < 1 or registers_per_thread < 0 or shared_memory_per_block_bytes < 0:
        raise WorkloadError("a block needs at least one thread, and no negative registers or shared memory")
    rules = gpu.with_defaults.occupancy
    if rules.max_threads_per_block is not None and np.any(np.less(rules.max_threads_per_block, threads_per_block)):
        raise WorkloadError(
            f"a block of {threads_per_block} threads exceeds the {np.min(rules.max_threads_per_block):g} "
            f"that {gpu.name!r} allows"
        )
    warps_per_block = warps_of_block(gpu, threads_per_block)
    limits: dict[str, Quantity] = {"warps": np.floor_divide(gpu.max_warps, warps_per_block)}
    if gpu.max_blocks is not None:
        limits["blocks"] = gpu.max_blocks
    if registers_per_thread and gpu.registers is not None:
        limits["registers"] = _blocks_by_registers(gpu, warps_per_block, registers_per_thread)
    allocated = _allocated(gpu, shared_memory_per_block_bytes)
    if gpu.shared_memory_bytes is not None and np.any(allocated > 0):
        fits = np.floor_divide(gpu.shared_memory_bytes, allocated)
        most = rules.shared_memory_per_block_bytes
        limits["shared memory"] = fits if most is None else np.where(shared_memory_per_block_bytes > most, 0, fits)
    blocks = np.minimum.reduce(np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in limits.values())))
    if np.any(blocks < 1):
        tight = ", ".join(name for name, value in limits.items() if np.any(np.asarray(value) < 1))
        raise WorkloadError(f"no block of this kernel fits on an SM of {gpu.name!r}: too little room for {tight}")
    scalar = blocks.ndim == 0
    return Occupancy(
        blocks_per_sm=int(blocks) if scalar else blocks,
        warps_per_sm=int(blocks) * warps_per_block if scalar else blocks * warps_per_block,
        warps_per_block=warps_per_block,
        limits={name: (int(value) if np.ndim(value) == 0 else value) for name, value in limits.items()},
    )


def carve_out(
    gpu: Gpu, blocks_per_sm: Quantity, threads_per_block: int, shared_memory_per_block_bytes: int
) -> Quantity:
    """Bytes of shared memory that an SM sets aside for a kernel of which so many blocks fit.

    GPUs can be set to some sizes only, of which the driver takes one. Where a machine
    gives `spare_shared_memory_bytes`, it leaves room for as many blocks again up to
    that size, except for blocks of the most threads (benchmarks/h200/carve_outs.csv).
    """
    rules = gpu.with_defaults.occupancy
    allocated = _allocated(gpu, shared_memory_per_block_bytes)
    wanted = np.multiply(blocks_per_sm, allocated)
    sizes = _CARVE_OUTS.get(gpu.compute_capability or "")
    if sizes is None:
        return wanted
    if rules.spare_shared_memory_bytes is not None and threads_per_block != rules.max_threads_per_block:
        most = np.inf if gpu.max_blocks is None else gpu.max_blocks
        again = np.minimum(np.multiply(2, blocks_per_sm), most) * allocated
        wanted = np.maximum(wanted, np.minimum(again, rules.spare_shared_memory_bytes))
    steps = np.multiply(sizes, 1024)
    return steps[np.minimum(np.searchsorted(steps, wanted), len(steps) - 1)]


def _allocated(gpu: Gpu, shared_memory_per_block_bytes: int) -> Quantity:
    """Shared memory that a block takes, with what the system reserves."""
    rules = gpu.with_defaults.occupancy
    return _round_up(
        np.add(shared_memory_per_block_bytes, rules.shared_memory_reserved_bytes), rules.shared_memory_unit_bytes
    )


def _blocks_by_registers(gpu: Gpu, warps_per_block: Quantity, registers_per_thread: int) -> Quantity:
    rules = gpu.with_defaults.occupancy
    if rules.max_registers_per_thread is not None and np.any(
        np.less(rules.max_registers_per_thread, registers_per_thread)
    ):
        raise WorkloadError(
            f"{registers_per_thread} registers a thread exceed the {np.min(rules.max_registers_per_thread):g} "
            f"that {gpu.name!r} allows"
        )
    granularity, unit = rules.warp_granularity, rules.register_unit
    warps_allocated = _round_up(warps_per_block, granularity)
    if rules.register_allocation == "block":
        per_block = _round_up(warps_allocated * gpu.warp_size * registers_per_thread, unit)
        return np.floor_divide(gpu.registers, per_block)
    per_warp = _round_up(np.multiply(registers_per_thread, gpu.warp_size), unit)
    warps_per_partition = np.floor_divide(np.floor_divide(gpu.registers, granularity), per_warp)
    fits = np.floor_divide(warps_per_partition * granularity, warps_per_block)
    most = rules.registers_per_block  # this check rounds up to whole partitions; the allocation does not
    return fits if most is None else np.where(per_warp * warps_allocated > most, 0, fits)
