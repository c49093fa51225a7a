"""A kernel as one graph of basic blocks: device functions inlined, names resolved to addresses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ...errors import PtxError, nearest
from . import wmma
from .flat import CARRY, BasicBlock, FlatInstruction, FlatKernel
from .program import (
    TYPES,
    Address,
    BranchTargets,
    Function,
    Immediate,
    Instruction,
    Label,
    Operand,
    Pair,
    PtxModule,
    Register,
    Sink,
    SourcePlace,
    Special,
    Symbol,
    Type,
    Variable,
    Vector,
)
from .spaces import GLOBAL_WINDOW, GRANULE_BYTES, MOST_LOCAL_BYTES, align

MOST_INSTRUCTIONS = 200_000
MOST_CALL_DEPTH = 64
_ENDS = ("bra", "brx", "ret", "exit", "trap")
#: Runtime functions that a kernel may call, and what replaces the call.
PRINT, ASSERT = "vprintf", "__assertfail"


def _symbols(operand: Operand) -> Iterator[str]:
    if isinstance(operand, Symbol):
        yield operand.name
    elif isinstance(operand, Address) and isinstance(operand.base, Symbol):
        yield operand.base.name
    elif isinstance(operand, Vector):
        for each in operand.items:
            yield from _symbols(each)


def flatten(module: PtxModule, entry: str) -> FlatKernel:
    """One kernel of a module, ready to analyse and compile."""
    kernel = module.functions.get(entry)
    if kernel is None or not kernel.is_entry or kernel.body is None:
        raise PtxError(f"{module.name}: no kernel is named {entry!r}; {nearest(entry, module.entries)}")
    if math.prod(kernel.cluster) > 1:
        size = "×".join(str(each) for each in kernel.cluster)
        raise PtxError(
            f"{module.name}: line {kernel.line}: {entry} needs clusters of {size} blocks; one is supported"
        )
    return _Flattener(module, kernel).run()


def _arrival_after_copies(item: Instruction) -> list[Instruction]:
    """cp.async.mbarrier.arrive: the lanes' copies, then an arrival, unless it also counts as one more to await."""
    copies = replace(item, modifiers=("async", "wait_all"), operands=())
    if not item.has("noinc"):
        return [copies]
    arrival = replace(item, opcode="mbarrier", modifiers=item.modifiers[2:], operands=(Sink(), *item.operands))
    return [copies, arrival]


def variable_addresses(module: PtxModule) -> tuple[dict[str, int], int]:
    """Addresses of global and constant variables, and the first free one after them."""
    found, position = {}, GLOBAL_WINDOW
    for variable in module.variables.values():
        if variable.space in ("global", "const"):
            found[variable.name] = position
            position = align(position + max(variable.size_bytes, 1), GRANULE_BYTES) + GRANULE_BYTES
    return found, position


def _without_dead_code(blocks: list[BasicBlock]) -> tuple[BasicBlock, ...]:
    """The blocks reachable from the first one; blocks and instructions are renumbered in text order."""
    reached, waiting = {0}, [0]
    while waiting:
        for successor in blocks[waiting.pop()].successors:
            if successor not in reached:
                reached.add(successor)
                waiting.append(successor)
    kept = [block for block in blocks if block.number in reached]
    kept.sort(key=lambda block: block.instructions[0].index if block.instructions else block.number)
    first = next(position for position, block in enumerate(kept) if block.number == 0)
    kept.insert(0, kept.pop(first))
    numbers = {block.number: position for position, block in enumerate(kept)}
    index = 0
    for block in kept:
        block.number = numbers[block.number]
        block.successors = [numbers[each] for each in block.successors]
        renumbered = []
        for item in block.instructions:
            targets = tuple(numbers[each] for each in item.targets)
            renumbered.append(replace(item, index=index, targets=targets))
            index += 1
        block.instructions = renumbered
    return tuple(kept)


@dataclass(frozen=True)
class _Instance:
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


