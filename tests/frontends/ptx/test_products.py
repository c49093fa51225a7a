"""Matrix products of a warp: every shape and type against the slow interpreter."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest

from reference.ptx import Launch
from reference.ptx.floats import F16, F32, F64
from warplens.errors import PtxError
from warplens.frontends.ptx import execute, parse_ptx
from warplens.frontends.ptx.opcodes import instruction_class
from warplens.frontends.ptx.program import Instruction

from .comparing import assert_same_records, both
from .products import Form, forms, fragments, kernel, sparse_forms

DATA = Path(__file__).parent / "data"
IN_A_KERNEL = 10
GROUPS = [forms()[start : start + IN_A_KERNEL] for start in range(0, len(forms()), IN_A_KERNEL)]
SPARSE_GROUPS = [sparse_forms()[start : start + IN_A_KERNEL] for start in range(0, len(sparse_forms()), IN_A_KERNEL)]
ONE = (1, 1, 1), (32, 1, 1)


def _sums(form: Form, words: np.ndarray) -> list[int]:
    kind = {"f16": np.uint16, "f64": np.uint64}.get(form.product.result_type, np.uint32)
    return words.view(kind).tolist()


@pytest.mark.parametrize("number", range(len(GROUPS) + len(SPARSE_GROUPS)))
def test_every_form(number: int) -> None:
    group = (*GROUPS, *SPARSE_GROUPS)[number]
    random = np.random.default_rng(number)
    given = np.concatenate([fragments(form, random, exact=False) for form in group])
    given[::7] &= random.integers(0, 1 << 32, len(given[::7]), dtype=np.uint32)  # rare values too
    mine, theirs = (np.zeros(sum(form.output_words for form in group), np.uint32) for _ in range(2))
    module = parse_ptx(kernel(group))
    execute(module, "products", *ONE, [given, mine], record=False)
    Launch(module, "products", *ONE, [given, theirs]).run()
    start = 0
    for form in group:
        part = slice(start, start + form.output_words)
        start += form.output_words
        formats = {"f16": F16, "f32": F32, "f64": F64}
        form_of = formats.get(form.product.result_type)
        for place, (one, two) in enumerate(zip(_sums(form, mine[part]), _sums(form, theirs[part]), strict=True)):
            same = one == two if form_of is None else both(one, two, form_of)
            assert same, f"{form.name}: sum {place} is {one:#x}, reference {two:#x}"


@pytest.mark.parametrize("number", range(len(GROUPS) + len(SPARSE_GROUPS)))
def test_exact_sums_agree_with_hardware(number: int) -> None:
    """Checksums of an H200's sums of small whole numbers, which do not depend on the order of additions."""
    measured = json.loads((DATA / "h200_products.json").read_text())
    group = (*GROUPS, *SPARSE_GROUPS)[number]
    of_all = sparse_forms() if group[0].product.sparse else forms()
    pairs = ((form, of_all.index(form)) for form in group)
    given = np.concatenate([fragments(form, np.random.default_rng(seed), exact=True) for form, seed in pairs])
    out = np.zeros(sum(form.output_words for form in group), np.uint32)
    execute(parse_ptx(kernel(group)), "products", *ONE, [given, out], record=False)
    start = 0
    for form in group:
        found = out[start : start + form.output_words].astype("<u4").tobytes()
        assert measured[str(form)] == zlib.crc32(found), form
        start += form.output_words


@pytest.mark.parametrize(
    "name",
    [
        "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32",
        "mma.sp.sync.aligned.m16n8k64.row.col.f32.f16.f16.f32",
        "mma.sp.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc",
        "mma.sync.aligned.m16n8k16.col.col.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.col.s32.f16.f16.s32",
    ],
)
def test_other_forms_are_refused_by_name(name: str) -> None:
    body = f"{name} {{%r0,%r0,%r0,%r0}}, {{%r0,%r0,%r0,%r0}}, {{%r0,%r0}}, {{%r0,%r0,%r0,%r0}};"
    text = (
        ".version 8.6\n.target sm_90\n.address_size 64\n.visible .entry k() { .reg .b32 %r<2>;\n" + body + "\nret; }"
    )
    with pytest.raises(PtxError, match=f"line 5: {name}: this form of the instruction is not supported"):
        execute(parse_ptx(text), "k", *ONE, [])


