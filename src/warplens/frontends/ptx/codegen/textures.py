"""Textures and surfaces: handed to `TextureCalls`, and recorded as accesses to global memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..flat import FlatInstruction
from ..opcodes import texture_shape
from ..program import Address, Operand, Register, Sink, Vector
from .accesses import record_addresses
from .calls import call_python
from .lanes import Value, integers
from .layout import Context
from .lowering import lowers

if TYPE_CHECKING:
    from .kernel import KernelBuilder

#: Rows of what is passed: the object, coordinates, values to store; results come back from row 0 on.
ROWS, FIRST_VALUE, RESULT_ADDRESS = 8, 4, 7
_COORDINATES = {"1d": 1, "2d": 2, "3d": 3, "a1d": 2, "a2d": 3}


@lowers("tex", "tld4", "suld", "sust")
def _texture(g: KernelBuilder, item: FlatInstruction) -> None:
    operands = list(item.instruction.operands)
    stores = item.opcode == "sust"
    place, values = (operands[0], operands[1]) if stores else (operands[1], operands[0])
    shape = texture_shape(item.instruction)
    if shape is None or not isinstance(place, Address) or len(place.coordinates) < _COORDINATES[shape]:
        raise g.not_covered(item)
    # Without mipmaps, gradients choose nothing.
    if item.instruction.has("p", "b128") or (item.opcode == "tld4" and shape != "2d"):
        raise g.not_covered(item)
    rows: dict[int, Value] = {0: _bits(g, place.base)}
    rows |= {1 + number: _bits(g, each) for number, each in enumerate(place.coordinates[: _COORDINATES[shape]])}
    parts = values.items if isinstance(values, Vector) else (values,)
    if stores:
        rows |= {FIRST_VALUE + number: _bits(g, each) for number, each in enumerate(parts)}
    results = call_python(g, item, Context.TEXTURE_CALL, rows, ROWS)
    if not stores:
        for number, each in enumerate(parts):
            if isinstance(each, Register):
                g.write_register(item, each.name, g.resize(results(number), g.register_type(each).total_bits))
            elif not isinstance(each, Sink):
                raise g.not_covered(item)
    if g.recording:
        address = results(RESULT_ADDRESS)
        buffer = g.buffer("addresses", integers(64))
        g.builder.store(address, buffer)
        record_addresses(g, address, buffer, g.mask(item), "global")


@lowers("txq", "suq")
def _query(g: KernelBuilder, item: FlatInstruction) -> None:
    """Width, height or depth of an object."""
    target, place = item.instruction.operands
    if not isinstance(place, Address) or not item.instruction.has("width", "height", "depth"):
        raise g.not_covered(item)
    results = call_python(g, item, Context.TEXTURE_CALL, {0: _bits(g, place.base)}, ROWS)
    g.write_operand(item, target, g.resize(results(0), 32))


def _bits(g: KernelBuilder, operand: Operand) -> Value:
    """A register of any type in 64 bits."""
    assert isinstance(operand, Register)
    return g.resize(g.read_register(operand.name), 64)
