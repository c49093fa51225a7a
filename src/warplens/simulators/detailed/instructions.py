"""The instructions that the detailed simulator executes: kinds, timing, and what they do in the background."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...analysis import instruction_kinds
from ...analysis._cache_records import BARRIER
from ...analysis.async_groups import GroupKind, GroupRole, group_roles
from ...analysis.banks import shared_accesses
from ...analysis.mbarriers import AWAIT, SIGNAL, counted_copies, mbarrier_kinds
from ...machine import INSTRUCTION_CLASSES, Gpu
from ...machine.classes import PRODUCT_COLUMNS, product_class
from ...traces import CLASS_IDS, CLASS_NAMES, NO_REGISTER, StaticTable, static_table
from . import _records as records
from ._records import PRODUCT, SHARED, InstructionTable

#: Bytes that the port of shared memory gives in a cycle: a word of each bank.
PORT_BYTES = 128
#: Warps that compute a product together; rows of its first operand; and bytes of a row or a column of the operands.
_WARPS, _ROWS, _DEPTH_BYTES = 4, 64, 32
#: Registers, at most, that say where both operands are in shared memory.
_DESCRIPTORS = 2


def instruction_table(static: StaticTable, gpu: Gpu, needed_by: str) -> tuple[InstructionTable, tuple[str, ...]]:
    """(the static instructions of a kernel, names of the pipelines) on a machine."""
    kinds = instruction_kinds(static).astype(np.int64)
    kinds[shared_accesses(static)] = SHARED
    roles = group_roles(static)
    kinds[(roles.kind == GroupKind.PRODUCTS) & np.isin(roles.role, (GroupRole.STARTS, GroupRole.JOINS))] = PRODUCT
    units: dict[str, int] = {}
    unit = np.zeros(len(static), dtype=np.int64)
    interval, latency = np.zeros(len(static)), np.zeros(len(static))
    for index, class_id in enumerate(static.class_id):
        name = CLASS_NAMES[class_id]
        if kinds[index] in (SHARED, BARRIER) or INSTRUCTION_CLASSES[name].kind == "memory":
            continue
        timing = gpu.timing(name, needed_by)
        unit[index] = units.setdefault(timing.subsystem, len(units))
        interval[index] = timing.interval_cycles
        latency[index] = timing.latency_cycles + gpu.with_defaults.operand_cycles
    accumulator, used = _accumulators(static, kinds == PRODUCT)
    table = InstructionTable(
        kind=kinds,
        unit=unit,
        interval=interval,
        latency=latency,
        destinations=used.destinations,
        destination_offsets=used.destination_offsets,
        sources=used.sources,
        source_offsets=used.source_offsets,
        phase=steps_at_mbarriers(static),
        role=roles.role,
        group=roles.kind,
        staying=roles.staying,
        bulk=_bulk_copies(static),
        clustered=static.class_id == CLASS_IDS["barrier_cluster"],
        accumulator=accumulator,
        reads=_operand_cycles(static, kinds == PRODUCT),
    )
    return table, tuple(units)


def steps_at_mbarriers(static: StaticTable) -> NDArray[np.int64]:
    """What each instruction does at an mbarrier; nothing, if nobody waits at any."""
    kinds = mbarrier_kinds(static)
    found = np.full(len(static), records.NO_PHASE, dtype=np.int64)
    if (kinds == AWAIT).any():
        found[kinds == SIGNAL] = records.SIGNAL
        found[kinds == AWAIT] = records.AWAIT
        found[counted_copies(static)] = records.COPY
    return found


def _bulk_copies(static: StaticTable) -> NDArray[np.bool_]:
    """Accesses of copies that the copy engine makes: TMA's and other bulk copies into shared memory."""
    named = np.array([".bulk" in opcode for opcode in static.opcode], dtype=bool)
    return named & (static.class_id == CLASS_IDS["async_copy"]) & (static.access_bytes > 0)


def _accumulators(static: StaticTable, products: NDArray[np.bool_]) -> tuple[NDArray[np.int64], StaticTable]:
    """(The register of the sums of each product; the table without those registers).

    A product adds to the sums when those before it are done; its warp does not wait for them.
    """
    found = np.zeros(len(static), dtype=np.int64)
    rows = [static.row(index) for index in range(len(static))] if products.any() else []
    for index in np.flatnonzero(products).tolist():
        sums = rows[index].destinations
        found[index] = next((each for each in sums if each < NO_REGISTER), NO_REGISTER)
        others = tuple(each for each in rows[index].sources if each not in sums)
        rows[index] = replace(rows[index], destinations=(), sources=others)
    return found, static_table(rows) if rows else static


def _operand_cycles(static: StaticTable, products: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Cycles of the port of shared memory for a warp's share of the operands of each product.

    The second operand is read once for all warps. The first may come from registers: PTX then names four of them
    beside the descriptor of the second.
    """
    found = np.zeros(len(static))
    for index in np.flatnonzero(products).tolist():
        sums = set(static.destinations_of(index))
        others = [each for each in static.sources_of(index) if each not in sums]
        in_registers = static.opcode[index].startswith("wgmma") and len(others) > _DESCRIPTORS
        rows = (0 if in_registers else _ROWS) + _columns(CLASS_NAMES[static.class_id[index]])
        found[index] = rows * _DEPTH_BYTES / PORT_BYTES / _WARPS
    return found


def _columns(name: str) -> int:
    """Columns of a warpgroup's product of some class."""
    return next((each for each in PRODUCT_COLUMNS if product_class(each) == name), PRODUCT_COLUMNS[0])
