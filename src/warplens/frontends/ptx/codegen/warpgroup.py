"""Products of a warpgroup (`wgmma`): each warp multiplies its 16 rows by matrices in shared memory.

A descriptor says where a matrix lies: in rows of 16 bytes, eight of which make
a core matrix, with strides between core matrices and a swizzle of their
addresses. The rows are first copied side by side, then decoded. Products are
computed where they are issued; a kernel that waits as it must sees no
difference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from llvmlite import ir

from ..flat import FlatInstruction
from ..products import ELEMENT_BITS, Product, WarpgroupProduct, warpgroup_product_of
from ..program import TYPES, Immediate, Operand, Vector
from . import products, runtime
from .lanes import I1, I8, I32, I64, LANES, POINTER, Value, floats, integers
from .layout import Context, Fault, Frame
from .lowering import lowers
from .products import BLOCK, number_bytes, number_type
from .runtime import Fields, i32, i64

if TYPE_CHECKING:
    from .kernel import KernelBuilder

#: Bytes that a matrix in shared memory keeps together, whatever its swizzle.
_CHUNK = 16
_CHUNK_TYPE = ir.VectorType(I64, 2)


@lowers("wgmma")
def _wgmma(g: KernelBuilder, item: FlatInstruction) -> None:
    if item.instruction.modifiers[0] in ("fence", "commit_group", "wait_group"):
        return
    form = warpgroup_product_of(item.instruction)
    if form is None:
        raise g.not_covered(item)
    product = form.product
    targets, a = (_items(g.operand(item, position)) for position in range(2))
    count = product.sum_registers(product.sum_type)
    if len(targets) != count or (form.a_in_registers and len(a) != product.a_registers):
        raise g.error(item, f"needs {count} registers of sums")
    sums = products.stored(g, "c", targets, 32, room=128)
    first = products.stored(g, "a", a, 32) if form.a_in_registers else _descriptor(g, a[0])
    second = _descriptor(g, g.operand(item, 2))
    keeps = _keeps_sums(g, g.operand(item, 5 if product.sparse else 3))
    arguments, selector = [first, second, sums, keeps, i32(item.index)], 0
    if product.sparse:
        arguments.append(products.stored(g, "metadata", [g.operand(item, 3)], 32))
        selector = products.selector_of(g, item, product, g.operand(item, 4))
    failed = g.builder.call(multiplier(g.module, form, selector), [g.context, g.frame, *arguments])
    g.leave_if(g.builder.icmp_unsigned("!=", failed, i32(0)))
    for each, value in zip(targets, products.loaded(g, sums, count, 32), strict=True):
        g.write_operand(item, each, value)


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _descriptor(g: KernelBuilder, operand: Operand) -> Value:
    """A descriptor is the same in all lanes."""
    return g.builder.extract_element(g.read(operand, TYPES["b64"]), i32(0))


def _keeps_sums(g: KernelBuilder, operand: Operand) -> Value:
    """scale-d: whether the product is added to the sums instead of replacing them."""
    if isinstance(operand, Immediate):
        return ir.Constant(I1, int(bool(operand.value)))
    flags = g.builder.and_(g.bits_of(g.read(operand, TYPES["pred"])), g.active())
    return g.builder.icmp_unsigned("!=", flags, i32(0))


def multiplier(module: ir.Module, form: WarpgroupProduct, selector: int = 0) -> ir.Function:
    """(registers or descriptor of A, descriptor of B, sums, keep them, instruction, metadata if A is sparse) → 1 if
    out of bounds.
    """
    product = form.product
    kinds = f"{product.a}_{product.b}_{product.sum_type}"
    sides = "".join(
        str(int(each)) for each in (form.a_in_registers, *form.transposed, form.negated, product.saturates)
    )

    def body(self: Fields, function: ir.Function) -> None:
        a, b, registers, keeps, instruction, *metadata = function.args[2:]
        picks = products.unpack_picks(self, product, selector, metadata[0]) if metadata else None
        numbers, places = _rows_of_a(self, form, a, instruction)
        columns = product.columns
        raw = _copied(self, product, b, columns, product.depth, i64(0), form.transposed[1], instruction)
        decoded = _decoded(self, product, product.b, raw, columns * products.steps(product, product.depth))
        rows = decoded if form.transposed[1] else _transposed(self, product, decoded, columns)
        sums = self.room(ir.ArrayType(number_type(product), product.rows * BLOCK))
        clear = self.declared("memset", POINTER, [POINTER, I32, I64])
        size = number_bytes(product)
        step = (2 if product.sum_type == "f16" else 4) * 4 * LANES
        with self.count_loop(i64(columns // BLOCK)) as block:
            held = self.at(registers, self.builder.mul(block, i64(step)))
            products.unpack_sums(self, product, held, sums)
            with self.builder.if_then(self.builder.not_(keeps)):
                self.builder.call(clear, [sums, i32(0), i64(product.rows * BLOCK * size)])
            here = self.at(rows, self.builder.mul(block, i64(BLOCK * size)))
            products.multiply_block(self, product, numbers, places, here, i64(columns), sums, picks)
            products.pack_sums(self, product, sums, held)
        self.builder.ret(i32(0))

    name = f"wgmma_n{product.columns}_{kinds}_{sides}" + (f"_sparse{selector}" if product.sparse else "")
    arguments = [POINTER if form.a_in_registers else I64, I64, POINTER, I1, I32]
    return runtime.helper(module, name, I32, arguments + [POINTER] * product.sparse, body)


def _rows_of_a(self: Fields, form: WarpgroupProduct, a: Value, instruction: Value) -> tuple[Value, products.Places]:
    """This warp's 16 rows of A as numbers, and where each lies."""
    product = form.product
    depth = products.steps(product, product.stored_depth)
    if form.a_in_registers:
        numbers = self.room(ir.ArrayType(number_type(product), product.rows * depth))
        products.unpack_a(self, product, a, numbers)
        places = products.fragment_places(product)
    else:
        rank = self.builder.and_(self.get(Frame.WARP), i64(3))
        first = self.builder.mul(rank, i64(product.rows))
        stored = product.stored_depth
        raw = _copied(self, product, a, product.rows, stored, first, form.transposed[0], instruction)
        numbers = _decoded(self, product, product.a, raw, product.rows * depth)

        def places(half: int, k: int) -> tuple[int, int]:
            if form.transposed[0]:
                return k * product.rows + 8 * half, 1
            return 8 * half * depth + k, depth

    if form.negated:
        _negate(self, numbers, product.rows * depth)
    return numbers, places


