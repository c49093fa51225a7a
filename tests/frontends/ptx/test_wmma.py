"""wmma: fragments between memory and registers in every shape, type and layout, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from warplens.errors import PtxError
from warplens.frontends.ptx import execute, parse_ptx
from warplens.frontends.ptx.products import ELEMENT_BITS
from warplens.machine.classes import warp_product_class
from warplens.traces import CLASS_IDS

_DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s8": np.int8, "u8": np.uint8, "s32": np.int32}
_DTYPES["tf32"] = np.float32
#: Shape, type of A and B, types of C and D, layouts of A, B, C and D.
CASES = [
    ("m16n16k16", "f16", "f32", "f32", "row", "col", "row", "row"),
    ("m16n16k16", "f16", "f16", "f16", "col", "row", "col", "row"),
    ("m32n8k16", "f16", "f32", "f16", "row", "row", "row", "col"),
    ("m8n32k16", "f16", "f32", "f32", "col", "col", "col", "col"),
    ("m16n16k16", "s8", "s32", "s32", "row", "col", "row", "row"),
    ("m8n32k16", "u8", "s32", "s32", "col", "row", "row", "row"),
    ("m32n8k16", "bf16", "f32", "f32", "row", "col", "row", "row"),
    ("m16n16k8", "tf32", "f32", "f32", "row", "row", "row", "row"),
    ("m8n8k4", "f64", "f64", "f64", "row", "col", "row", "col"),
]


def kernel(case: tuple[str, ...]) -> str:
    shape, kind, start, total, *layouts = case
    m, n, k = (int(each) for each in shape[1:].replace("n", " ").replace("k", " ").split())
    bits = {"f16": 16, "bf16": 16, "s8": 8, "u8": 8, "tf32": 32, "f64": 64}[kind]

    def registers(count: int, letter: str) -> str:
        return "{" + ", ".join(f"%{letter}{each}" for each in range(count)) + "}"

    width = 64 if kind == "f64" else 32
    a = registers(8 if kind == "f16" else m * k * bits // 32 // width, "a")
    b = registers(8 if kind == "f16" else k * n * bits // 32 // width, "b")
    c, d = (
        registers(m * n // 32 // (2 if each == "f16" else 1), letter) for each, letter in ((start, "c"), (total, "d"))
    )
    types = f"{total}.{start}" if kind == "f16" else f"{total}.{kind}.{kind}.{start}"
    rounding = "rn." if kind == "f64" else ""
    return f""".version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)
{{
.reg .b64 %pa, %pb, %pc, %pd;
.reg .b32 %step;
.reg .b{width} %a<8>, %b<8>, %c<8>, %d<8>;
ld.param.u64 %pa, [a];
ld.param.u64 %pb, [b];
ld.param.u64 %pc, [c];
ld.param.u64 %pd, [d];
mov.u32 %step, 40;
wmma.load.a.sync.aligned.{layouts[0]}.{shape}.global.{kind} {a}, [%pa], %step;
wmma.load.b.sync.aligned.{layouts[1]}.{shape}.{kind} {b}, [%pb], %step;
wmma.load.c.sync.aligned.{layouts[2]}.{shape}.global.{start} {c}, [%pc], %step;
wmma.mma.sync.aligned.{layouts[0]}.{layouts[1]}.{shape}.{rounding}{types} {d}, {a}, {b}, {c};
wmma.store.d.sync.aligned.{layouts[3]}.{shape}.global.{total} [%pd], {d}, %step;
ret;
}}
"""


def _matrix(
    rows: int, columns: int, kind: str, layout: str, random: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Small whole numbers, and the memory that holds them: lines of 40 elements."""
    values = random.integers(0, 8, (rows, columns)).astype(np.float64)
    lines = values if layout == "row" else values.T
    memory = np.zeros((len(lines), 40))
    memory[:, : lines.shape[1]] = lines
    if kind == "bf16":
        return values, (memory.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return values, memory.astype(_DTYPES[kind])


def operands(case: tuple[str, ...]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Values and memory of A, B, C and, all zeros, D."""
    shape, kind, start, total, *layouts = case
    m, n, k = (int(each) for each in shape[1:].replace("n", " ").replace("k", " ").split())
    random = np.random.default_rng(m)
    shapes = ((m, k, kind), (k, n, kind), (m, n, start))
    found = [_matrix(*each, layout, random) for each, layout in zip(shapes, layouts, strict=False)]
    return [*found, (np.zeros((m, n)), np.zeros((m if layouts[3] == "row" else n, 40), _DTYPES[total]))]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(case))
def test_products(case: tuple[str, ...]) -> None:
    shape, kind, _, total, *layouts = case
    m, n, k = (int(each) for each in shape[1:].replace("n", " ").replace("k", " ").split())
    (a, a_memory), (b, b_memory), (c, c_memory), (_, out) = operands(case)
    execution = execute(parse_ptx(kernel(case)), "k", 1, 32, [a_memory, b_memory, c_memory, out])
    found = out[:, : n if layouts[3] == "row" else m].astype(np.float64)
    np.testing.assert_array_equal(found if layouts[3] == "row" else found.T, a @ b + c)
    assert not out[:, n if layouts[3] == "row" else m :].any()
    classes = execution.trace.static.class_id
    part = warp_product_class(min(m, 16), 8, k, ELEMENT_BITS[kind], total)
    assert (classes == CLASS_IDS[part]).sum() == max(m // 16, 1) * n // 8
    # The accesses share the matrix: together they touch exactly its bytes.
    bytes_of_lanes = execution.trace.static.access_bytes[classes == CLASS_IDS["load_global"]].astype(int) * 32
    sizes = [m * k * a_memory.itemsize, k * n * b_memory.itemsize, m * n * c_memory.itemsize]
    assert bytes_of_lanes.tolist() == sizes


def test_other_forms_are_refused() -> None:
    text = kernel(CASES[0]).replace(
        "wmma.mma.sync.aligned.row.col.m16n16k16", "wmma.mma.sync.aligned.row.col.m16n16k32"
    )
    with pytest.raises(PtxError, match=r"line 17: wmma.mma.*: this form of the instruction is not supported"):
        execute(parse_ptx(text), "k", 1, 32, [np.zeros(640, np.float16)] * 4)
