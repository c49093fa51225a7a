"""The NumPy references against known values, laws and slow obvious computations."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import replace

import numpy as np
import pytest

from warplens.suite.catalog import get_kernel
from warplens.suite.inputs import offsets_of, pieces
from warplens.suite.irregular import _btree
from warplens.suite.text import fnv1a


def small(name):
    kernel = get_kernel(name)
    return kernel, kernel.prepare("small")


def with_arguments(launch, **by_index):
    """The launch with some arguments replaced: `a0=…` is the first."""
    arguments = list(launch.arguments)
    for key, value in by_index.items():
        arguments[int(key[1:])] = value
    return replace(launch, arguments=tuple(arguments))


def test_options_have_the_textbook_price():
    kernel, launch = small("black_scholes")
    one = (np.array([v], np.float32) for v in (42, 40, 0.5))
    launch = replace(launch, arguments=(*one, *launch.arguments[3:5], np.float32(0.1), np.float32(0.2), np.int32(1)))
    prices = kernel.reference(launch)
    assert prices[3][0] == pytest.approx(4.76, abs=0.005)  # Hull, Options, Futures and Other Derivatives
    assert prices[4][0] == pytest.approx(0.81, abs=0.005)


def test_partial_sums_add_up_and_belong_to_their_blocks():
    kernel, launch = small("reduction")
    values = launch.arguments[0]
    sums = kernel.reference(launch)[1]
    assert sums.sum() == pytest.approx(values.sum(dtype=np.float64), rel=1e-6)
    third = sum(float(v) for i, v in enumerate(values) if i // 256 % launch.grid[0] == 3)
    assert sums[3] == pytest.approx(third, rel=1e-6)


def test_a_chip_at_ambient_temperature_without_power_stays_so():
    kernel, launch = small("hotspot")
    power, temperature = (np.zeros_like(a) for a in launch.arguments[:2])
    temperature += launch.arguments[9]
    np.testing.assert_array_equal(kernel.reference(with_arguments(launch, a0=power, a1=temperature))[2], temperature)


def test_heat_spreads_two_cells_in_two_steps():
    kernel, launch = small("hotspot")
    hot = np.full_like(launch.arguments[1], launch.arguments[9])
    hot[20, 20] += 1
    power = np.zeros_like(hot)
    changed = np.argwhere(kernel.reference(with_arguments(launch, a0=power, a1=hot))[2] != launch.arguments[9])
    assert {tuple(c) for c in changed} == {
        (20 + y, 20 + x) for y in range(-2, 3) for x in range(abs(y) - 2, 3 - abs(y))
    }


def test_flat_images_do_not_diffuse():
    kernel, launch = small("srad_step1")
    flat = np.full_like(launch.arguments[0], 1.5)
    first = kernel.reference(with_arguments(launch, a0=flat))
    assert not any(first[i].any() for i in range(1, 5))
    np.testing.assert_array_equal(first[5], 1)
    kernel, launch = small("srad_step2")
    after = with_arguments(launch, **{f"a{i - 1}": first[i] for i in range(1, 6)}, a5=flat)
    np.testing.assert_array_equal(kernel.reference(after)[5], flat)


def test_stencils_of_constant_volumes_are_the_sum_of_their_weights():
    kernel, launch = small("fdtd3d")
    result = kernel.reference(with_arguments(launch, a0=np.ones_like(launch.arguments[0])))[1]
    weights = launch.arguments[2]
    np.testing.assert_allclose(result[4:-4, 4:-4, 4:-4], weights[0] + 6 * weights[1:].sum(), rtol=1e-6)
    assert not result[:4].any()
    kernel, launch = small("stencil_3d")
    result = kernel.reference(with_arguments(launch, a0=np.ones_like(launch.arguments[0])))[1]
    np.testing.assert_allclose(result[1:-1, 1:-1, 1:-1], 6 * 0.1 - 0.6, atol=1e-6)
    kernel, launch = small("convolution_2d")
    result = kernel.reference(with_arguments(launch, a0=np.ones_like(launch.arguments[0])))[1]
    np.testing.assert_allclose(result[1:-1, 1:-1], 0.5, rtol=1e-5)


def test_an_asymmetric_convolution_has_its_weights_in_place():
    kernel, launch = small("convolution_2d")
    dot = np.zeros_like(launch.arguments[0])
    dot[10, 10] = 1
    result = kernel.reference(with_arguments(launch, a0=dot))[1]
    np.testing.assert_allclose(result[9:12, 9:12][::-1, ::-1], [[0.2, 0.5, -0.8], [-0.3, 0.6, -0.9], [0.4, 0.7, 0.1]])


def test_white_and_black_turn_to_sepia():
    kernel, launch = small("sepia")
    image = np.zeros_like(launch.arguments[0])
    image[0, 0] = 255
    result = kernel.reference(with_arguments(launch, a0=image))[1]
    assert result[0, 0].tolist() == [255, 255, 255 * (272 + 534 + 131) // 1000]
    assert not result[0, 1:].any()


def test_nine_pixels_are_averaged_and_edges_copied():
    kernel, launch = small("linear_filter")
    image = launch.arguments[0]
    result = kernel.reference(launch)[1]
    assert result[7, 9, 1] == int(image[6:9, 8:11, 1].astype(int).sum()) // 9
    np.testing.assert_array_equal(result[0], image[0])


def test_a_ray_at_the_centre_of_a_mirror_comes_back():
    kernel, launch = small("ray_tracing")
    sphere = np.array([[0, 0, 3, 1, 0.5, 0.25]], np.float32)
    launch = with_arguments(launch, a0=sphere, a1=np.int32(1), a2=np.zeros((31, 31), np.float32))
    image = kernel.reference(launch)[2]
    light_on_the_front = 0.36  # the normal is (0, 0, -1)
    assert image[15, 15] == pytest.approx(0.5 * (0.2 + 0.8 * light_on_the_front) + 0.25 * 0.1, rel=1e-5)
    assert image[0, 0] == pytest.approx(0.1)


def test_svm_on_a_support_vector_gives_its_weight():
    kernel, launch = small("svm_naive")
    features, vectors, weights = (a.copy() for a in launch.arguments[:3])
    features[:, 5] = vectors[3] = 100  # far from all the others
    result = kernel.reference(with_arguments(launch, a0=features, a1=vectors))[3]
    assert result[5] == pytest.approx(weights[3] + launch.arguments[5], rel=1e-6)
    constant, constant_launch = small("svm_constant")
    np.testing.assert_array_equal(constant.reference(constant_launch)[1], kernel.reference(launch)[3])


def test_back_propagation_layer():
    kernel, launch = small("backprop_forward")
    values, weights, _ = launch.arguments
    partial = kernel.reference(launch)[2]
    np.testing.assert_allclose(partial.sum(axis=0), values @ weights, rtol=1e-5)
    assert partial[2, 5] == pytest.approx(sum(values[i] * weights[i, 5] for i in range(32, 48)), rel=1e-5)


def test_points_belong_to_the_nearest_centre():
    kernel, launch = small("kmeans_assign")
    points, centres = launch.arguments[:2]
    slow = [min(range(len(centres)), key=lambda c: float(np.square(p - centres[c]).sum())) for p in points]
    assert kernel.reference(launch)[2].tolist() == slow


@pytest.mark.parametrize("name", ["convolution_alexnet", "convolution_resnet"])
def test_convolution_layer(name):
    kernel, launch = small(name)
    images, filters, biases, _, channels, side, output_side, stride, padding = launch.arguments
    output = kernel.reference(launch)[3]
    for f, y, x in [(0, 0, 0), (3, 2, 5), (7, output_side - 1, output_side - 1)]:
        total = float(biases[f])
        for c, dy, dx in np.ndindex(filters.shape[1:]):
            row, column = y * stride - padding + dy, x * stride - padding + dx
            if 0 <= row < side and 0 <= column < side:
                total += float(images[0, c, row, column]) * float(filters[f, c, dy, dx])
        assert output[0, f, y, x] == pytest.approx(max(total, 0), abs=1e-5)
    assert channels == images.shape[1]


def test_trees_are_searched_from_the_root():
    kernel, launch = small("btree_search")
    keys, children, queries, _, levels = launch.arguments
    for query, record in zip(queries.tolist(), kernel.reference(launch)[3].tolist(), strict=True):
        node = 0
        for _ in range(levels - 1):
            slots = np.flatnonzero(keys[node] <= query)
            if not len(slots):
                break
            node = children[node, slots[-1]]
        slots = np.flatnonzero(keys[node] == query)
        assert record == (children[node, slots[0]] if len(slots) else -1)


def test_trees_have_as_many_levels_as_they_need():
    assert [_btree(np.arange(n, dtype=np.int32))[2] for n in (1, 128, 129, 128**2, 128**2 + 1)] == [1, 1, 2, 2, 3]


def test_one_level_of_a_breadth_first_search():
    kernel, launch = small("bfs")
    offsets, columns, frontier, _, _, cost, nodes = launch.arguments
    level = int(cost[np.flatnonzero(frontier)[0]])
    distance, waiting = {int(np.flatnonzero(cost == 0)[0]): 0}, deque(np.flatnonzero(cost == 0).tolist())
    while waiting:
        node = waiting.popleft()
        for neighbour in columns[offsets[node] : offsets[node + 1]].tolist():
            if neighbour not in distance:
                distance[neighbour] = distance[node] + 1
                waiting.append(neighbour)
    expected = np.full(nodes, -1, np.int32)
    for node, steps in distance.items():
        if steps <= level + 1:
            expected[node] = steps
    after = kernel.reference(launch)
    np.testing.assert_array_equal(after[5], expected)
    np.testing.assert_array_equal(after[3], expected == level + 1)


def test_a_uniform_flow_has_no_flux_through_closed_cells():
    kernel, launch = small("cfd_flux")
    neighbours, normals, variables, far_field, _, _ = launch.arguments
    normals = normals - normals.mean(axis=0)
    uniform = np.repeat(far_field[:, None], variables.shape[1], axis=1)
    calm = with_arguments(launch, a0=np.where(neighbours == -1, -2, neighbours), a1=normals, a2=uniform)
    np.testing.assert_allclose(kernel.reference(calm)[4], 0, atol=1e-5)


def test_sparse_and_dense_products_agree():
    kernel, launch = small("spmv_csr")
    offsets, columns, values, x, _, rows = launch.arguments
    dense = np.zeros((rows, rows))
    np.add.at(dense, (np.repeat(np.arange(rows), np.diff(offsets)), columns), values)
    np.testing.assert_allclose(kernel.reference(launch)[4], dense @ x, atol=1e-5)


def slow_hash(piece: bytes) -> int:
    value = 2166136261
    for byte in piece:
        value = (value ^ byte) * 16777619 % 2**32
    return value


def test_hashes_are_fnv_1a():
    text = np.frombuffer(b"foobara", np.uint8)
    hashes = fnv1a(text, np.array([0, 6, 0]), np.array([6, 1, 0]))
    assert [hex(h) for h in hashes] == ["0xbf9cf968", "0xe40c292c", "0x811c9dc5"]  # the authors' test vectors
    assert hashes[0] == slow_hash(b"foobar")


def test_page_views_are_counted():
    kernel, launch = small("page_view_count")
    log, offsets, _, _, mask, records = launch.arguments
    views = Counter(slow_hash(bytes(log[offsets[i] : offsets[i + 1]])) for i in range(records))
    after = kernel.reference(launch)
    assert {int(k): int(c) for k, c in zip(after[2], after[3], strict=True) if k} == views
    homes = [h & int(mask) for h in views]
    assert len(set(homes)) == len(homes), "the table would depend on the order of the threads"


def test_words_are_indexed():
    kernel, launch = small("inverted_index")
    text, offsets, pair_offsets, _, _, count = launch.arguments
    after = kernel.reference(launch)
    expected = []
    for document in range(count):
        assert pair_offsets[document] == len(expected)
        words = bytes(text[offsets[document] : offsets[document + 1]]).split()
        expected += [(slow_hash(w), document) for w in words]
    assert list(zip(after[3].tolist(), after[4].tolist(), strict=True)) == expected


def test_selected_values_stay_in_order_in_their_blocks():
    kernel, launch = small("stream_compaction")
    values, _, _, limit, _ = launch.arguments
    after = kernel.reference(launch)
    for block in range(launch.grid[0]):
        chosen = [v for v in values[256 * block : 256 * (block + 1)].tolist() if v < limit]
        assert after[2][block] == len(chosen)
        assert after[1][256 * block :][:256].tolist() == chosen + [0] * (256 - len(chosen))


def test_elimination_clears_the_column_below_the_pivot():
    kernel, launch = small("gaussian_fan2")
    _, before, right_side, _, _, pivot = launch.arguments
    after = kernel.reference(launch)
    np.testing.assert_allclose(after[1][pivot + 1 :, pivot], 0, atol=1e-6)
    np.testing.assert_array_equal(after[1][: pivot + 1], before[: pivot + 1])
    np.testing.assert_array_equal(after[2][: pivot + 1], right_side[: pivot + 1])


def test_lu_tiles_multiply_to_the_matrix():
    kernel, launch = small("lu_perimeter")
    before, _, step = launch.arguments
    after = kernel.reference(launch)[0]
    at, end = 16 * step, 16 * step + 16
    diagonal = before[:, at:end, at:end].astype(np.float64)
    lower, upper = np.tril(diagonal, -1) + np.eye(16), np.triu(diagonal)
    np.testing.assert_allclose(lower @ after[:, at:end, end:], before[:, at:end, end:], atol=1e-5)
    np.testing.assert_allclose(after[:, end:, at:end] @ upper, before[:, end:, at:end], atol=1e-4)
    np.testing.assert_array_equal(after[:, end:, end:], before[:, end:, end:])


def test_alignment_is_the_textbook_recurrence():
    kernel, launch = small("needleman_wunsch")
    first, second, similarity, before, length, diagonal, penalty = launch.arguments
    after = kernel.reference(launch)[3]
    done = {(x, y) for x in range(length // 32) for y in range(length // 32) if x + y <= diagonal}
    for pair in range(len(first)):
        scores = np.zeros((length + 1, length + 1), np.int64)
        scores[0] = scores[:, 0] = -penalty * np.arange(length + 1)
        for y, x in np.ndindex(length, length):
            if (x // 32, y // 32) in done:
                match = scores[y, x] + similarity[second[pair, y], first[pair, x]]
                scores[y + 1, x + 1] = max(match, scores[y, x + 1] - penalty, scores[y + 1, x] - penalty)
        np.testing.assert_array_equal(after[pair], scores)
    assert (before != after).any()


def test_listing_1_squares_what_its_index_says():
    for stride in (1, 8, 32):
        kernel, launch = small(f"strided_square_{stride}")
        values = launch.arguments[0]
        assert kernel.reference(launch)[1][77, 5] == values[stride * 77 + 5] ** 2


@pytest.mark.parametrize("beta", [1, 4, 16])
def test_the_mix_is_the_loop_written_out(beta):
    kernel, launch = small(f"instruction_mix_{beta}")
    factors, x, summand, repetitions = (a.astype(np.float64) for a in launch.arguments)
    for _ in range(int(repetitions)):
        for _ in range(beta):
            x = x * factors + summand
        x = 1 / np.sqrt(x)
    np.testing.assert_allclose(kernel.reference(launch)[1], x, rtol=1e-6)


def test_the_barrier_kernel_is_its_loop_written_out():
    kernel, launch = small("iterative_barrier")
    x, factor, summand, repetitions = (a.astype(np.float64) for a in launch.arguments)
    for _ in range(int(repetitions)):
        x = x * factor + summand
    np.testing.assert_allclose(kernel.reference(launch)[0], x, rtol=1e-6)


def test_the_chain_of_pointers_is_one_cycle():
    _, launch = small("pointer_chase")
    following = launch.arguments[0]
    place, hops = 0, 0
    while hops == 0 or place != 0:
        place, hops = int(following[place]), hops + 1
    assert hops == len(following) // 32


def test_pieces_are_the_concatenated_ranges():
    starts, lengths = np.array([5, 0, 9, 9]), np.array([2, 3, 0, 1])
    assert pieces(starts, lengths).tolist() == [5, 6, 0, 1, 2, 9]
    assert pieces(starts[:0], lengths[:0]).tolist() == []
    assert offsets_of(lengths).tolist() == [0, 2, 5, 5, 6]