class _Flattener:
    def __init__(self, module: PtxModule, kernel: Function) -> None:
        self.module, self.kernel = module, kernel
        self.blocks: list[BasicBlock] = []
        self.registers: dict[str, Type] = {CARRY: TYPES["pred"]}
        self.count = 0
        self.instances = 0
        self.local_bytes = 0
        self.addresses, self.first_free = variable_addresses(module)
        self.shared_offsets: dict[tuple[str, str], int] = {}
        self.shared_bytes = 0
        self._place_shared()
        self.first_pc: dict[str, int] = {}
        self.next_pc = 0

    def fail(self, item: Instruction | Label, why: str) -> PtxError:
        return PtxError(f"{self.module.name}: line {item.line}: {why}")

    def run(self) -> FlatKernel:
        offsets, position = {}, 0
        for parameter in self.kernel.parameters:
            position = align(position, max(parameter.alignment, 1))
            offsets[parameter.name] = position
            position += parameter.size_bytes
        self.parameter_offsets = offsets
        first = self._new_block()
        last = self._inline(self.kernel, first, {}, None, 0, ())
        blocks = _without_dead_code(self.blocks)
        if any(block is last for block in blocks):  # labels after the last ret, as debuggers use them, are dead code
            raise PtxError(f"{self.module.name}: line {self.kernel.line}: {self.kernel.name} does not end with ret")
        if self.local_bytes > MOST_LOCAL_BYTES:
            raise PtxError(
                f"{self.module.name}: {self.kernel.name} needs {self.local_bytes} bytes of local memory a thread; "
                f"at most {MOST_LOCAL_BYTES} are allowed"
            )
        return FlatKernel(
            self.kernel.name,
            self.module,
            blocks,
            self.registers,
            offsets,
            align(position, 8),
            self.shared_bytes,
            align(self.local_bytes, 16),
            self.addresses,
            self.first_free,
        )

    # -- variables -----------------------------------------------------------------------------

    def _place_shared(self) -> None:
        """Static variables first; dynamic ones, whose size the launch gives, all start after them."""
        external: list[tuple[str, Variable]] = []
        called, used = self._reachable()
        owners = [("", self.module.variables), *((each.name, each.variables) for each in called)]
        for owner, variables in owners:
            for variable in variables.values():
                if variable.space != "shared" or variable.name not in used:
                    continue
                if variable.size_bytes == 0:
                    external.append((owner, variable))
                    continue
                offset = align(self.shared_bytes, max(variable.alignment, 1))
                self.shared_offsets[owner, variable.name] = offset
                self.shared_bytes = offset + variable.size_bytes
        if external:
            self.shared_bytes = align(self.shared_bytes, max(16, *(each.alignment for _, each in external)))
            for owner, variable in external:
                self.shared_offsets[owner, variable.name] = self.shared_bytes

    def _reachable(self) -> tuple[list[Function], set[str]]:
        """The kernel with all functions it can call, and the names that their code mentions."""
        called, used, seen = [self.kernel], set[str](), {self.kernel.name}
        for function in called:
            for item in function.instructions():
                for name in _symbols(Vector(item.operands)):
                    used.add(name)
                    other = self.module.functions.get(name)
                    if item.opcode == "call" and other is not None and name not in seen:
                        seen.add(name)
                        called.append(other)
        return called, used

    def _address_of(self, symbol: Symbol, instance: _Instance, item: Instruction) -> int:
        name, function = symbol.name, instance.function.name
        if name in instance.local_offsets:
            return instance.local_offsets[name] + symbol.offset
        for owner in (function, ""):
            if (owner, name) in self.shared_offsets:
                return self.shared_offsets[owner, name] + symbol.offset
        if name in self.addresses:
            return self.addresses[name] + symbol.offset
        raise self.fail(item, f"{name!r} is not a variable that can be used here")

    # -- blocks ----------------------------------------------------------------------------------

    def _new_block(self) -> BasicBlock:
        block = BasicBlock(len(self.blocks))
        self.blocks.append(block)
        return block

    def _inline(
        self,
        function: Function,
        block: BasicBlock | None,
        aliases: Mapping[str, str],
        after: int | None,
        depth: int,
        callers: tuple[str, ...],
        call: SourcePlace | None = None,
    ) -> BasicBlock | None:
        """Inline a function's body from `block` on; returns the block where it runs off its end, if it does."""
        if function.name not in self.first_pc:
            self.first_pc[function.name] = self.next_pc
            self.next_pc += 16 * (sum(1 for _ in function.instructions()) + 1)
        suffix = f"#{self.instances}" if self.instances else ""
        self.instances += 1
        for name, kind in function.registers.items():
            self.registers[name + suffix] = kind
        local = {}
        for variable in function.variables.values():
            if variable.space == "local":
                self.local_bytes = align(self.local_bytes, max(variable.alignment, 1))
                local[variable.name] = self.local_bytes
                self.local_bytes += variable.size_bytes
        labels: dict[str, int] = {}
        for item in function.body or ():
            if isinstance(item, Label):
                if item.name in labels:
                    raise self.fail(item, f"the label {item.name} is defined twice")
                labels[item.name] = self._new_block().number
        targets: dict[str, tuple[int, ...]] = {}
        for item in function.body or ():
            if isinstance(item, BranchTargets):
                unknown = [name for name in item.labels if name not in labels]
                if unknown:
                    raise PtxError(f"{self.module.name}: line {item.line}: no label is named {unknown[0]}")
                targets[item.name] = tuple(labels[name] for name in item.labels)
        instance = _Instance(function, suffix, depth, aliases, local, labels, targets, after, call)
        position = self.first_pc[function.name]
        for item in function.body or ():
            if isinstance(item, Label):
                following = self.blocks[labels[item.name]]
                if block is not None:
                    block.successors.append(following.number)
                block = following
            elif isinstance(item, Instruction):
                if block is None:
                    block = self._new_block()  # unreachable code, removed later
                block = self._instruction(item, block, instance, position, callers)
                position += 16
        return block

    def _instruction(
        self, item: Instruction, block: BasicBlock, instance: _Instance, pc: int, callers: tuple[str, ...]
    ) -> BasicBlock | None:
        if self.count >= MOST_INSTRUCTIONS:
            raise self.fail(item, f"more than {MOST_INSTRUCTIONS} instructions once functions are inlined")
        renamed = self._renamed(item, instance)
        if instance.call is not None:
            renamed = replace(renamed, place=renamed.place.called_from(instance.call))
        flat = FlatInstruction(renamed, self.count, pc, instance.function.name)
        self.count += 1
        if item.name.startswith(("wmma.mma.", "cp.async.mbarrier.arrive")):
            return self._expanded(flat, block)
        if item.opcode == "call":
            return self._call(item, flat, block, instance, callers)
        if item.opcode not in _ENDS:
            if flat.waits and block.instructions:
                following = self._new_block()
                block.successors.append(following.number)
                block = following
            block.instructions.append(flat)
            return block
        if item.opcode == "bra":
            flat = replace(flat, targets=(self._label(item, instance),))
        elif item.opcode == "brx":
            flat = replace(flat, targets=self._branch_table(item, instance))
        elif item.opcode == "ret" and instance.after is not None:
            flat = replace(flat, targets=(instance.after,))
        block.instructions.append(flat)
        block.successors += flat.targets
        if item.guard is None:
            return None
        following = self._new_block()
        block.successors.append(following.number)
        return following

    def _expanded(self, flat: FlatInstruction, block: BasicBlock) -> BasicBlock:
        """Instructions that are made of others: products of wmma, and arrivals that wait for copies."""
        item = flat.instruction
        parts = wmma.products(item) if item.opcode == "wmma" else _arrival_after_copies(item)
        if parts is None:
            name = flat.instruction.name
            raise self.fail(flat.instruction, f"{name}: this form of the instruction is not supported")
        for part in parts:
            block.instructions.append(replace(flat, instruction=part, index=self.count))
            self.count += 1
        return block

    def _label(self, item: Instruction, instance: _Instance) -> int:
        target = item.operands[0] if len(item.operands) == 1 else None
        if not isinstance(target, Symbol) or target.name not in instance.labels:
            raise self.fail(item, "bra needs a label of its function")
        return instance.labels[target.name]

    def _branch_table(self, item: Instruction, instance: _Instance) -> tuple[int, ...]:
        table = item.operands[1] if len(item.operands) == 2 else None
        if not isinstance(table, Symbol) or table.name not in instance.targets:
            raise self.fail(item, "brx.idx needs a register and a list of .branchtargets")
        return instance.targets[table.name]

    def _call(
        self,
        item: Instruction,
        flat: FlatInstruction,
        block: BasicBlock,
        instance: _Instance,
        callers: tuple[str, ...],
    ) -> BasicBlock | None:
        results, target, arguments = item.operands
        assert isinstance(results, Vector) and isinstance(arguments, Vector)
        name = target.name if isinstance(target, Symbol) else ""
        if name in (PRINT, ASSERT):
            block.instructions.append(flat)
            return block
        function = self.module.functions.get(name)
        if function is None or function.body is None:
            raise self.fail(item, f"the function {name or 'behind a pointer'} has no body here and cannot be called")
        if name in callers or name == self.kernel.name:
            raise self.fail(item, f"{name} calls itself; recursion is not supported")
        if len(callers) >= MOST_CALL_DEPTH:
            raise self.fail(item, "calls are nested too deeply")
        if len(results.items) != len(function.results) or len(arguments.items) != len(function.parameters):
            raise self.fail(item, f"{name} takes different parameters")
        aliases = {}
        formal = (*function.parameters, *function.results)
        for declared, given in zip(formal, (*arguments.items, *results.items), strict=True):
            if not isinstance(given, Symbol):
                raise self.fail(item, "arguments of a call must be .param variables")
            aliases[declared.name] = self._parameter_name(given.name, instance)
        after = self._new_block()
        block.instructions.append(flat)
        body = self._new_block()
        block.successors.append(body.number)
        if item.guard is not None:
            block.successors.append(after.number)
            block.instructions[-1] = replace(flat, targets=(body.number,))
        place = flat.instruction.place
        last = self._inline(function, body, aliases, after.number, instance.depth + 1, (*callers, name), place)
        if last is not None:
            last.successors.append(after.number)
        return after

    # -- operands --------------------------------------------------------------------------------

    def _parameter_name(self, name: str, instance: _Instance) -> str:
        return instance.aliases.get(name, name + instance.suffix)

    def _renamed(self, item: Instruction, instance: _Instance) -> Instruction:
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

    def _is_entry_parameter(self, item: Instruction, instance: _Instance) -> bool:
        address = next((each for each in item.operands if isinstance(each, Address)), None)
        if address is None:
            raise self.fail(item, "an address is missing")
        return not isinstance(address.base, Symbol) or (
            instance.depth == 0 and address.base.name in self.parameter_offsets
        )

    def _parameter_move(self, item: Instruction, instance: _Instance, guard: Register | None) -> Instruction:
        """Parameters of inlined calls become registers, one per offset; both sides must use the same sizes."""
        address = next(each for each in item.operands if isinstance(each, Address))
        value = next((each for each in item.operands if not isinstance(each, Address)), None)
        kind = item.types[-1] if item.types else TYPES["b32"]
        assert isinstance(address.base, Symbol)
        base = self._parameter_name(address.base.name, instance)
        values = value.items if isinstance(value, Vector) else (value,)
        slots = [f"{base}+{address.offset + position * kind.bytes}" for position in range(len(values))]
        if any(each is None for each in values):
            raise self.fail(item, "a register is missing")
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

    def _operand(self, operand: Operand, instance: _Instance, item: Instruction) -> Operand:
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
