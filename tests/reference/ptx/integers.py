"""Integer, bit and comparison instructions on bit patterns: one plain function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warplens.frontends.ptx.program import Instruction, Type


class NotCoveredError(Exception):
    """The oracle does not know this instruction."""


def ones(width: int) -> int:
    return (1 << width) - 1


def signed(bits: int, width: int) -> int:
    bits &= ones(width)
    return bits - (1 << width) if bits >> (width - 1) else bits


def number(bits: int, kind: Type) -> int:
    """The integer that a pattern stands for."""
    return signed(bits, kind.bits) if kind.is_signed else bits & ones(kind.bits)


def limits(kind: Type) -> tuple[int, int]:
    if kind.is_signed:
        return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
    return 0, ones(kind.bits)


def clamp(value: int, kind: Type) -> int:
    low, high = limits(kind)
    return min(max(value, low), high)


def divide(a: int, b: int) -> int:
    """Towards zero."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _high(product: int, item: Instruction, kind: Type) -> int:
    return product >> kind.bits if item.has("hi") else product


def _multiply(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    return _high(number(values[0], kind) * number(values[1], kind), item, kind)


def _multiply_add(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    a, b = number(values[0], kind), number(values[1], kind)
    if item.has("wide"):
        return a * b + values[2]
    result = _high(a * b, item, kind) + number(values[2], kind)
    return clamp(result, kind) if item.has("sat") else result


def _multiply_24(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    a, b = (signed(each, 24) if kind.is_signed else each & ones(24) for each in values[:2])
    product = a * b >> 16 if item.has("hi") else a * b
    result = product + (number(values[2], kind) if item.opcode == "mad24" else 0)
    return clamp(result, kind) if item.has("sat") else result


def _add(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    b = number(values[1], kind)
    result = number(values[0], kind) + (b if item.opcode == "add" else -b)
    return clamp(result, kind) if item.has("sat") else result


def _divide(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    a, b = number(values[0], kind), number(values[1], kind)
    if b == 0:  # the manual leaves it open; this is what an H200 gives
        return ones(kind.bits)
    quotient = divide(a, b)
    return quotient if item.opcode == "div" else a - b * quotient


def _least_or_most(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    found = [number(each, kind) for each in values]
    result = min(found) if item.opcode == "min" else max(found)
    return max(result, 0) if item.has("relu") else result


def _sum_of_difference(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    a, b, c = (number(each, kind) for each in values)
    return c + abs(a - b)


def _leading_zeros(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    return kind.bits - values[0].bit_length()


def _find_leading(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    value = number(values[0], kind)
    value = ~value if value < 0 else value
    if value == 0:
        return ones(32)
    found = value.bit_length() - 1
    return kind.bits - 1 - found if item.has("shiftamt") else found


def _find_nth_set(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    mask, base, offset = values[0], values[1], signed(values[2], 32)
    if offset == 0:
        return base if base < 32 and mask >> base & 1 else ones(32)
    step = 1 if offset > 0 else -1
    left, position = abs(offset), base
    while 0 <= position < 32:
        left -= mask >> position & 1
        if left == 0:
            return position
        position += step
    return ones(32)


def _reverse(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    return int(f"{values[0]:0{kind.bits}b}"[::-1], 2)


def _extract(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    value, position, length = number(values[0], kind), values[1] & 255, values[2] & 255
    if length == 0:
        return 0
    if not kind.is_signed:
        return value >> position & ones(length)
    return signed(value >> position, length) if position + length < kind.bits else value >> position


def _insert(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    inserted, into, position, length = values[0], values[1], values[2] & 255, values[3] & 255
    field = ones(length) << position
    return (into & ~field) | (inserted << position & field)


def _permute(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    source = [values[0] >> 8 * each & 255 for each in range(4)] + [values[1] >> 8 * each & 255 for each in range(4)]
    mode = next((each for each in item.modifiers if each != "b32"), "")
    c, low = values[2], values[2] & 3
    tables = {
        "f4e": [low + each for each in range(4)],
        "b4e": [(low - each) % 8 for each in range(4)],
        "rc8": [low] * 4,
        "ecl": [max(low, each) for each in range(4)],
        "ecr": [min(low, each) for each in range(4)],
        "rc16": [2 * (low & 1) + (each & 1) for each in range(4)],
    }
    result = 0
    for place in range(4):
        if mode:
            byte = source[tables[mode][place]]
        else:
            selector = c >> 4 * place & 15
            byte = source[selector & 7]
            if selector & 8:
                byte = 255 if byte & 128 else 0
        result |= byte << 8 * place
    return result


def _dot_product(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    first, second = item.types
    total = signed(values[2], 32)
    if item.opcode == "dp4a":
        for place in range(4):
            a, b = values[0] >> 8 * place & 255, values[1] >> 8 * place & 255
            total += (signed(a, 8) if first.is_signed else a) * (signed(b, 8) if second.is_signed else b)
    else:
        start = 16 if item.has("hi") else 0
        for place in range(2):
            a, b = values[0] >> 16 * place & ones(16), values[1] >> start + 8 * place & 255
            total += (signed(a, 16) if first.is_signed else a) * (signed(b, 8) if second.is_signed else b)
    return total


def _logic(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    table = values[3]
    result = 0
    for place in range(32):
        index = (values[0] >> place & 1) * 4 + (values[1] >> place & 1) * 2 + (values[2] >> place & 1)
        result |= (table >> index & 1) << place
    return result


def _shift(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    count = min(values[1] & ones(32), kind.bits)
    value = number(values[0], kind)
    return value << count if item.opcode == "shl" else value >> count


def _funnel(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    both = values[1] << 32 | values[0]
    count = values[2] & 31 if item.has("wrap") else min(values[2], 32)
    return both << count >> 32 if item.has("l") else both >> count


def _simple(function: Callable[..., int]) -> Callable[[Instruction, Type, Sequence[int]], int]:
    return lambda item, kind, values: function(*(number(each, kind) for each in values))


#: Results may be outside the destination's range; the caller keeps the low bits.
OPERATIONS: dict[str, Callable[[Instruction, Type, Sequence[int]], int]] = {
    "add": _add,
    "sub": _add,
    "mul": _multiply,
    "mad": _multiply_add,
    "mul24": _multiply_24,
    "mad24": _multiply_24,
    "sad": _sum_of_difference,
    "div": _divide,
    "rem": _divide,
    "abs": _simple(abs),
    "neg": _simple(lambda a: -a),
    "min": _least_or_most,
    "max": _least_or_most,
    "popc": lambda item, kind, values: values[0].bit_count(),
    "clz": _leading_zeros,
    "bfind": _find_leading,
    "fns": _find_nth_set,
    "brev": _reverse,
    "bfe": _extract,
    "bfi": _insert,
    "bmsk": lambda item, kind, values: _mask_of_bits(item, values),
    "szext": lambda item, kind, values: _extend(item, kind, values),
    "prmt": _permute,
    "dp4a": _dot_product,
    "dp2a": _dot_product,
    "and": _simple(lambda a, b: a & b),
    "or": _simple(lambda a, b: a | b),
    "xor": _simple(lambda a, b: a ^ b),
    "not": _simple(lambda a: ~a),
    "cnot": _simple(lambda a: int(a == 0)),
    "lop3": _logic,
    "shl": _shift,
    "shr": _shift,
    "shf": _funnel,
}


def _mask_of_bits(item: Instruction, values: Sequence[int]) -> int:
    start, length = values
    if item.has("wrap"):
        start, length = start & 31, length & 31
    return ones(min(length, 32)) << start if start < 32 else 0


def _extend(item: Instruction, kind: Type, values: Sequence[int]) -> int:
    value, width = values
    width = width & 31 if item.has("wrap") else min(width, 32)
    if width == 0:
        return 0
    return signed(value, width) if kind.is_signed else value & ones(width)


def with_carry(item: Instruction, kind: Type, values: Sequence[int], carry: int) -> tuple[int, int]:
    """add, addc, sub, subc, mad, madc with .cc: the sum and the carry out, which is 0 where hardware borrows."""
    incoming = carry if item.opcode in ("addc", "subc", "madc") else 0
    if item.opcode in ("sub", "subc"):
        result = values[0] - values[1] - (1 - carry if item.opcode == "subc" else 0)
        return result & ones(kind.bits), int(result >= 0)
    if item.opcode in ("mad", "madc"):
        product = _high(number(values[0], kind) * number(values[1], kind), item, kind) & ones(kind.bits)
        result = product + values[2] + incoming
    else:
        result = values[0] + values[1] + incoming
    return result & ones(kind.bits), result >> kind.bits


def compared(name: str, order: int | None) -> bool:
    """A comparison by its name; order is -1, 0 or 1, or nothing for NaN."""
    if name == "num":
        return order is not None
    if name == "nan":
        return order is None
    unordered = len(name) == 3
    if order is None:
        return unordered
    base = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(name, name[:2])
    return {
        "eq": order == 0,
        "ne": order != 0,
        "lt": order < 0,
        "le": order <= 0,
        "gt": order > 0,
        "ge": order >= 0,
    }[base]


def integer_order(name: str, a: int, b: int, kind: Type) -> int:
    if name in ("lo", "ls", "hi", "hs"):
        first, second = a, b
    else:
        first, second = number(a, kind), number(b, kind)
    return (first > second) - (first < second)


def atomic(name: str, kind: Type, old: int, values: Sequence[int]) -> int:
    """The new content of memory after an integer atomic operation."""
    first = number(values[0], kind)
    now = number(old, kind)
    if name == "cas":
        return values[1] if old == values[0] else old
    if name == "inc":
        return 0 if now >= first else now + 1
    if name == "dec":
        return first if now == 0 or now > first else now - 1
    results = {
        "add": now + first,
        "and": now & first,
        "or": now | first,
        "xor": now ^ first,
        "min": min(now, first),
        "max": max(now, first),
        "exch": first,
    }
    if name not in results:
        raise NotCoveredError(name)
    return results[name] & ones(kind.bits)
