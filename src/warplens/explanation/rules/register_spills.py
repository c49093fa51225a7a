"""Values that live in local memory instead of registers."""

from __future__ import annotations

from collections.abc import Iterable

from ..rule import Finding, Rule
from ..scene import Scene

ARRAY = (
    "Unroll the loops over the array (#pragma unroll), so that its indices are known and it stays in registers; "
    "a larger one may go to shared memory."
)


def look(scene: Scene) -> Iterable[Finding]:
    chosen = scene.kind("load_local", "store_local") & (scene.static.access_bytes > 0)
    executed = scene.executions * chosen
    if not executed.any():
        return
    loads, stores = (
        float((executed * scene.lanes)[scene.kind(name)].sum()) / scene.recorded_threads
        for name in ("load_local", "store_local")
    )
    misses, read = scene.misses, scene.kind("load_local")
    requests, hits = (float(misses.column(name)[read].sum()) for name in ("requests", "l1_hits"))
    # PTX has as many registers as it likes: what it keeps in local memory is indexed at run time.
    what = "an array indexed at run time" if scene.workload.is_ptx else "spilled registers or arrays"

    yield Finding(
        text=(
            f"Local memory holds {what}: {loads:.1f} loads and {stores:.1f} stores per thread, "
            f"{100 * hits / max(requests, 1.0):.0f} % of the loads hit the L1."
        ),
        removal=lambda seen: seen.without_rows(chosen),
        weights=executed * misses.per_execution("requests"),
        remedy=ARRAY if scene.workload.is_ptx else "",
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
)