def _negate(self: Fields, numbers: Value, count: int) -> None:
    for start in range(0, count, LANES):
        place = self.at(numbers, start * 4)
        self.builder.store(self.builder.fneg(self.builder.load(place, typ=floats(32))), place)


# -- matrices in shared memory ---------------------------------------------------------------------------------


def _copied(
    self: Fields,
    product: Product,
    descriptor: Value,
    rows: int,
    depth: int,
    first: Value,
    transposed: bool,
    instruction: Value,
) -> Value:
    """A matrix side by side: each row its elements along the depth, or (transposed) each depth its rows."""
    builder = self.builder
    per_chunk = _CHUNK * 8 // ELEMENT_BITS[product.a]
    raw = self.room(ir.ArrayType(I8, rows * depth // per_chunk * _CHUNK))
    place = _address(self, descriptor, transposed, per_chunk)
    lines, chunks = (depth, rows // per_chunk) if transposed else (rows, depth // per_chunk)
    with self.count_loop(i64(lines)) as line, self.count_loop(i64(chunks)) as chunk:
        along = builder.add(chunk, builder.udiv(first, i64(per_chunk))) if transposed else chunk
        across = line if transposed else builder.add(line, first)
        offset = place(across, along)
        inside = builder.icmp_unsigned("<=", builder.add(offset, i64(_CHUNK)), self.get(Context.SHARED_BYTES))
        with builder.if_then(builder.not_(inside), likely=False):
            self.fault(int(Fault.OUT_OF_BOUNDS), instruction, i32(-1), offset)
            builder.ret(i32(1))
        value = builder.load(self.at(self.get_pointer(Context.SHARED), offset), typ=_CHUNK_TYPE, align=1)
        index = builder.add(builder.mul(line, i64(chunks)), chunk)
        builder.store(value, self.at(raw, builder.mul(index, i64(_CHUNK))), align=1)
    return raw


def _address(self: Fields, descriptor: Value, transposed: bool, per_chunk: int) -> Callable[[Value, Value], Value]:
    """(Row or depth, chunk of 16 bytes across) → offset in shared memory, from a descriptor."""
    builder = self.builder

    def field(low: int, bits: int) -> Value:
        return builder.and_(builder.lshr(descriptor, i64(low)), i64((1 << bits) - 1))

    start, leading, stride = (builder.shl(field(low, 14), i64(4)) for low in (0, 16, 32))
    mode = field(62, 2)
    plain = builder.icmp_unsigned("==", mode, i64(0))
    # Chunks that a swizzled row holds: 8, 4 or 2 for 128, 64 or 32 bytes.
    width_log2 = builder.select(plain, i64(0), builder.sub(i64(4), mode))
    within_row = builder.sub(builder.shl(i64(1), width_log2), i64(1))
    pitch = builder.shl(i64(_CHUNK), width_log2)
    swizzled = builder.mul(within_row, i64(_CHUNK))

    def place(line: Value, chunk: Value) -> Value:
        group, within = builder.lshr(line, i64(3)), builder.and_(line, i64(7))
        wide = builder.lshr(chunk, width_log2)
        beside = builder.mul(builder.and_(chunk, within_row), i64(_CHUNK))
        # Without a swizzle the two strides change places: the leading one is that of the depth.
        swapped = transposed
        group_stride = builder.select(plain, leading if swapped else stride, stride)
        chunk_stride = builder.select(plain, stride if swapped else leading, leading)
        offset = builder.add(builder.mul(within, pitch), builder.mul(group, group_stride))
        offset = builder.add(builder.add(offset, beside), builder.mul(wide, chunk_stride))
        address = builder.add(start, offset)
        return builder.xor(address, builder.and_(builder.lshr(address, i64(3)), swizzled))

    return place


def _decoded(self: Fields, product: Product, kind: str, raw: Value, count: int) -> Value:
    """All elements as numbers, in the same order."""
    bits = 32 if kind == "b1" else ELEMENT_BITS[kind]
    numbers = self.room(ir.ArrayType(number_type(product), count))
    with self.count_loop(i64(count // LANES)) as group:
        place = self.at(raw, self.builder.mul(group, i64(LANES * bits // 8)))
        held = self.builder.load(place, typ=integers(bits), align=1)
        value = products.decoded_elements(self, product, held, kind)
        to = self.at(numbers, self.builder.mul(group, i64(LANES * number_bytes(product))))
        self.builder.store(value, to, align=4)
    return numbers


def _transposed(self: Fields, product: Product, numbers: Value, columns: int) -> Value:
    """Rows along the depth to rows of columns."""
    depth, size = products.steps(product, product.depth), number_bytes(product)
    number = number_type(product)
    vector = ir.VectorType(number, BLOCK)
    found = self.room(ir.ArrayType(number, columns * depth))
    builder = self.builder
    with self.count_loop(i64(columns // BLOCK)) as block:
        source = self.at(numbers, builder.mul(block, i64(BLOCK * depth * size)))
        target = self.at(found, builder.mul(block, i64(BLOCK * size)))
        for first in range(0, depth, BLOCK):
            places = [self.at(source, (column * depth + first) * size) for column in range(BLOCK)]
            rows = _exchanged(self, [builder.load(each, typ=vector, align=4) for each in places])
            for k, row in enumerate(rows):
                builder.store(row, self.at(target, (first + k) * columns * size), align=4)
    return found


def _exchanged(self: Fields, rows: list[Value]) -> list[Value]:
    """Eight vectors of eight transposed, in steps that exchange halves, quarters and eighths of two of them."""
    for step in (4, 2, 1):
        low = [lane if not lane & step else lane - step + BLOCK for lane in range(BLOCK)]
        high = [lane + step if not lane & step else lane + BLOCK for lane in range(BLOCK)]
        for upper in (each for each in range(BLOCK) if not each & step):
            pair = rows[upper], rows[upper + step]
            rows[upper], rows[upper + step] = (products.picked(self, *pair, lanes) for lanes in (low, high))
    return rows
