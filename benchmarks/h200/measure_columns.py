"""Measures on a GPU what a column of a wide matrix costs: one word or one sector in each row.

    ncu --clock-control none --csv --page raw --print-units base --metrics "$(python3 benchmarks/h200/measure_columns.py metrics)" \
        -k regex:column --log-file columns.ncu.csv python3 benchmarks/h200/measure_columns.py run

and, to make the table of it:

    python3 benchmarks/h200/measure_columns.py table columns.ncu.csv > benchmarks/h200/columns.csv

Each thread has rows of its own, `stride` bytes apart. `read` loads a word of each; `write` stores `bytes` of each;
`both` loads a word of one matrix and stores to another; `update` adds to the word of one matrix; `lines` are kinds
where each warp has rows, and takes 128 bytes of each. ncu empties the caches before each launch.
"""  # noqa: E501

from __future__ import annotations

import csv
import ctypes
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))

METRICS = {
    "cycles": "sm__cycles_elapsed.max",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "l2_sectors_read": "lts__t_sectors_op_read.sum",
    "l2_sectors_written": "lts__t_sectors_op_write.sum",
    "l2_requests": "lts__t_requests.sum",
}
KINDS = {"read": (1, 0), "write": (0, 4), "write a sector": (0, 32), "both": (1, 4), "both, a sector": (1, 32)}
STRIDES, ROWS = (32, 64, 128, 256, 1024), (400_000, 1_500_000)
#: Kinds with a whole line in each row.
LINES = {"read lines": (1, 0), "write lines": (0, 1), "copy lines": (1, 1)}
LINE_STRIDES, LINE_ROWS = (128, 256, 512, 1024, 2048, 4096, 8192), (1_000_000,)
SOURCE = r"""
template <int READ, int BYTES>
__global__ void __launch_bounds__(256) column(const char *from, char *to, int rows, int stride) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    unsigned value = row;
    if (READ) value = *(const volatile unsigned *)(from + (size_t)row * stride) + 1;
    char *at = to + (size_t)row * stride;
    if (BYTES == 4) *(unsigned *)at = value;
    if (BYTES == 32) {
        ((uint4 *)at)[0] = make_uint4(value, value, value, value);
        ((uint4 *)at)[1] = make_uint4(value, value, value, value);
    }
    if (!BYTES && value == 12345) *at = 1;
}
template <int READ, int WRITE>
__global__ void __launch_bounds__(256) line_column(const char *from, char *to, int rows, int stride) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    unsigned value = row;
    if (READ) value = *(const volatile unsigned *)(from + (size_t)row * stride + 4 * lane) + 1;
    if (WRITE || value == 12345) *(unsigned *)(to + (size_t)row * stride + 4 * lane) = value;
}
"""


def _launches() -> list[tuple[str, int, int]]:
    found = [(kind, stride, rows) for kind in KINDS for stride in STRIDES for rows in ROWS]
    found += [("update", stride, rows) for stride in STRIDES for rows in ROWS]
    return found + [(kind, stride, rows) for kind in LINES for stride in LINE_STRIDES for rows in LINE_ROWS]


def run() -> None:
    from warplens.characterize.device import Device, kernel_source

    device = Device()
    names = {kind: f"column<{read}, {size}>" for kind, (read, size) in KINDS.items()}
    names |= {kind: f"line_column<{read}, {write}>" for kind, (read, write) in LINES.items()}
    kernels = device.load(kernel_source("memory") + SOURCE, list(names.values()))
    size = max(max(STRIDES) * max(ROWS), max(LINE_STRIDES) * max(LINE_ROWS))
    first, second = (ctypes.c_void_p(device.allocate(size)) for _ in range(2))
    for kind, stride, rows in _launches():
        source = second if kind == "update" else first
        kernel = kernels[names["both" if kind == "update" else kind]]
        threads = 32 * rows if kind in LINES else rows
        device.launch(kernel, -(-threads // 256), 256, [source, second, rows, stride])
        device.synchronize()


def table(report: str) -> None:
    lines = [line for line in Path(report).read_text().splitlines() if line.startswith('"')]
    rows = list(csv.DictReader(lines))[1:]  # the first one holds units
    print(",".join(["kind", "stride", "rows", *METRICS]))
    for (kind, stride, count), row in zip(_launches(), rows, strict=True):
        values = [row[metric].replace(",", "").split(".")[0] for metric in METRICS.values()]
        print(",".join([f'"{kind}"' if "," in kind else kind, str(stride), str(count), *values]))


def main() -> None:
    if sys.argv[1] == "metrics":
        print(",".join(METRICS.values()))
    elif sys.argv[1] == "run":
        run()
    else:
        table(sys.argv[2])


if __name__ == "__main__":
    main()
