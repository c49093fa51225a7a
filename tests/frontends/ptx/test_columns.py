"""TMA in im2col mode: columns of pixels against the manual's description, place by place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from warplens.errors import KernelFault, WorkloadError
from warplens.frontends.ptx.tensor_maps import TensorMap
from warplens.workload.source import load_cuda_launch, record_launch

from .test_asynchronous import DUMP, LOAD_BOX, WAIT, run, words


def places(bounds: list[range], start: list[int]) -> Iterator[list[int]]:
    """Places of the filter from a start on: a dimension begins there once, then at its lower bound."""
    if not bounds:
        yield []
        return
    first, bound = start[0], bounds[0]
    for rest in places(bounds[1:], start[1:]):
        yield from ([at, *rest] for at in range(first, bound.stop, bound.step))
        first = bound.start


def column(image: np.ndarray, tensor: TensorMap, corner: list[int], offsets: list[int]) -> np.ndarray:
    """The pixels that the manual describes. `image` is N, D, H, W, C; all else begins with the channels."""
    sizes = tensor.dimensions[1:-1]
    limits = zip(tensor.lower, tensor.upper, sizes, tensor.element_strides[1:-1], strict=True)
    bounds = [range(low, size + high, step) for low, high, size, step in limits]
    pixels = [(corner[-1], place) for place in places(bounds, corner[1:-1])]
    for number in range(corner[-1] + 1, corner[-1] + 64):
        pixels += [(number, place) for place in places(bounds, [each.start for each in bounds])]
    found = np.zeros((tensor.box[1], tensor.box[0]), image.dtype)
    padded = np.pad(image, [(0, 0)] * (image.ndim - 1) + [(0, tensor.box[0])])
    for row, (number, place) in zip(found, pixels, strict=False):
        at = [each + offset for each, offset in zip(place, offsets, strict=True)]
        if number < len(image) and all(0 <= each < size for each, size in zip(at, sizes, strict=True)):
            row[:] = padded[(number, *at[::-1])][corner[0] : corner[0] + len(row)]
    return found


#: Images (N, …, C), pixels, channels; lower and upper corners, steps (W first); coordinates, offsets, swizzle.
COLUMNS = [
    ((3, 9, 7, 16), 64, 8, (-1, -1), (-1, -1), (1, 1), (4, 5, 3, 0), (0, 0), 0),
    ((3, 9, 7, 16), 64, 8, (0, 0), (-2, -2), (1, 1), (4, 4, 3, 0), (2, 2), 0),
    ((3, 9, 7, 16), 48, 16, (-1, -1), (-1, -1), (1, 1), (8, -1, -1, 1), (0, 2), 2),
    ((4, 9, 7, 32), 32, 32, (-1, -1), (-1, -1), (2, 2), (0, -1, -1, 0), (1, 1), 3),
    ((5, 20, 16), 40, 16, (-2,), (-2,), (1,), (0, 15, 1), (4,), 0),
    ((2, 4, 5, 6, 8), 100, 8, (-1, 0, -1), (0, -1, -1), (1, 1, 1), (0, 3, 2, 1, 0), (1, 0, 2), 1),
    ((2, 4, 5, 6, 8), 30, 8, (-1, 0, -1), (0, -1, -1), (3, 2, 2), (0, -1, 0, -1, 0), (1, 0, 2), 0),
]


@pytest.mark.parametrize("case", COLUMNS, ids=str)
def test_columns_of_images(case: tuple) -> None:
    shape, pixels, channels, lower, upper, steps, corner, offsets, swizzle = case
    rank = len(shape)
    given = words(int(np.prod(shape)))
    strides = given.reshape(shape).strides
    layout = shape[::-1], strides[-2::-1], (channels, pixels), (1, *steps, 1), swizzle, 0, 0, True
    tensor = TensorMap(0, rank, 2, *layout, lower, upper)
    out = np.zeros(pixels * channels, np.uint32)
    registers = [f"%c{number}" for number in range(rank)]
    moves = "\n".join(f"mov.s32 {name}, {at};" for name, at in zip(registers, corner, strict=True))
    shifts = "\n".join(f"mov.b16 %h{number}, {by};" for number, by in enumerate(offsets))
    listed = ", ".join(f"%h{number}" for number in range(len(offsets)))
    load = LOAD_BOX.replace("2d", f"{rank}d").replace(".tile.", ".im2col.")
    body = f""".reg .b32 %c<5>;
.reg .b16 %h<3>;
@%p0 tensormap.replace.tile.global_address.global.b1024.b64 [%map], %in;
{moves}
{shifts}
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {out.nbytes};
@%p0 {load} [%tile], [%map, {{{", ".join(registers)}}}], [%bar], {{{listed}}};
{WAIT}{DUMP}"""
    run(body, given, out, tensor)
    chunks = column(given.reshape(shape), tensor, list(corner), list(offsets)).reshape(-1, 4)
    place = np.arange(len(chunks))
    swizzled = np.zeros_like(chunks)
    swizzled[place ^ ((place // 8) % (1 << swizzle))] = chunks
    np.testing.assert_array_equal(out, swizzled.reshape(-1))


def test_columns_are_stored_without_offsets() -> None:
    shape = 2, 4, 6, 8
    given, out = words(1024), np.zeros(int(np.prod(shape)), np.uint32)
    strides = out.reshape(shape).strides
    tensor = TensorMap(0, 4, 2, shape[::-1], strides[-2::-1], (8, 10), (1,) * 4, 0, 0, 0, True, (0, 0), (-1, -1))
    body = """@%p0 tensormap.replace.tile.global_address.global.b1024.b64 [%map], %out;
