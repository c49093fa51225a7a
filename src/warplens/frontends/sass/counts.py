"""Executions per instruction, counted by Nsight Compute, and the branch shares that follow."""

from __future__ import annotations

import csv
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from ...errors import TraceError
from ._program import BRANCH, CALL, EXIT, INDIRECT, JUMP, LEAVE_REGION, RETURN, Program
from ._replay_state import Shares

WARP_METRIC, THREAD_METRIC = "inst_executed", "thread_inst_executed"
METRICS = f"{WARP_METRIC},{THREAD_METRIC}"


@dataclass(frozen=True, eq=False)
class Counts:
    """Executions of each instruction of a launch, by warps and by threads."""

    warps: NDArray[np.int64]
    threads: NDArray[np.int64]


def read_counts(source_page: Iterable[str], raw_page: Iterable[str]) -> list[tuple[str, Counts | None]]:
    """(kernel, counts) of each profiled launch, in order; None if the pages have no counts.

    `source_page` and `raw_page` are the lines that `ncu --import FILE --csv --print-kernel-base mangled`
    prints with `--page source` and `--page raw`. Some versions print every
    table of the source page more than once; the raw page has one line per launch.
    """
    tables: list[tuple[str, array[int]]] = []
    columns: dict[str, int] = {}
    try:
        for row in csv.reader(source_page):
            if row[:1] == ["Kernel Name"]:
                tables.append((row[1], array("q")))
                columns = {}
            elif row[:1] == ["Address"]:
                columns = {name: place for place, name in enumerate(row)}
            elif row and row[0].startswith("0x") and columns:
                for name in (WARP_METRIC, THREAD_METRIC):
                    tables[-1][1].append(int(row[columns[name]].replace(",", "") or 0))
    except (KeyError, IndexError, ValueError) as error:
        raise TraceError(f"Nsight Compute printed counts in an unknown format ({error})") from None
    launched: list[str] = []
    column = None
    for row in csv.reader(line for line in raw_page if line.startswith('"')):
        if "Kernel Name" in row:
            column = row.index("Kernel Name")
        elif column is not None and row[0].isdigit() and column < len(row):
            launched.append(row[column])
    if not launched or not tables:
        raise TraceError("Nsight Compute printed no counts")
    return _aligned(launched, tables)


def _aligned(launched: list[str], tables: list[tuple[str, array[int]]]) -> list[tuple[str, Counts | None]]:
    """A table or None for each launch. Consecutive launches of one name have a whole number of tables each."""
    result: list[tuple[str, Counts | None]] = []
    place = 0
    for name, same in groupby(launched):
        launches = len(list(same))
        stop = place
        while stop < len(tables) and tables[stop][0] == name:
            stop += 1
        found = tables[place:stop]
        place = stop
        each = len(found) // launches
        for number in range(launches):
            if not found or len(found) % launches:
                result.append((name, None))
                continue
            table = np.array(found[number * each][1], dtype=np.int64).reshape(-1, 2)
            result.append((name, Counts(table[:, 0].copy(), table[:, 1].copy())))
    return result


def unknown_shares(instructions: int) -> Shares:
    """Without counts, an open branch goes either way with equal probability."""
    return Shares(np.tile([0.5, 0.5, 0.0], (instructions, 1)), np.full(instructions, 0.5))


def branch_shares(program: Program, counts: Counts) -> Shares:
    """Shares of each branch from counted executions.

    The executions of a block equal those of the edges into it; groups of lanes join
    only at the ends of regions. An edge is known if all other edges into its block
    are or, for threads, all other edges out of its source block.
    """
    n = len(program.action)
    shares = unknown_shares(n)
    warps = _edges(program, counts.warps, conserve=False)
    threads = _edges(program, counts.threads, conserve=True)
    for i in np.flatnonzero(program.action == BRANCH).tolist():
        executed, lanes = int(counts.warps[i]), int(counts.threads[i])
        if not executed:
            continue
        target = int(program.target[i])
        taken, fallen = threads.get((i, target)), threads.get((i, i + 1))
        if taken is not None and lanes:
            shares.lanes[i] = min(max(taken / lanes, 0.0), 1.0)
        elif fallen is not None and lanes:
            shares.lanes[i] = min(max(1 - fallen / lanes, 0.0), 1.0)
        share = float(shares.lanes[i])
        taken_warps = warps.get((i, target), executed * share if share < 1 else executed)
        fallen_warps = warps.get((i, i + 1), executed * (1 - share) if share > 0 else executed)
        if share in (0.0, 1.0) and taken is not None:
            taken_warps, fallen_warps = executed * share, executed * (1 - share)
        some = min(max(taken_warps + fallen_warps - executed, 0), executed)
        all_lanes = min(max(taken_warps - some, 0), executed - some)
        shares.cases[i] = (executed - some - all_lanes) / executed, all_lanes / executed, some / executed
    return shares


def _edges(program: Program, counts: NDArray[np.int64], *, conserve: bool) -> dict[tuple[int, int], int]:
    """Executions of the edges (instruction, next instruction) between blocks that the counts determine."""
    n = len(program.action)
    into: dict[int, list[tuple[int, int]]] = {}
    known: dict[tuple[int, int], int] = {}
    for i in range(n):
        for j in _successors(program, i):
            if j < n:
                into.setdefault(j, []).append((i, j))
    starts = {j for j, edges in into.items() if len(edges) > 1 or edges[0][0] != j - 1 or _ends_block(program, j - 1)}
    for j in starts:
        for i, _ in into[j]:
            if program.action[i] == JUMP or not _ends_block(program, i):
                known[i, j] = int(counts[i])
    entered = {0: int(counts[0])}  # executions that come from outside
    changed = True
    while changed:
        changed = False
        for j in starts:
            if any(program.action[i] in (INDIRECT, CALL, RETURN, LEAVE_REGION) for i, _ in into[j]) and not conserve:
                continue
            unknown = [edge for edge in into[j] if edge not in known]
            if len(unknown) == 1 and not any(program.action[i] in (INDIRECT, CALL, RETURN) for i, _ in into[j]):
                rest = sum(known[edge] for edge in into[j] if edge in known) + (entered[0] if j == 0 else 0)
                known[unknown[0]] = max(int(counts[j]) - rest, 0)
                changed = True
        if conserve:
            for i in np.flatnonzero(program.action == BRANCH).tolist():
                edges = [(i, int(program.target[i])), (i, i + 1)]
                unknown = [edge for edge in edges if edge not in known]
                if len(unknown) == 1:
                    other = edges[1] if unknown[0] == edges[0] else edges[0]
                    known[unknown[0]] = max(int(counts[i]) - known[other], 0)
                    changed = True
    return known


def _ends_block(program: Program, i: int) -> bool:
    return program.action[i] in (BRANCH, JUMP, INDIRECT, CALL, RETURN, EXIT, LEAVE_REGION)


def _successors(program: Program, i: int) -> list[int]:
    action, target = program.action[i], int(program.target[i])
    if action == JUMP:
        return [target]
    if action == BRANCH:
        return [target, i + 1]
    if action == INDIRECT:
        return program.indirect_target[program.indirect_start[i] : program.indirect_start[i + 1]].tolist()
    if action in (EXIT, RETURN) and not program.conditional[i]:
        return []
    return [i + 1]
