"""Every form of `mma.sync` in kernels that load fragments register by register, multiply, and store the sums."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from warplens.frontends.ptx.products import ELEMENT_BITS, Product, product_of
from warplens.frontends.ptx.program import Instruction

_FLOATS = {"f16": 10, "bf16": 7, "tf32": 23, "e4m3": 3, "e5m2": 2, "f64": 52, "f32": 23}


@dataclass(frozen=True)
class Form:
    """One instruction, and where its registers stand in the kernel's arrays (in words of 4 bytes)."""

    name: str
    product: Product
    selector: int = 0

    def __str__(self) -> str:
        return f"{self.name} {self.selector}" if self.product.sparse else self.name

    def words(self, registers: int) -> int:
        return registers * self.product.register_bits

    @property
    def input_words(self) -> int:
        product = self.product
        counts = (product.a_registers, product.b_registers, product.sum_registers(product.sum_type))
        return sum(self.words(each) for each in counts) + 32 * product.sparse

    @property
    def output_words(self) -> int:
        return self.words(self.product.sum_registers(self.product.result_type))


def _form(name: str, selector: int = 0) -> Form:
    product = product_of(Instruction("mma", tuple(name.split(".")[1:]), (), None, 1))
    assert product is not None, name
    return Form(name, product, selector)


