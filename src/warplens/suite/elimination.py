"""One step of algorithms that work on a matrix front by front: Gauss, LU, Needleman-Wunsch."""

from __future__ import annotations

import numpy as np

from warplens.suite.inputs import generator, launch_1d, launch_2d, uniform, zeros
from warplens.suite.kernel import Array, Sized, SuiteKernel, SuiteLaunch, Tolerance

_TILE = 16


def _dominant(matrices: Array) -> None:
    """Makes the diagonals large, so that no pivot is small."""
    diagonal = np.arange(min(matrices.shape[-2:]))
    matrices[..., diagonal, diagonal] += np.float32(matrices.shape[-1])


def _gaussian_fan1(rows: int, columns: int, pivot: int) -> SuiteLaunch:
    matrix = uniform(generator(), (rows, columns), -1, 1)
    _dominant(matrix)
    sizes = (np.int32(v) for v in (rows, columns, pivot))
    return launch_1d(rows - pivot - 1, matrix, zeros(matrix.shape), *sizes)


def _gaussian_fan1_reference(launch: SuiteLaunch) -> dict[int, Array]:
    matrix, multipliers, _, _, pivot = launch.arguments
    expected = multipliers.copy()
    expected[pivot + 1 :, pivot] = matrix[pivot + 1 :, pivot] / matrix[pivot, pivot]
    return {1: expected}


def _gaussian_fan2(size: int, pivot: int) -> SuiteLaunch:
    fan1 = _gaussian_fan1(size, size, pivot)
    matrix = fan1.arguments[0]
    multipliers = _gaussian_fan1_reference(fan1)[1]
    right_side = uniform(generator(), size)
    below = size - pivot - 1
    sizes = (np.int32(v) for v in (size, size, pivot))
    return launch_2d(below, size - pivot, multipliers, matrix, right_side, *sizes, block=(16, 16))


def _gaussian_fan2_reference(launch: SuiteLaunch) -> dict[int, Array]:
    multipliers, matrix, right_side, _, _, pivot = launch.arguments
    matrix, right_side = matrix.copy(), right_side.copy()
    below = multipliers[pivot + 1 :, pivot]
    matrix[pivot + 1 :, pivot:] -= below[:, None] * matrix[pivot, pivot:]
    right_side[pivot + 1 :] -= below * right_side[pivot]
    return {1: matrix, 2: right_side}


def _lu_matrices(batch: int, size: int, step: int) -> Array:
    """Matrices whose tile on the diagonal is factored at the given step."""
    matrices = uniform(generator(), (batch, size, size), -1, 1)
    _dominant(matrices)
    at = step * _TILE
    tile = matrices[:, at : at + _TILE, at : at + _TILE]
    for k in range(_TILE):
        tile[:, k + 1 :, k] /= tile[:, k, None, k]
        tile[:, k + 1 :, k + 1 :] -= tile[:, k + 1 :, k, None] * tile[:, k, None, k + 1 :]
    return matrices