mad.wide.u32 %at, %t, 4, %in;
mad.lo.u32 %r0, %t, 4, %tile;
FILL:
ld.global.b32 %r1, [%at];
st.shared.b32 [%r0], %r1;
add.u64 %at, %at, 256;
add.u32 %r0, %r0, 256;
setp.lt.u32 %p2, %r0, 512;
@%p2 bra FILL;
fence.proxy.async.shared::cta;
bar.sync 0;
mov.u32 %r2, 0;
mov.u32 %r3, 3;
mov.u32 %r4, 1;
@%p0 cp.async.bulk.tensor.4d.global.shared::cta.im2col_no_offs.bulk_group [%map, {%r2, %r3, %r2, %r4}], [%tile];
@%p0 cp.async.bulk.commit_group;
@%p0 cp.async.bulk.wait_group 0;"""
    run(body, given, out, tensor)
    expected = np.zeros(shape, np.uint32)
    rows = given[:80].reshape(10, 8)
    places = [(0, 3), (0, 4), *((h, w) for h in (1, 2) for w in range(5))][:10]
    for (h, w), row in zip(places, rows, strict=True):
        expected[1, h, w] = row
    np.testing.assert_array_equal(out.reshape(shape), expected)


@pytest.mark.parametrize(
    ("changes", "corner", "message"),
    [
        ({"im2col": False, "box": (8, 4, 1, 1)}, 0, "the tensor map is tiled, and the copy is not"),
        ({"upper": (-9, 0)}, 0, "has an empty bounding box"),
        ({"box": (8, 2000)}, 0, "has 2000 pixels of 8 channels: 1 to 1024 pixels"),
        ({"box": (6, 4)}, 0, "a multiple of 16 bytes"),
        ({"element_strides": (1, 9, 1, 1)}, 0, "has element strides .*: 1 to 8 each"),
        ({}, 6, "has no pixel .6, 6, 6. in its bounding box"),
    ],
)
def test_misused_columns_are_named(changes: dict, corner: int, message: str) -> None:
    given = words(2 * 4 * 6 * 8)
    strides = given.reshape(2, 4, 6, 8).strides
    layout = (8, 6, 4, 2), strides[-2::-1], (8, 4), (1,) * 4, 0, 0, 0, True
    tensor = replace(TensorMap(0, 4, 2, *layout, (0, 0), (0, 0)), **changes)
    load = LOAD_BOX.replace("2d", "4d").replace(".tile.", ".im2col.")
    body = f""".reg .b16 %h;
@%p0 tensormap.replace.tile.global_address.global.b1024.b64 [%map], %in;
mov.b16 %h, 0;
mov.u32 %r0, {corner};
@%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], 128;
@%p0 {load} [%tile], [%map, {{%r0, %r0, %r0, %r0}}], [%bar], {{%h, %h}};
{WAIT}"""
    with pytest.raises(KernelFault, match=message):
        run(body, given, np.zeros(64, np.uint32), tensor)


MAPS = '''[cuda]
code = """
struct alignas(64) Map { char bytes[128]; };
extern "C" __global__ void k(const __grid_constant__ Map map, float* out)
{
  __shared__ alignas(128) float tile[64];
  __shared__ alignas(8) unsigned long long arrived;
  unsigned bar = __cvta_generic_to_shared(&arrived), to = __cvta_generic_to_shared(tile);
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(bar));
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 256;" :: "r"(bar));
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %3, %2}], [%4], {%5, %6};"
                 :: "r"(to), "l"(&map), "r"(0), "r"(-1), "r"(bar), "h"((short)1), "h"((short)2));
  }
  __syncthreads();
  int there = 0;
  while (!there)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.b32 %0, 1, 0, p; }"
                 : "=r"(there) : "r"(bar));
  out[threadIdx.x] = tile[threadIdx.x];
}"""
grid = [1]
block = [64]
[buffers.out]
dtype = "float32"
shape = [64]
[[cuda.arguments]]
dtype = "float32"
shape = [1, 4, 4, 8]
fill = "arange"
im2col = { pixels = 8, channels = 8, lower = [-1, -1], upper = [-1, -1] }
[[cuda.arguments]]
buffer = "out"
'''


def test_im2col_maps_in_workload_files(tmp_path) -> None:
    """The filter's place (2, 1) of the output's first two rows, with a border of zeros around the image."""
    path = tmp_path / "columns.toml"
    path.write_text(MAPS)
    buffers: dict = {}
    record_launch(load_cuda_launch(path), buffers=buffers)
    image = np.arange(128, dtype=np.float32).reshape(4, 4, 8)
    padded = np.pad(image, ((1, 1), (1, 1), (0, 0)))
    (out,) = buffers.values()
    np.testing.assert_array_equal(out.reshape(2, 4, 8), padded[2:4, 1:5])
    for broken, message in (
        (MAPS.replace("pixels = 8, ", ""), "pixels.*is missing"),
        (MAPS.replace("lower = [-1, -1]", 'lower = "-1"'), "lower.*must list a whole number"),
        (MAPS.replace("channels = 8", "channels = 8, swizzle_bytes = 16"), "swizzle_bytes.*16 is not one of"),
    ):
        path.write_text(broken)
        with pytest.raises(WorkloadError, match=message):
            load_cuda_launch(path)
    path.write_text(MAPS.replace("lower = [-1, -1]", "lower = [-1]"))
    with pytest.raises(KernelFault, match="give images of 3 to 5 dimensions"):
        record_launch(load_cuda_launch(path))
