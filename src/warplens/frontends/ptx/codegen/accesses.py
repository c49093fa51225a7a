"""Loads, stores, atomics and asynchronous copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from ....traces import SHARED_BITS
from ..flat import FlatInstruction
from ..opcodes import MemoryUse, memory_use
from ..program import TYPES, Address, Immediate, Operand, Register, Type, Vector
from ..spaces import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from . import async_copies, runtime
from .bulk import clear_in_bulk, copy_in_bulk
from .lanes import I1, LANES, POINTER, Value, floats, integers
from .layout import Context, Frame
from .lowering import lowers
from .rounding import CANONICAL_NAN
from .runtime import Fields, i32, i64
from .touches import WINDOWS, touch
from .translation import translate

if TYPE_CHECKING:
    from .kernel import KernelBuilder


def _use(g: KernelBuilder, item: FlatInstruction) -> MemoryUse:
    found = memory_use(item.instruction)
    if found is None:
        raise g.not_covered(item)
    return found


def address_of(g: KernelBuilder, item: FlatInstruction, operand: Operand) -> Value:
    """The 64-bit address of each lane."""
    if not isinstance(operand, Address):
        raise g.not_covered(item)
    if isinstance(operand.base, Immediate):
        return g.integer(64, int(operand.base.value) + operand.offset)
    kind = g.register_type(operand.base)
    base = g.read(operand.base, kind)
    if operand.offset:  # in the register's width: a negative offset of a 32-bit address wraps
        base = g.builder.add(base, g.integer(kind.total_bits, operand.offset))
    return g.resize(base, 64)


def translated(
    g: KernelBuilder,
    item: FlatInstruction,
    address: Value,
    mask: Value,
    size: int,
    space: str,
    *,
    record: bool = True,
    name: str = "",
) -> Value:
    """Check and record an access; returns a pointer to the host addresses of all lanes."""
    name = name or ("hosts" if record else "other_hosts")
    place, hosts = g.buffer("addresses", integers(64)), g.buffer(name, integers(64))
    g.builder.store(address, place)
    window = "global" if space in ("constant", "param") else space
    if g.kernel.cluster_blocks > 1:
        window = {"shared": "cluster", "generic": "generic_of_cluster"}.get(window, window)
    checked = translate(g.module, window, writes=item.opcode in ("st", "atom", "red"))
    arguments = [place, mask, i32(size), i32(item.index), hosts]
    failed = g.builder.call(checked, [g.context, g.frame, *arguments])
    g.leave_if(g.builder.icmp_unsigned("!=", failed, i32(0)))
    if record and g.recording:
        record_addresses(g, address, place, mask, space)
    return hosts


def touched(g: KernelBuilder, item: FlatInstruction, operand: Operand, use: MemoryUse) -> None:
    """Check and record an access whose data nobody needs."""
    base = operand.base if isinstance(operand, Address) else None
    kind = g.register_type(base) if isinstance(base, Register) else None
    if kind is None or kind.total_bits < 32 or use.space not in WINDOWS or g.kernel.cluster_blocks > 1:
        translated(g, item, address_of(g, item, operand), g.mask(item), use.access_bytes, use.space)
        return
    assert isinstance(operand, Address) and isinstance(base, Register)
    place = g.buffer("bases", integers(kind.total_bits))
    g.builder.store(g.read(base, kind), place)
    checked = touch(g.module, use.space, kind.total_bits, writes=item.opcode == "st", recording=g.recording)
    arguments = [place, i64(operand.offset), g.mask(item), i32(use.access_bytes), i32(item.index)]
    failed = g.builder.call(checked, [g.context, g.frame, *arguments])
    g.leave_if(g.builder.icmp_unsigned("!=", failed, i32(0)))


def record_addresses(g: KernelBuilder, address: Value, place: Value, mask: Value, space: str) -> None:
    if space == "shared":
        offset = _without_own_number(g, g.builder.and_(address, g.integer(64, (1 << SHARED_BITS + 5) - 1)))
        g.builder.store(g.builder.add(offset, g.integer(64, SHARED_WINDOW)), place)
    elif space == "local":
        g.builder.store(_interleaved(g, address), place)
    elif space == "generic":
        offset = g.builder.sub(address, g.integer(64, LOCAL_WINDOW))
        local = g.builder.icmp_unsigned("<", offset, g.integer(64, WINDOW_BYTES))
        recorded = g.builder.select(local, _interleaved(g, offset), address)
        if g.kernel.cluster_blocks > 1:
            inside = g.builder.sub(address, g.integer(64, SHARED_WINDOW))
            shared = g.builder.icmp_unsigned("<", inside, g.integer(64, WINDOW_BYTES))
            recorded = g.builder.select(shared, _without_own_number(g, address), recorded)
        g.builder.store(recorded, place)
    g.builder.call(runtime.record_access(g.module), [g.context, g.frame, place, mask])


def _without_own_number(g: KernelBuilder, address: Value) -> Value:
    """An address of shared memory. In a cluster, that of another block keeps the block's number."""
    builder, number = g.builder, 0x1F << SHARED_BITS
    within = builder.and_(address, g.integer(64, ~number))
    if g.kernel.cluster_blocks == 1:
        return within
    own = builder.shl(builder.add(g.get(Context.CLUSTER_RANK), i64(1)), i64(SHARED_BITS))
    other = builder.icmp_unsigned("!=", builder.and_(address, g.integer(64, number)), g.splat(own))
    return builder.select(other, address, within)


