"""Matrix products: `mma.sync` of all shapes and types, as products of small matrices in memory.

The registers of a warp go to memory as they are. One function per form unpacks
them, multiplies row by row in vectors of 8 columns, and packs the sums. A sparse
matrix picks the rows of B that its metadata name, and reads no others. Sums of
floats are fused multiply-adds in single precision, in the order of the depth; a
GPU adds several products at once, and truncates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from llvmlite import ir

from ..flat import FlatInstruction
from ..products import ELEMENT_BITS, Product, metadata_lanes, pick_of, product_of
from ..program import TYPES, Immediate, Operand, Vector
from . import rounding, runtime
from .lanes import I32, I64, LANES, POINTER, Value, floats, integers
from .lowering import lowers
from .runtime import Fields, i32, i64

if TYPE_CHECKING:
    from .kernel import KernelBuilder

#: Columns of one block of sums: what four lanes hold of a row.
BLOCK = 8
#: (Half of the rows, depth) → where a number of A's first row lies, and how far apart rows are.
Places = Callable[[int, int], tuple[int, int]]


@lowers("mma")
def _mma(g: KernelBuilder, item: FlatInstruction) -> None:
    product = product_of(item.instruction)
    if product is None:
        raise g.not_covered(item)
    operands = [_items(g.operand(item, position)) for position in range(4)]
    counts = (
        product.sum_registers(product.result_type),
        product.a_registers,
        product.b_registers,
        product.sum_registers(product.sum_type),
    )
    if tuple(len(each) for each in operands) != counts:
        raise g.error(item, f"needs {', '.join(str(each) for each in counts)} registers")
    bits = product.register_bits
    a, b, c = (stored(g, name, each, bits) for name, each in zip("abc", operands[1:], strict=True))
    arguments, selector = [a, b, c], 0
    if product.sparse:
        arguments.append(stored(g, "metadata", [g.operand(item, 4)], 32))
        selector = selector_of(g, item, product, g.operand(item, 5))
    g.builder.call(multiplier(g.module, product, selector), [g.context, g.frame, *arguments])
    for each, value in zip(operands[0], loaded(g, c, len(operands[0]), bits), strict=True):
        g.write_operand(item, each, value)


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def selector_of(g: KernelBuilder, item: FlatInstruction, product: Product, operand: Operand) -> int:
    """Which of four lanes hold the metadata of a sparse product."""
    most = 4 // metadata_lanes(product) - 1
    if not isinstance(operand, Immediate) or operand.value not in range(most + 1):
        raise g.error(item, f"needs a number from 0 to {most} as sparsity selector")
    return int(operand.value)


def stored(g: KernelBuilder, name: str, operands: Sequence[Operand], bits: int, room: int = 0) -> Value:
    """Registers in memory, one after the other; `room` for more of them."""
    values = [g.read(each, TYPES[f"b{bits}"]) for each in operands]
    buffer = g.buffer(f"matrix_{name}", ir.ArrayType(integers(bits), max(room, len(values), 8)))
    place = g.untyped(buffer)
    for position, value in enumerate(values):
        g.builder.store(value, g.at(place, position * bits // 8 * LANES))
    return place


def loaded(g: KernelBuilder, place: Value, count: int, bits: int) -> list[Value]:
    return [
        g.builder.load(g.at(place, position * bits // 8 * LANES), typ=integers(bits)) for position in range(count)
    ]


# -- the arithmetic of a product ------------------------------------------------------------------------------


def number_type(product: Product) -> ir.Type:
    """What products are summed in: integers that saturate need more than 32 bits."""
    if product.a == "f64":
        return ir.DoubleType()
    if product.sum_type == "s32":
        return I64 if product.saturates else I32
    return ir.FloatType()


def decoded(self: Fields, register: Value, kind: str, element: int) -> Value:
    """One element of each lane's register as a number that can be multiplied."""
    builder = self.builder
    bits = ELEMENT_BITS[kind]
    if kind in ("f64", "b1"):
        return builder.bitcast(register, floats(64)) if kind == "f64" else register
    if kind == "tf32":  # the lowest 13 bits of a single do not count
        return self.as_float(builder.and_(register, self.integer(32, 0xFFFFE000)))
    width = register.type.element.width
    if kind in ("s8", "u8", "s4", "u4"):
        left = builder.shl(register, self.integer(width, width - bits * (element + 1)))
        shift = builder.ashr if kind.startswith("s") else builder.lshr
        return shift(left, self.integer(width, width - bits))
    part = builder.lshr(register, self.integer(width, bits * element))
    return decoded_float(self, self.resize(part, bits), kind)