def forms() -> list[Form]:
    """All shapes and types."""
    head = "mma.sync.aligned"
    names = []
    for depth in (8, 16):
        names += [f"{head}.m16n8k{depth}.row.col.{total}.f16.f16.{total}" for total in ("f32", "f16")]
        names.append(f"{head}.m16n8k{depth}.row.col.f32.bf16.bf16.f32")
    names += [f"{head}.m16n8k{depth}.row.col.f32.tf32.tf32.f32" for depth in (4, 8)]
    names += [f"{head}.m16n8k{depth}.row.col.f64.f64.f64.f64" for depth in (4, 8, 16)]
    names.append(f"{head}.m8n8k4.row.col.f64.f64.f64.f64")
    names += [f"{head}.m16n8k32.row.col.f32.{a}.{b}.f32" for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
    names.append(f"{head}.m16n8k32.row.col.f16.e4m3.e5m2.f16")
    for shapes, bits in ((("m8n8k16", "m16n8k16", "m16n8k32"), 8), (("m8n8k32", "m16n8k32", "m16n8k64"), 4)):
        for shape in shapes:
            names += [f"{head}.{shape}.row.col.s32.{a}{bits}.{b}{bits}.s32" for a, b in ("su", "us", "uu")]
            names.append(f"{head}.{shape}.row.col.satfinite.s32.s{bits}.s{bits}.s32")
    for shape in ("m8n8k128", "m16n8k128", "m16n8k256"):
        names += [f"{head}.{shape}.row.col.s32.b1.b1.s32.{each}.popc" for each in ("and", "xor")]
    return [_form(name) for name in names]


def sparse_forms() -> list[Form]:
    """All shapes and types of `mma.sp`, with every selector of some."""
    head, ordered = "mma.sp.sync.aligned", "mma.sp::ordered_metadata.sync.aligned"
    found = [_form(f"{ordered}.m16n8k16.row.col.f32.f16.f16.f32", selector) for selector in range(4)]
    found += [_form(f"{head}.m16n8k32.row.col.f16.f16.f16.f16", selector) for selector in range(2)]
    found += [_form(f"{head}.m16n8k8.row.col.f32.tf32.tf32.f32", selector) for selector in (0, 3)]
    names = [f"{head}.m16n8k{depth}.row.col.f32.bf16.bf16.f32" for depth in (16, 32)]
    names.append(f"{head}.m16n8k16.row.col.f16.f16.f16.f16")
    names.append(f"{ordered}.m16n8k32.row.col.f32.f16.f16.f32")
    names += [f"{head}.m16n8k64.row.col.f32.{a}.{b}.f32" for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")]
    for depth, bits in ((32, 8), (64, 8), (64, 4), (128, 4)):
        names += [f"{head}.m16n8k{depth}.row.col.s32.{a}{bits}.{b}{bits}.s32" for a, b in ("su", "us", "uu")]
        names.append(f"{ordered}.m16n8k{depth}.row.col.satfinite.s32.s{bits}.s{bits}.s32")
    found += [_form(name) for name in names]
    found += [_form(f"{head}.m16n8k16.row.col.f32.tf32.tf32.f32", selector) for selector in range(2)]
    found.append(_form(f"{head}.m16n8k32.row.col.s32.s8.s8.s32", 1))
    found.append(_form(f"{head}.m16n8k64.row.col.s32.u4.s4.s32", 1))
    return found


def kernel(chosen: list[Form], target: str = "sm_90") -> str:
    """A kernel for one warp: `in` and `out` hold registers, the lanes of one after the other."""
    lines = [
        ".reg .b64 %in, %out, %own;",
        ".reg .b32 %lane;",
        "ld.param.u64 %in, [in];",
        "ld.param.u64 %out, [out];",
        "mov.u32 %lane, %tid.x;",
    ]
    read = written = 0
    for number, form in enumerate(chosen):
        product = form.product
        bits = product.register_bits
        lines.append(f"mad.wide.u32 %own, %lane, {bits // 8}, %in;")
        groups = []
        for letter, count in (
            ("a", product.a_registers),
            ("b", product.b_registers),
            ("c", product.sum_registers(product.sum_type)),
        ):
            lines.append(f".reg .{_kind(product, letter)} %{letter}{number}_<{count}>;")
            groups.append([f"%{letter}{number}_{each}" for each in range(count)])
            for name in groups[-1]:
                lines.append(f"ld.global.b{bits} {name}, [%own+{4 * read}];")
                read += bits
        count = product.sum_registers(product.result_type)
        lines.append(f".reg .{_kind(product, 'd')} %d{number}_<{count}>;")
        results = [f"%d{number}_{each}" for each in range(count)]
        listed = ", ".join(f"{{{', '.join(each)}}}" for each in (results, *groups))
        if product.sparse:
            lines.append(f".reg .b32 %e{number};")
            lines.append(f"ld.global.b32 %e{number}, [%own+{4 * read}];")
            read += 32
            listed += f", %e{number}, {form.selector}"
        lines.append(f"{form.name} {listed};")
        lines.append(f"mad.wide.u32 %own, %lane, {bits // 8}, %out;")
        for name in results:
            lines.append(f"st.global.b{bits} [%own+{4 * written}], {name};")
            written += bits
    body = "\n".join(f"    {line}" for line in lines)
    head = f".version 8.7\n.target {target}\n.address_size 64\n"
    return f"{head}.visible .entry products(.param .u64 in, .param .u64 out)\n{{\n{body}\n    ret;\n}}\n"


def _kind(product: Product, letter: str) -> str:
    """The type of a register: ptxas wants .f32 for sums in single precision, and bits for what is packed."""
    if product.a == "f64":
        return "f64"
    total = product.sum_type if letter == "c" else product.result_type
    return "f32" if letter in "cd" and total == "f32" else "b32"


def fragments(form: Form, random: np.random.Generator, *, exact: bool) -> np.ndarray:
    """Words of A, B and C. Sums of `exact` ones do not depend on the order: small whole numbers."""
    product = form.product
    pieces = []
    for kind, count in (
        (product.a, product.a_registers),
        (product.b, product.b_registers),
        (product.sum_type, product.sum_registers(product.sum_type)),
    ):
        values = form.words(count) * 32 // {"f32": 32, "s32": 32, **ELEMENT_BITS}[kind]
        pieces.append(_encoded(kind, values, random, exact).view(np.uint32))
    if product.sparse:  # pairs of indices in rising order; of tf32, the two halves of an element
        pairs = (0x4, 0xE) if product.a == "tf32" else (0x4, 0x8, 0x9, 0xC, 0xD, 0xE)
        chosen = random.choice(np.array(pairs, dtype=np.uint32), (32, 8))
        pieces.append(np.bitwise_or.reduce(chosen << np.arange(0, 32, 4, dtype=np.uint32), axis=1))
    return np.concatenate(pieces)


def _encoded(kind: str, count: int, random: np.random.Generator, exact: bool) -> np.ndarray:
    if kind not in _FLOATS:
        return random.integers(0, 256, count * {"s32": 32, **ELEMENT_BITS}[kind] // 8, dtype=np.uint8)
    whole = random.integers(-4, 5, count).astype(np.float64)
    numbers = whole if exact else random.standard_normal(count)
    if kind == "f64":
        return numbers
    if kind == "f16":
        return numbers.astype(np.float16)
    single = numbers.astype(np.float32).view(np.uint32)
    if kind in ("f32", "tf32"):
        return single
    if kind == "bf16":
        return (single >> 16).astype(np.uint16)
    half = numbers.astype(np.float16).view(np.uint16)
    if kind == "e5m2":
        return (half >> 8).astype(np.uint8)
    # e4m3 of a half: the exponent's bias is 7 instead of 15.
    small = (np.abs(numbers) / 256).astype(np.float16).view(np.uint16) >> 7
    return (small | (half >> 8 & 0x80)).astype(np.uint8)
