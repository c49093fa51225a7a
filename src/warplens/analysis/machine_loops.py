"""Which loops of machine code stand for which loops of the PTX that it was made from.

A region of the PTX is a loop that the machine code has too, without the regions inside; region 0 is the rest. A
region of the machine code is a loop that stands for a region of the PTX, again without those inside.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..traces.machine_code import TracedCode
from .control_flow import Loops, natural_loops
from .machine_rows import is_access, is_arithmetic

_ENDS = ("EXIT", "RET", "BRX", "KILL")
#: An access says more about where code comes from than other instructions, which the compiler moves and joins.
_ACCESS_VOTES = 8
_ATOMIC = "atomic_"


@dataclass(frozen=True, eq=False)
class MachineKernel:
    """Machine code, its basic blocks and its loops; classes are those of its rows and of the PTX."""

    code: TracedCode
    classes: Sequence[str]
    ptx_classes: Sequence[str]
    #: PTX instructions that are several of the machine code, and how many.
    pieces: Mapping[int, int]

    @cached_property
    def origins(self) -> list[int]:
        """Index of the PTX instruction that each comes from, or -1."""
        return [each if each < len(self.ptx_classes) else -1 for each in self.code.origins]

    @cached_property
    def spans(self) -> list[range]:
        """Instructions of each basic block."""
        size = len(self.code.opcodes)
        found = {0, *(each for each in self.code.targets if 0 <= each < size)}
        found |= {i + 1 for i, name in enumerate(self.code.opcodes) if name == "BRA" or name in _ENDS}
        starts = sorted(each for each in found if each < size)
        return [range(begin, end) for begin, end in zip(starts, [*starts[1:], size], strict=True)]

    @cached_property
    def loops(self) -> Loops:
        code, spans = self.code, self.spans
        number = {span.start: block for block, span in enumerate(spans)}
        successors: list[list[int]] = []
        for block, span in enumerate(spans):
            last = span[-1]
            name, falls = code.opcodes[last], [block + 1] if block + 1 < len(spans) else []
            if name == "BRA":
                known = code.targets[last] in number and not self._is_retry(last)
                taken = [number[code.targets[last]]] if known else []
                successors.append(taken + (falls if code.guarded[last] else []))
            elif name == "BRX":  # its table is not read: any block behind it may follow
                successors.append(list(range(block + 1, len(spans))))
            else:
                successors.append(falls if name not in _ENDS or code.guarded[last] else [])
        return natural_loops(successors)

    @cached_property
    def swapping(self) -> frozenset[int]:
        """Instructions of loops that the compiler made of one atomic: they compare and swap until they succeed."""
        code, found = self.code, set()
        for i, origin in enumerate(self.origins):
            if self._is_retry(i):
                found |= {each for each in range(code.targets[i], i + 1) if self.origins[each] == origin}
        return frozenset(found)

    def _is_retry(self, i: int) -> bool:
        """Whether an instruction goes back to try an atomic again."""
        code, origin = self.code, self.origins[i]
        goes_back = code.opcodes[i] == "BRA" and 0 <= code.targets[i] <= i
        return goes_back and origin >= 0 and self.ptx_classes[origin].startswith(_ATOMIC)

    @cached_property
    def swaps(self) -> frozenset[int]:
        """The atomics of such loops."""
        return frozenset(i for i in self.swapping if self.classes[i].startswith(_ATOMIC))

    def executed_in(self, block: int) -> list[int]:
        """Instructions that stand for a pass through a block: of a loop of compare-and-swap, the atomic alone.

        How often such a loop runs depends on the lanes that meet at a word: the atomic costs what it costs in PTX.
        """
        return [i for i in self.spans[block] if i not in self.swapping or i in self.swaps]

    @cached_property
    def ptx_loops(self) -> Loops:
        return natural_loops([each[1:] for each in self.code.ptx_blocks])

    @cached_property
    def ptx_spans(self) -> list[range]:
        """Instructions of each basic block of the PTX."""
        size, firsts = len(self.ptx_classes), [each[0] for each in self.code.ptx_blocks]
        found = [range(0)] * len(firsts)
        order = sorted(range(len(firsts)), key=lambda each: firsts[each])
        for block, following in zip(order, [*order[1:], -1], strict=True):
            found[block] = range(firsts[block], min(firsts[following] if following >= 0 else size, size))
        return found

    @cached_property
    def ptx_loop_of(self) -> list[int]:
        """The innermost loop of each PTX instruction, or -1."""
        found = [-1] * len(self.ptx_classes)
        for block, span in enumerate(self.ptx_spans):
            for index in span:
                found[index] = self.ptx_loops.innermost[block]
        return found

    def tells(self, origin: int) -> bool:
        """Whether a PTX instruction is found again in machine code: others are moved and joined."""
        return is_access(self.ptx_classes[origin]) or is_arithmetic(self.ptx_classes[origin])

    def told_by(self, blocks: Sequence[int]) -> set[int]:
        """PTX instructions that are found again in blocks of the machine code."""
        found = ((self.classes[i], self.origins[i]) for block in blocks for i in self.spans[block])
        return {each for name, each in found if each >= 0 and name == self.ptx_classes[each] and self.tells(each)}


@dataclass(frozen=True, eq=False)
class Regions:
    """Regions of the PTX, and of the machine code."""

    #: Of each PTX instruction: its region.
    of_static: NDArray[np.int64]
    #: Of each region of the PTX: the instruction that every pass begins with, and its machine code: (passes that one
    #: pass through it stands for, region of the machine code), the most passes first.
    headers: tuple[int, ...]
    variants: tuple[tuple[tuple[int, int], ...], ...]
    #: Of each region of the machine code: its region of the PTX, its blocks, the regions inside by their first block,
    #: regions of the PTX of which it has copies outside their loops, and which of its inner regions each PTX region
    #: belongs to (or -1).
    ptx_of: tuple[int, ...]
    blocks: tuple[tuple[int, ...], ...]
    children: tuple[dict[int, int], ...]
    copied: tuple[frozenset[int], ...]
    inner_of: tuple[NDArray[np.int64], ...]
    #: Of each region of the machine code: regions of the PTX inside that it enters in the middle, and which PTX
    #: instructions come before that: it has those of the first pass itself.
    entered: tuple[dict[int, NDArray[np.bool_]], ...]


def match_loops(kernel: MachineKernel) -> Regions:
    """Match by the PTX instructions that machine code comes from."""
    machine, ptx = kernel.loops, kernel.ptx_loops
    stands_for = _stands_for(kernel)
    region_of = {-1: 0}
    headers = [-1]
    for number, loop in enumerate(ptx.loops):
        if number in stands_for.values():
            region_of[number] = len(headers)
            headers.append(kernel.code.ptx_blocks[loop.header][0])
        else:
            region_of[number] = region_of[loop.parent]
    machine_region = {-1: 0}
    ptx_of = [0]
    children: list[dict[int, int]] = [{}]
    for number, around in enumerate(machine.loops):
        outer = machine_region[around.parent]
        machine_region[number] = outer
        if stands_for[number] >= 0:
            machine_region[number] = len(ptx_of)
            children[outer][around.header] = len(ptx_of)
            children.append({})
            ptx_of.append(region_of[stands_for[number]])
    blocks: list[list[int]] = [[] for _ in ptx_of]
    for block in sorted(machine.reachable):
        blocks[machine_region[machine.innermost[block]]].append(block)
    of_static = np.array([region_of[each] for each in kernel.ptx_loop_of], dtype=np.int64)
    chains = {region_of[number]: [region_of[each] for each in ptx.chain(number)] for number in range(len(ptx.loops))}
    variants: list[list[tuple[int, int]]] = [[] for _ in headers]
    for number, theirs in enumerate(ptx_of):
        variants[theirs].append((_copies(kernel, of_static, theirs, blocks[number]) if number else 1, number))
    return Regions(
        of_static=of_static,
        headers=tuple(headers),
        variants=tuple(tuple(sorted(each, key=lambda item: (-item[0], item[1]))) for each in variants),
        ptx_of=tuple(ptx_of),
        blocks=tuple(map(tuple, blocks)),
        children=tuple(children),
        copied=tuple(_copied(kernel, of_static, *each) for each in zip(ptx_of, blocks, strict=True)),
        inner_of=tuple(
            _inner(len(headers), theirs, {ptx_of[each] for each in held.values()}, chains)
            for theirs, held in zip(ptx_of, children, strict=True)
        ),
        entered=tuple(
            {
                theirs: found
                for first, inner in held.items()
                for theirs in [ptx_of[inner]]
                for before in [[block for block in own if block < first]]
                for found in [_before_entry(kernel, of_static == theirs, headers[theirs], before, blocks[inner])]
                if found.any()
            }
            for held, own in zip(children, blocks, strict=True)
        ),
    )


def _stands_for(kernel: MachineKernel) -> dict[int, int]:
    """The loop of the PTX that each loop of the machine code stands for, or -1; inner loops choose first."""
    machine, ptx = kernel.loops, kernel.ptx_loops
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    for block, loop in enumerate(machine.innermost):
        for i in kernel.spans[block]:
            if loop >= 0 and kernel.origins[i] >= 0:
                votes[loop][kernel.ptx_loop_of[kernel.origins[i]]] += (
                    _ACCESS_VOTES if is_access(kernel.classes[i]) else 1
                )
    found: dict[int, int] = {}
    for number in reversed(range(len(machine.loops))):
        inside = [found[each] for each in found if machine.loops[each].parent == number and found[each] >= 0]
        around = [set(ptx.chain(each)[1:]) for each in inside]
        allowed = set.intersection(*around) if around else None
        ranked = [each for each, _ in votes[number].most_common() if allowed is None or each in allowed]
        found[number] = ranked[0] if ranked else -1
    return found


def _copies(kernel: MachineKernel, of_static: NDArray[np.int64], region: int, blocks: Sequence[int]) -> int:
    """How many passes through a loop of the PTX one pass through its machine code stands for."""
    accesses: Counter[int] = Counter()
    arithmetic: Counter[int] = Counter()
    for i in (i for block in blocks for i in kernel.spans[block]):
        origin = kernel.origins[i]
        if origin < 0 or of_static[origin] != region or kernel.classes[i] != kernel.ptx_classes[origin]:
            continue
        if is_access(kernel.classes[i]):
            accesses[origin] += 1
        elif is_arithmetic(kernel.classes[i]):
            arithmetic[origin] += 1
    counts = sorted(-(-count // kernel.pieces.get(origin, 1)) for origin, count in (accesses or arithmetic).items())
    return counts[len(counts) // 2] if counts else 1


def _copied(
    kernel: MachineKernel, of_static: NDArray[np.int64], region: int, blocks: Sequence[int]
) -> frozenset[int]:
    """Other regions of which whole blocks lie in a region: what is left of an unrolled loop."""
    found: set[int] = set()
    for block in blocks:
        origins = (kernel.origins[i] for i in kernel.spans[block])
        theirs = {int(of_static[each]) for each in origins if each >= 0}
        if region not in theirs:
            found |= theirs
    return frozenset(found)


def _before_entry(
    kernel: MachineKernel, region: NDArray[np.bool_], header: int, before: Sequence[int], loop: Sequence[int]
) -> NDArray[np.bool_]:
    """Which PTX instructions of a region come before the place where its machine code enters it; none as a rule.

    A compiler turns a loop that is left in the middle so that it is left at its end: what comes before that place in
    the PTX is there twice, before the loop and in it.
    """
    found = np.zeros(len(region), dtype=np.bool_)
    twice = kernel.told_by(before) & kernel.told_by(loop)
    others = 0
    for span in kernel.ptx_spans if twice else ():
        telling = [each for each in span if region[each] and kernel.tells(each)]
        if telling and 2 * len(twice.intersection(telling)) >= len(telling):
            found[span.start : span.stop] = True
        else:
            others += len(telling)
    # Where it has whole passes outside, they are no beginning of one.
    return found if others and found[header] else np.zeros_like(found)


def _inner(count: int, region: int, inside: set[int], chains: dict[int, list[int]]) -> NDArray[np.int64]:
    """For each region of the PTX, which of those directly inside another it is or lies in, or -1."""
    found = np.full(count, -1, dtype=np.int64)
    for each in range(count):
        chain = chains.get(each, [])
        if region in chain or region == 0:
            found[each] = next((one for one in chain if one in inside), -1)
    found[region] = -1
    return found
