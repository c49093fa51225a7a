"""Curves that others measured on other GPUs: bandwidth by occupancy, L1 loads by stride, latency by size.

The times are those of gpu-benches; the kernels here are our own and do the same.
They run on the CPU, and the model `warplens` predicts them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import warplens
from warplens.errors import FileError
from warplens.frontends.cuda.compile import architecture_of
from warplens.frontends.ptx.placement import Placement
from warplens.machine import Gpu, load_gpu, occupancy
from warplens.tuning.agreement import Agreement

_DATA = Path(__file__).parent / "data" / "curves"
MEASURED, KEPT = _DATA / "measured.csv", _DATA / "predictions.csv"
#: Of the documentation.
PAGE = "validation/curves"

SOURCE = r"""
#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)
extern "C" __global__ void init(double *a, const double *b, const double *c, const double *d, unsigned n) {
    if (INDEX < n) a[INDEX] = 0.5;
}
extern "C" __global__ void read(double *a, const double *b, const double *c, const double *d, unsigned n) {
    if (INDEX >= n) return;
    double value = b[INDEX];
    if (value == 7.0) a[INDEX] = value;
}
extern "C" __global__ void scale(double *a, const double *b, const double *c, const double *d, unsigned n) {
    if (INDEX < n) a[INDEX] = 0.5 * b[INDEX];
}
extern "C" __global__ void triad(double *a, const double *b, const double *c, const double *d, unsigned n) {
    if (INDEX < n) a[INDEX] = b[INDEX] * c[INDEX] + d[INDEX];
}
extern "C" __global__ void strided(float *out, const float *in, int rounds, int stride, int zero) {
    const float *at = in + threadIdx.x % 64 * stride;
    float sum = 0;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        at += zero;
        for (int i = 0; i < 8; ++i) sum += at[4 * i];
    }
    if (sum == 7.0f) out[threadIdx.x] = sum;
}
extern "C" __global__ void link(unsigned long long *ring, int lines) {  // offsets to addresses
    if (INDEX < lines) ring[16 * INDEX] += (unsigned long long)ring;
}
extern "C" __global__ void chase(unsigned long long *ring, int steps) {
    unsigned long long *at = ring;
    for (int step = 0; step < steps; ++step) at = (unsigned long long *)*at;
    if (at == 0) ring[1] = 0;
}
"""
#: Curve -> (title, what x is, what is measured).
TITLES = {
    "occupancy": ("bandwidth by occupancy", "occupancy, %", "GB/s"),
    "stride": ("L1 loads by stride", "stride, words", "cycles of an SM"),
    "latency": ("latency by size", "KiB", "cycles"),
}
#: Elements of an array, and how many arrays of them a kernel reads or writes.
ELEMENTS = 2**28
STREAMS = {"init": 1, "read": 1, "scale": 2, "triad": 4}
#: Waves of blocks that run, of a launch of thousands.
WAVES = 3
#: Blocks on an SM while bandwidth is measured, and threads of the block that strides.
BLOCKS_PER_SM, STRIDED_THREADS = 2, 1024
LINE_BYTES = 128


@dataclass(frozen=True)
class CurvePoint:
    """A measured point and its prediction: GB/s by % occupancy, cycles by stride in words, or cycles by KiB."""

    curve: str
    gpu: str
    kernel: str
    x: float
    measured: float
    predicted: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_points(path: Path) -> list[CurvePoint]:
    """Points of a file; those that are only measured have no prediction."""
    if not path.is_file():
        raise FileError(f"{path.name}: no predictions are kept yet; predict with --fresh")
    rows: Iterator[dict[str, Any]] = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
    numbers = ("x", "measured", "predicted")
    return [CurvePoint(**{**row, **{key: float(row.get(key) or "nan") for key in numbers}}) for row in rows]


def keep_points(points: Sequence[CurvePoint]) -> Path:
    """Write predictions to the source tree, with four digits."""
    from .report import csv_text

    rows = [{**each.to_dict(), "predicted": float(f"{each.predicted:.4g}")} for each in points]
    try:
        KEPT.write_text(csv_text(rows), encoding="utf-8")
    except OSError as error:
        raise FileError(f"{KEPT}: cannot be written ({error}); --fresh needs a source checkout") from None
    return KEPT


def predict_points(progress: Callable[[], None] = lambda: None) -> list[CurvePoint]:
    """All measured points, predicted."""
    found = []
    for point in read_points(MEASURED):
        predicted = _PREDICT[point.curve](load_gpu(point.gpu), point)
        found.append(CurvePoint(**{**point.to_dict(), "predicted": predicted}))
        progress()
    return found


@cache
def _module(architecture: str) -> Any:
    return warplens.cuda(SOURCE, architecture=architecture)


def _kernel(gpu: Gpu, name: str) -> Any:
    return _module(architecture_of(gpu.compute_capability)).kernel(name)


def _bandwidth(gpu: Gpu, point: CurvePoint) -> float:
    """GB/s of a launch that keeps two blocks on every SM, so large that they fill the given part of its threads."""
    threads = round(point.x / 100 * gpu.max_warps) * gpu.warp_size // BLOCKS_PER_SM
    kernel = _kernel(gpu, point.kernel)
    shared = int(gpu.shared_memory_bytes) // (BLOCKS_PER_SM + 1) + 1024
    resident = occupancy(gpu, threads, kernel.registers_per_thread, shared).blocks_per_sm
    assert resident == BLOCKS_PER_SM, f"{resident} blocks of {threads} threads"
    blocks = WAVES * gpu.sms * BLOCKS_PER_SM
    arrays = [np.zeros(blocks * threads) for _ in range(4)]
    run = kernel.launch(
        ELEMENTS // threads + 1,
        threads,
        *arrays,
        np.uint32(ELEMENTS),
        dynamic_shared_memory_bytes=shared,
        blocks=[range(blocks)],
    )
    seconds = float(warplens.predict(run.trace(), gpu).seconds)
    return STREAMS[point.kernel] * ELEMENTS * 8 / seconds / 1e9


def _strided(gpu: Gpu, point: CurvePoint) -> float:
    """Cycles of an SM for a warp load that hits the L1; two lengths cancel what is outside the loop."""
    stride = int(point.x)
    data = np.zeros(64 * stride + 32, np.float32)
    rounds = 16, 48

    def cycles(count: int) -> float:
        out = np.zeros(STRIDED_THREADS, np.float32)
        given = out, data, np.int32(count), np.int32(stride), np.int32(0)
        return float(warplens.predict(_kernel(gpu, "strided").launch(1, STRIDED_THREADS, *given).trace(), gpu).cycles)

    warps = STRIDED_THREADS // gpu.warp_size
    return (cycles(rounds[1]) - cycles(rounds[0])) / ((rounds[1] - rounds[0]) * 8 * warps)


def _chased(gpu: Gpu, point: CurvePoint) -> float:
    """Cycles of a step through a ring of lines, once it has been walked."""
    lines = int(point.x * 1024) // LINE_BYTES
    order = np.concatenate([[0], 1 + np.random.default_rng(1).permutation(lines - 1)])
    ring = np.zeros((lines, LINE_BYTES // 8), np.uint64)
    ring[order, 0] = np.roll(order, -1) * LINE_BYTES

    placement = Placement()
    _kernel(gpu, "link").launch(lines // 256 + 1, 256, ring, np.int32(lines), record=False, placement=placement)

    def cycles(steps: int) -> float:
        run = _kernel(gpu, "chase").launch(1, 1, ring, np.int32(steps), placement=placement)
        return float(warplens.predict(run.trace(), gpu).cycles)

    return (cycles(2 * lines) - cycles(lines)) / lines


_PREDICT: dict[str, Callable[[Gpu, CurvePoint], float]] = {
    "occupancy": _bandwidth,
    "stride": _strided,
    "latency": _chased,
}


def agreements(points: Sequence[CurvePoint]) -> dict[tuple[str, str, str], Agreement]:
    """By curve, GPU and kernel."""
    groups: dict[tuple[str, str, str], list[CurvePoint]] = {}
    for point in points:
        groups.setdefault((point.curve, point.gpu, point.kernel), []).append(point)
    return {key: agreement_of(group) for key, group in groups.items()}


def by_gpu(points: Sequence[CurvePoint]) -> dict[tuple[str, str], Agreement]:
    """By GPU and title of the curve, all kernels together."""
    groups: dict[tuple[str, str], list[CurvePoint]] = {}
    for point in points:
        groups.setdefault((point.gpu, TITLES[point.curve][0]), []).append(point)
    return {key: agreement_of(group) for key, group in groups.items()}


def agreement_of(points: Sequence[CurvePoint]) -> Agreement:
    return Agreement.of([each.predicted for each in points], [each.measured for each in points])
