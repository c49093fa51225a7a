"""Logic, shifts and bit fields."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from ..flat import FlatInstruction
from ..program import TYPES, Immediate, Pair
from .lanes import Value, integers
from .lowering import lowers, sources, type_of

if TYPE_CHECKING:
    from .kernel import KernelBuilder


@lowers("and", "or", "xor")
def _logic(g: KernelBuilder, item: FlatInstruction) -> None:
    a, b = sources(g, item, type_of(g, item), 2)
    builder = g.builder
    g.write(item, {"and": builder.and_, "or": builder.or_, "xor": builder.xor}[item.opcode](a, b))


@lowers("not", "cnot")
def _not(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    (a,) = sources(g, item, kind, 1)
    if item.opcode == "not":
        return g.write(item, g.builder.not_(a))
    return g.write(item, g.resize(g.builder.icmp_unsigned("==", a, g.integer(kind.bits, 0)), kind.bits))


@lowers("lop3")
def _lop3(g: KernelBuilder, item: FlatInstruction) -> None:
    a, b, c = sources(g, item, TYPES["b32"], 3)
    table = g.operand(item, 4)
    if not isinstance(table, Immediate):
        raise g.not_covered(item)
    builder = g.builder
    result: Value = g.integer(32, 0)
    for row in range(8):
        if int(table.value) >> row & 1:
            picked = [each if row & bit else builder.not_(each) for each, bit in ((a, 4), (b, 2), (c, 1))]
            result = builder.or_(result, builder.and_(builder.and_(picked[0], picked[1]), picked[2]))
    if not item.instruction.has("or", "and"):
        return g.write(item, result)
    target = g.operand(item, 0)  # and whether there are ones in the result, with another predicate
    if not isinstance(target, Pair):
        raise g.not_covered(item)
    other = g.read(g.operand(item, 5), TYPES["pred"])
    some = builder.icmp_unsigned("!=", result, g.integer(32, 0))
    g.write_operand(item, target.first, result)
    combine = builder.or_ if item.instruction.has("or") else builder.and_
    return g.write_operand(item, target.second, combine(some, other))


@lowers("shl", "shr")
def _shift(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    value = g.read(g.operand(item, 1), kind)
    amount = g.read(g.operand(item, 2), TYPES["u32"])
    builder = g.builder
    large = builder.icmp_unsigned(">", amount, g.integer(32, kind.bits - 1))
    by = g.resize(builder.select(large, g.integer(32, kind.bits - 1), amount), kind.bits)
    if item.opcode == "shr" and kind.is_signed:
        return g.write(item, builder.ashr(value, by))
    shifted = (builder.shl if item.opcode == "shl" else builder.lshr)(value, by)
    return g.write(item, builder.select(large, g.integer(kind.bits, 0), shifted))


@lowers("shf")
def _funnel(g: KernelBuilder, item: FlatInstruction) -> None:
    low, high, amount = sources(g, item, TYPES["b32"], 3)
    builder = g.builder
    whole = builder.or_(g.resize(low, 64), builder.shl(g.resize(high, 64), g.integer(64, 32)))
    if item.instruction.has("wrap"):
        amount = builder.and_(amount, g.integer(32, 31))
    else:
        amount = builder.select(builder.icmp_unsigned(">", amount, g.integer(32, 32)), g.integer(32, 32), amount)
    by = g.resize(amount, 64)
    if item.instruction.has("l"):
        result = builder.lshr(builder.shl(whole, by), g.integer(64, 32))
    else:
        result = builder.lshr(whole, by)
    g.write(item, g.resize(result, 32))


@lowers("popc", "clz", "brev")
def _count(g: KernelBuilder, item: FlatInstruction) -> None:
    (a,) = sources(g, item, type_of(g, item), 1)
    if item.opcode == "brev":
        return g.write(item, g.intrinsic("bitreverse", a))
    if item.opcode == "popc":
        return g.write(item, g.resize(g.intrinsic("ctpop", a), 32))
    return g.write(item, g.resize(g.intrinsic("ctlz", a, extra=[ir.Constant(ir.IntType(1), 0)]), 32))


@lowers("bfind")
def _bfind(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    (a,) = sources(g, item, kind, 1)
    builder = g.builder
    if kind.is_signed:
        a = builder.xor(a, builder.ashr(a, g.integer(kind.bits, kind.bits - 1)))
    zeros = g.resize(g.intrinsic("ctlz", a, extra=[ir.Constant(ir.IntType(1), 0)]), 32)
    found = zeros if item.instruction.has("shiftamt") else builder.sub(g.integer(32, kind.bits - 1), zeros)
    none = builder.icmp_unsigned("==", a, g.integer(kind.bits, 0))
    g.write(item, builder.select(none, g.integer(32, -1), found))


@lowers("bfe")
def _bfe(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    value = g.read(g.operand(item, 1), kind)
    builder = g.builder
    position, length = (
        builder.and_(g.read(g.operand(item, each), TYPES["u32"]), g.integer(32, 255)) for each in (2, 3)
    )
    bits = kind.bits
    last = g.integer(32, bits - 1)
    empty = builder.icmp_unsigned("==", length, g.integer(32, 0))
    beyond = builder.icmp_unsigned(">", position, last)
    shifted = builder.lshr(value, g.resize(builder.select(beyond, last, position), bits))
    shifted = builder.select(beyond, g.integer(bits, 0), shifted)
    short = builder.icmp_unsigned("<", length, g.integer(32, bits))
    safe = g.resize(builder.select(short, length, g.integer(32, 0)), bits)
    mask = builder.sub(builder.shl(g.integer(bits, 1), safe), g.integer(bits, 1))
    mask = builder.select(short, mask, g.integer(bits, -1))
    field = builder.and_(shifted, mask)
    if kind.is_signed:
        # The sign is the field's last bit, or the value's sign if the field extends beyond it.
        end = builder.sub(builder.add(position, length), g.integer(32, 1))
        end = builder.select(builder.icmp_unsigned(">", end, last), last, end)
        sign = builder.trunc(builder.lshr(value, g.resize(end, bits)), integers(1))
        field = builder.select(sign, builder.or_(field, builder.not_(mask)), field)
        room = builder.select(beyond, g.integer(32, 0), builder.sub(g.integer(32, bits), position))
        inside = builder.icmp_unsigned("<", room, g.integer(32, bits))
        have = g.resize(builder.select(inside, room, g.integer(32, 0)), bits)
        present = builder.sub(builder.shl(g.integer(bits, 1), have), g.integer(bits, 1))
        present = builder.select(inside, present, g.integer(bits, -1))
        field = builder.select(sign, builder.or_(field, builder.not_(present)), field)
    g.write(item, builder.select(empty, g.integer(bits, 0), field))


@lowers("bfi")
def _bfi(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    insert, base = sources(g, item, kind, 2)
    builder = g.builder
    bits = kind.bits
    position, length = (
        builder.and_(g.read(g.operand(item, each), TYPES["u32"]), g.integer(32, 255)) for each in (3, 4)
    )
    short = builder.icmp_unsigned("<", length, g.integer(32, bits))
    safe = g.resize(builder.select(short, length, g.integer(32, 0)), bits)
    mask = builder.sub(builder.shl(g.integer(bits, 1), safe), g.integer(bits, 1))
    mask = builder.select(short, mask, g.integer(bits, -1))
    beyond = builder.icmp_unsigned(">", position, g.integer(32, bits - 1))
    by = g.resize(builder.select(beyond, g.integer(32, 0), position), bits)
    moved = builder.select(beyond, g.integer(bits, 0), builder.shl(mask, by))
    field = builder.and_(builder.shl(insert, by), moved)
    g.write(item, builder.or_(builder.and_(base, builder.not_(moved)), field))


#: Bytes that prmt picks in its special modes, by the lowest two bits of the selector; lowest byte first.
_PERMUTATIONS: dict[str, list[tuple[int, ...]]] = {
    "f4e": [(n, n + 1, n + 2, n + 3) for n in range(4)],
    "b4e": [(n, (n - 1) % 8, (n - 2) % 8, (n - 3) % 8) for n in range(4)],
    "rc8": [(n, n, n, n) for n in range(4)],
    "ecl": [tuple(max(n, byte) for byte in range(4)) for n in range(4)],
    "ecr": [tuple(min(n, byte) for byte in range(4)) for n in range(4)],
    "rc16": [(2 * (n % 2), 2 * (n % 2) + 1, 2 * (n % 2), 2 * (n % 2) + 1) for n in range(4)],
}


@lowers("prmt")
def _prmt(g: KernelBuilder, item: FlatInstruction) -> None:
    a, b, selector = sources(g, item, TYPES["b32"], 3)
    builder = g.builder
    for mode, rows in _PERMUTATIONS.items():
        if item.instruction.has(mode):
            # Use the selector of the plain form that picks the same bytes.
            plain = [sum(byte << (4 * place) for place, byte in enumerate(row)) for row in rows]
            low = builder.and_(selector, g.integer(32, 3))
            selector = g.integer(32, plain[0])
            for number, value in enumerate(plain[1:], 1):
                here = builder.icmp_unsigned("==", low, g.integer(32, number))
                selector = builder.select(here, g.integer(32, value), selector)
    whole = builder.or_(g.resize(a, 64), builder.shl(g.resize(b, 64), g.integer(64, 32)))
    result: Value = g.integer(32, 0)
    for byte in range(4):
        nibble = builder.lshr(selector, g.integer(32, 4 * byte))
        by = builder.shl(builder.and_(nibble, g.integer(32, 7)), g.integer(32, 3))
        picked = builder.and_(g.resize(builder.lshr(whole, g.resize(by, 64)), 32), g.integer(32, 255))
        negative = builder.icmp_unsigned("!=", builder.and_(picked, g.integer(32, 128)), g.integer(32, 0))
        spread = builder.select(negative, g.integer(32, 255), g.integer(32, 0))
        wants_sign = builder.icmp_unsigned("!=", builder.and_(nibble, g.integer(32, 8)), g.integer(32, 0))
        picked = builder.select(wants_sign, spread, picked)
        result = builder.or_(result, builder.shl(picked, g.integer(32, 8 * byte)))
    g.write(item, result)


@lowers("sad")
def _sad(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = type_of(g, item)
    a, b, c = sources(g, item, kind, 3)
    builder = g.builder
    less = (builder.icmp_signed if kind.is_signed else builder.icmp_unsigned)("<", a, b)
    g.write(item, builder.add(c, builder.select(less, builder.sub(b, a), builder.sub(a, b))))


@lowers("dp4a", "dp2a")
def _dot(g: KernelBuilder, item: FlatInstruction) -> None:
    a_type, b_type = item.instruction.types[:2]
    a = g.read(g.operand(item, 1), a_type)
    b = g.read(g.operand(item, 2), b_type)
    total = g.read(g.operand(item, 3), TYPES["b32"])
    four = item.opcode == "dp4a"
    start = 0 if four or item.instruction.has("lo") else 2
    for part in range(4 if four else 2):
        x = part_of(g, a, part, 8 if four else 16, a_type.is_signed)
        y = part_of(g, b, part + start, 8, b_type.is_signed)
        total = g.builder.add(total, g.builder.mul(x, y))
    g.write(item, total)


def part_of(g: KernelBuilder, value: Value, index: int, bits: int, signed: bool) -> Value:
    """A byte or half-word of 32 bits, extended to 32 bits."""
    left = g.builder.shl(value, g.integer(32, 32 - bits * (index + 1)))
    return (g.builder.ashr if signed else g.builder.lshr)(left, g.integer(32, 32 - bits))


@lowers("bmsk")
def _mask_of_bits(g: KernelBuilder, item: FlatInstruction) -> None:
    """Ones from bit a on, b of them; `clamp` takes large numbers as they are, `wrap` modulo 32."""
    builder = g.builder
    a, b = (g.resize(each, 64) for each in sources(g, item, TYPES["b32"], 2))
    top = g.integer(64, 31 if item.instruction.has("wrap") else 32)
    if item.instruction.has("wrap"):
        a, b = builder.and_(a, top), builder.and_(b, top)
    else:
        a, b = (builder.select(builder.icmp_unsigned(">", each, top), top, each) for each in (a, b))
    ones = builder.sub(builder.shl(g.integer(64, 1), b), g.integer(64, 1))
    g.write(item, g.resize(builder.shl(ones, a), 32))


@lowers("szext")
def _extend_bits(g: KernelBuilder, item: FlatInstruction) -> None:
    """The lowest b bits, sign-extended or zero-extended."""
    builder = g.builder
    kind = type_of(g, item)
    value = g.read(g.operand(item, 1), kind)
    count = g.read(g.operand(item, 2), TYPES["u32"])
    if item.instruction.has("wrap"):
        count = builder.and_(count, g.integer(32, 31))
    whole = builder.icmp_unsigned(">=", count, g.integer(32, 32))
    none = builder.icmp_unsigned("==", count, g.integer(32, 0))
    left = builder.sub(g.integer(32, 32), builder.select(builder.or_(whole, none), g.integer(32, 32), count))
    shift = builder.ashr if kind.is_signed else builder.lshr
    found = shift(builder.shl(value, left), left)
    g.write(item, builder.select(none, g.integer(32, 0), builder.select(whole, value, found)))


@lowers("fns")
def _find_nth_set(g: KernelBuilder, item: FlatInstruction) -> None:
    """The n-th set bit from a position on, upwards or downwards; all ones if there is none."""
    builder = g.builder
    mask, position, offset = sources(g, item, TYPES["b32"], 3)
    zero, one = g.integer(32, 0), g.integer(32, 1)
    down = builder.icmp_signed("<", offset, zero)
    at_once = builder.icmp_unsigned("==", offset, zero)
    wanted = builder.sub(builder.select(down, builder.sub(zero, offset), offset), one)
    step = builder.select(down, g.integer(32, -1), one)
    found: Value = g.integer(32, -1)
    for _ in range(32):
        inside = builder.icmp_unsigned("<", position, g.integer(32, 32))
        bit = builder.and_(builder.lshr(mask, builder.and_(position, g.integer(32, 31))), one)
        is_set = builder.and_(inside, builder.icmp_unsigned("!=", bit, zero))
        nth = builder.or_(at_once, builder.icmp_unsigned("==", wanted, zero))
        new = builder.icmp_unsigned("==", found, g.integer(32, -1))
        found = builder.select(builder.and_(builder.and_(is_set, nth), new), position, found)
        wanted = builder.select(is_set, builder.sub(wanted, one), wanted)
        position = builder.select(at_once, g.integer(32, 32), builder.add(position, step))
    g.write(item, found)
