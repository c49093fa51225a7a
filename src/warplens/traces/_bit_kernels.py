"""Masks of lanes in compiled code."""

from __future__ import annotations

from ..jit import kernel


@kernel
def bit_count(bits):
    """Bits that are set among the lower 32."""
    bits = bits - ((bits >> 1) & 0x55555555)
    bits = (bits & 0x33333333) + ((bits >> 2) & 0x33333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F
    return ((bits * 0x01010101) >> 24) & 0xFF
