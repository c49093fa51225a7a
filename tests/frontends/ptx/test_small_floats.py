"""8-bit floats and tf32: every code, and numbers between them, against the nearest by search."""

from __future__ import annotations

import numpy as np
import pytest

from reference.ptx.floats import E4M3, E5M2, decode, to_float
from warplens.frontends.ptx import execute, parse_ptx

FORMS = {"e4m3": E4M3, "e5m2": E5M2}
KERNEL = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
.reg .b64 %in, %out;
.reg .b32 %t, %r;
.reg .b16 %h;
.reg .f32 %f<2>;
ld.param.u64 %in, [in];
ld.param.u64 %out, [out];
mov.u32 %t, %ctaid.x;
mad.lo.u32 %t, %t, 256, 0;
mov.u32 %r, %tid.x;
add.u32 %t, %t, %r;
{body}
ret;
}}
"""


def run(body: str, given: np.ndarray, out: np.ndarray) -> None:
    execute(parse_ptx(KERNEL.format(body=body)), "k", len(out) // 256, 256, [given, out], record=False)


@pytest.mark.parametrize("kind", FORMS)
def test_codes_as_halves(kind: str) -> None:
    codes = np.arange(512, dtype=np.uint16) % 256
    pairs = (codes | np.roll(codes, 1) << 8).astype(np.uint16)
    out = np.zeros(512, np.uint32)
    body = f"""mad.wide.u32 %in, %t, 2, %in;
mad.wide.u32 %out, %t, 4, %out;
ld.global.b16 %h, [%in];
cvt.rn.f16x2.{kind}x2 %r, %h;
st.global.b32 [%out], %r;"""
    run(body, pairs, out)
    values = np.array([to_float(decode(code, FORMS[kind])) for code in range(256)])
    halves = out.view(np.float16).reshape(-1, 2).astype(np.float64)
    np.testing.assert_array_equal(halves[:, 0], values[codes])
    np.testing.assert_array_equal(halves[:, 1], values[np.roll(codes, 1)])


@pytest.mark.parametrize("kind", FORMS)
def test_singles_to_the_nearest_code(kind: str) -> None:
    values = np.array([to_float(decode(code, FORMS[kind])) for code in range(128)])
    finite = values[np.isfinite(values)]
    between = (finite[1:] + finite[:-1]) / 2
    numbers = np.concatenate([finite, between, between * (1 + 1e-6), between * (1 - 1e-6), [1e30, np.inf, np.nan]])
    given = np.resize(np.concatenate([numbers, -numbers]), 1024).astype(np.float32)
    out = np.zeros(1024, np.uint16)
    body = f"""mad.wide.u32 %in, %t, 4, %in;