def decoded_elements(self: Fields, product: Product, held: Value, kind: str) -> Value:
    """32 elements, each in its own integer, as numbers that can be multiplied."""
    if kind in ("f16", "bf16", "e4m3", "e5m2"):
        return decoded_float(self, held, kind)
    if kind in ("s8", "u8"):
        return self.resize(held, 8 * number_bytes(product), signed=kind == "s8")
    return decoded(self, held, kind, 0)


def decoded_float(self: Fields, part: Value, kind: str) -> Value:
    """Elements of 8 or 16 bits as singles."""
    if kind in ("f16", "bf16"):
        return rounding.widen(self, part, "f" if kind == "f16" else "bf")
    builder = self.builder
    wide = self.resize(part, 16)
    if kind == "e5m2":  # the upper byte of a half
        return rounding.widen(self, builder.shl(wide, self.integer(16, 8)), "f")
    # e4m3 shares the half's fields but for the bias of the exponent; all ones are NaN.
    size = builder.and_(wide, self.integer(16, 0x7F))
    sign = builder.shl(builder.and_(wide, self.integer(16, 0x80)), self.integer(16, 8))
    half = builder.or_(builder.shl(size, self.integer(16, 7)), sign)
    value = builder.fmul(rounding.widen(self, half, "f"), self.real(32, 256.0))
    missing = builder.icmp_unsigned("==", size, self.integer(16, 0x7F))
    return builder.select(missing, self.real(32, float("nan")), value)


def multiplier(module: ir.Module, product: Product, selector: int = 0) -> ir.Function:
    """(a, b, c, metadata if A is sparse): multiply the registers in memory; the sums replace those of c."""
    operation = product.bit_operation + ("_sat" if product.saturates else "")
    operation += f"_sparse{selector}" if product.sparse else ""
    name = f"mma_m{product.rows}k{product.depth}_{product.a}_{product.b}_{product.sum_type}_{product.result_type}"

    def body(self: Fields, function: ir.Function) -> None:
        a, b, c, *metadata = function.args[2:]
        number = number_type(product)
        picks = unpack_picks(self, product, selector, metadata[0]) if metadata else None
        a_elements = self.room(ir.ArrayType(number, product.rows * product.stored_depth))
        b_rows = self.room(ir.ArrayType(number, BLOCK * product.depth))
        sums = self.room(ir.ArrayType(number, product.rows * BLOCK))
        unpack_a(self, product, a, a_elements)
        _unpack_b(self, product, b, b_rows)
        unpack_sums(self, product, c, sums)
        multiply_block(self, product, a_elements, fragment_places(product), b_rows, i64(BLOCK), sums, picks)
        pack_sums(self, product, sums, c)
        self.builder.ret_void()

    arguments = [POINTER] * (4 if product.sparse else 3)
    return runtime.helper(module, f"{name}_{operation}", ir.VoidType(), arguments, body)


def _as_number(self: Fields, value: Value, product: Product, kind: str) -> Value:
    """Whole numbers in the width that they are summed in."""
    if number_type(product) == I64:
        return self.resize(value, 64, signed=kind.startswith("s"))
    return value


