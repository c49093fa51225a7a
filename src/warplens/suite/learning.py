"""Machine learning: layers of neural networks, a support vector machine, k-means."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from warplens.suite.inputs import blocks, generator, launch_1d, uniform, zeros
from warplens.suite.kernel import Array, Sized, SuiteKernel, SuiteLaunch, Tolerance

_UNITS = 16  # of the hidden layer


def _backprop_forward(inputs: int) -> SuiteLaunch:
    rng = generator()
    values, weights = uniform(rng, inputs), uniform(rng, (inputs, _UNITS))
    return SuiteLaunch((inputs // 16, 1, 1), (16, 16, 1), (values, weights, zeros((inputs // 16, _UNITS))))


def _backprop_forward_reference(launch: SuiteLaunch) -> dict[int, Array]:
    values, weights, partial = launch.arguments
    products = (values[:, None] * weights).reshape(-1, 16, _UNITS)
    return {2: products.sum(axis=1, dtype=np.float64).astype(partial.dtype)}


def _backprop_adjust(inputs: int) -> SuiteLaunch:
    rng = generator()
    delta, values = uniform(rng, _UNITS, -1, 1), uniform(rng, inputs)
    weights, previous = uniform(rng, (inputs, _UNITS)), uniform(rng, (inputs, _UNITS), -0.1, 0.1)
    arguments = (delta, values, weights, previous, np.float32(0.3), np.float32(0.3))
    return SuiteLaunch((inputs // 16, 1, 1), (16, 16, 1), arguments)


def _backprop_adjust_reference(launch: SuiteLaunch) -> dict[int, Array]:
    delta, values, weights, previous, rate, momentum = launch.arguments
    change = rate * delta * values[:, None] + momentum * previous
    return {2: weights + change, 3: change}


_FEATURES, _VECTORS = 24, 16


def _svm(windows: int) -> tuple[Array, Array, Array]:
    rng = generator()
    features, vectors = uniform(rng, (_FEATURES, windows)), uniform(rng, (_VECTORS, _FEATURES))
    return features, vectors, uniform(rng, _VECTORS, -1, 1)


def _svm_scalars(windows: int) -> tuple[np.float32, np.float32, np.int32]:
    return np.float32(0.25), np.float32(0.1), np.int32(windows)


def _svm_naive(windows: int) -> SuiteLaunch:
    return launch_1d(windows, *_svm(windows), zeros(windows), *_svm_scalars(windows), block=128)


def _svm_constant(windows: int) -> SuiteLaunch:
    features, vectors, weights = _svm(windows)
    constants = {"constant_vectors": vectors, "constant_weights": weights}
    return launch_1d(windows, features, zeros(windows), *_svm_scalars(windows), block=128, constants=constants)


def _svm_decisions(features: Array, vectors: Array, weights: Array, gamma: float, bias: float) -> Array:
    features, vectors = features.T.astype(np.float64), vectors.astype(np.float64)
    squares = (features**2).sum(axis=1)[:, None] + (vectors**2).sum(axis=1) - 2 * features @ vectors.T
    return (np.exp(-gamma * squares) @ weights.astype(np.float64) + bias).astype(np.float32)


def _svm_naive_reference(launch: SuiteLaunch) -> dict[int, Array]:
    features, vectors, weights, _, gamma, bias, _ = launch.arguments
    return {3: _svm_decisions(features, vectors, weights, float(gamma), float(bias))}


def _svm_constant_reference(launch: SuiteLaunch) -> dict[int, Array]:
    features, _, gamma, bias, _ = launch.arguments
    vectors, weights = launch.constants["constant_vectors"], launch.constants["constant_weights"]
    return {1: _svm_decisions(features, vectors, weights, float(gamma), float(bias))}


_SVM_SIZES = ((300,), (700 * 496,), (736 * 992,))
_SVM_TOLERANCE = Tolerance(
    relative=5e-6,
    absolute=5e-6,
    because="16 terms below 1 whose exponents are sums of 24 squares, expf within 2 ulps",
)


def _kmeans_points(count: int, features: int, clusters: int) -> tuple[Array, Array]:
    """Points in well separated clusters, so that rounding changes no membership."""
    rng = generator()
    centres = uniform(rng, (clusters, features), 0, 10)
    points = centres[rng.integers(0, clusters, count)]
    points += uniform(rng, points.shape, -1, 1)
    return points, centres


def _kmeans_invert_mapping(count: int, features: int) -> SuiteLaunch:
    points, _ = _kmeans_points(count, features, 5)
    return launch_1d(count, points, zeros((features, count)), np.int32(count), np.int32(features))


def _kmeans_invert_mapping_reference(launch: SuiteLaunch) -> dict[int, Array]:
    return {1: np.ascontiguousarray(launch.arguments[0].T)}


def _kmeans_assign(count: int, features: int, clusters: int) -> SuiteLaunch:
    points, centres = _kmeans_points(count, features, clusters)
    sizes = (np.int32(v) for v in (count, features, clusters))
    return launch_1d(count, points, centres, zeros(count, np.int32), *sizes)


def _kmeans_assign_reference(launch: SuiteLaunch) -> dict[int, Array]:
    points, centres = launch.arguments[:2]
    distances = (centres.astype(np.float64) ** 2).sum(axis=1) - 2 * points.astype(np.float64) @ centres.T
    return {2: distances.argmin(axis=1).astype(np.int32)}


def _convolution(
    side: int, channels: int, filters: int, images: int, filter_side: int, stride: int, padding: int
) -> SuiteLaunch:
    rng = generator()
    output_side = (side + 2 * padding - filter_side) // stride + 1
    arguments = (
        uniform(rng, (images, channels, side, side)),
        uniform(rng, (filters, channels, filter_side, filter_side), -0.1, 0.1),
        uniform(rng, filters, -0.1, 0.1),
        zeros((images, filters, output_side, output_side)),
        *(np.int32(v) for v in (channels, side, output_side, stride, padding)),
    )
    return SuiteLaunch((blocks(output_side**2, 128), filters, images), (128, 1, 1), arguments)


def _convolution_reference(launch: SuiteLaunch) -> dict[int, Array]:
    images, filters, biases, output = launch.arguments[:4]
    _, _, _, stride, padding = (int(v) for v in launch.arguments[4:])
    padded = np.pad(images, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = sliding_window_view(padded, filters.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    sums = np.tensordot(windows.astype(np.float64), filters.astype(np.float64), axes=((1, 4, 5), (1, 2, 3)))
    expected = np.maximum(sums + biases, 0).transpose(0, 3, 1, 2)
    return {3: np.ascontiguousarray(expected, dtype=output.dtype)}


_CONVOLUTION_TOLERANCE = Tolerance(
    absolute=1e-5, because="up to 576 products below 0.1 of either sign, partial sums of about 1, added one by one"
)

KERNELS = (
    SuiteKernel(
        name="backprop_forward",
        source="backprop.cu",
        entry="backprop_forward",
        group="non-divergent",
        stands_for="Rodinia Back Propagation, layer forward: products in shared memory, tree sum with barriers",
        prepare=Sized(_backprop_forward, (512,), (327_680,), (1_048_576,)),
        reference=_backprop_forward_reference,
        tolerance=Tolerance(
            relative=1e-6, because="a tree of 16 positive terms: four roundings of 6e-8 and the product's"
        ),
    ),
    SuiteKernel(
        name="backprop_adjust",
        source="backprop.cu",
        entry="backprop_adjust",
        group="non-divergent",
        stands_for="Rodinia Back Propagation, adjust weights: streaming update of two arrays in place",
        prepare=Sized(_backprop_adjust, (1024,), (327_680,), (1_048_576,)),
        reference=_backprop_adjust_reference,
        tolerance=Tolerance(relative=5e-7, absolute=1e-7, because="three roundings, one fewer where contracted"),
    ),
    SuiteKernel(
        name="svm_naive",
        source="svm.cu",
        entry="svm_naive",
        group="non-divergent",
        stands_for="Merge SVM of mwp-cwp-isca2009 (Figure 3, Naive): everything from global memory",
        prepare=Sized(_svm_naive, *_SVM_SIZES),
        reference=_svm_naive_reference,
        tolerance=_SVM_TOLERANCE,
    ),
    SuiteKernel(
        name="svm_constant",
        source="svm.cu",
        entry="svm_constant",
        group="non-divergent",
        stands_for="Merge SVM of mwp-cwp-isca2009 (Figure 3, Constant): support vectors in constant memory",
        prepare=Sized(_svm_constant, *_SVM_SIZES),
        reference=_svm_constant_reference,
        tolerance=_SVM_TOLERANCE,
    ),
    SuiteKernel(
        name="svm_optimised",
        source="svm.cu",
        entry="svm_optimised",
        group="non-divergent",
        stands_for="Merge SVM of mwp-cwp-isca2009 (Figure 3, Constant+Optimized): features kept in registers",
        prepare=Sized(_svm_constant, *_SVM_SIZES),
        reference=_svm_constant_reference,
        tolerance=Tolerance(relative=1e-5, absolute=1e-5, because="as svm_naive, with the approximate __expf"),
    ),
    SuiteKernel(
        name="kmeans_invert_mapping",
        source="kmeans.cu",
        entry="kmeans_invert_mapping",
        group="divergent",
        stands_for="Rodinia k-means, invert mapping: loads a record of 34 floats apart, coalesced stores",
        prepare=Sized(_kmeans_invert_mapping, (2000, 34), (400_000, 34), (2_000_000, 34)),
        reference=_kmeans_invert_mapping_reference,
    ),
    SuiteKernel(
        name="kmeans_assign",
        source="kmeans.cu",
        entry="kmeans_assign",
        group="divergent",
        stands_for="k-means assignment on records not yet inverted: the same divergent loads for every centre",
        prepare=Sized(_kmeans_assign, (500, 34, 5), (200_000, 34, 5), (1_000_000, 34, 5)),
        reference=_kmeans_assign_reference,
    ),
    SuiteKernel(
        name="convolution_alexnet",
        source="convolution_layer.cu",
        entry="convolution_alexnet",
        group="divergent",
        stands_for="Tango AlexNet, shape of its first layer: 11×11 filters over three channels with stride 4",
        prepare=Sized(_convolution, (39, 3, 8, 1, 11, 4, 0), (227, 3, 48, 1, 11, 4, 0), (227, 3, 96, 8, 11, 4, 0)),
        reference=_convolution_reference,
        tolerance=_CONVOLUTION_TOLERANCE,
    ),
    SuiteKernel(
        name="convolution_resnet",
        source="convolution_layer.cu",
        entry="convolution_resnet",
        group="divergent",
        stands_for="Tango ResNet, shape of a downsampling layer: 3×3 filters, 64 to 128 channels, stride 2",
        prepare=Sized(_convolution, (20, 8, 16, 1, 3, 2, 1), (56, 64, 128, 1, 3, 2, 1), (56, 64, 128, 16, 3, 2, 1)),
        reference=_convolution_reference,
        tolerance=_CONVOLUTION_TOLERANCE,
    ),
)