mad.wide.u32 %out, %t, 2, %out;
ld.global.f32 %f0, [%in];
neg.f32 %f1, %f0;
cvt.rn.satfinite.{kind}x2.f32 %h, %f0, %f1;
st.global.b16 [%out], %h;"""
    run(body, given, out)
    for number, pair in zip(given.tolist(), out.tolist(), strict=True):
        for value, code in ((number, pair >> 8), (-number, pair & 0xFF)):
            assert code == _nearest(value, finite), (value, hex(code))


#: (Bits, fraction bits, bias) of formats without NaN.
NARROW = {"e3m2": (6, 2, 3), "e2m3": (6, 3, 1), "e2m1": (4, 1, 1)}


def _value(code: int, kind: str) -> float:
    """Sign, exponent and fraction by the definition of IEEE's formats."""
    bits, fraction, bias = NARROW[kind]
    exponent = (code & (1 << (bits - 1)) - 1) >> fraction
    part = (code & (1 << fraction) - 1) / (1 << fraction)
    size = (1 + part) * 2.0 ** (exponent - bias) if exponent else part * 2.0 ** (1 - bias)
    return -size if code >> (bits - 1) else size


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("half", ["f16", "bf16"])
def test_narrow_codes_as_halves(kind: str, half: str) -> None:
    bits = NARROW[kind][0]
    codes = np.arange(256) % (1 << bits)
    pairs = codes | np.roll(codes, 3) << (4 if bits == 4 else 8)
    register = "mov.b16 {%b0, %b1}, %h;\ncvt.rn" if bits == 4 else "cvt.rn"
    body = f""".reg .b8 %b<2>;
mad.wide.u32 %in, %t, 2, %in;
mad.wide.u32 %out, %t, 4, %out;
ld.global.b16 %h, [%in];
{register}.{half}x2.{kind}x2 %r, {"%b0" if bits == 4 else "%h"};
st.global.b32 [%out], %r;"""
    out = np.zeros(256, np.uint32)
    run(body, pairs.astype(np.uint16), out)
    wide = out.view(np.float16) if half == "f16" else (out.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    expected = [[_value(int(a), kind), _value(int(b), kind)] for a, b in zip(codes, np.roll(codes, 3), strict=True)]
    np.testing.assert_array_equal(wide.reshape(-1, 2).astype(np.float64), expected)


@pytest.mark.parametrize("mode", ["rn", "rz"])
@pytest.mark.parametrize("kind", NARROW)
def test_singles_to_narrow_codes(kind: str, mode: str) -> None:
    bits = NARROW[kind][0]
    finite = np.array([_value(code, kind) for code in range(1 << (bits - 1))])
    between = (finite[1:] + finite[:-1]) / 2
    numbers = np.concatenate([finite, between, between * (1 + 1e-6), between * (1 - 1e-6), [1e30, np.inf]])
    given = np.resize(np.concatenate([numbers, -numbers, [np.nan]]), 512).astype(np.float32)
    narrow = bits == 4
    body = f""".reg .b8 %b0;
mad.wide.u32 %in, %t, 4, %in;
mad.wide.u32 %out, %t, 2, %out;
ld.global.f32 %f0, [%in];
neg.f32 %f1, %f0;
cvt.{mode}.satfinite.{kind}x2.f32 {"%b0" if narrow else "%h"}, %f0, %f1;
{"mov.b16 %h, {%b0, 0};" if narrow else ""}
st.global.b16 [%out], %h;"""
    out = np.zeros(512, np.uint16)
    run(body, given, out)
    size, sign = (4, 8) if narrow else (8, 32)
    for number, pair in zip(given.tolist(), out.tolist(), strict=True):
        for value, code in ((number, pair >> size), (-number, pair & (1 << size) - 1)):
            if value != value:
                assert code == (1 << (bits - 1)) - 1
            elif mode == "rz":
                below = int(np.flatnonzero(finite <= abs(value))[-1])
                assert code == below | (sign if np.signbit(value) else 0), (value, hex(code))
            else:
                expected = _nearest(value, finite)
                assert code == expected & 0x7F | (sign if expected & 0x80 else 0), (value, hex(code))


@pytest.mark.parametrize("mode", ["rz", "rp"])
@pytest.mark.parametrize("finite", ["", ".satfinite"])
def test_powers_of_two(mode: str, finite: str) -> None:
    """ue8m0: the exponent of a number's size, which is never 0."""
    powers = 2.0 ** np.arange(-127, 128)
    numbers = np.concatenate([powers, powers * 1.25, -powers[:9], [0, 2.0**-149, 2.0**-128, np.inf, np.nan]])
    given = np.resize(numbers, 768).astype(np.float32)
    body = f"""mad.wide.u32 %in, %t, 4, %in;
mad.wide.u32 %out, %t, 8, %out;
ld.global.f32 %f0, [%in];
mov.f32 %f1, 0f40800000;
cvt.{mode}{finite}.ue8m0x2.f32 %h, %f1, %f0;
cvt.rn.bf16x2.ue8m0x2 %r, %h;
st.global.b32 [%out], %r;
cvt.u32.u16 %r, %h;
st.global.b32 [%out+4], %r;"""
    out = np.zeros(2 * 768, np.uint32)
    execute(parse_ptx(KERNEL.format(body=body)), "k", 3, 256, [given, out], record=False)
    known = 2.0 ** np.arange(-127.0, 128)
    for number, halves, codes in zip(np.abs(given).tolist(), out[::2].tolist(), out[1::2].tolist(), strict=True):
        assert codes >> 8 == 129
        most = 254 if finite else 255
        if number != number:
            expected = 255
        elif mode == "rz":
            expected = most if number == np.inf else max(int((known <= number).sum()) - 1, 0)
        else:
            expected = min(int((known < number).sum()), most)
        assert codes & 255 == expected, number
        single = np.array([(halves & 0xFFFF) << 16], np.uint32).view(np.float32)[0]
        assert np.isnan(single) if expected == 255 else single == known[expected]


def _nearest(value: float, finite: np.ndarray) -> int:
    """By search; of two equally near, the even code."""
    if value != value:
        return 0x7F
    gaps = np.abs(finite - min(abs(value), finite[-1]))
    best = np.flatnonzero(gaps == gaps.min())
    code = int(best[0] if best[0] % 2 == 0 else best[-1])
    return code | (0x80 if np.signbit(value) else 0)


@pytest.mark.parametrize("sign", [1, -1])
def test_large_integers_as_bfloat16_round_once(sign: int) -> None:
    """Doubles do not hold the last 1, which decides between the neighbours."""
    numbers = [(1 << 60) + (1 << 52) + each for each in (-1, 0, 1)] + [(3 << 53) - (1 << 45) + 1, 1 << 53, 5]
    given = sign * np.resize(np.array(numbers, np.int64), 256)
    out = np.zeros(256, np.uint32)
    body = """.reg .b64 %d;
mad.wide.u32 %in, %t, 8, %in;
mad.wide.u32 %out, %t, 4, %out;
ld.global.b64 %d, [%in];
cvt.rn.bf16.s64 %h, %d;
cvt.f32.bf16 %f0, %h;
st.global.f32 [%out], %f0;"""
    run(body, given, out)
    expected = [1 << 60, 1 << 60, (1 << 60) + (1 << 53), 3 << 53, 1 << 53, 5]
    np.testing.assert_array_equal(sign * out.view(np.float32)[: len(expected)], np.array(expected, np.float32))


@pytest.mark.parametrize(("mode", "expected"), [("rna", 0x3F802000), ("rn", 0x3F800000), ("rz", 0x3F800000)])
def test_ties_of_tf32(mode: str, expected: int) -> None:
    given = np.resize(np.array([0x3F801000, 0x3F801001, 0x7F800000, 0xFF800001], np.uint32), 256)
    out = np.zeros(256, np.uint32)
    body = f"""mad.wide.u32 %in, %t, 4, %in;
mad.wide.u32 %out, %t, 4, %out;
ld.global.f32 %f0, [%in];
cvt.{mode}.tf32.f32 %r, %f0;
st.global.b32 [%out], %r;"""
    run(body, given, out)
    above = 0x3F800000 if mode == "rz" else 0x3F802000
    assert out[:4].tolist() == [expected, above, 0x7F800000, 0x7FFFFFFF]


@pytest.mark.parametrize("name", ["ex2.approx.f16", "ex2.approx.ftz.bf16", "tanh.approx.f16", "tanh.approx.bf16"])
def test_functions_of_pairs_are_those_of_their_halves(name):
    halves = f"mov.b32 {{%h1,%h2}}, %r2; {name} %h1, %h1; {name} %h2, %h2; mov.b32 %r3, {{%h1,%h2}};"
    found = []
    for body in (halves, f"{name}x2 %r3, %r2;"):
        text = f""".version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .u64 p)
{{ .reg .b16 %h<3>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
 ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
 ld.global.u32 %r2, [%rd3]; {body} st.global.u32 [%rd3], %r3; ret; }}
"""
        values = np.random.default_rng(3).integers(0, 2**32, 256, dtype=np.uint32)
        execute(parse_ptx(text), "k", 1, 256, [values])
        found.append(values)
    assert np.array_equal(*found)
