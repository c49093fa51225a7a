"""Registers of a kernel as expressions of thread indices, launch dimensions, arguments and loop counters.

One pass over the blocks; nothing is evaluated here. Where paths join with different
values, or at a loop head, an expression is a `Merge`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .flat import FlatInstruction, FlatKernel
from .flow import Flow
from .opcodes import memory_use
from .program import Address, Immediate, Instruction, Operand, Pair, Register, Special, Type, Vector
from .static_loops import LoopNest, NaturalLoop

#: Operations that are evaluated; of all others only the uniformity over lanes is known.
EVALUATED = frozenset(
    {
        "add", "sub", "mul", "mad", "mul24", "mad24", "shl", "shr", "and", "or", "xor", "not", "neg", "min", "max",
        "div", "rem", "abs", "cvt", "selp", "setp", "bfe", "cnot",
    }
)  # fmt: skip
#: Operations with a uniform result, whatever their operands.
_SAME_FOR_ALL = frozenset(("vote", "activemask"))
_UNKNOWN_PER_LANE = frozenset(["atom", "shfl", "match", "elect", "ldmatrix", "mma", "wmma", "wgmma", "movmatrix"])


@dataclass(frozen=True, eq=False)
class Node:
    """An operation on other nodes. `operation` may be const, special, load, opaque or merge besides opcodes."""

    operation: str
    arguments: tuple[Node, ...] = ()
    detail: Any = None
    type: Type | None = None


@dataclass(frozen=True, eq=False)
class Merge(Node):
    """A register's value where paths join (a φ): one value per predecessor block.

    At a loop head `loop` is set; `first` is the value on entry, `next` are the values on the back edges.
    """

    block: int = 0
    values: dict[int, Node] = field(default_factory=dict)
    loop: NaturalLoop | None = None
    first: Node | None = None
    next: list[Node] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Symbolic:
    """Result of the pass: addresses, guards and branch conditions by instruction number."""

    addresses: dict[int, Node]
    conditions: dict[int, Node]
    """Truth of an instruction's guard, by the instruction's number."""
    merges: dict[int, list[Merge]]
    """Of each loop (by its head)."""


UNKNOWN = Node("opaque", detail=True)


def constant(value: int) -> Node:
    return Node("const", detail=int(value))


def analyse(kernel: FlatKernel, flow: Flow, nest: LoopNest, parameters: Mapping[int, int]) -> Symbolic:
    """Expressions of a kernel whose parameters are known at some offsets."""
    return _Analysis(kernel, flow, nest, parameters).run()


class _Analysis:
    def __init__(self, kernel: FlatKernel, flow: Flow, nest: LoopNest, parameters: Mapping[int, int]) -> None:
        self.kernel, self.flow, self.nest, self.parameters = kernel, flow, nest, parameters
        self.found = Symbolic({}, {}, {})
        self.made: dict[Any, Node] = {}
        self.ends: dict[int, dict[str, Node]] = {}

    def node(self, operation: str, *arguments: Node, detail: Any = None, type: Type | None = None) -> Node:
        """The unique node for an operation on arguments: equal expressions are the same object."""
        key = (operation, arguments, detail, type)
        if key not in self.made:
            self.made[key] = Node(operation, arguments, detail, type)
        return self.made[key]

    def run(self) -> Symbolic:
        heads = {loop.head: loop for loop in self.nest.loops}
        written = {
            loop.head: {
                name
                for number in loop.blocks
                for item in self.kernel.blocks[number].instructions
                for name in item.destinations
            }
            for loop in self.nest.loops
        }
        for number in self.nest.order:
            state = self._start(number, heads.get(number), written.get(number, set()))
            for item in self.kernel.blocks[number].instructions:
                self._step(item, state)
            self.ends[number] = state
        for loop in self.nest.loops:
            for merge in self.found.merges[loop.head]:
                merge.next.extend(self.ends[latch].get(merge.detail, UNKNOWN) for latch in loop.latches)
        return self.found

    def _start(self, number: int, loop: NaturalLoop | None, written: set[str]) -> dict[str, Node]:
        before = [each for each in self.nest.predecessors[number] if loop is None or each not in loop.latches]
        if loop is not None:
            self.found.merges[number] = []
        state: dict[str, Node] = {}
        for name in sorted(self.flow.live_in[number]):
            values = {each: self.ends[each].get(name, UNKNOWN) for each in before}
            distinct = list(dict.fromkeys(values.values()))
            value = distinct[0] if len(distinct) == 1 else UNKNOWN
            if len(distinct) > 1:
                value = Merge("merge", detail=name, block=number, values=values)
            if loop is not None and name in written:
                value = Merge("merge", detail=name, block=number, loop=loop, first=value)
                self.found.merges[number].append(value)
            state[name] = value
        return state

    def _step(self, item: FlatInstruction, state: dict[str, Node]) -> None:
        instruction = item.instruction
        truth = None
        if item.guard is not None:
            truth = self._register(item.guard, state)
            self.found.conditions[item.index] = truth
        use = memory_use(instruction)
        if use is not None:
            address = self._address(instruction, state)
            self.found.addresses[item.index] = address
        if not item.has_destination:
            return
        targets = _targets(instruction.operands[0])
        values = self._results(item, state, len(targets))
        for target, value in zip(targets, values, strict=True):
            if isinstance(target, Register):
                if truth is not None:
                    old = state.get(target.name, UNKNOWN)
                    value = self.node("selp", value, old, truth, type=self.kernel.registers.get(target.name))
                state[target.name] = value

    def _results(self, item: FlatInstruction, state: dict[str, Node], count: int) -> list[Node]:
        instruction = item.instruction
        opcode = instruction.opcode
        use = memory_use(instruction)
        kind = instruction.types[-1] if instruction.types else None
        if opcode == "ld" and use is not None and use.space == "param":
            return [self._parameter(instruction, position) for position in range(count)]
        if use is not None and opcode in ("ld", "ldu"):
            # Every load gives a new value, even from the same address.
            return [Node("load", (self.found.addresses[item.index],), item.index) for _ in range(count)]
        if opcode in _SAME_FOR_ALL:
            return [self.node("opaque", detail=False) for _ in range(count)]
        if opcode == "mbarrier" and instruction.has("try_wait", "test_wait"):  # a wait that succeeds at once
            return [self.node("const", detail=1) for _ in range(count)]
        if opcode in _UNKNOWN_PER_LANE:
            return [UNKNOWN] * count
        sources = [self._operand(each, state) for each in instruction.operands[1:]]
        if opcode == "mov" and count == 1 and len(sources) == 1:
            return sources
        if opcode == "cvta" and count == 1:
            return sources[:1]
        if opcode == "setp" and kind is not None:
            return self._comparison(instruction, sources, kind, count)
        known = opcode in EVALUATED and kind is not None and not kind.is_float and kind.packed == 1
        if opcode == "cvt" and any(each.is_float for each in instruction.types):
            known = False
        if opcode == "selp":
            known = True
        if not known or count != 1:
            return [self.node("opaque", *sources, detail=item.index) for _ in range(count)]
        return [self.node(opcode, *sources, detail=instruction.modifiers, type=kind)]

    def _comparison(self, item: Instruction, sources: list[Node], kind: Type, count: int) -> list[Node]:
        comparison = item.modifiers[0]
        if kind.is_float:
            truth = self.node("opaque", *sources[:2], detail=("float", item.line))
        else:
            truth = self.node("setp", *sources[:2], detail=comparison, type=kind)
        if len(sources) == 3:
            how = next((each for each in item.modifiers if each in ("and", "or", "xor")), "and")
            truth = self.node(how, truth, sources[2], type=Type("pred", 1))
        return [truth, self.node("not", truth, type=Type("pred", 1))][:count]

    def _parameter(self, item: Instruction, position: int) -> Node:
        address = next(each for each in item.operands if isinstance(each, Address))
        kind = item.types[-1]
        if isinstance(address.base, Immediate):
            offset = int(address.base.value) + address.offset + position * kind.bytes
            if offset in self.parameters:
                return self.node("const", detail=self.parameters[offset])
        return self.node("opaque", detail=False)

    def _address(self, item: Instruction, state: dict[str, Node]) -> Node:
        found = [each for each in item.operands if isinstance(each, Address)]
        if not found:
            return UNKNOWN
        address = found[-1] if item.opcode == "cp" else found[0]  # cp.async: to shared, from global
        base = address.base
        if isinstance(base, Immediate):
            return self.node("const", detail=int(base.value) + address.offset)
        if not isinstance(base, Register):
            return UNKNOWN
        start = state.get(base.name, UNKNOWN)
        if not address.offset:
            return start
        return self.node("add", start, self.node("const", detail=address.offset), type=Type("s", 64))

    def _register(self, register: Register, state: dict[str, Node]) -> Node:
        value = state.get(register.name, UNKNOWN)
        return self.node("not", value, type=Type("pred", 1)) if register.negated else value

    def _operand(self, operand: Operand, state: dict[str, Node]) -> Node:
        if isinstance(operand, Register):
            return self._register(operand, state)
        if isinstance(operand, Immediate) and not operand.float_bits and isinstance(operand.value, int):
            return self.node("const", detail=operand.value)
        if isinstance(operand, Immediate):
            return self.node("opaque", detail=False)
        if isinstance(operand, Special):
            return self.node("special", detail=operand.name)
        if isinstance(operand, Vector):
            return self.node("opaque", *(self._operand(each, state) for each in operand.items))
        return UNKNOWN


def _targets(operand: Operand) -> tuple[Operand, ...]:
    if isinstance(operand, Vector):
        return operand.items
    return (operand.first, operand.second) if isinstance(operand, Pair) else (operand,)