def _interleaved(g: KernelBuilder, offset: Value) -> Value:
    """Offset in local memory as a GPU lays it out: the same word of all lanes is contiguous."""
    builder = g.builder
    word = builder.mul(builder.lshr(offset, g.integer(64, 2)), g.integer(64, 4 * LANES))
    lane = g.resize(builder.mul(runtime.lane_numbers(), g.integer(32, 4)), 64)
    within = builder.add(builder.add(word, lane), builder.and_(offset, g.integer(64, 3)))
    warp = builder.add(builder.mul(g.get(Context.BLOCK), g.get(Context.WARPS)), g.get(Frame.WARP))
    start = builder.mul(builder.mul(warp, g.get(Context.LOCAL_BYTES)), i64(LANES))
    return builder.add(within, g.splat(builder.add(start, i64(LOCAL_WINDOW))))


def gathered(g: KernelBuilder, hosts: Value, offset: int, bits: int) -> Value:
    place = g.buffer("values", integers(bits))
    g.builder.call(runtime.gather(g.module, bits), [g.context, g.frame, hosts, i64(offset), place])
    return g.builder.load(place, typ=integers(bits))


def scattered(g: KernelBuilder, hosts: Value, offset: int, value: Value) -> None:
    bits = value.type.element.width
    place = g.buffer("values", integers(bits))
    g.builder.store(value, place)
    g.builder.call(runtime.scatter(g.module, bits), [g.context, g.frame, hosts, i64(offset), place])


