"""Where lanes meet again: immediate post-dominators, straight from the definition."""

from __future__ import annotations

from functools import cached_property

from warplens.frontends.ptx.program import BranchTargets, Function, Instruction, Label, Symbol

from .memory import FaultError


class Code:
    """A function's instructions by number, with the places that each can go to; `end` is after the last."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.tables: dict[str, tuple[str, ...]] = {}
        for each in function.body or ():
            if isinstance(each, Label):
                self.labels[each.name] = len(self.instructions)
            elif isinstance(each, BranchTargets):
                self.tables[each.name] = each.labels
            elif isinstance(each, Instruction):
                self.instructions.append(each)
        self.end = len(self.instructions)
        self.meeting = self._immediate_post_dominators()

    def targets(self, item: Instruction) -> list[int]:
        if item.opcode == "bra":
            (target,) = item.operands
            assert isinstance(target, Symbol)
            return [self.labels[target.name]]
        if item.opcode == "brx":
            table = item.operands[1]
            assert isinstance(table, Symbol)
            return [self.labels[each] for each in self.tables[table.name]]
        return []

    def _leaves(self, item: Instruction) -> bool:
        """Whether lanes leave the kernel here; `ret` of a called function does not."""
        return item.opcode in ("exit", "trap") or (item.opcode == "ret" and self.function.is_entry)

    def successors(self, number: int) -> list[int]:
        """Where lanes go on to meet others.

        Lanes that leave the kernel meet nobody: a way that leads to leaving at
        once does not count where there is another to the end.
        """
        return self._staying(number) if number in self._ending else self._ways(number)

    @cached_property
    def _ending(self) -> set[int]:
        """Instructions from which ways that do not leave at once lead to the end."""
        ending = {self.end}
        grown = True
        while grown:
            grown = False
            for number in range(self.end):
                if number not in ending and ending & set(self._staying(number)):
                    ending.add(number)
                    grown = True
        return ending

    def _staying(self, number: int) -> list[int]:
        """Where lanes go on without leaving at once, if they can."""
        found = self._ways(number)
        return [each for each in found if each == self.end or not self._only_leaves(each)] or found

    def _ways(self, number: int) -> list[int]:
        """Where lanes go on."""
        item = self.instructions[number]
        if item.opcode in ("bra", "brx"):
            found = self.targets(item)
        elif self._leaves(item) and item.guard is not None:
            found = []
        elif item.opcode in ("ret", "exit", "trap"):
            found = [self.end]
        else:
            return [number + 1]
        if item.guard is not None:
            found.append(number + 1)
        return found

    def _only_leaves(self, number: int) -> bool:
        item = self.instructions[number]
        return self._leaves(item) and item.guard is None

    def _immediate_post_dominators(self) -> list[int]:
        """p post-dominates n if every path from n to the end passes p; the immediate one is the first such."""
        everything = (1 << (self.end + 1)) - 1
        sets = [everything] * self.end + [1 << self.end]
        changed = True
        while changed:
            changed = False
            for number in reversed(range(self.end)):
                common = everything
                for successor in self.successors(number):
                    common &= sets[successor]
                if (common | 1 << number) != sets[number]:
                    sets[number] = common | 1 << number
                    changed = True
        found = []
        for number in range(self.end):
            if not self._reaches_end(number):
                found.append(self.end)  # nowhere to meet
                continue
            others = [each for each in range(self.end + 1) if sets[number] >> each & 1 and each != number]
            # The nearest one is post-dominated by all others, so its own set is the largest.
            found.append(max(others, key=lambda each: sets[each].bit_count()))
        # Nobody waits for others only to leave with them.
        return [self.end if each != self.end and self._only_leaves(each) else each for each in found]

    def _reaches_end(self, start: int) -> bool:
        reached, waiting = {start}, [start]
        while waiting:
            number = waiting.pop()
            if number == self.end:
                return True
            new = set(self.successors(number)) - reached
            reached |= new
            waiting += new
        return False


def choose(targets: list[int], index: int) -> int:
    if not 0 <= index < len(targets):
        raise FaultError(f"brx.idx with {index} of {len(targets)} targets")
    return targets[index]
