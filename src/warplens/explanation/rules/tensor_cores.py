"""Matrix products in scalar arithmetic that tensor cores could do."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...analysis.def_use import UNKNOWN
from ...traces import CLASS_IDS, StaticTable, WarpGroup
from ...traces.rewrite import keep_executions, lane_addresses, with_addresses
from ..patterns import pattern_of
from ..rule import Finding, InTriton, Rule
from ..scene import LEAST_GAIN, Scene
from ..sharing import WORD_BYTES, conflict_free
from ..widening import WIDEST_BYTES, overhead_of, widened

_FROM_HALVES = ("cvt.f32.f16", "cvt.f32.bf16", "HADD2.F32")

#: Warp instructions that one matrix instruction replaces, and its name and precision, by the class of the factors.
_PRODUCTS = {
    "fp32": (32, "TF32 (m16n8k8: 10 bits of mantissa, sums in FP32)"),
    "fp16": (32, "FP16 (m16n8k16, sums in FP16 or FP32)"),
}
#: The same where factors are stored as 16 bits, and converted to be multiplied.
_HALVES = (64, "FP16 or BF16 (m16n8k16, sums in FP32)")
#: Loads of operands for each matrix instruction: a fragment of each factor.
FRAGMENTS = 2
#: Times that a loaded value is multiplied: a product of matrices uses each again, that with a vector does not.
REUSE = 8.0


def look(scene: Scene) -> Iterable[Finding]:
    for name, of_class in _PRODUCTS.items():
        chosen, loads = products(scene, name)
        if not chosen.any() or scene.most_gain(chosen) < LEAST_GAIN or reuse(scene, chosen, loads) < REUSE:
            continue
        tiles = copies(scene)
        replaced, precision = _HALVES if tiles.converted.any() else of_class
        executed = scene.executions * chosen
        share = executed.sum() / scene.executions.sum()
        yield Finding(
            text=(
                f"A matrix product in scalar arithmetic: {100 * share:.0f} % of the instructions multiply and add "
                f"loaded values; tensor cores do {replaced} of them at a time in {precision}."
            ),
            removal=partial(by_tensor_cores, chosen=chosen, loads=loads, tiles=tiles, replaced=replaced),
            weights=executed,
        )


def by_tensor_cores(
    scene: Scene, chosen: NDArray[np.bool_], loads: NDArray[np.bool_], tiles: Copies, replaced: int
) -> Scene:
    """The scene where matrix instructions multiply; tiles are copied as they lie, 16 bytes per lane."""

    def change(group: WarpGroup, static: StaticTable) -> WarpGroup:
        lanes = lane_addresses(group, static, tiles.stores)
        width = np.maximum(static.access_bytes[group.static[lanes.instruction]], WORD_BYTES)
        group = with_addresses(group, static, conflict_free(lanes, width))
        keep = ~tiles.converted[group.static]
        made = int(chosen[group.static].sum()) // replaced
        for rows, count in ((chosen, made), (loads, FRAGMENTS * made)):
            mine = np.flatnonzero(rows[group.static])
            kept = (np.arange(len(mine)) + 1) * count // max(len(mine), 1)
            keep[mine] = np.diff(kept, prepend=0) > 0
        return keep_executions(group, static, keep)

    classes = np.where(chosen, CLASS_IDS["tensor"], scene.static.class_id).astype(np.uint8)
    multiplied = scene.with_trace(change, class_id=classes)
    if not tiles.loads.any():
        return multiplied
    return widened(multiplied, tiles.loads, overhead_of(scene, tiles.loads) | tiles.stores)


class Copies(NamedTuple):
    """Instructions that copy tiles from global to shared memory: loads, conversions from 16 bits, and stores."""

    loads: NDArray[np.bool_]
    converted: NDArray[np.bool_]
    stores: NDArray[np.bool_]


def copies(scene: Scene) -> Copies:
    """Copies whose loads lie side by side: matrix instructions take rows and columns as they are."""
    found = Copies(*(np.zeros(len(scene.static), dtype=bool) for _ in Copies._fields))
    is_load, width = scene.kind("load_global"), scene.static.access_bytes
    for store in np.flatnonzero(scene.kind("store_shared") & (scene.executions > 0)).tolist():
        value = frozenset().union(*scene.flow.producers.get(store, ())[1:]) - {UNKNOWN}
        from_halves = {each for each in value if scene.static.opcode[each].startswith(_FROM_HALVES)}
        sources = (value - from_halves) | {maker for each in from_halves for maker in scene.flow.of(each)}
        if sources and all(
            source >= 0 and is_load[source] and pattern_of(scene, source).stride_bytes == width[source] < WIDEST_BYTES
            for source in sources
        ):
            found.stores[store] = True
            found.loads[list(sources)] = True
            found.converted[list(from_halves)] = True
    return found


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
    in_triton=InTriton(
        'Use tl.dot, with blocks of at least 16 × 16 and input_precision="tf32" for float32.',
        "Factors are rounded to TF32, BF16 or FP16.",
    ),
)