def test_a_sparse_product_is_that_of_the_matrix_with_zeros() -> None:
    """m16n8k32 of fp16: metadata as the manual's example has them, lane by lane."""
    random = np.random.default_rng(3)
    chunks = random.permuted(np.tile([1, 1, 0, 0], (16 * 8, 1)), axis=1).astype(bool)
    a = np.where(chunks, random.integers(1, 9, (128, 4)), 0).reshape(16, 32)
    b = random.integers(-4, 5, (32, 8))
    kept = np.nonzero(chunks)[1].reshape(16, 16)
    packed = a[a != 0].reshape(16, 16).astype(np.float16)
    words = np.zeros((11, 32), dtype=np.uint32)
    metadata = np.zeros(32, dtype=np.uint32)
    for lane in range(32):
        row, place = lane // 4, 2 * (lane % 4)
        for register, (down, along) in enumerate(((0, 0), (8, 0), (0, 8), (8, 8))):
            words[register, lane] = packed[row + down, place + along : place + along + 2].view(np.uint32)[0]
        for register in range(4):
            pair = b[8 * register + place : 8 * register + place + 2, row].astype(np.float16)
            words[4 + register, lane] = pair.view(np.uint32)[0]
        if lane % 4 < 2:  # the selector 0: lanes 0 and 1 of four have the depths 0 to 15 and 16 to 31
            for down in (0, 1):
                for element, index in enumerate(kept[row + 8 * down, 8 * (lane % 4) : 8 * (lane % 4) + 8]):
                    metadata[lane] |= np.uint32(index << (16 * down + 2 * element))
    words[10] = metadata
    form = next(each for each in sparse_forms() if each.product.depth == 32 and each.product.sum_type == "f16")
    out = np.zeros(form.output_words, np.uint32)
    execute(parse_ptx(kernel([form])), "products", *ONE, [words.reshape(-1), out], record=False)
    found = out.view(np.float16).reshape(2, 8, 8)
    np.testing.assert_array_equal(found.reshape(16, 8), a @ b)


def test_a_sparse_product_costs_half_of_a_dense_one() -> None:
    def named(name: str) -> str:
        return instruction_class(Instruction("mma", tuple(name.split(".")), (), None, 1))

    dense, small = (named(f"sync.aligned.m16n8k{k}.row.col.f32.f16.f16.f32") for k in (16, 8))
    assert dense != small
    assert named("sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32") == dense
    assert named("sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") == small


@pytest.mark.parametrize(
    ("name", "most"),
    [("k32.row.col.f32.f16.f16.f32", 1), ("k64.row.col.s32.s8.s8.s32", 0), ("k16.row.col.f32.f16.f16.f32", 3)],
)
def test_a_selector_out_of_range_is_refused(name: str, most: int) -> None:
    form = next(
        each for each in sparse_forms() if f"m16n8{name.split('.')[0]}." in each.name and each.product.a in name
    )
    text = kernel([form]).replace(f"%e0, {form.selector};", f"%e0, {most + 1};")
    with pytest.raises(PtxError, match=f"needs a number from 0 to {most} as sparsity selector"):
        execute(parse_ptx(text), "products", *ONE, [np.zeros(form.input_words, np.uint32), np.zeros(256, np.uint32)])


#: (Types, layouts of A and B, swizzle, columns, A in registers, other operands).
WARPGROUPS = [
    ("k16.f32.f16.f16", (0, 0), 1, 24, False, "%p0, 1, 1, 0, 0"),
    ("k16.f32.f16.f16", (0, 1), 1, 72, False, "1, 1, -1, 0, 1"),
    ("k16.f16.f16.f16", (1, 0), 2, 16, False, "0, 1, 1, 1, 0"),
    ("k16.f32.bf16.bf16", (1, 1), 3, 32, False, "1, -1, -1, 1, 1"),
    ("k16.f32.bf16.bf16", (1, 1), 0, 16, False, "1, 1, 1, 1, 1"),
    ("k16.f32.f16.f16", (0, 1), 1, 16, True, "1, -1, 1, 1"),
    ("k8.f32.tf32.tf32", (0, 0), 2, 16, False, "%p0, 1, 1"),
    ("k32.f32.e4m3.e5m2", (0, 0), 3, 8, True, "1, 1, 1"),
    ("k32.f16.e5m2.e5m2", (0, 0), 0, 16, False, "1, 1, 1"),
    ("k32.s32.s8.u8", (0, 0), 1, 16, False, "1"),
    ("k32.satfinite.s32.u8.u8", (0, 0), 0, 8, True, "0"),
    ("k256.s32.b1.b1.and.popc", (0, 0), 1, 16, False, "1"),
    ("sp.k32.f32.f16.f16", (0, 0), 1, 24, False, "%a1, 1, %p0, 1, 1, 0, 0"),
    ("sp.k32.f16.f16.f16", (1, 1), 1, 64, False, "%a1, 0, 1, 1, 1, 1, 1"),
    ("sp.k32.f32.bf16.bf16", (0, 1), 2, 32, True, "%a1, 0, 1, -1, 1, 1"),
    ("sp.k16.f32.tf32.tf32", (0, 0), 3, 16, False, "%a1, 1, 0, 1, 1"),
    ("sp.k64.f32.e4m3.e5m2", (0, 0), 0, 8, True, "%a1, 0, 1, 1, 1"),
    ("sp.k64.satfinite.s32.s8.u8", (0, 0), 1, 16, False, "%a1, 0, 1"),
]


