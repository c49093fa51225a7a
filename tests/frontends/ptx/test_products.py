"""Matrix products of a warp: every shape and type against the slow interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from reference.ptx import Launch
from reference.ptx.floats import F16, F32, F64
from warplens.errors import PtxError
from warplens.frontends.ptx import execute, parse_ptx

from .comparing import both
from .products import Form, forms, fragments, kernel

IN_A_KERNEL = 10
GROUPS = [forms()[start : start + IN_A_KERNEL] for start in range(0, len(forms()), IN_A_KERNEL)]
ONE = (1, 1, 1), (32, 1, 1)


def _sums(form: Form, words: np.ndarray) -> list[int]:
    kind = {"f16": np.uint16, "f64": np.uint64}.get(form.product.result_type, np.uint32)
    return words.view(kind).tolist()


@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_every_form(number: int) -> None:
    group = GROUPS[number]
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


@pytest.mark.parametrize(
    "name",
    [
        "mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e2m1.f32",
        "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32",
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
