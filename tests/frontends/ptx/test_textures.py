"""Textures and surfaces: fetches against exact fractions, surfaces, faults, traces and workload files."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

from reference.ptx import textures as slow
from warplens import Texture, cuda
from warplens.errors import KernelFault, WorkloadError
from warplens.frontends.ptx.textures import ADDRESS_MODES, CHANNEL_TYPES, TextureObject
from warplens.workload.source import load_cuda_launch, record_launch

SHAPES = {1: (1, 1, 13), 2: (1, 7, 13), 3: (3, 5, 6)}
THREADS = 96
FETCHES = {
    1: "tex1D<float>(image, c[t])",
    2: "tex2D<float>(image, c[t], c[t + n])",
    3: "tex3D<float>(image, c[t], c[t + n], c[t + 2 * n])",
}
KERNEL = 'extern "C" __global__ void k(cudaTextureObject_t image, const float* c, {kind}* out, int n) {{ {body} }}'
INDEX = "int t = blockIdx.x * blockDim.x + threadIdx.x;"


def image(random: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    if kind.startswith("float"):
        return random.normal(0, 3, shape).astype(kind)
    limits = np.iinfo(kind)
    return random.integers(limits.min, limits.max, shape, kind, endpoint=True)


def fetching_kernel(vector: str, body: str) -> object:
    return cuda(KERNEL.format(kind=vector, body=f"{INDEX} out[t] = {body};")).kernel("k")


@pytest.mark.parametrize("rank", SHAPES)
def test_floats_in_all_modes(rank: int) -> None:
    random = np.random.default_rng(rank)
    depth, height, width = SHAPES[rank]
    pixels = image(random, (depth, height, width), "float32")
    given = pixels.reshape((depth, height, width)[3 - rank :])
    kernel = fetching_kernel("float", FETCHES[rank])
    for smooth, mode, normalised in itertools.product((False, True), ADDRESS_MODES, (False, True)):
        coordinates = random.uniform(-1.5, 2.5, (3, THREADS)).astype(np.float32)
        if not normalised:
            coordinates *= np.array([[width], [height], [depth]], np.float32)
        out = np.zeros(THREADS, np.float32)
        texture = Texture(given, 1, "linear" if smooth else "point", mode, normalised)
        kernel.launch(3, 32, texture, coordinates, out, np.int32(THREADS), record=False)
        for t in range(THREADS):
            place = [Fraction(float(each)) for each in coordinates[:, t]]
            place[rank:] = [Fraction(1, 2)] * (3 - rank)
            (exact,) = slow.fetch(pixels[..., None], *place, smooth, mode, normalised, False)
            assert abs(float(exact) - out[t]) <= 2e-6 * max(abs(float(exact)), 1), (smooth, mode, normalised, t)


@pytest.mark.parametrize("kind", CHANNEL_TYPES)
def test_types_and_channels(kind: str) -> None:
    """uchar4 and its like, read as they are and scaled to [-1, 1]."""
    random = np.random.default_rng(7)
    names = {"uint8": "uchar4", "int8": "char4", "uint16": "ushort4", "int16": "short4", "uint32": "uint4"}
    vector = names.get(kind, "int4" if kind == "int32" else "float4")
    pixels = image(random, (1, 6, 9, 4), kind)
    coordinates = random.integers(0, 6, (2, 32)).astype(np.float32) + np.float32(0.5)
    out = np.zeros((32, 4), np.float32 if vector == "float4" else kind)
    kernel = fetching_kernel(vector, f"tex2D<{vector}>(image, c[t], c[t + n])")
    kernel.launch(1, 32, Texture(pixels[0], 4), coordinates, out, np.int32(32))
    x, y = (each.astype(int) for each in coordinates)
    assert np.array_equal(out, pixels[0, y, x].astype(out.dtype))
    if np.dtype(kind).itemsize > 2 or kind == "float16":
        return
    scaled = np.zeros((32, 4), np.float32)
    kernel = fetching_kernel("float4", "tex2D<float4>(image, c[t], c[t + n])")
    kernel.launch(1, 32, Texture(pixels[0], 4, "linear", normalised_values=True), coordinates, scaled, np.int32(32))
    for t in range(32):
        place = [Fraction(float(each)) for each in (*coordinates[:, t], 0.5)]
        exact = slow.fetch(pixels, *place, True, "clamp", False, True)
        assert np.allclose(scaled[t], [float(each) for each in exact], rtol=0, atol=1e-6)


def test_layers_gathers_fetches_and_sizes() -> None:
    random = np.random.default_rng(3)
    pixels = image(random, (4, 6, 8), "float32")
    out = np.zeros((5, 32), np.float32)
    body = f"""{INDEX} float x = t % 8 + .5f, y = t % 6 + .5f;
        out[t] = tex2DLayered<float>(image, x, y, t % 5); out[t + n] = tex2DLod<float>(image, x, y, 0.f);
        float4 four = tex2Dgather<float4>(image, t % 7 + 1, t % 5 + 1, 0);
        out[t + 2 * n] = four.x; out[t + 3 * n] = four.w; out[t + 4 * n] = c[t];"""
    kernel = cuda(KERNEL.format(kind="float", body=body)).kernel("k")
    kernel.launch(1, 32, Texture(pixels), np.zeros(32, np.float32), out, np.int32(32))
    t = np.arange(32)
    assert np.array_equal(out[0], pixels[np.minimum(t % 5, 3), t % 6, t % 8])
    assert np.array_equal(out[1], pixels[0, t % 6, t % 8])
    assert np.array_equal(out[2], pixels[0, t % 5 + 1, t % 7])
    assert np.array_equal(out[3], pixels[0, t % 5, t % 7])
    line = image(random, (20,), "float32")
    found = np.zeros(32, np.float32)
    fetching_kernel("float", "tex1Dfetch<float>(image, t)").launch(1, 32, Texture(line), found, found, np.int32(0))
    assert np.array_equal(found, np.pad(line, (0, 12)))


def test_surfaces_are_read_and_written() -> None:
    source = """extern "C" __global__ void k(cudaSurfaceObject_t from, cudaSurfaceObject_t to) {
        int x = threadIdx.x, y = threadIdx.y;
        uchar4 v = surf2Dread<uchar4>(from, x * 4, y - 1, cudaBoundaryModeClamp);
        surf2Dwrite(make_uchar4(v.w, v.z, v.y, v.x), to, x * 4, y, cudaBoundaryModeZero); }"""
    given = image(np.random.default_rng(2), (6, 8, 4), "uint8")
    found = np.zeros((5, 8, 4), np.uint8)
    run = cuda(source).kernel("k").launch(1, (8, 6), Texture(given, 4), Texture(found, 4))
    assert np.array_equal(found, given[[0, 0, 1, 2, 3], :, ::-1])
    static = run.trace().static
    rows = [row for row, size in enumerate(static.access_bytes) if size]
    assert [static.access_bytes[row] for row in rows] == [4, 4]
    with pytest.raises(KernelFault, match=r"is outside the surface \(block \(0, 0, 0\), threads \(0, 0, 0\)"):
        trapping = source.replace(", cudaBoundaryModeClamp", "")
        cuda(trapping).kernel("k").launch(1, (8, 6), Texture(given, 4), Texture(found, 4))
    with pytest.raises(KernelFault, match="0x5 is no texture or surface object"):
        cuda(source).kernel("k").launch(1, (8, 6), np.uint64(5), Texture(found, 4))
    with pytest.raises(KernelFault, match="cannot be a texture of 3 channels"):
        cuda(source).kernel("k").launch(1, (8, 6), Texture(given, 3), Texture(found, 4))


def test_neighbours_in_both_dimensions_share_a_line() -> None:
    array = TextureObject(0, (64, 64, 2), "float32", 1, 256)
    y, x = np.mgrid[:8, :16]
    places = array.tiled(x.ravel() * 4, y.ravel(), np.zeros(128, np.int64))
    assert sorted(places.tolist()) == list(range(0, 512, 4))
    everything = np.mgrid[:2, :64, :64].reshape(3, -1)
    assert len(set(array.tiled(everything[2] * 4, everything[1], everything[0]).tolist())) == 2 * 64 * 64


def test_textures_in_workload_files(tmp_path) -> None:
    text = '''[cuda]
code = """extern "C" __global__ void k(cudaTextureObject_t image, float* out)
{ out[threadIdx.x] = tex2D<float4>(image, threadIdx.x / 32.f, .5f).y; }"""
grid = [1]
block = [32]
[buffers.out]
dtype = "float32"
shape = [32]
[[cuda.arguments]]
dtype = "uchar4"
shape = [2, 8]
fill = "arange"
texture = { normalised_coordinates = true, normalised_values = true }
[[cuda.arguments]]
buffer = "out"
'''
    path = tmp_path / "texture.toml"
    path.write_text(text)
    launch = load_cuda_launch(path)
    buffers: dict = {}
    record_launch(launch, buffers=buffers)
    (out,) = buffers.values()
    assert np.allclose(out, (32 + 4 * (np.arange(32) // 4) + 1) / 255)
    path.write_text(text.replace("texture = {", 'texture = { filter = "cubic",'))
    with pytest.raises(WorkloadError, match=r"filter.*point"):
        load_cuda_launch(path)


def test_gradients_and_levels_choose_the_only_level() -> None:
    source = """extern "C" __global__ void k(cudaTextureObject_t image, float* out) {
        int x = threadIdx.x % 8, y = threadIdx.x / 8;
        float2 by = make_float2(.1f, .2f);
        out[threadIdx.x] = tex2DGrad<float>(image, x, y, by, by) - tex2D<float>(image, x, y);
        out[threadIdx.x] += tex2DLod<float>(image, x, y, 2.f);
    }"""
    given, out = np.arange(64, dtype=np.float32).reshape(8, 8), np.zeros(64, np.float32)
    cuda(source).kernel("k").launch(1, 64, Texture(given), out)
    np.testing.assert_array_equal(out, given.reshape(-1))
