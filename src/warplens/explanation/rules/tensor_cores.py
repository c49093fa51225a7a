"""Matrix products in scalar arithmetic that tensor cores could do."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...traces import CLASS_IDS, StaticTable, WarpGroup
from ...traces.rewrite import keep_executions
from ..rule import Finding, Rule
from ..scene import LEAST_GAIN, Scene

#: Warp instructions that one matrix instruction replaces, and its name and precision.
_PRODUCTS = {
    "fp32": (32, "TF32 (m16n8k8: 10 bits of mantissa, sums in FP32)"),
    "fp16": (32, "FP16 (m16n8k16, sums in FP16 or FP32)"),
}
#: Loads of operands for each matrix instruction: a fragment of each factor.
FRAGMENTS = 2
#: Times that a loaded value is multiplied: a product of matrices uses each again, that with a vector does not.
REUSE = 8.0


def look(scene: Scene) -> Iterable[Finding]:
    for name, (replaced, precision) in _PRODUCTS.items():
        chosen, loads = products(scene, name)
        if not chosen.any() or scene.most_gain(chosen) < LEAST_GAIN or reuse(scene, chosen, loads) < REUSE:
            continue
        executed = scene.executions * chosen
        share = executed.sum() / scene.executions.sum()

        def change(
            group: WarpGroup,
            static: StaticTable,
            chosen: NDArray[np.bool_] = chosen,
            loads: NDArray[np.bool_] = loads,
            replaced: int = replaced,
        ) -> WarpGroup:
            keep = np.ones(len(group.static), dtype=bool)
            products = int(chosen[group.static].sum()) // replaced
            for rows, count in ((chosen, products), (loads, FRAGMENTS * products)):
                mine = np.flatnonzero(rows[group.static])
                kept = (np.arange(len(mine)) + 1) * count // max(len(mine), 1)
                keep[mine] = np.diff(kept, prepend=0) > 0
            return keep_executions(group, static, keep)

        classes = np.where(chosen, CLASS_IDS["tensor"], scene.static.class_id).astype(np.uint8)
        yield Finding(
            text=(
                f"A matrix product in scalar arithmetic: {100 * share:.0f} % of the instructions multiply and add "
                f"loaded values; tensor cores do {replaced} of them at a time in {precision}."
            ),
            removal=lambda seen, change=change, classes=classes: seen.with_trace(change, class_id=classes),  # type: ignore[misc]
            weights=executed,
        )


def products(scene: Scene, name: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(Multiply-adds of a class onto their own result whose factors are both loaded, the loads)."""
    static, flow = scene.static, scene.flow
    is_load = scene.kind("load_shared", "load_global", "mem")
    chosen, loads = np.zeros(len(static), dtype=bool), np.zeros(len(static), dtype=bool)
    fused = [opcode.startswith(("fma.", "FFMA", "HFMA2")) for opcode in static.opcode]
    for index in np.flatnonzero(scene.kind(name) & np.array(fused)).tolist():
        makers = flow.producers.get(index, ())
        if len(makers) < 3:
            continue
        factors, addend = makers[0] | makers[1], makers[2]
        adds_up = any(maker >= 0 and fused[maker] for maker in addend)
        if adds_up and all(maker >= 0 and is_load[maker] for maker in factors):
            chosen[index] = True
            loads[list(factors)] = True
    return chosen, loads


def reuse(scene: Scene, chosen: NDArray[np.bool_], loads: NDArray[np.bool_]) -> float:
    """Multiplications per loaded value that a block makes."""
    group = scene.sample
    lanes = scene.addresses(loads)
    if not len(lanes.address):
        return 0.0
    warp = np.searchsorted(group.start, lanes.instruction, side="right") - 1
    block = np.unique(group.block, return_inverse=True)[1][warp][lanes.owner]
    distinct = len(np.unique(np.stack([block.astype(np.uint64), lanes.address]), axis=1).T)
    return 32.0 * float(chosen[group.static].sum()) / max(distinct, 1)


RULE = Rule(
    name="tensor-cores",
    title="matrix products in scalar arithmetic",
    look=look,
    remedy=(
        "Compute tiles with mma (nvcuda::wmma, CUTLASS, or cuBLAS for the whole product), operands in shared memory "
        "read with ldmatrix."
    ),
    cost="Factors are rounded to TF32, BF16 or FP16.",
)
