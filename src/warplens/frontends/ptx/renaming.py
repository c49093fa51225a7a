"""Names of a function's copy: registers that are unique in the kernel, variables as addresses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...errors import PtxError
from .program import (
    TYPES,
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Operand,
    Pair,
    PtxModule,
    Register,
    SourcePlace,
    Special,
    Symbol,
    Type,
    Vector,
)


@dataclass(frozen=True)
class Instance:
    """One inlined copy of a function: how its names are renamed."""

    function: Function
    suffix: str
    depth: int
    #: Parameters and results of a device function: their names in its caller.
    aliases: Mapping[str, str]
    local_offsets: Mapping[str, int]
    labels: Mapping[str, int]
    targets: Mapping[str, tuple[int, ...]]
    #: Block to go to after `ret`; none for the kernel.
    after: int | None
    #: Where it is called; none for the kernel.
    call: SourcePlace | None


class Renaming:
    """Operands of an instruction in a copy of its function."""

    module: PtxModule
    registers: dict[str, Type]
    addresses: Mapping[str, int]
    functions: Mapping[str, int]
    shared_offsets: dict[tuple[str, str], int]
    parameter_offsets: Mapping[str, int]

    def fail(self, item: Instruction | Label, why: str) -> PtxError:
        return PtxError(f"{self.module.name}: line {item.line}: {why}")

    def _address_of(self, symbol: Symbol, instance: Instance, item: Instruction) -> int:
        name, function = symbol.name, instance.function.name
        if name in instance.local_offsets:
            return instance.local_offsets[name] + symbol.offset
        for owner in (function, ""):
            if (owner, name) in self.shared_offsets:
                return self.shared_offsets[owner, name] + symbol.offset
        if name in self.addresses:
            return self.addresses[name] + symbol.offset
        if name in self.functions:
            return self.functions[name]
        raise self.fail(item, f"{name!r} is not a variable that can be used here")

    def _parameter_name(self, name: str, instance: Instance) -> str:
        return instance.aliases.get(name, name + instance.suffix)

    def _renamed(self, item: Instruction, instance: Instance) -> Instruction:
        guard = replace(item.guard, name=item.guard.name + instance.suffix) if item.guard else None
        if item.opcode in ("bra", "call"):  # keep the function's name of a call
            return replace(item, operands=item.operands[1:2] if item.opcode == "call" else (), guard=guard)
        operands = item.operands
        if item.opcode == "brx":
            operands = operands[:1]
        if item.has("param") and item.opcode in ("ld", "st") and not self._is_entry_parameter(item, instance):
            return self._parameter_move(item, instance, guard)
        renamed = tuple(self._operand(each, instance, item) for each in operands)
        return replace(item, operands=renamed, guard=guard)

    def _is_entry_parameter(self, item: Instruction, instance: Instance) -> bool:
        address = next((each for each in item.operands if isinstance(each, Address)), None)
        if address is None:
            raise self.fail(item, "an address is missing")
        return not isinstance(address.base, Symbol) or (
            instance.depth == 0 and address.base.name in self.parameter_offsets
        )

    def _parameter_move(self, item: Instruction, instance: Instance, guard: Register | None) -> Instruction:
        """Parameters of inlined calls become registers, one per offset; both sides must use the same sizes."""
        address = next(each for each in item.operands if isinstance(each, Address))
        value = next((each for each in item.operands if not isinstance(each, Address)), None)
        kind = item.types[-1] if item.types else TYPES["b32"]
        if kind.kind == "pred":
            raise self.fail(item, "a parameter of a call cannot be a predicate")
        assert isinstance(address.base, Symbol)
        base = self._parameter_name(address.base.name, instance)
        values = value.items if isinstance(value, Vector) else (value,)
        variable = instance.function.variables.get(address.base.name)
        room = 16 if variable is None else max(variable.size_bytes, 16)
        if not 0 <= address.offset <= room - len(values) * kind.bytes:
            raise self.fail(item, f"{address.base.name} has no such bytes")
        slots = [f"{base}+{address.offset + position * kind.bytes}" for position in range(len(values))]
        if any(each is None for each in values):
            raise self.fail(item, "a register is missing")
        if address.offset % kind.bytes:
            raise self.fail(item, f"a parameter of a call is not aligned to {kind.bytes} bytes")
        renamed = tuple(self._operand(each, instance, item) for each in values if each is not None)
        held = [self.registers.setdefault(name, TYPES[f"b{kind.total_bits}"]).total_bits for name in slots]
        writes = item.opcode == "st"
        if any(bits != kind.total_bits if writes else bits < kind.total_bits for bits in held):
            raise self.fail(item, "a parameter of a call is written and read with different sizes")
        registers = tuple(Register(name) for name in slots)
        modifiers: tuple[str, ...] = (f"b{kind.total_bits}",)
        opcode = "mov"
        if len(values) == 1 and kind.total_bits <= 32:
            # The register may be wider than the parameter, and the parameter wider than what is read.
            sign = "s" if kind.is_signed else "u"
            opcode, modifiers = "cvt", (f"{sign}{kind.total_bits}", f"{sign}{kind.total_bits if writes else held[0]}")
        pairs = (registers, renamed) if writes else (renamed, registers)
        whole = tuple(Vector(each) if len(each) > 1 else each[0] for each in pairs)
        return replace(item, opcode=opcode, modifiers=modifiers, operands=whole, guard=guard)

    def _operand(self, operand: Operand, instance: Instance, item: Instruction) -> Operand:
        if isinstance(operand, Register):
            return replace(operand, name=operand.name + instance.suffix)
        if isinstance(operand, Vector):
            return Vector(tuple(self._operand(each, instance, item) for each in operand.items))
        if isinstance(operand, Pair):
            return Pair(self._operand(operand.first, instance, item), self._operand(operand.second, instance, item))
        if isinstance(operand, Symbol):
            if instance.depth == 0 and operand.name in self.parameter_offsets:
                return Special("%parameters+" + str(self.parameter_offsets[operand.name] + operand.offset))
            return Immediate(self._address_of(operand, instance, item))
        if isinstance(operand, Address):
            base = operand.base
            coordinates = tuple(self._operand(each, instance, item) for each in operand.coordinates)
            if isinstance(base, Register):
                return Address(replace(base, name=base.name + instance.suffix), operand.offset, coordinates)
            if isinstance(base, Symbol):
                if instance.depth == 0 and base.name in self.parameter_offsets:
                    start = self.parameter_offsets[base.name]
                else:
                    start = self._address_of(base, instance, item)
                return Address(Immediate(start), operand.offset, coordinates)
        return operand