def unpack_a(self: Fields, product: Product, registers: Value, elements: Value) -> None:
    """Element e of register r of all lanes becomes vector r · elements + e."""
    bits = product.register_bits
    for register in range(product.a_registers):
        held = self.builder.load(self.at(registers, register * bits // 8 * LANES), typ=integers(bits))
        for element in range(product.elements if product.a != "b1" else 1):
            value = _as_number(self, decoded(self, held, product.a, element), product, product.a)
            position = register * (1 if product.a == "b1" else product.elements) + element
            self.builder.store(value, self.at(elements, position * LANES * number_bytes(product)), align=4)


def _unpack_b(self: Fields, product: Product, registers: Value, rows: Value) -> None:
    """B as rows of 8 columns: lane l has column l / 4 of the rows at place l mod 4."""
    bits, size = product.register_bits, number_bytes(product)
    per_register = 1 if product.b == "b1" else product.elements
    for register in range(product.b_registers):
        held = self.builder.load(self.at(registers, register * bits // 8 * LANES), typ=integers(bits))
        for element in range(per_register):
            value = _as_number(self, decoded(self, held, product.b, element), product, product.b)
            for place in range(4):
                row = (register * 4 + place) * per_register + element
                columns = picked(self, value, value, range(place, LANES, 4))
                self.builder.store(columns, self.at(rows, row * BLOCK * size), align=4)


def picked(self: Fields, first: Value, second: Value, lanes: Sequence[int]) -> Value:
    """A vector of chosen lanes of two vectors."""
    return self.builder.shuffle_vector(
        first, second, ir.Constant(ir.VectorType(I32, len(lanes)), [i32(n) for n in lanes])
    )


#: Eight rows of sums from two registers: lane l has columns 2 (l mod 4) and the next of row l / 4.
_TO_ROWS = [part * LANES + lane for row in range(8) for lane in range(4 * row, 4 * row + 4) for part in range(2)]


def unpack_sums(self: Fields, product: Product, registers: Value, sums: Value) -> None:
    for half in range(product.rows // 8):
        if product.sum_type == "f16":
            held = self.builder.load(self.at(registers, half * 4 * LANES), typ=integers(32))
            pair = [decoded(self, held, "f16", element) for element in range(2)]
        else:
            kind = floats(product.register_bits) if product.sum_type != "s32" else integers(32)
            size = product.register_bits // 8 * LANES
            pair = [self.builder.load(self.at(registers, (2 * half + part) * size), typ=kind) for part in range(2)]
            pair = [_as_number(self, each, product, "s32") for each in pair]
        rows = picked(self, pair[0], pair[1], _TO_ROWS)
        self.builder.store(rows, self.at(sums, half * 8 * BLOCK * number_bytes(product)), align=4)


def pack_sums(self: Fields, product: Product, sums: Value, registers: Value) -> None:
    number = number_type(product)
    builder = self.builder
    for half in range(product.rows // 8):
        place = self.at(sums, half * 8 * BLOCK * number_bytes(product))
        rows = builder.load(place, typ=ir.VectorType(number, 8 * BLOCK), align=4)
        pair = [picked(self, rows, rows, range(part, 8 * BLOCK, 2)) for part in range(2)]
        if product.result_type == "f16":
            low, high = (self.resize(rounding.narrow(self, each, "f"), 32) for each in pair)
            packed = builder.or_(low, builder.shl(high, self.integer(32, 16)))
            builder.store(packed, self.at(registers, half * 4 * LANES))
            continue
        for part, value in enumerate(pair):
            if number == I64:
                low, high = self.integer(64, -(1 << 31)), self.integer(64, (1 << 31) - 1)
                value = builder.select(builder.icmp_signed("<", value, low), low, value)
                value = builder.select(builder.icmp_signed(">", value, high), high, value)
                value = self.resize(value, 32)
            size = product.register_bits // 8 * LANES
            builder.store(value, self.at(registers, (2 * half + part) * size))


def steps(product: Product, depth: int) -> int:
    """Numbers along a depth; 32 single bits are one."""
    return depth // (LANES if product.a == "b1" else 1)


def unpack_picks(self: Fields, product: Product, selector: int, metadata: Value) -> Value:
    """The row of B for each stored element of A: by half of the rows, element, and row in the half."""
    builder = self.builder
    vector = ir.VectorType(I64, 8)
    held = builder.load(metadata, typ=integers(32))
    table = self.room(ir.ArrayType(I64, product.rows * product.stored_depth))

    def same(value: int) -> ir.Constant:
        return ir.Constant(vector, [i64(value)] * 8)

    for half in range(product.rows // 8):
        for element in range(product.stored_depth):
            pick = pick_of(product, selector, half, element)
            words = builder.zext(picked(self, held, held, range(pick.lane, LANES, 4)), vector)
            index = builder.and_(builder.lshr(words, same(pick.shift)), same((1 << pick.bits) - 1))
            depth = builder.add(builder.mul(index, same(pick.step)), same(pick.first))
            builder.store(depth, self.at(table, (half * product.stored_depth + element) * 8 * 8), align=8)
    return table


def fragment_places(product: Product) -> Places:
    """Places of A's elements among unpacked registers."""
    per_register = 1 if product.a == "b1" else product.elements

    def place_of(half: int, k: int) -> tuple[int, int]:
        register, rest = divmod(k, 4 * per_register)
        place, element = divmod(rest, per_register)
        # The halves of the rows alternate in A's registers.
        held = (register * (product.rows // 8) + half) * per_register + element
        return held * LANES + place, 4

    return place_of


def multiply_block(
    self: Fields,
    product: Product,
    elements: Value,
    place_of: Places,
    rows: Value,
    row_stride: Value,
    sums: Value,
    picks: Value | None = None,
) -> None:
    """sums += A·B for 8 columns: B's rows stand `row_stride` numbers apart; `picks` are those of a sparse A."""
    number = number_type(product)
    vector = ir.VectorType(number, BLOCK)
    size = number_bytes(product)
    add = _adder(self, product)
    with self.count_loop(i64(8)) as row:
        totals = [_place(self, sums, half * 8 * BLOCK * size, row, BLOCK * size) for half in range(product.rows // 8)]
        found = [self.builder.load(each, typ=vector, align=4) for each in totals]
        for k in range(steps(product, product.stored_depth)):
            line = self.at(rows, self.builder.mul(row_stride, i64(k * size)))
            factors = None if picks is not None else self.builder.load(line, typ=vector, align=4)
            for half in range(product.rows // 8):
                if picks is not None:
                    which = self.builder.load(
                        _place(self, picks, (half * product.stored_depth + k) * 64, row, 8), typ=I64
                    )
                    line = self.at(rows, self.builder.mul(self.builder.mul(row_stride, which), i64(size)))
                    factors = self.builder.load(line, typ=vector, align=4)
                start, stride = place_of(half, k)
                one = self.builder.load(_place(self, elements, start * size, row, stride * size), typ=number)
                found[half] = add(found[half], _splat(self, one, vector), factors)
        for place, value in zip(totals, found, strict=True):
            self.builder.store(_with_one_nan(self, value), place, align=4)


def _with_one_nan(self: Fields, totals: Value) -> Value:
    """Single precision has one NaN only, as in `rounding.result_bits`."""
    if not isinstance(totals.type.element, ir.FloatType):
        return totals
    bits = ir.VectorType(I32, totals.type.count)
    canonical = ir.Constant(bits, [i32(rounding.CANONICAL_NAN[32])] * totals.type.count)
    missing = self.builder.fcmp_unordered("uno", totals, totals)
    return self.builder.select(missing, self.builder.bitcast(canonical, totals.type), totals)


def _place(self: Fields, base: Value, start: int, index: Value, stride: int) -> Value:
    return self.at(self.at(base, start), self.builder.mul(index, i64(stride)))


def _splat(self: Fields, scalar: Value, vector: ir.VectorType) -> Value:
    first = self.builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, i32(0))
    zeros = ir.Constant(ir.VectorType(I32, vector.count), [i32(0)] * vector.count)
    return self.builder.shuffle_vector(first, first, zeros)


def _adder(self: Fields, product: Product) -> Callable[[Value, Value, Value], Value]:
    """(total, a, b) → total + a·b, or the number of common or different bits."""
    builder = self.builder
    number = number_type(product)
    vector = ir.VectorType(number, BLOCK)
    if product.a == "b1":
        count = self.declared(f"llvm.ctpop.v{BLOCK}i32", vector, [vector])
        combine = builder.and_ if product.bit_operation == "and" else builder.xor
        return lambda total, a, b: builder.add(total, builder.call(count, [combine(a, b)]))
    if isinstance(number, ir.IntType):
        return lambda total, a, b: builder.add(total, builder.mul(a, b))
    name = f"llvm.fma.v{BLOCK}f{8 * number_bytes(product)}"
    fused = self.declared(name, vector, [vector] * 3)
    return lambda total, a, b: builder.call(fused, [a, b, total])


def number_bytes(product: Product) -> int:
    number = number_type(product)
    if isinstance(number, ir.IntType):
        return int(number.width) // 8
    return 8 if isinstance(number, ir.DoubleType) else 4
