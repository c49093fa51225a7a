"""Arithmetic and logic: PTX instructions on registers, as LLVM IR."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from llvmlite import ir

from ..flatten import CARRY, FlatInstruction
from ..program import TYPES, Immediate, Pair, Type
from . import rounding
from .lanes import floats, integers

if TYPE_CHECKING:
    from .kernel import KernelBuilder

Value = ir.Value
Lowering = Callable[["KernelBuilder", FlatInstruction], None]
LOWERINGS: dict[str, Lowering] = {}


def lowers(*opcodes: str) -> Callable[[Lowering], Lowering]:
    """Register a function that generates code for these opcodes."""

    def register(function: Lowering) -> Lowering:
        for opcode in opcodes:
            LOWERINGS[opcode] = function
        return function

    return register


def _type(g: KernelBuilder, item: FlatInstruction) -> Type:
    types = item.instruction.types
    if not types:
        raise g.not_covered(item)
    return types[-1]


def _operands(g: KernelBuilder, item: FlatInstruction, kind: Type, count: int) -> list[Value]:
    """The sources, after the destination, all of one type."""
    return [g.read(g.operand(item, position), kind) for position in range(1, count + 1)]


# -- integers and floats alike ---------------------------------------------------------------------------


@lowers("add", "sub", "mul")
def _add(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = _type(g, item)
    if kind.is_float:
        return _float(g, item, kind, item.opcode, 2)
    a, b = _operands(g, item, kind, 2)
    if item.opcode == "mul":
        return g.write(item, _product(g, item, kind, a, b))
    if item.instruction.has("cc"):
        return _with_carry(g, item, kind, a, b, subtract=item.opcode == "sub", carry_in=False)
    if item.instruction.has("sat"):
        return g.write(item, g.intrinsic(f"s{item.opcode}.sat", a, b))
    return g.write(item, getattr(g.builder, item.opcode)(a, b))


@lowers("addc", "subc")
def _addc(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = _type(g, item)
    a, b = _operands(g, item, kind, 2)
    _with_carry(g, item, kind, a, b, subtract=item.opcode == "subc", carry_in=True)


def _with_carry(
    g: KernelBuilder, item: FlatInstruction, kind: Type, a: Value, b: Value, *, subtract: bool, carry_in: bool
) -> None:
    builder = g.builder
    operate = builder.sub if subtract else builder.add
    result = operate(a, b)
    out = builder.icmp_unsigned("<", a, b) if subtract else builder.icmp_unsigned("<", result, a)
    if carry_in:
        carry = g.resize(g.read_register(CARRY), kind.bits)
        again = operate(result, carry)
        more = builder.icmp_unsigned("<", result, carry) if subtract else builder.icmp_unsigned("<", again, result)
        out, result = builder.or_(out, more), again
    g.write(item, result)
    if item.instruction.has("cc"):
        g.write_register(item, CARRY, out)


def _product(g: KernelBuilder, item: FlatInstruction, kind: Type, a: Value, b: Value) -> Value:
    """mul.lo, .hi or .wide."""
    if item.instruction.has("lo"):
        return g.builder.mul(a, b)
    wide = 2 * kind.bits
    both = [g.resize(each, wide, signed=kind.is_signed) for each in (a, b)]
    product = g.builder.mul(*both)
    if item.instruction.has("wide"):
        return product
    if not item.instruction.has("hi"):
        raise g.not_covered(item)
    return g.resize(g.builder.lshr(product, g.integer(wide, kind.bits)), kind.bits)


@lowers("mad", "madc")
def _mad(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = _type(g, item)
    if kind.is_float:
        return _float(g, item, kind, "fma", 3)
    a, b = _operands(g, item, kind, 2)
    product = _product(g, item, kind, a, b)
    added = TYPES[f"{kind.kind}{2 * kind.bits}"] if item.instruction.has("wide") else kind
    c = g.read(g.operand(item, 3), added)
    if item.instruction.has("cc") or item.opcode == "madc":
        return _with_carry(g, item, added, product, c, subtract=False, carry_in=item.opcode == "madc")
    if item.instruction.has("sat"):
        return g.write(item, g.intrinsic("sadd.sat", product, c))
    return g.write(item, g.builder.add(product, c))


@lowers("mul24", "mad24")
def _mul24(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = _type(g, item)
    builder = g.builder
    shift = builder.ashr if kind.is_signed else builder.lshr
    eight = g.integer(32, 8)
    a, b = (shift(builder.shl(each, eight), eight) for each in _operands(g, item, kind, 2))
    product = builder.mul(g.resize(a, 64, signed=kind.is_signed), g.resize(b, 64, signed=kind.is_signed))
    if item.instruction.has("hi"):
        product = builder.lshr(product, g.integer(64, 16))
    result = g.resize(product, 32)
    if item.opcode == "mad24":
        result = builder.add(result, g.read(g.operand(item, 3), kind))
    g.write(item, result)


@lowers("div", "rem")
def _div(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = _type(g, item)
    if kind.is_float:
        return _float(g, item, kind, "div", 2)
    a, b = _operands(g, item, kind, 2)
    builder = g.builder
    zero, one = g.integer(kind.bits, 0), g.integer(kind.bits, 1)
    by_zero = builder.icmp_unsigned("==", b, zero)
    unsafe = by_zero
    if kind.is_signed:  # the smallest number divided by -1 overflows: the processor would trap
        minus = builder.icmp_unsigned("==", b, g.integer(kind.bits, -1))
        smallest = builder.icmp_unsigned("==", a, g.integer(kind.bits, 1 << (kind.bits - 1)))
        unsafe = builder.or_(unsafe, builder.and_(minus, smallest))
    divisor = builder.select(unsafe, one, b)
    if item.opcode == "div":
        result = (builder.sdiv if kind.is_signed else builder.udiv)(a, divisor)
        return g.write(item, builder.select(by_zero, g.integer(kind.bits, -1), result))
    result = (builder.srem if kind.is_signed else builder.urem)(a, divisor)
    return g.write(item, builder.select(by_zero, a, result))


@lowers("abs", "neg")
def _sign(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = _type(g, item)
    (a,) = _operands(g, item, kind, 1)
    builder = g.builder
    if kind.is_float:
        sign = sum(1 << (kind.bits * (part + 1) - 1) for part in range(kind.packed))
        if kind == TYPES["f32"] and item.instruction.has("ftz"):
            a = g.as_bits(rounding.flush(g, g.as_float(a)))
        changed = (
            builder.xor(a, g.integer(kind.total_bits, sign))
            if item.opcode == "neg"
            else builder.and_(a, g.integer(kind.total_bits, ~sign))
        )
        return g.write(item, changed)
    negated = builder.sub(g.integer(kind.bits, 0), a)
    if item.opcode == "abs":
        negated = builder.select(builder.icmp_signed("<", a, g.integer(kind.bits, 0)), negated, a)
    return g.write(item, negated)


@lowers("min", "max")
def _min(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = _type(g, item)
    largest = item.opcode == "max"
    count = len(item.instruction.operands) - 1
    values = _operands(g, item, kind, max(count, 2))
    result = values[0]
    for other in values[1:]:
        if kind.is_float:
            result = _float_minimum(g, item, kind, result, other, largest)
        else:
            compare = g.builder.icmp_signed if kind.is_signed else g.builder.icmp_unsigned
            result = g.builder.select(compare(">" if largest else "<", result, other), result, other)
    if item.instruction.has("relu"):
        raise g.not_covered(item)
    g.write(item, result)


def _float_minimum(g: KernelBuilder, item: FlatInstruction, kind: Type, a: Value, b: Value, largest: bool) -> Value:
    if item.instruction.has("xorsign", "abs"):
        raise g.not_covered(item)

    def one(x: Value, y: Value) -> Value:
        if kind.bits == 16:
            x, y = rounding.widen(g, x, kind.kind), rounding.widen(g, y, kind.kind)
        else:
            x, y = g.as_float(x), g.as_float(y)
            if item.instruction.has("ftz"):
                x, y = rounding.flush(g, x), rounding.flush(g, y)
        result = rounding.minimum(g, x, y, largest=largest, keep_nan=item.instruction.has("NaN"))
        return rounding.narrow(g, result, kind.kind) if kind.bits == 16 else g.as_bits(result)

    return g.packed(kind, one, a, b)


# -- floats ---------------------------------------------------------------------------------------------


@lowers("fma")
def _fma(g: KernelBuilder, item: FlatInstruction) -> None:
    _float(g, item, _type(g, item), "fma", 3)


def _float(g: KernelBuilder, item: FlatInstruction, kind: Type, operation: str, count: int) -> None:
    """add, sub, mul, div and fma, with .ftz, .sat and the rounding modes."""
    mode = next((each for each in rounding.DIRECTED if item.instruction.has(each)), "rn")
    values = _operands(g, item, kind, count)
    if kind.bits == 16 and (mode != "rn" or operation == "div"):
        raise g.not_covered(item)

    def small(*parts: Value) -> Value:
        wide = [rounding.widen(g, each, kind.kind) for each in parts]
        if operation == "fma":
            doubles = [g.builder.fpext(each, floats(64)) for each in wide]
            result = rounding.to_odd_single(g, rounding.fused_odd(g, *doubles))
        else:
            result = _nearest(g, operation, wide)
        if item.instruction.has("sat"):
            result = rounding.saturate(g, result)
        if item.instruction.has("relu"):
            result = rounding.minimum(g, result, g.real(32, 0.0), largest=True, keep_nan=True)
        return rounding.narrow(g, result, kind.kind)

    if kind.bits == 16:
        return g.write(item, g.packed(kind, small, *values))
    numbers = [g.as_float(each) for each in values]
    flushing = kind.bits == 32 and item.instruction.has("ftz")
    if flushing:
        numbers = [rounding.flush(g, each) for each in numbers]
    if mode == "rn":
        result = _nearest(g, operation, numbers)
    elif kind.bits == 32:
        doubles = [g.builder.fpext(each, floats(64)) for each in numbers]
        result = rounding.narrow_directed(g, _odd_double(g, operation, doubles), mode)
    else:
        result = rounding.directed(g, *_with_error(g, operation, numbers), mode)
    if flushing:
        result = rounding.flush(g, result)
    if item.instruction.has("sat"):
        result = rounding.saturate(g, result)
    return g.write(item, g.as_bits(result))


def _nearest(g: KernelBuilder, operation: str, values: list[Value]) -> Value:
    if operation == "fma":
        return g.intrinsic("fma", *values)
    return getattr(g.builder, f"f{operation}")(*values)


def _with_error(g: KernelBuilder, operation: str, values: list[Value]) -> tuple[Value, Value]:
    """A result to nearest, and a number with the sign of what it lacks."""
    builder = g.builder
    if operation == "sub":
        values = [values[0], builder.fneg(values[1])]
    if operation in ("add", "sub"):
        return rounding.two_sum(g, *values)
    if operation == "mul":
        result = builder.fmul(*values)
        return result, g.intrinsic("fma", *values, builder.fneg(result))
    if operation == "div":
        a, b = values
        result = builder.fdiv(a, b)
        rest = g.intrinsic("fma", builder.fneg(result), b, a)
        return result, g.intrinsic("copysign", rest, builder.fmul(rest, b))
    a, b, c = values  # Boldo and Muller 2005
    result = g.intrinsic("fma", a, b, c)
    product = builder.fmul(a, b)
    low = g.intrinsic("fma", a, b, builder.fneg(product))
    alpha, rest = rounding.two_sum(g, c, low)
    beta, beta_low = rounding.two_sum(g, product, alpha)
    gamma = builder.fadd(builder.fsub(beta, result), beta_low)
    return result, builder.fadd(gamma, rest)


def _odd_double(g: KernelBuilder, operation: str, values: list[Value]) -> Value:
    """On singles widened to double precision: the result rounded to odd."""
    if operation == "mul":
        return g.builder.fmul(*values)  # exact
    if operation == "fma":
        return rounding.fused_odd(g, *values)
    return rounding.make_odd(g, *_with_error(g, operation, values))


@lowers("rcp", "sqrt", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh")
def _function(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = _type(g, item)
    if kind.packed != 1 or (kind.bits == 16 and item.opcode not in ("ex2", "tanh")):
        raise g.not_covered(item)
    (bits,) = _operands(g, item, kind, 1)
    builder = g.builder
    value = rounding.widen(g, bits, kind.kind) if kind.bits == 16 else g.as_float(bits)
    flushing = kind.bits == 32 and item.instruction.has("ftz")
    if flushing:
        value = rounding.flush(g, value)
    mode = next((each for each in rounding.DIRECTED if item.instruction.has(each)), "rn")
    width = max(kind.bits, 32)
    one = g.real(width, 1.0)
    if item.opcode == "rcp":
        result = _rounded(g, "div", [one, value], mode, width)
    elif item.opcode == "sqrt":
        result = _square_root(g, value, mode, width)
    elif item.opcode == "rsqrt":
        wide = value if width == 64 else builder.fpext(value, floats(64))
        result = builder.fdiv(g.real(64, 1.0), g.intrinsic("sqrt", wide))
        result = result if width == 64 else builder.fptrunc(result, floats(32))
    elif item.opcode == "tanh":
        result = _tanh(g, value)
    else:
        name = {"ex2": "exp2", "lg2": "log2"}.get(item.opcode, item.opcode)
        result = g.per_lane(name, value)
    if flushing:
        result = rounding.flush(g, result)
    g.write(item, rounding.narrow(g, result, kind.kind) if kind.bits == 16 else g.as_bits(result))


def _rounded(g: KernelBuilder, operation: str, values: list[Value], mode: str, width: int) -> Value:
    if mode == "rn":
        return _nearest(g, operation, values)
    if width == 64:
        return rounding.directed(g, *_with_error(g, operation, values), mode)
    doubles = [g.builder.fpext(each, floats(64)) for each in values]
    return rounding.narrow_directed(g, _odd_double(g, operation, doubles), mode)


def _square_root(g: KernelBuilder, value: Value, mode: str, width: int) -> Value:
    if mode == "rn":
        return g.intrinsic("sqrt", value)
    wide = value if width == 64 else g.builder.fpext(value, floats(64))
    root = g.intrinsic("sqrt", wide)
    lost = g.intrinsic("fma", g.builder.fneg(root), root, wide)
    if width == 64:
        return rounding.directed(g, root, lost, mode)
    return rounding.narrow_directed(g, rounding.make_odd(g, root, lost), mode)


def _tanh(g: KernelBuilder, value: Value) -> Value:
    """1 - 2/(e^2x + 1) in double precision, x itself where that would cancel."""
    builder = g.builder
    wide = builder.fpext(value, floats(64))
    grown = g.per_lane("exp", builder.fmul(wide, g.real(64, 2.0)))
    share = builder.fdiv(g.real(64, 2.0), builder.fadd(grown, g.real(64, 1.0)))
    result = builder.fptrunc(builder.fsub(g.real(64, 1.0), share), floats(32))
    tiny = builder.fcmp_ordered("<", g.intrinsic("fabs", value), g.real(32, 1e-5))
    return builder.select(tiny, value, result)


@lowers("copysign")
def _copysign(g: KernelBuilder, item: FlatInstruction) -> None:
    a, b = _operands(g, item, _type(g, item), 2)  # the sign of a on b
    g.write(item, g.as_bits(g.intrinsic("copysign", g.as_float(b), g.as_float(a))))


@lowers("testp")
def _testp(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = _type(g, item)
    (bits,) = _operands(g, item, kind, 1)
    builder = g.builder
    width = kind.bits
    exponent = {32: 0x7F800000, 64: 0x7FF << 52}[width]
    mantissa = {32: 0x7FFFFF, 64: (1 << 52) - 1}[width]
    part = builder.and_(bits, g.integer(width, exponent))
    rest = builder.and_(bits, g.integer(width, mantissa))
    zero = g.integer(width, 0)
    all_ones = builder.icmp_unsigned("==", part, g.integer(width, exponent))
    no_exponent = builder.icmp_unsigned("==", part, zero)
    no_rest = builder.icmp_unsigned("==", rest, zero)
    some_rest = builder.icmp_unsigned("!=", rest, zero)
    tests = {
        "finite": lambda: builder.not_(all_ones),
        "infinite": lambda: builder.and_(all_ones, no_rest),
        "number": lambda: builder.not_(builder.and_(all_ones, some_rest)),
        "notanumber": lambda: builder.and_(all_ones, some_rest),
        "normal": lambda: builder.and_(builder.not_(all_ones), builder.not_(no_exponent)),
        "subnormal": lambda: builder.and_(no_exponent, some_rest),
    }
    for name, test in tests.items():
        if item.instruction.has(name):
            return g.write(item, test())
    raise g.not_covered(item)


# -- bits -----------------------------------------------------------------------------------------------


@lowers("and", "or", "xor")
def _logic(g: KernelBuilder, item: FlatInstruction) -> None:
    a, b = _operands(g, item, _type(g, item), 2)
    builder = g.builder
    g.write(item, {"and": builder.and_, "or": builder.or_, "xor": builder.xor}[item.opcode](a, b))


@lowers("not", "cnot")
def _not(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = _type(g, item)
    (a,) = _operands(g, item, kind, 1)
    if item.opcode == "not":
        return g.write(item, g.builder.not_(a))
    return g.write(item, g.resize(g.builder.icmp_unsigned("==", a, g.integer(kind.bits, 0)), kind.bits))


@lowers("lop3")
def _lop3(g: KernelBuilder, item: FlatInstruction) -> None:
    a, b, c = _operands(g, item, TYPES["b32"], 3)
    table = g.operand(item, 4)
    if not isinstance(table, Immediate) or item.instruction.has("BoolOp", "or", "and"):
        raise g.not_covered(item)
    builder = g.builder
    result: Value = g.integer(32, 0)
    for row in range(8):
        if int(table.value) >> row & 1:
            picked = [each if row & bit else builder.not_(each) for each, bit in ((a, 4), (b, 2), (c, 1))]
            result = builder.or_(result, builder.and_(builder.and_(picked[0], picked[1]), picked[2]))
    g.write(item, result)


@lowers("shl", "shr")
def _shift(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = _type(g, item)
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
    low, high, amount = _operands(g, item, TYPES["b32"], 3)
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
    (a,) = _operands(g, item, _type(g, item), 1)
    if item.opcode == "brev":
        return g.write(item, g.intrinsic("bitreverse", a))
    if item.opcode == "popc":
        return g.write(item, g.resize(g.intrinsic("ctpop", a), 32))
    return g.write(item, g.resize(g.intrinsic("ctlz", a, extra=[ir.Constant(ir.IntType(1), 0)]), 32))


@lowers("bfind")
def _bfind(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = _type(g, item)
    (a,) = _operands(g, item, kind, 1)
    builder = g.builder
    if kind.is_signed:
        a = builder.xor(a, builder.ashr(a, g.integer(kind.bits, kind.bits - 1)))
    zeros = g.resize(g.intrinsic("ctlz", a, extra=[ir.Constant(ir.IntType(1), 0)]), 32)
    found = zeros if item.instruction.has("shiftamt") else builder.sub(g.integer(32, kind.bits - 1), zeros)
    none = builder.icmp_unsigned("==", a, g.integer(kind.bits, 0))
    g.write(item, builder.select(none, g.integer(32, -1), found))


@lowers("bfe")
def _bfe(g: KernelBuilder, item: FlatInstruction) -> None:
    kind = _type(g, item)
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
        # The sign is the field's last bit, or the value's own where the field goes beyond it.
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
    kind = _type(g, item)
    insert, base = _operands(g, item, kind, 2)
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


@lowers("prmt")
def _prmt(g: KernelBuilder, item: FlatInstruction) -> None:
    if any(item.instruction.has(mode) for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")):
        raise g.not_covered(item)
    a, b, selector = _operands(g, item, TYPES["b32"], 3)
    builder = g.builder
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
    kind = _type(g, item)
    a, b, c = _operands(g, item, kind, 3)
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
        x = _part(g, a, part, 8 if four else 16, a_type.is_signed)
        y = _part(g, b, part + start, 8, b_type.is_signed)
        total = g.builder.add(total, g.builder.mul(x, y))
    g.write(item, total)


def _part(g: KernelBuilder, value: Value, index: int, bits: int, signed: bool) -> Value:
    """Byte or half-word of 32 bits, extended again."""
    left = g.builder.shl(value, g.integer(32, 32 - bits * (index + 1)))
    return (g.builder.ashr if signed else g.builder.lshr)(left, g.integer(32, 32 - bits))


# -- comparisons and choices -------------------------------------------------------------------------------

_FLOAT_COMPARISONS = {
    **{name: ("ordered", sign) for name, sign in zip(("eq", "lt", "le", "gt", "ge"), "== < <= > >=".split())},
    **{f"{n}u": ("unordered", s) for n, s in zip(("eq", "ne", "lt", "le", "gt", "ge"), "== != < <= > >=".split())},
    "ne": ("ordered", "!="),
}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED_COMPARISONS = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}


def _compared(g: KernelBuilder, item: FlatInstruction, kind: Type) -> Value:
    builder = g.builder
    a, b = _operands(g, item, kind, 2)
    comparison = item.instruction.modifiers[0]
    if kind.is_float:
        if kind.packed != 1:
            raise g.not_covered(item)
        numbers = [rounding.widen(g, each, kind.kind) if kind.bits == 16 else g.as_float(each) for each in (a, b)]
        if item.instruction.has("ftz") and kind.bits == 32:
            numbers = [rounding.flush(g, each) for each in numbers]
        if comparison == "num":
            return builder.fcmp_ordered("ord", *numbers)
        if comparison == "nan":
            return builder.fcmp_unordered("uno", *numbers)
        if comparison not in _FLOAT_COMPARISONS:
            raise g.not_covered(item)
        order, sign = _FLOAT_COMPARISONS[comparison]
        return (builder.fcmp_ordered if order == "ordered" else builder.fcmp_unordered)(sign, *numbers)
    if comparison in _UNSIGNED_COMPARISONS:
        return builder.icmp_unsigned(_UNSIGNED_COMPARISONS[comparison], a, b)
    if comparison not in _COMPARISONS:
        raise g.not_covered(item)
    compare = builder.icmp_signed if kind.is_signed else builder.icmp_unsigned
    return compare(_COMPARISONS[comparison], a, b)


def _combined(g: KernelBuilder, item: FlatInstruction, flags: Value) -> Value:
    """With the predicate that .and, .or or .xor names as last operand."""
    for name in ("and", "or", "xor"):
        if item.instruction.has(name):
            other = g.read(g.operand(item, 3), TYPES["pred"])
            builder = g.builder
            return {"and": builder.and_, "or": builder.or_, "xor": builder.xor}[name](flags, other)
    return flags


@lowers("setp")
def _setp(g: KernelBuilder, item: FlatInstruction) -> None:
    flags = _compared(g, item, _type(g, item))
    target = g.operand(item, 0)
    if isinstance(target, Pair):
        g.write_operand(item, target.first, _combined(g, item, flags))
        g.write_operand(item, target.second, _combined(g, item, g.builder.not_(flags)))
    else:
        g.write(item, _combined(g, item, flags))


@lowers("set")
def _set(g: KernelBuilder, item: FlatInstruction) -> None:
    target, kind = item.instruction.types[-2:]
    flags = _combined(g, item, _compared(g, item, kind))
    one = {"f": {16: 0x3C00, 32: 0x3F800000}, "bf": {16: 0x3F80}}.get(target.kind, {}).get(target.bits, -1)
    bits = target.bits
    g.write(item, g.builder.select(flags, g.integer(bits, one), g.integer(bits, 0)))


@lowers("selp")
def _selp(g: KernelBuilder, item: FlatInstruction) -> None:
    a, b = _operands(g, item, _type(g, item), 2)
    g.write(item, g.builder.select(g.read(g.operand(item, 3), TYPES["pred"]), a, b))


@lowers("slct")
def _slct(g: KernelBuilder, item: FlatInstruction) -> None:
    kind, deciding = item.instruction.types[-2:]
    a, b = _operands(g, item, kind, 2)
    c = g.read(g.operand(item, 3), deciding)
    if deciding.is_float:
        number = rounding.flush(g, g.as_float(c)) if item.instruction.has("ftz") else g.as_float(c)
        flags = g.builder.fcmp_ordered(">=", number, g.real(deciding.bits, 0.0))
    else:
        flags = g.builder.icmp_signed(">=", c, g.integer(deciding.bits, 0))
    g.write(item, g.builder.select(flags, a, b))


@lowers("isspacep")
def _isspacep(g: KernelBuilder, item: FlatInstruction) -> None:
    address = g.read(g.operand(item, 1), TYPES["u64"])
    g.write(item, g.in_window(item, address))
