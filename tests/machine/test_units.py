"""Numbers with units: what users may type, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.units import LARGEST, format_number, parse_number


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("480GB/s", "bytes_per_s", 480e9),
        ("4.8TB/s", "bytes_per_s", 4.8e12),
        ("1050 GB/s", "bytes_per_s", 1050e9),
        ("1GiB/s", "bytes_per_s", 2.0**30),
        ("480e9", "bytes_per_s", 480e9),
        ("48KiB", "bytes", 48 * 1024),
        ("48 KiB", "bytes", 48 * 1024),
        ("48kB", "bytes", 48_000),
        ("48KB", "bytes", 48_000),
        ("3MiB", "bytes", 3 * 2**20),
        ("128", "bytes", 128),
        ("128B", "bytes", 128),
        ("1.4GHz", "hz", 1.4e9),
        ("1400 MHz", "hz", 1.4e9),
        ("1_400_000_000", "hz", 1.4e9),
        (".5GHz", "hz", 5e8),
        ("300", "cycles", 300),
        ("300 cycles", "cycles", 300),
        ("0.375cycles", "cycles", 0.375),
        (" 64 ", None, 64),
        ("-3", None, -3),
        ("+1e3", None, 1000),
    ],
)
def test_numbers_are_read_in_the_base_unit(text, unit, value):
    assert parse_number(text, unit) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("480GB", "bytes_per_s", "480GB/s"),  # a size where a bandwidth belongs
        ("480Gb/s", "bytes_per_s", "480GB/s"),  # bits
        ("48GB/s", "bytes", "48KiB"),
        ("48kib", "bytes", "48KiB"),
        ("1.4GiHz", "hz", "1.4GHz"),
        ("1.4ghz", "hz", "1.4GHz"),
        ("300 ns", "cycles", "300"),
        ("3kcycles", "cycles", "300"),
        ("64KiB", None, "plain number"),
        ("3,5", "cycles", "300"),
        ("1.2.3", None, "plain number"),
    ],
)
def test_a_wrong_unit_is_refused_and_the_message_shows_an_example(text, unit, expected):
    with pytest.raises(ValueError, match="has the unit") as caught:
        parse_number(text, unit)
    assert expected in str(caught.value)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["", " ", "nan", "inf", "-inf", "GHz", "many", "0x10", "e5", "--3"])
@pytest.mark.parametrize("unit", ["bytes", "bytes_per_s", "hz", "cycles", None])
def test_what_is_no_number_is_refused(text, unit):
    with pytest.raises(ValueError, match=r"expected|is not"):
        parse_number(text, unit)


@pytest.mark.parametrize("text", ["1e400", "1e19", "9" * 400, "-1e19", "1e10TB"])
def test_numbers_beyond_counting_are_refused(text):
    with pytest.raises(ValueError, match="too large"):
        parse_number(text, "bytes")


@given(st.floats(min_value=-LARGEST, max_value=LARGEST, allow_nan=False))
def test_any_number_python_prints_is_read_back(value):
    assert parse_number(repr(value), None) == value


@given(st.text(max_size=20), st.sampled_from(["bytes", "bytes_per_s", "hz", "cycles", None]))
def test_any_text_is_either_a_finite_number_or_a_clear_error(text, unit):
    try:
        value = parse_number(text, unit)
    except ValueError as error:
        assert repr(text) in str(error)
    else:
        assert math.isfinite(value)
        assert abs(value) <= LARGEST


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "bytes", "–"),
        (True, None, "true"),
        ("gto", None, "gto"),
        (49152, "bytes", "48 KiB"),
        (3145728, "bytes", "3 MiB"),
        (100, "bytes", "100 B"),
        (480e9, "bytes_per_s", "480 GB/s"),
        (4.8e12, "bytes_per_s", "4.8 TB/s"),
        (1.4e9, "hz", "1.4 GHz"),
        (300.0, "cycles", "300 cycles"),
        (65536, None, "65 536"),
        (0.375, None, "0.375"),
    ],
)
def test_numbers_are_shown_with_a_fitting_prefix(value, unit, text):
    assert format_number(value, unit) == text


def test_a_batch_is_shown_as_its_range():
    assert format_number(np.array([32.0, 64.0, 128.0]), None) == "32 … 128 (3 values)"


@given(st.integers(min_value=0, max_value=2**40))
def test_shown_byte_counts_read_back_as_the_same_number(value):
    text = format_number(value * 1024, "bytes")
    assert parse_number(text, "bytes") == pytest.approx(value * 1024, rel=1e-5)
