"""A kernel as one graph of basic blocks: device functions inlined, names resolved to addresses."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ...errors import PtxError, nearest
from .expansions import MADE_OF_OTHERS, STACK, STACK_BYTES, expanded
from .flat import CARRY, BasicBlock, FlatInstruction, FlatKernel
from .program import (
    TYPES,
    Address,
    BranchTargets,
    CallTargets,
    Function,
    Immediate,
    Instruction,
    Label,
    Operand,
    PtxModule,
    Register,
    SourcePlace,
    Special,
    Symbol,
    Type,
    Variable,
    Vector,
)
from .renaming import Instance, Renaming
from .spaces import GRANULE_BYTES, MOST_LOCAL_BYTES, align

MOST_INSTRUCTIONS = 200_000
MOST_CALL_DEPTH = 64
MOST_CLUSTER_BLOCKS = 16
_ENDS = ("bra", "brx", "ret", "exit", "trap")
#: How often a function that calls itself is inlined within itself, and its copies if each level calls several times.
MOST_LEVELS, MOST_COPIES = 32, 64
#: Modifier of the trap that stands where calls would be inlined more often.
TOO_DEEP = "recursion"
#: Functions that CUDA provides: bits of the result and of the arguments.
DEVICE_CALLS: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "vprintf": (32, (64, 64)),
    "malloc": (64, (64,)),
    "free": (0, (64,)),
    "__assertfail": (0, (64, 64, 32, 64, 64)),
}
#: Bytes between the addresses of functions, which no access reaches.
FUNCTION_BYTES = 16


def _symbols(operand: Operand) -> Iterator[str]:
    if isinstance(operand, Symbol):
        yield operand.name
    elif isinstance(operand, Address) and isinstance(operand.base, Symbol):
        yield operand.base.name
    elif isinstance(operand, Vector):
        for each in operand.items:
            yield from _symbols(each)


def flatten(module: PtxModule, entry: str, cluster: Sequence[int] | None = None) -> FlatKernel:
    """One kernel of a module, ready to analyse and compile; `cluster` where the kernel itself requires none."""
    kernel = module.functions.get(entry)
    if kernel is None or not kernel.is_entry or kernel.body is None:
        raise PtxError(f"{module.name}: no kernel is named {entry!r}; {nearest(entry, module.entries)}")
    x, y, z = (*(kernel.cluster or cluster or ()), 1, 1, 1)[:3]
    if not 1 <= x * y * z <= MOST_CLUSTER_BLOCKS or min(x, y, z) < 1:
        raise PtxError(
            f"{module.name}: line {kernel.line}: {entry} needs clusters of {x} × {y} × {z} blocks; "
            f"at most {MOST_CLUSTER_BLOCKS} are possible"
        )
    return replace(_Flattener(module, kernel).run(), cluster=(x, y, z))


def variable_addresses(module: PtxModule) -> tuple[dict[str, int], int]:
    """Addresses of global and constant variables, and the first free one after them."""
    found, position = {}, module.variables_address
    for variable in module.variables.values():
        if variable.space in ("global", "const"):
            found[variable.name] = position
            position = align(position + max(variable.size_bytes, 1), GRANULE_BYTES) + GRANULE_BYTES
    return found, position


def function_addresses(module: PtxModule) -> dict[str, int]:
    """Addresses of the functions that pointers lead to."""
    taken = {name for variable in module.variables.values() for _, name, _ in variable.pointers}
    for function in module.functions.values():
        for item in function.body or ():
            if isinstance(item, CallTargets):
                taken |= set(item.functions)
            elif isinstance(item, Instruction) and item.opcode != "call":
                taken |= set(_symbols(Vector(item.operands)))
    named = [name for name, each in module.functions.items() if name in taken and not each.is_entry]
    return {name: FUNCTION_BYTES * number for number, name in enumerate(named, start=1)}


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


class _Flattener(Renaming):
    def __init__(self, module: PtxModule, kernel: Function) -> None:
        self.module, self.kernel = module, kernel
        self.blocks: list[BasicBlock] = []
        self.registers: dict[str, Type] = {CARRY: TYPES["pred"]}
        self.count = 0
        self.instances = 0
        self.local_bytes = 0
        self.addresses, self.first_free = variable_addresses(module)
        self.functions = function_addresses(module)
        self.shared_offsets: dict[tuple[str, str], int] = {}
        self.shared_bytes = 0
        self._place_shared()
        self.first_pc: dict[str, int] = {}
        self.next_pc = 0

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
        if STACK in self.registers:
            self._with_stack(blocks)
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
            self.functions,
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
                names = dict.fromkeys(_symbols(Vector(item.operands)))
                used |= names.keys()
                if item.opcode == "call":
                    pointed = self.functions if not isinstance(item.operands[1], Symbol) else {}
                    for name in (*names, *pointed):
                        other = self.module.functions.get(name)
                        if other is not None and name not in seen:
                            seen.add(name)
                            called.append(other)
        return called, used

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
        instance = Instance(function, suffix, depth, aliases, local, labels, targets, after, call)
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
        self, item: Instruction, block: BasicBlock, instance: Instance, pc: int, callers: tuple[str, ...]
    ) -> BasicBlock | None:
        if self.count >= MOST_INSTRUCTIONS:
            raise self.fail(item, f"more than {MOST_INSTRUCTIONS} instructions once functions are inlined")
        renamed = self._renamed(item, instance)
        if instance.call is not None:
            renamed = replace(renamed, place=renamed.place.called_from(instance.call))
        flat = FlatInstruction(renamed, self.count, pc, instance.function.name)
        self.count += 1
        if item.name.startswith(MADE_OF_OTHERS):
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
        """Instructions made of others: products of wmma, arrivals that wait for copies, memory from the stack."""
        parts = expanded(flat.instruction, self.registers)
        if parts is None:
            name = flat.instruction.name
            raise self.fail(flat.instruction, f"{name}: this form of the instruction is not supported")
        for part in parts:
            block.instructions.append(replace(flat, instruction=part, index=self.count))
            self.count += 1
        return block

    def _with_stack(self, blocks: tuple[BasicBlock, ...]) -> None:
        """Give the stack its place in local memory, after all variables."""
        start = Immediate(align(self.local_bytes, 256))
        self.local_bytes = int(start.value) + STACK_BYTES
        for block in blocks:
            block.instructions = [
                replace(
                    each, instruction=replace(each.instruction, operands=(*each.instruction.operands[:-1], start))
                )
                if Special(STACK) in each.instruction.operands
                else each
                for each in block.instructions
            ]

    def _label(self, item: Instruction, instance: Instance) -> int:
        target = item.operands[0] if len(item.operands) == 1 else None
        if not isinstance(target, Symbol) or target.name not in instance.labels:
            raise self.fail(item, "bra needs a label of its function")
        return instance.labels[target.name]

    def _branch_table(self, item: Instruction, instance: Instance) -> tuple[int, ...]:
        table = item.operands[1] if len(item.operands) == 2 else None
        if not isinstance(table, Symbol) or table.name not in instance.targets:
            raise self.fail(item, "brx.idx needs a register and a list of .branchtargets")
        return instance.targets[table.name]

    def _call(
        self,
        item: Instruction,
        flat: FlatInstruction,
        block: BasicBlock,
        instance: Instance,
        callers: tuple[str, ...],
    ) -> BasicBlock | None:
        results, target, arguments = item.operands[:3]
        assert isinstance(results, Vector) and isinstance(arguments, Vector)
        for given in (*results.items, *arguments.items):
            if not isinstance(given, Symbol):
                raise self.fail(item, "arguments of a call must be .param variables")
        name = target.name if isinstance(target, Symbol) else ""
        function = self.module.functions.get(name)
        if name in DEVICE_CALLS and (function is None or function.body is None):
            block.instructions.append(self._device_call(flat, name, results, arguments, instance))
            return block
        candidates = [name] if name else self._candidates(item, instance)
        after = self._new_block()
        block.instructions.append(flat)
        bodies = []
        for each in candidates:
            body = self._new_block()
            bodies.append(body.number)
            self._inline_call(item, each, body, after, instance, callers)
        block.successors += bodies
        if not name:
            if item.guard is not None:
                raise self.fail(item, "a call through a pointer under a predicate is not supported")
            known = tuple(Immediate(self.functions[each]) for each in candidates)
            pointer = self._operand(target, instance, item)
            chosen = replace(flat.instruction, operands=(pointer, *known))
            block.instructions[-1] = replace(flat, instruction=chosen, targets=tuple(bodies))
        elif item.guard is not None:
            block.successors.append(after.number)
            block.instructions[-1] = replace(flat, targets=tuple(bodies))
        return after

    def _inline_call(
        self,
        item: Instruction,
        name: str,
        body: BasicBlock,
        after: BasicBlock,
        instance: Instance,
        callers: tuple[str, ...],
    ) -> None:
        results, _, arguments = item.operands[:3]
        assert isinstance(results, Vector) and isinstance(arguments, Vector)
        function = self.module.functions.get(name)
        if function is None or function.body is None:
            raise self.fail(item, f"the function {name} has no body here and cannot be called")
        if len(results.items) != len(function.results) or len(arguments.items) != len(function.parameters):
            raise self.fail(item, f"{name} takes different parameters")
        if len(callers) >= MOST_CALL_DEPTH:
            raise self.fail(item, "calls are nested too deeply")
        if (*callers, self.kernel.name).count(name) > self._most_levels(function):
            stop = replace(item, opcode="trap", modifiers=(TOO_DEEP,), operands=(), guard=None)
            body.instructions.append(FlatInstruction(stop, self.count, self.first_pc[name], name))
            body.successors.append(after.number)  # lanes that call less deeply reconverge as if the call returned
            self.count += 1
            return
        aliases = {}
        formal = (*function.parameters, *function.results)
        for declared, given in zip(formal, (*arguments.items, *results.items), strict=True):
            assert isinstance(given, Symbol)
            aliases[declared.name] = self._parameter_name(given.name, instance)
        place = item.place if instance.call is None else item.place.called_from(instance.call)
        last = self._inline(function, body, aliases, after.number, instance.depth + 1, (*callers, name), place)
        if last is not None:
            last.successors.append(after.number)

    def _most_levels(self, function: Function) -> int:
        """How often a function may be inlined within itself: less often if each level calls it several times."""
        calls = [each.operands[1] for each in function.instructions() if each.opcode == "call"]
        own = sum(not isinstance(each, Symbol) or each.name in self.module.functions for each in calls)
        return MOST_LEVELS if own <= 1 else int(math.log(MOST_COPIES, own))

    def _candidates(self, item: Instruction, instance: Instance) -> list[str]:
        """Functions that a pointer can lead to: of those listed, or of all with an address, those that fit."""
        results, _, arguments, *rest = item.operands
        assert isinstance(results, Vector) and isinstance(arguments, Vector)
        listing = rest[0].name if rest and isinstance(rest[0], Symbol) else ""
        lists = [each for each in instance.function.body or () if isinstance(each, CallTargets)]
        listed = [name for each in lists if each.name == listing for name in each.functions]
        variables = instance.function.variables

        def sizes(given: Vector) -> list[int]:
            found = [variables.get(each.name) for each in given.items if isinstance(each, Symbol)]
            return [0 if each is None else each.size_bytes for each in found]

        wanted = sizes(results), sizes(arguments)
        found = []
        for name in listed or self.functions:
            function = self.module.functions.get(name)
            if function is not None and function.body is not None and name in self.functions:
                own = [[each.size_bytes for each in group] for group in (function.results, function.parameters)]
                found += [name] if tuple(own) == wanted else []
        if not found:
            raise self.fail(item, "no function whose address is taken has these parameters")
        return found

    def _device_call(
        self, flat: FlatInstruction, name: str, results: Vector, arguments: Vector, instance: Instance
    ) -> FlatInstruction:
        """A call of a function that CUDA provides: its result and its arguments as registers."""
        bits, wanted = DEVICE_CALLS[name]
        widths = [bits] * bool(bits) + list(wanted)
        given = [*results.items, *arguments.items]
        if len(given) != len(widths):
            raise self.fail(flat.instruction, f"{name} takes different parameters")
        found: list[Operand] = []
        for width, each in zip(widths, given, strict=True):
            assert isinstance(each, Symbol)
            slot = f"{self._parameter_name(each.name, instance)}+0"
            if self.registers.setdefault(slot, TYPES[f"b{width}"]).total_bits != width:
                raise self.fail(flat.instruction, f"{name} takes different parameters")
            found.append(Register(slot))
        found.insert(len(results.items), Symbol(name))
        return replace(flat, instruction=replace(flat.instruction, operands=tuple(found)))
