"""The 64 bits of an mbarrier as warplens keeps them in shared memory; PTX leaves them opaque.

From the lowest bit: arrivals that the current phase still awaits, arrivals that
each phase awaits, bytes that asynchronous copies still have to deliver (negative
if they came before they were expected), and the phase's parity.
"""

from __future__ import annotations

from dataclasses import dataclass

FIELD_BITS = 21
EXPECTED_SHIFT, BYTES_SHIFT, PARITY_SHIFT = FIELD_BITS, 2 * FIELD_BITS, 63
MOST_ARRIVALS = MOST_BYTES = (1 << 20) - 1
FIELD_MASK = (1 << FIELD_BITS) - 1


@dataclass(frozen=True)
class MBarrier:
    pending: int
    expected: int
    bytes_due: int = 0
    parity: int = 0

    @classmethod
    def unpacked(cls, word: int) -> MBarrier:
        due = word >> BYTES_SHIFT & FIELD_MASK
        return cls(
            word & FIELD_MASK,
            word >> EXPECTED_SHIFT & FIELD_MASK,
            due - (FIELD_MASK + 1 if due > MOST_BYTES else 0),
            word >> PARITY_SHIFT & 1,
        )

    @property
    def packed(self) -> int:
        fields = self.pending | self.expected << EXPECTED_SHIFT | (self.bytes_due & FIELD_MASK) << BYTES_SHIFT
        return fields | self.parity << PARITY_SHIFT

    def settled(self) -> MBarrier:
        """The next phase, if this one awaits nothing any more."""
        if self.pending or self.bytes_due:
            return self
        return MBarrier(self.expected, self.expected, 0, 1 - self.parity)

    def delivered(self, count: int) -> MBarrier:
        """After `count` bytes have arrived."""
        return MBarrier(self.pending, self.expected, self.bytes_due - count, self.parity).settled()
