"""Expressions evaluated at sample points: some warps of a launch and, inside loops, some of their iterations.

A value has one row per point and 32 lanes (or one column if it is uniform). An
unknown, such as the result of a load, has a level: SAME means that all lanes share
it (it counts as 0), DIFFERS that it may differ between lanes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .program import TYPES, Type
from .static_loops import NaturalLoop
from .static_values import Merge, Node

WARP_LANES = 32
KNOWN, SAME, DIFFERS = 0, 1, 2

Integers = NDArray[np.int64]
Truths = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Value:
    """Numbers, sign-extended to 64 bits."""

    array: Integers
    level: int = KNOWN

    @property
    def is_uniform(self) -> bool:
        """Whether all lanes of a warp have the same value."""
        return self.level < DIFFERS and (self.array.shape[1] == 1 or bool((self.array == self.array[:, :1]).all()))


@dataclass(frozen=True, eq=False)
class Truth:
    """Where a predicate can be true, where it can be false, and whether lanes may differ in the unknown part."""

    true: Truths
    false: Truths
    varies: bool = False

    def negated(self) -> Truth:
        return Truth(self.false, self.true, self.varies)


def unknown(level: int) -> Value:
    return Value(np.zeros((1, 1), dtype=np.int64), level)


@dataclass(eq=False)
class Edge:
    """Lanes that take an edge between two blocks, how often, and the level of what is unknown."""

    mask: Truths
    weight: NDArray[np.float64]
    level: int = KNOWN


@dataclass(eq=False)
class Points:
    """Sample points of the kernel (no loop) or of a loop's iterations; `index` refers to the parent's points."""

    loop: NaturalLoop | None
    parent: Points | None
    index: Integers
    iteration: Integers
    weight: NDArray[np.float64]
    special: dict[str, Value] = field(default_factory=dict)
    memo: dict[Node, Value | Truth] = field(default_factory=dict)
    presets: dict[Merge, Value | Truth] = field(default_factory=dict)
    edges: dict[tuple[int, int], Edge] = field(default_factory=dict)
    #: Iterations per lane of the loops directly inside; None if not known exactly.
    iterations: dict[NaturalLoop, Integers | None] = field(default_factory=dict)
    #: Values of the recurrences of the loops directly inside, iteration by iteration.
    sequences: dict[NaturalLoop, list[dict[Merge, Value | Truth]]] = field(default_factory=dict)
    levels: dict[NaturalLoop, dict[Merge, int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.index)

    def rows_of(self, other: Points) -> Integers:
        """For each point, its row in the enclosing points `other`."""
        rows, points = np.arange(len(self)), self
        while points is not other:
            rows = points.index[rows]
            assert points.parent is not None
            points = points.parent
        return rows

    def around(self, loop: NaturalLoop | None) -> Points | None:
        """These points, or the enclosing ones, that belong to a loop."""
        points: Points | None = self
        while points is not None and points.loop is not loop:
            points = points.parent
        return points


def gather(value: Value | Truth, rows: Integers) -> Value | Truth:
    """A value at other points; a single row applies to all."""
    if isinstance(value, Truth):
        return Truth(_rows(value.true, rows), _rows(value.false, rows), value.varies)
    return Value(_rows(value.array, rows), value.level)


def _rows(array: NDArray[Any], rows: Integers) -> NDArray[Any]:
    return array if len(array) == 1 else array[rows]


# -- operations -----------------------------------------------------------------------------


def as_truth(value: Value | Truth) -> Truth:
    if isinstance(value, Truth):
        return value
    if value.level:
        both = np.ones((1, 1), dtype=bool)
        return Truth(both, both, not value.is_uniform)
    return Truth(value.array != 0, value.array == 0)


def as_value(value: Value | Truth) -> Value:
    if isinstance(value, Value):
        return value
    if np.any(value.true & value.false):
        return unknown(DIFFERS if value.varies else SAME)
    return Value(value.true.astype(np.int64))


def wrap(array: Integers, bits: int) -> Integers:
    if bits >= 64:
        return array
    half = 1 << (bits - 1)
    return ((array + half) & ((1 << bits) - 1)) - half


def typed(array: Integers, kind: Type) -> Integers:
    """The bits as the type reads them. Unsigned 64-bit numbers stay signed: none here is that large."""
    if kind.kind in "ub" and kind.bits < 64:
        return array & ((1 << kind.bits) - 1)
    return wrap(array, kind.bits)


_COMPARE = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def compare(how: str, kind: Type, a: Value, b: Value) -> Truth:
    level = max(a.level, b.level)
    if level or how not in _COMPARE:
        both = np.ones((1, 1), dtype=bool)
        return Truth(both, both, not (a.is_uniform and b.is_uniform))
    true = _COMPARE[how](_for_comparison(how, kind, a), _for_comparison(how, kind, b))
    return Truth(true, ~true)


def _for_comparison(how: str, kind: Type, value: Value) -> Integers:
    if how in ("lo", "ls", "hi", "hs") or (kind.kind == "u"):
        return typed(value.array, Type("u", kind.bits))
    return wrap(value.array, kind.bits)


def difference(how: str, kind: Type, a: Value, b: Value) -> Integers:
    """a - b, in the signedness of the comparison."""
    return _for_comparison(how, kind, a) - _for_comparison(how, kind, b)


def combine(operation: str, items: list[Truth]) -> Truth:
    """Logic on predicates."""
    if operation == "not":
        return items[0].negated()
    a, b = items
    varies = a.varies or b.varies
    if operation == "and":
        return Truth(a.true & b.true, a.false | b.false, varies)
    if operation == "or":
        return Truth(a.true | b.true, a.false & b.false, varies)
    return Truth((a.true & b.false) | (a.false & b.true), (a.true & b.true) | (a.false & b.false), varies)


def select(a: Value | Truth, b: Value | Truth, truth: Truth) -> Value | Truth:
    if isinstance(a, Truth) or isinstance(b, Truth):
        a, b = as_truth(a), as_truth(b)
        true = (truth.true & a.true) | (truth.false & b.true)
        return Truth(true, (truth.true & a.false) | (truth.false & b.false), a.varies or b.varies or truth.varies)
    if np.any(truth.true & truth.false):
        uniform = a.is_uniform and b.is_uniform and not truth.varies
        return unknown(SAME if uniform else DIFFERS)
    level = max(a.level if truth.true.any() else KNOWN, b.level if truth.false.any() else KNOWN)
    return Value(np.where(truth.true, a.array, b.array), level)


#: Operations that preserve a uniform unknown part.
_KEEP_SHIFT = frozenset(["add", "sub", "neg", "not", "cvt", "or"])


def _level(operation: str, values: list[Value]) -> int:
    level = max(value.level for value in values)
    if level != SAME or operation in _KEEP_SHIFT or all(value.is_uniform for value in values):
        return level
    if operation in ("mul", "mul24", "mad", "mad24"):
        a, b = values[:2]
        scaled = all(x.level == KNOWN or y.is_uniform for x, y in ((a, b), (b, a)))
        return level if scaled else DIFFERS
    if operation in ("shl", "shr", "div") and values[1].level == KNOWN and values[1].is_uniform:
        return level
    return DIFFERS


def calculate(operation: str, detail: tuple[str, ...], kind: Type, values: list[Value]) -> Value:
    """An integer instruction."""
    level = _level(operation, values)
    if level == DIFFERS:
        return unknown(level)
    arrays = [value.array for value in values]
    return Value(_calculate(operation, detail, kind, arrays), level)


def _calculate(operation: str, detail: tuple[str, ...], kind: Type, arrays: list[Integers]) -> Integers:
    bits = kind.bits
    a = arrays[0]
    if operation == "cvt":
        kinds = [TYPES[each] for each in detail if each in TYPES]
        return wrap(typed(typed(a, kinds[-1]), kinds[0]), max(kinds[0].bits, 32))
    if operation in ("mul", "mad", "mul24", "mad24"):
        product = _product(detail, kind, a, arrays[1])
        wide = bits * 2 if "wide" in detail else bits
        return wrap(product + arrays[2] if len(arrays) == 3 else product, wide)
    if operation in ("shl", "shr"):
        count = np.clip(arrays[1], 0, 63)
        shifted = a << count if operation == "shl" else typed(a, kind) >> count
        beyond = shifted >> 63 if operation == "shr" else np.zeros_like(shifted)
        return wrap(np.where(arrays[1] >= bits, beyond, shifted), bits)
    if operation in ("div", "rem"):
        x, y = typed(a, kind), typed(arrays[1], kind)
        y = np.where(y == 0, 1, y)
        quotient: Integers = np.abs(x) // np.abs(y) * np.sign(x) * np.sign(y)
        return wrap(quotient if operation == "div" else x - quotient * y, bits)
    if operation in ("min", "max"):
        function = np.minimum if operation == "min" else np.maximum
        return wrap(function(typed(a, kind), typed(arrays[1], kind)), bits)
    if operation == "bfe":
        field_bits = (np.int64(1) << np.clip(arrays[2], 0, 62)) - 1
        return wrap((typed(a, Type("u", bits)) >> np.clip(arrays[1], 0, 63)) & field_bits, bits)
    if operation == "cnot":
        return (a == 0).astype(np.int64)
    one = {"neg": np.negative, "not": np.invert, "abs": np.abs}
    if operation in one:
        return wrap(one[operation](a), bits)
    two = {"add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    return wrap(two[operation](a, arrays[1]), bits)


def _product(detail: tuple[str, ...], kind: Type, a: Integers, b: Integers) -> Integers:
    if "hi" not in detail:
        return typed(a, kind) * typed(b, kind) if "wide" in detail else a * b
    if kind.bits <= 32:
        return (typed(a, kind) * typed(b, kind)) >> kind.bits
    # 64 × 64 bits, which compilers use to divide by constants: exact in Python's integers.
    unsigned = kind.kind == "u"
    x, y = np.broadcast_arrays(a.astype(object), b.astype(object))
    if unsigned:
        x, y = x % (1 << 64), y % (1 << 64)
    high = (x * y) >> 64
    return np.where(high >= 1 << 63, high - (1 << 64), high).astype(np.int64)
