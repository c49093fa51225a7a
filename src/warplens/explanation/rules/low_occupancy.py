"""Too few resident warps to hide latency: the next step of the occupancy calculator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...machine import Gpu, occupancy
from ..rule import Finding, InTriton, Rule
from ..scene import Removal, Scene

#: Fewer registers than this are no offer: addresses and loop counters alone need as many.
FEWEST_REGISTERS = 24
#: (Argument of the calculator, step, least) of what a programmer can lower.
_STEPS = {
    "registers": ("registers_per_thread", 8, FEWEST_REGISTERS),
    "shared memory": ("shared_memory_per_block_bytes", 128, 0),
}


def look(scene: Scene) -> Iterable[Finding]:
    launch, gpu = scene.workload.launch, scene.gpu
    if launch.threads_per_block is None or scene.has_given_residents:
        return
    used = {
        "threads_per_block": launch.threads_per_block,
        "registers_per_thread": launch.registers_per_thread or 0,
        "shared_memory_per_block_bytes": launch.shared_memory_per_block_bytes or 0,
    }
    now = occupancy(gpu, **used)
    places = float(gpu.sms) * now.blocks_per_sm
    blocks = launch.blocks or float("inf")
    if now.warps_per_sm >= gpu.max_warps or blocks < places:
        return
    resident = f"Low occupancy: {now.warps_per_sm} of {gpu.max_warps:g} warps are resident on an SM"
    if blocks > places:
        yield from _less(gpu, now, resident, used)
        yield from _other_blocks(scene, now, resident, used)
    if now.limiter == "shared memory":
        yield from _wider_blocks(scene, now, resident, used)


def _less(gpu: Gpu, now: Any, resident: str, used: dict[str, int]) -> Iterable[Finding]:
    """Fewer registers or less shared memory, whichever is the limit."""
    for limit, (name, unit, least) in _STEPS.items():
        if now.limiter == limit and (step := next_step(gpu, used, name, unit, least)) is not None:
            less, warps = step
            what = "registers a thread" if limit == "registers" else "bytes of shared memory a block"
            yield Finding(
                text=f"{resident}, limited by {used[name]} {what}; {less} would allow {warps}.",
                removal=lambda seen, name=name, less=less: seen.with_launch(**{name: less}),  # type: ignore[misc]
                remedy=_REMEDIES[limit],
                cost=_COSTS[limit],
            )


def _wider_blocks(scene: Scene, now: Any, resident: str, used: dict[str, int]) -> Iterable[Finding]:
    """More threads for the same shared memory, where they can share the loops."""
    threads = used["threads_per_block"]
    for factor in (8, 4, 2):
        if threads * factor > scene.most_threads or scene.loop_trips < factor:
            continue
        then = occupancy(scene.gpu, **(used | {"threads_per_block": threads * factor}))
        if then.blocks_per_sm == now.blocks_per_sm:
            yield Finding(
                text=(
                    f"{resident}, limited by {used['shared_memory_per_block_bytes']} bytes of shared memory for "
                    f"{threads} threads; {threads * factor} threads that share it make {then.warps_per_sm} warps."
                ),
                removal=lambda seen, factor=factor: seen.with_larger_blocks(factor, same_work=True),  # type: ignore[misc]
                remedy="Launch larger blocks whose threads share the same tile or table and the loop over the data.",
                cost="More warps wait at each barrier.",
            )
            return


def next_step(gpu: Gpu, used: dict[str, int], name: str, unit: int, least: int) -> tuple[int, int] | None:
    """(The most of a resource with which one more block fits, warps that are then resident)."""
    now = occupancy(gpu, **used)
    for less in range((used[name] - 1) // unit * unit, least - 1, -unit):
        then = occupancy(gpu, **(used | {name: less}))
        if then.blocks_per_sm > now.blocks_per_sm:
            return less, int(then.warps_per_sm)
    return None


def _other_blocks(scene: Scene, now: Any, resident: str, used: dict[str, int]) -> Iterable[Finding]:
    """Blocks of another size, where their number or their size is the limit."""
    gpu, threads = scene.gpu, used["threads_per_block"]
    removal: Removal
    if now.limiter == "blocks":
        warps = int(gpu.max_warps) // int(now.warps_per_block) * int(now.warps_per_block)
        factor = -(-warps // int(now.warps_per_sm))
        removal = lambda seen: seen.with_larger_blocks(factor, same_work=False)  # noqa: E731
        text = (
            f"{resident}, limited to {now.blocks_per_sm} blocks of {threads} threads; blocks of {threads * factor} "
            f"threads would allow {warps}."
        )
    else:
        halves = [parts for parts in (2, 4) if now.warps_per_block % parts == 0 and scene.has_free_warps]
        sizes = {parts: occupancy(gpu, **(used | {"threads_per_block": threads // parts})) for parts in halves}
        better = [parts for parts in halves if sizes[parts].warps_per_sm > now.warps_per_sm]
        if not better:
            return
        parts = better[0]
        removal = lambda seen: seen.with_more_blocks(parts, of_warps=True)  # noqa: E731
        text = (
            f"{resident}: no further block of {threads} threads fits; blocks of {threads // parts} would allow "
            f"{sizes[parts].warps_per_sm}."
        )
    yield Finding(text=text, removal=removal, remedy=_REMEDIES["blocks"], cost=_COSTS["blocks"])


_REMEDIES = {
    "registers": "Give __launch_bounds__(threads, blocks per SM) or -maxrregcount, or keep fewer values alive.",
    "shared memory": "Use smaller tiles or a narrower type in shared memory, or let buffers share one place.",
    "blocks": "Choose another number of threads per block, and adapt the grid.",
}
_COSTS = {
    "registers": "Too few registers spill to local memory.",
    "shared memory": "Smaller tiles load more from L2 and DRAM.",
    "blocks": "Shared memory and barriers are those of a block: their use changes with its size.",
}
RULE = Rule(
    name="low-occupancy",
    title="too few resident warps to hide latency",
    look=look,
    remedy=_REMEDIES["registers"],
    cost=_COSTS["registers"],
    benefits=("B_memlp", "B_itilp"),
    in_triton=InTriton(
        "Use smaller BLOCK sizes, more num_warps for the same BLOCK, or fewer num_stages; maxnreg limits registers.",
        "Smaller tiles load more from L2 and DRAM; too few registers spill to local memory.",
    ),
)
