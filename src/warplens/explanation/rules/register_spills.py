"""Values that live in local memory instead of registers."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from ..rule import Finding, InTriton, Rule
from ..scene import Scene

WORD_BYTES = 4
#: Registers are given to threads in such numbers.
UNIT = 8
ARRAY = (
    "Unroll the loops over the array (#pragma unroll), so that its indices are known and it stays in registers; "
    "a larger one may go to shared memory."
)


def look(scene: Scene) -> Iterable[Finding]:
    local = scene.kind("load_local", "store_local") & (scene.static.access_bytes > 0)
    spilled = scene.spilled
    if not scene.workload.is_ptx:
        yield from _found(scene, local, "Local memory holds spilled registers or arrays", "")
        return
    yield from _found(scene, spilled, "The compiler spills registers to local memory", "", _in_registers)
    # PTX has as many registers as it likes: what it keeps in local memory itself is indexed at run time.
    yield from _found(scene, local & ~spilled, "Local memory holds an array indexed at run time", ARRAY)


def _in_registers(seen: Scene, spilled: NDArray[np.bool_]) -> Scene:
    """The scene with a register for each spilled word, as far as a thread may have so many."""
    launch, gpu = seen.workload.launch, seen.gpu.with_defaults
    words = int((seen.static.immediate + seen.static.access_bytes)[spilled].max()) // WORD_BYTES
    of_block = float(gpu.registers or np.inf) / (launch.threads_per_block or 1)
    most = min(float(gpu.occupancy.max_registers_per_thread or np.inf), of_block // UNIT * UNIT)
    registers = int(min((launch.registers_per_thread or 0) + words, most))
    return seen.without_rows(spilled).with_launch(registers_per_thread=registers)


def _found(
    scene: Scene,
    chosen: NDArray[np.bool_],
    text: str,
    remedy: str,
    removal: Callable[[Scene, NDArray[np.bool_]], Scene] = Scene.without_rows,
) -> Iterable[Finding]:
    executed = scene.executions * chosen
    if not executed.any():
        return
    loads, stores = (
        float((executed * scene.lanes)[scene.kind(name)].sum()) / scene.recorded_threads
        for name in ("load_local", "store_local")
    )
    misses, read = scene.misses, chosen & scene.kind("load_local")
    requests, hits = (float(misses.column(name)[read].sum()) for name in ("requests", "l1_hits"))
    yield Finding(
        text=(
            f"{text}: {loads:.1f} loads and {stores:.1f} stores per thread, "
            f"{100 * hits / max(requests, 1.0):.0f} % of the loads hit the L1."
        ),
        removal=lambda seen: removal(seen, chosen),
        weights=executed * misses.per_execution("requests"),
        remedy=remedy,
    )


RULE = Rule(
    name="register-spills",
    title="registers spilled to local memory, and arrays indexed at run time",
    look=look,
    remedy=(
        "Allow more registers (-maxrregcount, __launch_bounds__), keep less alive at a time, and unroll loops over "
        "local arrays, so that their indices are known."
    ),
    cost="More registers per thread may lower the occupancy.",
    in_triton=InTriton(
        "Use smaller BLOCK sizes or more num_warps for the same BLOCK, keep fewer tiles alive at a time, "
        "lower num_stages, and leave maxnreg unset.",
        "Smaller tiles load more from L2 and DRAM.",
    ),
)