def _parts(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


@lowers("ld", "ldu")
def _load(g: KernelBuilder, item: FlatInstruction) -> None:
    use = _use(g, item)
    kind = item.instruction.types[-1]
    target, place = g.operand(item, 0), g.operand(item, 1)
    if use.space == "param" and isinstance(place, Address) and isinstance(place.base, Immediate):
        return _load_parameter(g, item, kind, int(place.base.value) + place.offset)
    parts = _parts(target)
    if len(parts) * kind.bytes != use.access_bytes:
        raise g.not_covered(item)
    if not g.is_needed(item):
        return touched(g, item, place, use)
    address = address_of(g, item, place)
    hosts = translated(g, item, address, g.mask(item), use.access_bytes, use.space)
    for position, each in enumerate(parts):
        value = gathered(g, hosts, position * kind.bytes, kind.total_bits)
        g.write_operand(item, each, value, signed=kind.is_signed)
    return None


def _load_parameter(g: KernelBuilder, item: FlatInstruction, kind: Type, offset: int) -> None:
    """Load a parameter at a known offset; it is the same in all lanes."""
    parts = _parts(g.operand(item, 0))
    if offset < 0 or offset + len(parts) * kind.bytes > g.kernel.parameter_bytes:
        raise g.error(item, "reads beyond the kernel's parameters")
    if offset % (len(parts) * kind.bytes):
        raise g.error(item, f"reads parameters that are not aligned to {len(parts) * kind.bytes} bytes")
    base = g.get_pointer(Context.PARAMETERS)
    for position, each in enumerate(parts):
        place = g.at(base, offset + position * kind.bytes)
        scalar = g.builder.load(place, typ=ir.IntType(kind.total_bits), align=1)
        g.write_operand(item, each, g.splat(scalar), signed=kind.is_signed)


@lowers("st")
def _store(g: KernelBuilder, item: FlatInstruction) -> None:
    if item.is_bulk_copy:
        return clear_in_bulk(g, item)
    use = _use(g, item)
    kind = item.instruction.types[-1]
    parts = _parts(g.operand(item, 1))
    if use.space in ("constant", "param") or len(parts) * kind.bytes != use.access_bytes:
        raise g.not_covered(item)
    if not g.is_needed(item):
        return touched(g, item, g.operand(item, 0), use)
    address = address_of(g, item, g.operand(item, 0))
    values = [g.read(each, kind) for each in parts]
    hosts = translated(g, item, address, g.mask(item), use.access_bytes, use.space)
    for position, value in enumerate(values):
        scattered(g, hosts, position * kind.bytes, value)
    return None


# -- atomics ------------------------------------------------------------------------------------------------


def _update(name: str, kind: Type) -> runtime._Update | None:
    """The new value of an atomic, from the old value and the operands, as scalars."""

    def integer(self: Fields, old: Value, a: Value, b: Value) -> Value:
        builder = self.builder
        compare = builder.icmp_signed if kind.is_signed else builder.icmp_unsigned
        zero, one = ir.Constant(old.type, 0), ir.Constant(old.type, 1)
        if name == "add":
            return builder.add(old, a)
        if name in ("and", "or", "xor"):
            return {"and": builder.and_, "or": builder.or_, "xor": builder.xor}[name](old, a)
        if name in ("min", "max"):
            return builder.select(compare("<" if name == "min" else ">", a, old), a, old)
        if name == "exch":
            return a
        if name == "cas":
            return builder.select(builder.icmp_unsigned("==", old, a), b, old)
        if name == "inc":
            return builder.select(builder.icmp_unsigned(">=", old, a), zero, builder.add(old, one))
        wraps = builder.or_(builder.icmp_unsigned("==", old, zero), builder.icmp_unsigned(">", old, a))
        return builder.select(wraps, a, builder.sub(old, one))

    def small(self: Fields, old: Value, a: Value, b: Value) -> Value:
        """Two numbers of 16 bits, or one: sums in single precision round once."""
        return _small_update(self, kind, name, old, a)

    def real(self: Fields, old: Value, a: Value, b: Value) -> Value:
        """Sums; of singles, `b` says whether subnormal numbers are flushed."""
        number = floats(kind.bits).element
        builder = self.builder
        if kind.bits == 32:
            old, a = (builder.and_(each, _kept(builder, each, b)) for each in (old, a))
        total = builder.fadd(builder.bitcast(old, number), builder.bitcast(a, number))
        bits = builder.bitcast(total, old.type)
        if kind.bits == 32:
            bits = builder.and_(bits, _kept(builder, bits, b))
        missing = builder.fcmp_unordered("uno", total, total)
        return builder.select(missing, ir.Constant(old.type, CANONICAL_NAN[kind.bits]), bits)

    if kind.is_float:
        if name not in (("add",) if kind.bits != 16 else ("add", "min", "max")):
            return None
        return real if kind.bits in (32, 64) else small
    return integer if name in ("add", "and", "or", "xor", "min", "max", "exch", "cas", "inc", "dec") else None


def _kept(builder: ir.IRBuilder, bits: Value, flushes: Value) -> Value:
    """The bits of a single that an atomic sum keeps: of a subnormal number its sign, where `flushes` is not 0."""
    exponent = builder.and_(bits, i32(0x7F800000))
    small = builder.and_(builder.icmp_unsigned("==", exponent, i32(0)), builder.icmp_unsigned("!=", flushes, i32(0)))
    return builder.select(small, i32(-1 << 31), i32(-1))


def _small_update(self: Fields, kind: Type, name: str, old: Value, added: Value) -> Value:
    builder = self.builder

    def combined(a: Value, b: Value) -> Value:
        if name == "add":
            return builder.fadd(a, b)
        # A NaN loses; of two zeros, the negative one is less.
        words = [builder.bitcast(each, ir.IntType(32)) for each in (a, b)]
        both = builder.bitcast((builder.or_ if name == "min" else builder.and_)(*words), a.type)
        chosen = builder.select(builder.fcmp_ordered("<" if name == "min" else ">", a, b), a, b)
        chosen = builder.select(builder.fcmp_ordered("==", a, b), both, chosen)
        chosen = builder.select(builder.fcmp_unordered("uno", b, b), a, chosen)
        return builder.select(builder.fcmp_unordered("uno", a, a), b, chosen)

    total: Value = ir.Constant(old.type, 0)
    half, single = ir.IntType(16), ir.FloatType()
    for part in range(kind.packed):
        shift = ir.Constant(old.type, 16 * part)
        pieces = [builder.trunc(builder.lshr(each, shift), half) for each in (old, added)]
        if kind.kind == "f":
            a, b = (builder.fpext(builder.bitcast(each, ir.HalfType()), single) for each in pieces)
            result = combined(a, b)
            rounded = builder.bitcast(builder.fptrunc(result, ir.HalfType()), half)
        else:
            wide = [builder.shl(builder.zext(each, ir.IntType(32)), i32(16)) for each in pieces]
            a, b = (builder.bitcast(each, single) for each in wide)
            result = combined(a, b)
            bits = builder.bitcast(result, ir.IntType(32))
            upper = builder.lshr(bits, i32(16))
            bias = builder.add(i32(0x7FFF), builder.and_(upper, i32(1)))
            rounded = builder.trunc(builder.lshr(builder.add(bits, bias), i32(16)), half)
        missing = builder.fcmp_unordered("uno", result, result)
        found = builder.select(missing, ir.Constant(half, CANONICAL_NAN[16]), rounded)
        placed = found if old.type == half else builder.shl(builder.zext(found, old.type), shift)
        total = builder.or_(total, placed)
    return total


def _flushes(g: KernelBuilder, address: Value, space: str) -> Value:
    """Whether atomic sums of singles flush subnormal numbers: in global memory, as on hardware."""
    offset = g.builder.sub(address, g.integer(64, SHARED_WINDOW))
    outside = g.builder.icmp_unsigned(">=", offset, g.integer(64, WINDOW_BYTES))
    return g.resize(outside, 32) if space == "generic" else g.integer(32, int(space == "global"))


@lowers("atom", "red")
def _atomic(g: KernelBuilder, item: FlatInstruction) -> None:
    use = _use(g, item)
    kind = item.instruction.types[-1]
    name = next((each for each in item.instruction.modifiers if _update(each, kind)), "")
    update = _update(name, kind)
    wide = kind.total_bits in (32, 64) or (kind.total_bits == 16 and (name == "cas" or kind.is_float))
    wide = wide or (kind.total_bits == 128 and name in ("cas", "exch"))
    if update is None or not wide or use.space in ("constant", "param"):
        raise g.not_covered(item)
    first = 1 if item.opcode == "atom" else 0
    address = address_of(g, item, g.operand(item, first))
    operands = [g.read(each, kind) for each in _parts(g.operand(item, first + 1))]
    seconds = [g.read(g.operand(item, first + 2), kind)] if name == "cas" else operands
    if kind.is_float and kind.bits == 32:
        seconds = [_flushes(g, address, use.space)] * len(operands)
    if len(operands) * kind.bytes != use.access_bytes:
        raise g.not_covered(item)
    mask = g.mask(item)
    hosts = translated(g, item, address, mask, use.access_bytes, use.space)
    bits = kind.total_bits
    places = [g.buffer(each, integers(bits)) for each in ("values", "seconds", "results")]
    suffix = f"{name}_{kind.kind if kind.kind in ('f', 's', 'bf') else 'u'}{'x2' if kind.packed == 2 else ''}"
    function = runtime.atomic(g.module, suffix, bits, update)
    targets = _parts(g.operand(item, 0)) if item.opcode == "atom" else ()
    found = []
    for operand, second in zip(operands, seconds, strict=True):
        g.builder.store(operand, places[0])
        g.builder.store(second, places[1])
        g.builder.call(function, [g.context, g.frame, hosts, mask, *places])
        found.append(g.builder.load(places[2], typ=integers(bits)))
        moved = g.builder.add(g.builder.load(hosts, typ=integers(64)), g.integer(64, kind.bytes))
        g.builder.store(moved, hosts)
    for target, old in zip(targets, found, strict=bool(targets)):
        g.write_operand(item, target, old)


# -- copies and hints ------------------------------------------------------------------------------------------


@lowers("cp")
def _copy(g: KernelBuilder, item: FlatInstruction) -> None:
    modifiers = item.instruction.modifiers
    if "bulk" in modifiers:
        return copy_in_bulk(g, item)
    if modifiers[0] != "async":
        raise g.not_covered(item)
    if "commit_group" in modifiers:
        nothing = ir.Constant(POINTER, None)
        return _call_copies(g, async_copies.start(g.module), [nothing, nothing, nothing, g.mask(item), i32(0)])
    if "wait_group" in modifiers or "wait_all" in modifiers:
        staying = g.operand(item, 0) if "wait_group" in modifiers else Immediate(async_copies.NONE)
        if not isinstance(staying, Immediate):
            raise g.not_covered(item)
        return _call_copies(g, async_copies.finish(g.module), [g.mask(item), i32(int(staying.value))])
    if "mbarrier" in modifiers:
        raise g.not_covered(item)
    return _start_copy(g, item)


def _call_copies(g: KernelBuilder, function: ir.Function, arguments: list[Value]) -> None:
    g.builder.call(function, [g.context, g.frame, *arguments])


def _start_copy(g: KernelBuilder, item: FlatInstruction) -> None:
    """Check, record and queue a copy."""
    operands = item.instruction.operands[: -1 if item.instruction.has("L2::cache_hint") else None]
    size = operands[2] if len(operands) > 2 else None
    if not isinstance(size, Immediate) or size.value not in (4, 8, 16):
        raise g.not_covered(item)
    count = int(size.value)
    to, source = address_of(g, item, operands[0]), address_of(g, item, operands[1])
    mask = g.mask(item)
    given: Value = g.integer(32, count)
    reading = mask
    if len(operands) > 3:
        given = _given_bytes(g, operands[3], count)
        some = g.bits_of(g.builder.icmp_unsigned("!=", given, g.integer(32, 0)))
        reading = g.builder.and_(mask, some)
    targets = translated(g, item, to, mask, count, "shared", record=False)
    sources = translated(g, item, source, reading, count, "global", record=False, name="hosts")
    if g.recording:
        _record_reads(g, source, reading, mask)
    place = g.buffer("given_bytes", integers(32))
    g.builder.store(given, place)
    _call_copies(g, async_copies.start(g.module), [targets, sources, place, mask, i32(count)])


def _record_reads(g: KernelBuilder, address: Value, reading: Value, mask: Value) -> None:
    """Record a copy. A lane that reads nothing stands in the trace with the address of one that reads."""
    builder = g.builder
    first = builder.and_(builder.cttz(reading, ir.Constant(I1, 0)), i32(LANES - 1))
    some = builder.select(builder.icmp_unsigned("==", reading, i32(0)), mask, reading)
    shown = builder.select(g.flags_of(some), address, g.splat(builder.extract_element(address, first)))
    place = g.buffer("addresses", integers(64))
    builder.store(shown, place)
    record_addresses(g, shown, place, mask, "global")


def _given_bytes(g: KernelBuilder, operand: Operand, count: int) -> Value:
    """Bytes that each lane reads: a number, or none where a predicate says to ignore the source."""
    if isinstance(operand, Register) and g.register_type(operand).kind == "pred":
        return g.builder.select(g.read(operand, TYPES["pred"]), g.integer(32, 0), g.integer(32, count))
    return g.read(operand, TYPES["u32"])


@lowers("createpolicy")
def _cache_policy(g: KernelBuilder, item: FlatInstruction) -> None:
    """What a cache should keep is a hint: any value will do."""
    g.write(item, g.integer(64, 0))


@lowers("setmaxnreg", "applypriority")
@lowers("prefetch", "prefetchu", "discard", "membar", "fence", "nanosleep", "griddepcontrol", "pmevent")
def _nothing(g: KernelBuilder, item: FlatInstruction) -> None:
    """Hints and fences do nothing: the execution order is already strong enough."""
