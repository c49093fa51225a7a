"""Binary floating point with exact rational arithmetic: every operation rounds once, in any direction."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, log2


@dataclass(frozen=True)
class Format:
    """An IEEE-like interchange format."""

    bits: int
    fraction_bits: int
    #: e4m3 spends the largest exponent on numbers; only all ones are NaN.
    has_infinity: bool = True

    @property
    def bias(self) -> int:
        return (1 << (self.bits - 2 - self.fraction_bits)) - 1

    @property
    def exponent_ones(self) -> int:
        return (1 << (self.bits - 1 - self.fraction_bits)) - 1

    @property
    def infinity(self) -> int:
        return self.exponent_ones << self.fraction_bits

    @property
    def nan(self) -> int:
        """The NaN that operations return; the PTX manual fixes it for 32 and 16 bits."""
        ones = (1 << (self.bits - 1)) - 1
        return ones if self.bits < 64 else 0x7FF8_0000_0000_0000

    @property
    def smallest_normal(self) -> Fraction:
        return power_of_two(1 - self.bias)


E4M3, E5M2 = Format(8, 3, has_infinity=False), Format(8, 2)
F16, BF16, F32, F64 = Format(16, 10), Format(16, 7), Format(32, 23), Format(64, 52)
FORMATS = {("f", 16): F16, ("bf", 16): BF16, ("f", 32): F32, ("f", 64): F64}


@dataclass(frozen=True)
class Value:
    """A number with its sign kept apart, so that zeros have one; kind is finite, inf or nan."""

    sign: int
    kind: str
    size: Fraction = Fraction(0)

    @property
    def signed(self) -> Fraction:
        return -self.size if self.sign else self.size

    @property
    def is_zero(self) -> bool:
        return self.kind == "finite" and self.size == 0


NAN = Value(0, "nan")


def power_of_two(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)


def decode(bits: int, form: Format) -> Value:
    sign = bits >> (form.bits - 1) & 1
    exponent = bits >> form.fraction_bits & form.exponent_ones
    fraction = bits & ((1 << form.fraction_bits) - 1)
    if not form.has_infinity and bits & ((1 << (form.bits - 1)) - 1) == form.nan:
        return NAN
    if exponent == form.exponent_ones and form.has_infinity:
        return NAN if fraction else Value(sign, "inf")
    if exponent == 0:
        return Value(sign, "finite", fraction * power_of_two(1 - form.bias - form.fraction_bits))
    size = ((1 << form.fraction_bits) | fraction) * power_of_two(exponent - form.bias - form.fraction_bits)
    return Value(sign, "finite", size)


def round_to_whole(size: Fraction, sign: int, mode: str) -> int:
    """A size (not negative) as a whole number; rn: to nearest even, rz: to zero, rm: down, rp: up."""
    whole, rest = divmod(size, 1)
    if mode == "rn":
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2 == 1)
    else:
        up = rest > 0 and ((mode == "rm" and sign == 1) or (mode == "rp" and sign == 0))
    return int(whole) + up


def encode(value: Value, form: Format, mode: str = "rn") -> int:
    """The bits of a value, rounded."""
    if value.kind == "nan":
        return form.nan
    sign_bit = value.sign << (form.bits - 1)
    if value.kind == "inf":
        return sign_bit | form.infinity
    if value.size == 0:
        return sign_bit
    exponent = value.size.numerator.bit_length() - value.size.denominator.bit_length()
    if power_of_two(exponent) > value.size:
        exponent -= 1
    exponent = max(exponent, 1 - form.bias)
    steps = round_to_whole(value.size / power_of_two(exponent - form.fraction_bits), value.sign, mode)
    # A carry out of the fraction moves into the exponent field, which is what is wanted.
    bits = ((exponent + form.bias - 1) << form.fraction_bits) + steps
    if bits >= form.infinity:
        away = mode == "rn" or (mode == "rm" and value.sign == 1) or (mode == "rp" and value.sign == 0)
        bits = form.infinity if away else form.infinity - 1
    return sign_bit | bits


def flush(value: Value, form: Format) -> Value:
    """Subnormal numbers as zeros (.ftz)."""
    if value.kind == "finite" and value.size < form.smallest_normal:
        return Value(value.sign, "finite")
    return value


def negate(value: Value) -> Value:
    return Value(1 - value.sign, value.kind, value.size)


def add(a: Value, b: Value, mode: str = "rn") -> Value:
    """The exact sum; the rounding mode only gives the sign of a zero."""
    if "nan" in (a.kind, b.kind):
        return NAN
    if a.kind == "inf" or b.kind == "inf":
        if a.kind == b.kind and a.sign != b.sign:
            return NAN
        return a if a.kind == "inf" else b
    total = a.signed + b.signed
    if total == 0:
        sign = a.sign if a.sign == b.sign else int(mode == "rm")
        return Value(sign, "finite")
    return Value(int(total < 0), "finite", abs(total))


def multiply(a: Value, b: Value) -> Value:
    sign = a.sign ^ b.sign
    if "nan" in (a.kind, b.kind):
        return NAN
    if "inf" in (a.kind, b.kind):
        return NAN if a.is_zero or b.is_zero else Value(sign, "inf")
    return Value(sign, "finite", a.size * b.size)


def divide(a: Value, b: Value) -> Value:
    sign = a.sign ^ b.sign
    if "nan" in (a.kind, b.kind) or (a.kind == b.kind == "inf") or (a.is_zero and b.is_zero):
        return NAN
    if a.kind == "inf" or b.is_zero:
        return Value(sign, "inf")
    if b.kind == "inf":
        return Value(sign, "finite")
    return Value(sign, "finite", a.size / b.size)


def square_root(a: Value) -> Value:
    """The root where it is rational, else a number between the same neighbours of every format."""
    if a.kind == "nan" or a.is_zero:
        return a
    if a.sign:
        return NAN
    if a.kind == "inf":
        return a
    scale = 1 << 160
    product = a.size.numerator * a.size.denominator * scale * scale
    root = isqrt(product)
    exact = root * root == product
    return Value(0, "finite", Fraction(2 * root + (not exact), 2 * a.size.denominator * scale))


def compare(a: Value, b: Value) -> int | None:
    """-1, 0 or 1; nothing if one is NaN."""
    if "nan" in (a.kind, b.kind):
        return None

    def key(value: Value) -> tuple[int, Fraction]:
        if value.kind == "inf":
            return (-1 if value.sign else 1), Fraction(0)
        return 0, value.signed

    return (key(a) > key(b)) - (key(a) < key(b))


def smaller(a: Value, b: Value) -> Value:
    """The minimum of two numbers, with -0 below +0."""
    order = compare(a, b)
    if order == 0:
        return a if a.sign else b
    return a if order == -1 else b


def saturate(value: Value) -> Value:
    """Into 0…1; NaN is 0."""
    if value.kind == "nan" or value.sign or value.is_zero:
        return Value(0, "finite")
    if value.kind == "inf" or value.size > 1:
        return Value(0, "finite", Fraction(1))
    return value


def to_float(value: Value) -> float:
    """Near enough for functions that are approximate anyway."""
    if value.kind == "nan":
        return float("nan")
    size = float("inf") if value.kind == "inf" else float(value.size)
    return -size if value.sign else size


def from_float(number: float) -> Value:
    bits = int.from_bytes(struct.pack("<d", number), "little")
    return decode(bits, F64)


def ulps_apart(a: int, b: int, form: Format) -> float:
    """Distance of two bit patterns in units in the last place; 0 for two NaNs."""
    first, second = decode(a, form), decode(b, form)
    if first.kind == "nan" or second.kind == "nan":
        return 0.0 if first.kind == second.kind else float("inf")

    def position(bits: int) -> int:
        size = bits & ((1 << (form.bits - 1)) - 1)
        return -size if bits >> (form.bits - 1) else size

    return abs(position(a) - position(b))


def binary_logarithm(number: float) -> float:
    if number != number or number < 0:
        return float("nan")
    if number == 0:
        return float("-inf")
    return number if number == float("inf") else log2(number)
