"""`wmma.load` and `wmma.store`: matrices between memory and fragments; `wmma.mma` is `mma.sync` by now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llvmlite import ir

from ..flat import FlatInstruction
from ..opcodes import memory_use
from ..program import TYPES, Operand, Vector
from ..wmma import Fragment, fragment_of
from .accesses import address_of, gathered, record_addresses, scattered, translated
from .lanes import Value, integers
from .lowering import lowers
from .runtime import i64

if TYPE_CHECKING:
    from .kernel import KernelBuilder


@lowers("wmma")
def _move_fragment(g: KernelBuilder, item: FlatInstruction) -> None:
    fragment = fragment_of(item.instruction)
    use = memory_use(item.instruction)
    loads = item.instruction.modifiers[0] == "load"
    if fragment is None or use is None:
        raise g.not_covered(item)
    registers, memory = (
        (g.operand(item, 0), g.operand(item, 1)) if loads else (g.operand(item, 1), g.operand(item, 0))
    )
    parts = registers.items if isinstance(registers, Vector) else (registers,)
    if len(parts) != fragment.registers:
        raise g.error(item, f"needs {fragment.registers} registers")
    base = address_of(g, item, memory)
    pitch = _pitch(g, item, fragment)
    _record(g, item, fragment, base, pitch, use.space)
    for number, each in enumerate(parts):
        held = number % fragment.held_registers
        if loads:
            g.write_operand(item, each, _loaded(g, item, fragment, held, base, pitch, use.space))
        elif number < fragment.held_registers:
            _stored(g, item, fragment, held, base, pitch, use.space, each)


def _pitch(g: KernelBuilder, item: FlatInstruction, fragment: Fragment) -> Value:
    """Elements from one row (or column) to the next; without an operand they follow each other."""
    if len(item.instruction.operands) > 2:
        return g.resize(g.read(g.operand(item, 2), TYPES["u32"]), 64)
    return g.integer(64, fragment.columns if fragment.by_rows else fragment.rows)


def _offsets(g: KernelBuilder, fragment: Fragment, places: list[tuple[int, int]], pitch: Value) -> Value:
    """Bytes from the matrix's start to an element of each lane."""
    lines = [row if fragment.by_rows else column for row, column in places]
    within = [column if fragment.by_rows else row for row, column in places]
    builder = g.builder
    elements = builder.add(builder.mul(pitch, _constants(lines)), _constants(within))
    return builder.lshr(builder.mul(elements, g.integer(64, fragment.bits)), g.integer(64, 3))


def _constants(values: list[int]) -> ir.Constant:
    return ir.Constant(integers(64), [i64(each) for each in values])


def _record(
    g: KernelBuilder, item: FlatInstruction, fragment: Fragment, base: Value, pitch: Value, space: str
) -> None:
    """The access in the trace: every lane an equal piece, one after the other along the rows in memory."""
    if not g.recording:
        return
    length = fragment.columns if fragment.by_rows else fragment.rows
    piece = fragment.rows * fragment.columns // 32
    along = [divmod(lane * piece, length) for lane in range(32)]
    places = [(line, start) if fragment.by_rows else (start, line) for line, start in along]
    address = g.builder.add(base, _offsets(g, fragment, places, pitch))
    place = g.buffer("addresses", integers(64))
    g.builder.store(address, place)
    record_addresses(g, address, place, g.mask(item), space)


def _pieces(fragment: Fragment) -> list[int]:
    """Elements of a register that are moved one by one; only the first if memory has them side by side."""
    together = fragment.what in "ab" and fragment.by_rows == (fragment.what == "a")
    return [0] if together else list(range(fragment.elements))


def _hosts(
    g: KernelBuilder,
    item: FlatInstruction,
    fragment: Fragment,
    places: list[tuple[int, int]],
    base: Value,
    pitch: Value,
    size: int,
    space: str,
) -> Value:
    address = g.builder.add(base, _offsets(g, fragment, places, pitch))
    return translated(g, item, address, g.mask(item), size // 8, space, record=False)


def _loaded(
    g: KernelBuilder, item: FlatInstruction, fragment: Fragment, register: int, base: Value, pitch: Value, space: str
) -> Value:
    pieces = _pieces(fragment)
    size = fragment.register_bits // len(pieces)
    total: Value = g.integer(fragment.register_bits, 0)
    for element in pieces:
        hosts = _hosts(g, item, fragment, fragment.places(register, element), base, pitch, size, space)
        value = g.resize(gathered(g, hosts, 0, size), fragment.register_bits)
        total = g.builder.or_(total, g.builder.shl(value, g.integer(fragment.register_bits, size * element)))
    return total


def _stored(
    g: KernelBuilder,
    item: FlatInstruction,
    fragment: Fragment,
    register: int,
    base: Value,
    pitch: Value,
    space: str,
    operand: Operand,
) -> None:
    value = g.read(operand, TYPES[f"b{fragment.register_bits}"])
    pieces = _pieces(fragment)
    size = fragment.register_bits // len(pieces)
    for element in pieces:
        hosts = _hosts(g, item, fragment, fragment.places(register, element), base, pitch, size, space)
        part = g.builder.lshr(value, g.integer(fragment.register_bits, size * element))
        scattered(g, hosts, 0, g.resize(part, size))
