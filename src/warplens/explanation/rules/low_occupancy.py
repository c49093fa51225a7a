"""Too few resident warps to hide latency: the next step of the occupancy calculator."""

from __future__ import annotations

from collections.abc import Iterable

from ...machine import occupancy
from ..rule import Finding, Rule
from ..scene import Scene


def look(scene: Scene) -> Iterable[Finding]:
    launch, gpu = scene.workload.launch, scene.gpu
    if launch.threads_per_block is None or launch.blocks_per_sm is not None or launch.warps_per_sm is not None:
        return
    threads = launch.threads_per_block
    registers, shared = launch.registers_per_thread or 0, launch.shared_memory_per_block_bytes or 0
    now = occupancy(gpu, threads, registers, shared)
    fewest = (launch.blocks or float("inf")) / float(gpu.sms)
    if float(now.warps_per_sm) >= float(gpu.max_warps) or fewest <= float(now.blocks_per_sm):
        return
    resident = f"{now.warps_per_sm} of {gpu.max_warps:g} warps are resident on an SM"
    for name, value, unit in (("registers_per_thread", registers, 8), ("shared_memory_per_block_bytes", shared, 256)):
        limit = {"registers_per_thread": "registers", "shared_memory_per_block_bytes": "shared memory"}[name]
        if now.limiter != limit:
            continue
        less = value
        while less > unit:
            less = (less - 1) // unit * unit
            given = {"registers_per_thread": registers, "shared_memory_per_block_bytes": shared, name: less}
            then = occupancy(gpu, threads, **given)
            if float(then.blocks_per_sm) > float(now.blocks_per_sm):
                break
        else:
            return
        told = f"{value} registers per thread" if limit == "registers" else f"{value} bytes of shared memory a block"
        to = f"{less} registers" if limit == "registers" else f"{less} bytes"
        yield Finding(
            text=f"Low occupancy: {resident}, limited by {told}; {to} would allow {then.warps_per_sm}.",
            removal=lambda scene, name=name, less=less: scene.with_launch(**{name: less}),  # type: ignore[misc]
        )


RULE = Rule(
    name="low-occupancy",
    title="too few resident warps to hide latency",
    look=look,
    remedy=(
        "Use __launch_bounds__ or -maxrregcount for fewer registers, smaller tiles for less shared memory, "
        "or blocks of 128 to 256 threads."
    ),
    cost="Fewer registers may spill; smaller tiles reuse less.",
)