def _lu_perimeter(batch: int, size: int, step: int) -> SuiteLaunch:
    matrices = _lu_matrices(batch, size, step)
    return SuiteLaunch(
        (size // _TILE - step - 1, batch, 1), (2 * _TILE, 1, 1), (matrices, np.int32(size), np.int32(step))
    )


def _lu_perimeter_reference(launch: SuiteLaunch) -> dict[int, Array]:
    matrices, _, step = launch.arguments
    matrices, at = matrices.copy(), int(step) * _TILE
    end = at + _TILE
    diagonal = matrices[:, at:end, at:end].astype(np.float64)
    right = matrices[:, at:end, end:].astype(np.float64)
    below = matrices[:, end:, at:end].astype(np.float64)
    for row in range(1, _TILE):
        right[:, row] -= (diagonal[:, row, None, :row] @ right[:, :row])[:, 0]
    for column in range(_TILE):
        below[:, :, column] -= (below[:, :, :column] @ diagonal[:, :column, column, None])[:, :, 0]
        below[:, :, column] /= diagonal[:, None, column, column]
    matrices[:, at:end, end:] = right
    matrices[:, end:, at:end] = below
    return {0: matrices}


def _lu_internal(size: int, step: int) -> SuiteLaunch:
    perimeter = _lu_perimeter(1, size, step)
    matrices = _lu_perimeter_reference(perimeter)[0]
    tiles = perimeter.grid[0]
    return SuiteLaunch((tiles, tiles, 1), (_TILE, _TILE, 1), (matrices, np.int32(size), np.int32(step)))


def _lu_internal_reference(launch: SuiteLaunch) -> dict[int, Array]:
    matrices, _, step = launch.arguments
    matrices, at = matrices.copy(), int(step) * _TILE
    end = at + _TILE
    matrices[:, end:, end:] -= matrices[:, end:, at:end] @ matrices[:, at:end, end:]
    return {0: matrices}


_NW_TILE, _NW_LETTERS = 32, 24


def _needleman_wunsch(length: int, pairs: int) -> SuiteLaunch:
    """The longest diagonal of tiles, with everything before it aligned."""
    rng = generator()
    first = rng.integers(0, _NW_LETTERS, (pairs, length), dtype=np.uint8)
    second = rng.integers(0, _NW_LETTERS, (pairs, length), dtype=np.uint8)
    similarity = rng.integers(-4, 4, (_NW_LETTERS, _NW_LETTERS), dtype=np.int32)
    np.fill_diagonal(similarity, 8)
    penalty = 10
    scores = np.zeros((pairs, length + 1, length + 1), np.int32)
    scores[:, 0, :] = scores[:, :, 0] = -penalty * np.arange(length + 1)
    tiles = length // _NW_TILE
    for diagonal in range(tiles - 1):
        _align_diagonal(scores, first, second, similarity, diagonal, penalty)
    return SuiteLaunch(
        (tiles, pairs, 1),
        (_NW_TILE, 1, 1),
        (first, second, similarity, scores, np.int32(length), np.int32(tiles - 1), np.int32(penalty)),
    )


def _align_diagonal(
    scores: Array, first: Array, second: Array, similarity: Array, diagonal: int, penalty: int
) -> None:
    """Fills the tiles on one diagonal of all score matrices (pair, row, column), antidiagonal by antidiagonal."""
    tiles = first.shape[1] // _NW_TILE
    tile_x = np.arange(max(0, diagonal - tiles + 1), min(diagonal, tiles - 1) + 1)
    for antidiagonal in range(2 * _NW_TILE - 1):
        x = np.arange(max(0, antidiagonal - _NW_TILE + 1), min(antidiagonal, _NW_TILE - 1) + 1)
        column = (tile_x[:, None] * _NW_TILE + x).ravel()
        row = ((diagonal - tile_x)[:, None] * _NW_TILE + antidiagonal - x).ravel()
        match = scores[:, row, column] + similarity[second[:, row], first[:, column]]
        gap = np.maximum(scores[:, row, column + 1], scores[:, row + 1, column]) - penalty
        scores[:, row + 1, column + 1] = np.maximum(match, gap)


def _needleman_wunsch_reference(launch: SuiteLaunch) -> dict[int, Array]:
    first, second, similarity, scores, _, diagonal, penalty = launch.arguments
    scores = scores.copy()
    _align_diagonal(scores, first, second, similarity, int(diagonal), int(penalty))
    return {3: scores}


KERNELS = (
    SuiteKernel(
        name="gaussian_fan1",
        source="gaussian.cu",
        entry="gaussian_fan1",
        group="divergent",
        stands_for="Rodinia Gaussian elimination, Fan1: a column of multipliers of a tall panel, rows apart",
        prepare=Sized(_gaussian_fan1, (16_000, 16, 3), (400_000, 64, 3), (1_500_000, 64, 3)),
        reference=_gaussian_fan1_reference,
    ),
    SuiteKernel(
        name="gaussian_fan2",
        source="gaussian.cu",
        entry="gaussian_fan2",
        group="divergent",
        stands_for="Rodinia Gaussian elimination, Fan2: threads of a warp run down the rows of the matrix",
        prepare=Sized(_gaussian_fan2, (110, 5), (1792, 64), (4096, 64)),
        reference=_gaussian_fan2_reference,
        tolerance=Tolerance(
            relative=3e-7, absolute=1e-7, because="a product and a difference, contracted on the GPU"
        ),
    ),
    SuiteKernel(
        name="lu_perimeter",
        source="lu.cu",
        entry="lu_perimeter",
        group="divergent",
        stands_for="Rodinia LUD, perimeter: triangular solves on 16×16 tiles, half a warp each way, batched",
        prepare=Sized(_lu_perimeter, (2, 80, 1), (128, 256, 1), (512, 512, 1)),
        reference=_lu_perimeter_reference,
        tolerance=Tolerance(relative=2e-6, absolute=2e-6, because="chains of up to 16 products against float64"),
    ),
    SuiteKernel(
        name="lu_internal",
        source="lu.cu",
        entry="lu_internal",
        group="divergent",
        stands_for="Rodinia LUD, internal: each tile less the product of two 16×16 tiles in shared memory",
        prepare=Sized(_lu_internal, (96, 1), (1792, 1), (4096, 1)),
        reference=_lu_internal_reference,
        tolerance=Tolerance(relative=1e-6, absolute=2e-6, because="sums of 16 products in another order"),
    ),
    SuiteKernel(
        name="needleman_wunsch",
        source="needleman_wunsch.cu",
        entry="needleman_wunsch",
        group="divergent",
        stands_for="Rodinia Needleman-Wunsch: one diagonal of tiles of many pairs, a barrier per antidiagonal",
        prepare=Sized(_needleman_wunsch, (96, 3), (128, 512), (128, 4096)),
        reference=_needleman_wunsch_reference,
    ),
)
