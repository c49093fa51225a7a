"""Irregular memory: graphs, trees, meshes, sparse matrices."""

from __future__ import annotations

import numpy as np

from warplens.suite.inputs import generator, launch_1d, pieces, random_csr, uniform, zeros
from warplens.suite.kernel import Array, Sized, SuiteKernel, SuiteLaunch, Tolerance

_ORDER = 128
_NO_KEY = np.iinfo(np.int32).max


def _btree(sorted_keys: Array) -> tuple[Array, Array, int]:
    """Keys and children of a full B+-tree, the root first, and its number of levels."""
    level_keys, level_children = sorted_keys, np.arange(len(sorted_keys), dtype=np.int32)
    levels = []
    while True:
        nodes = -(-len(level_keys) // _ORDER)
        keys = np.full((nodes, _ORDER), _NO_KEY, np.int32)
        children = np.full((nodes, _ORDER), -1, np.int32)
        keys.flat[: len(level_keys)] = level_keys
        children.flat[: len(level_children)] = level_children
        levels.append((keys, children))
        if nodes == 1:
            break
        level_keys, level_children = keys[:, 0], np.arange(nodes, dtype=np.int32)
    levels.reverse()
    first_of_next = 1
    for _, children in levels[:-1]:
        children[children >= 0] += first_of_next
        first_of_next += int((children >= 0).sum())
    return np.concatenate([k for k, _ in levels]), np.concatenate([c for _, c in levels]), len(levels)


def _btree_search(records: int, queries: int) -> SuiteLaunch:
    rng = generator()
    sorted_keys = np.arange(records, dtype=np.int32) * 3 + rng.integers(0, 2, records, dtype=np.int32)
    keys, children, levels = _btree(sorted_keys)
    wanted = rng.integers(-3, 3 * records, queries, dtype=np.int32)
    found = np.full(queries, -1, np.int32)
    return SuiteLaunch((queries, 1, 1), (_ORDER, 1, 1), (keys, children, wanted, found, np.int32(levels)))


def _btree_search_reference(launch: SuiteLaunch) -> dict[int, Array]:
    keys, children, wanted, found, levels = launch.arguments
    inner_nodes = 0
    for _ in range(int(levels) - 1):
        inner_nodes = int(children[inner_nodes, 0])  # the first child of a level's first node begins the next level
    leaf_keys, records = keys[inner_nodes:].ravel(), children[inner_nodes:].ravel()
    at = np.searchsorted(leaf_keys, wanted)
    hit = leaf_keys[np.minimum(at, len(leaf_keys) - 1)] == wanted
    return {3: np.where(hit, records[np.minimum(at, len(records) - 1)], found)}


def _bfs(nodes: int, average_degree: int) -> SuiteLaunch:
    """The level with the largest frontier of a search from node 0."""
    offsets, columns = random_csr(generator(), nodes, nodes, average_degree)
    cost = np.full(nodes, -1, np.int32)
    start = int(np.argmax(np.diff(offsets)))
    cost[start] = 0
    frontier = np.array([start])
    levels = [frontier]
    while len(frontier):
        neighbours = columns[pieces(offsets[frontier], np.diff(offsets)[frontier])]
        fresh = np.zeros(nodes, bool)
        fresh[neighbours] = True
        frontier = np.flatnonzero(fresh & (cost < 0))
        cost[frontier] = len(levels)
        levels.append(frontier)
    level = int(np.argmax([len(f) for f in levels]))
    cost[cost > level] = -1
    in_frontier = (cost == level).astype(np.uint8)
    visited = (cost >= 0).astype(np.uint8)
    return launch_1d(nodes, offsets, columns, in_frontier, zeros(nodes, np.uint8), visited, cost, np.int32(nodes))


def _bfs_reference(launch: SuiteLaunch) -> dict[int, Array]:
    offsets, columns, frontier, next_frontier, visited, cost, _ = launch.arguments
    sources = np.flatnonzero(frontier)
    neighbours = columns[pieces(offsets[sources], np.diff(offsets)[sources])]
    fresh = neighbours[visited[neighbours] == 0]
    next_frontier, cost = next_frontier.copy(), cost.copy()
    next_frontier[fresh] = 1
    cost[fresh] = cost[sources[0]] + 1
    return {2: np.zeros_like(frontier), 3: next_frontier, 5: cost}


def _cfd_flux(cells: int) -> SuiteLaunch:
    """Neighbours lie within a few thousand cells, as in a mesh numbered front by front."""
    rng = generator()
    neighbours = np.arange(cells, dtype=np.int32) + rng.integers(-2000, 2001, (4, cells), dtype=np.int32)
    outside = (neighbours < 0) | (neighbours >= cells)
    neighbours[outside] = np.where(rng.random(int(outside.sum())) < 0.5, -1, -2)
    normals = uniform(rng, (4, 3, cells), -1, 1)
    variables = uniform(rng, (5, cells), -0.2, 0.2)
    variables[0] += np.float32(1.4)
    variables[4] += np.float32(3.0)
    far_field = np.array([1.4, 0.5, 0.0, 0.0, 3.0], np.float32)
    return launch_1d(cells, neighbours, normals, variables, far_field, zeros((5, cells)), np.int32(cells), block=192)


def _flow(state: Array) -> tuple[Array, Array, Array]:
    """Velocity, pressure and fastest wave of states (variable, cell)."""
    density, momentum, energy = state[0], state[1:4], state[4]
    velocity = momentum / density
    speed_squared = (velocity**2).sum(axis=0)
    pressure = (1.4 - 1) * (energy - density * speed_squared / 2)
    return velocity, pressure, np.sqrt(speed_squared) + np.sqrt(1.4 * pressure / density)


def _flux(state: Array, normal: Array) -> Array:
    """Half the flux of a state through a face with the given normal."""
    velocity, pressure, _ = _flow(state)
    flux = (velocity * normal).sum(axis=0) * state
    flux[1:4] += pressure * normal
    flux[4] += (velocity * normal).sum(axis=0) * pressure
    return flux / 2


def _cfd_flux_reference(launch: SuiteLaunch) -> dict[int, Array]:
    neighbours, normals, variables, far_field, fluxes, _ = launch.arguments
    state, far = variables.astype(np.float64), far_field.astype(np.float64)[:, None]
    _, pressure, wave_speed = _flow(state)
    total = np.zeros_like(state)
    for neighbour, normal in zip(neighbours, normals.astype(np.float64), strict=True):
        inner = neighbour >= 0
        other = np.where(inner, state[:, neighbour], far)
        flux = _flux(state, normal) + _flux(other, normal)
        area = np.sqrt((normal**2).sum(axis=0))
        damping = 0.2 / 2 * area * (wave_speed + wave_speed[neighbour])
        flux += np.where(inner, damping * (state - other), 0)
        wall = np.zeros_like(state)
        wall[1:4] = pressure * normal
        total += np.where(neighbour == -1, wall, flux)
    return {4: total.astype(fluxes.dtype)}


def _spmv_csr(rows: int, average_per_row: int) -> SuiteLaunch:
    rng = generator()
    offsets, columns = random_csr(rng, rows, rows, average_per_row)
    values, x = uniform(rng, len(columns), -1, 1), uniform(rng, rows, -1, 1)
    return launch_1d(rows, offsets, columns, values, x, zeros(rows), np.int32(rows))


def _spmv_csr_reference(launch: SuiteLaunch) -> dict[int, Array]:
    offsets, columns, values, x, y, _ = launch.arguments
    row_of_entry = np.repeat(np.arange(len(y)), np.diff(offsets))
    sums = np.bincount(row_of_entry, weights=values.astype(np.float64) * x[columns], minlength=len(y))
    return {4: sums.astype(y.dtype)}


KERNELS = (
    SuiteKernel(
        name="btree_search",
        source="btree_search.cu",
        entry="btree_search",
        group="non-divergent",
        stands_for="Rodinia B+-trees, find K: one block per query, a coalesced load of a node's keys per level",
        prepare=Sized(_btree_search, (3000, 60), (1_000_000, 24_000), (2_000_000, 100_000)),
        reference=_btree_search_reference,
    ),
    SuiteKernel(
        name="bfs",
        source="bfs.cu",
        entry="bfs",
        group="divergent",
        stands_for="Rodinia breadth-first search: a level with a large frontier, gathered visited flags",
        prepare=Sized(_bfs, (6000, 8), (1_000_000, 8), (3_000_000, 8)),
        reference=_bfs_reference,
    ),
    SuiteKernel(
        name="cfd_flux",
        source="cfd_flux.cu",
        entry="cfd_flux",
        group="divergent",
        stands_for="Rodinia CFD solver, compute flux: five gathered variables for each of four neighbours",
        prepare=Sized(_cfd_flux, (2000,), (200_000,), (1_500_000,)),
        reference=_cfd_flux_reference,
        tolerance=Tolerance(
            relative=5e-6, absolute=5e-6, because="about 40 terms up to 10 of either sign, each behind ten roundings"
        ),
    ),
    SuiteKernel(
        name="spmv_csr",
        source="spmv_csr.cu",
        entry="spmv_csr",
        group="divergent",
        stands_for="Parboil SPMV, in compressed rows: a thread per row, uneven rows, gathered vector",
        prepare=Sized(_spmv_csr, (1500, 16), (400_000, 16), (2_000_000, 16)),
        reference=_spmv_csr_reference,
        tolerance=Tolerance(
            absolute=1e-5,
            because="at most 80 products below 1 of either sign, added one by one: partial sums below 20",
        ),
    ),
)