def _warpgroup_kernel(case: tuple) -> str:
    kinds, _, swizzle, columns, in_registers, rest = case
    sparse = ".sp" if kinds.startswith("sp.") else ""
    kinds = kinds.removeprefix("sp.")
    count = columns // (4 if ".f16." in kinds[:8] else 2)
    sums = [f"%c{each}" for each in range(count)]
    lines = [f"ld.global.b32 {each}, [%own+{number * 512}];" for number, each in enumerate(sums)]
    lines.append("wgmma.fence.sync.aligned;")
    a = "{%a0, %a1, %a2, %a3}" if in_registers else "%da"
    shape, _, types = kinds.partition(".")
    lines.append(
        f"wgmma.mma_async{sparse}.sync.aligned.m64n{columns}{shape}.{types} {{{', '.join(sums)}}}, {a}, %db, {rest};"
    )
    lines += ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    lines += [f"st.global.b32 [%own+{number * 512}], {each};" for number, each in enumerate(sums)]
    if sparse and "tf32" in kinds:  # its metadata have two values only
        lines = ["and.b32 %a1, %a1, 0x11111111;", "mad.lo.u32 %a1, %a1, 10, 0x44444444;", *lines]
    # A in the first 8 KB, B in the second; core matrices of 1024 bytes each way, in any swizzle.
    descriptors = [swizzle << 62 | 64 << 32 | 8 << 16 | start >> 4 for start in (0, 16384)]
    body = "\n".join(lines)
    return f""".version 8.6
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
.reg .b64 %in, %own, %da, %db;
.reg .b32 %c<128>, %a<4>, %t, %at, %tile, %end;
.reg .pred %p<2>;
.shared .align 1024 .b8 tile[32768];
ld.param.u64 %in, [in];
ld.param.u64 %own, [out];
mov.u32 %t, %tid.x;
mad.wide.u32 %own, %t, 4, %own;
mov.u32 %tile, tile;
mad.lo.u32 %at, %t, 4, %tile;
add.u32 %end, %tile, 32768;
mad.wide.u32 %in, %t, 4, %in;
LOOP:
ld.global.b32 %a0, [%in];
st.shared.b32 [%at], %a0;
add.u64 %in, %in, 512;
add.u32 %at, %at, 512;
setp.lt.u32 %p0, %at, %end;
@%p0 bra LOOP;
ld.shared.b32 %a1, [%at+-512];
mov.b32 %a2, %a0;
ld.shared.b32 %a3, [%at+-1024];
setp.ge.u32 %p0, %t, 0;
shr.u32 %tile, %tile, 4;
cvt.u64.u32 %da, %tile;
add.u64 %db, %da, {descriptors[1]};
add.u64 %da, %da, {descriptors[0]};
fence.proxy.async.shared::cta;
bar.sync 0;
{body}
ret;
}}
"""


@pytest.mark.parametrize("case", WARPGROUPS, ids=lambda case: f"{case[0]}-{case[2]}-{case[1][0]}{case[1][1]}")
def test_products_of_a_warpgroup(case: tuple) -> None:
    random = np.random.default_rng(len(case[0]))
    halves = random.standard_normal(16384).astype(np.float16).view(np.uint32)
    mine, theirs = (random.integers(0, 1, 128 * case[3] // 2, dtype=np.uint32) for _ in range(2))
    text = _warpgroup_kernel(case)
    module = parse_ptx(text)
    shape = (1, 1, 1), (128, 1, 1)
    execution = execute(module, "k", *shape, [halves, mine])
    run = Launch(module, "k", *shape, [halves, theirs]).run()
    assert_same_records(execution, run, text)
    kind = next(each for each in case[0].split(".") if each in ("f16", "f32", "s32"))
    form = {"f16": F16, "f32": F32}.get(kind)
    words = [each.view(np.uint16 if kind == "f16" else np.uint32).tolist() for each in (mine, theirs)]
    wrong = [
        place
        for place, (one, two) in enumerate(zip(*words, strict=True))
        if not (both(one, two, form) if form else one == two)
    ]
    assert not wrong and any(words[0])
