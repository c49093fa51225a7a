"""The Pipeline model (Lemeire et al., §3) tick by tick: at every tick every instruction of every warp is looked at.

A warp is a list of instructions (pipeline, λ, Λ, positions it waits for, is it a barrier), times in ticks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Instruction = tuple[int, int, int, tuple[int, ...], bool]
Program = Sequence[Instruction]
POLICIES = ("rr", "lrr", "gto", "oldest")
CAUSES = ("dependence", "issue limit", "barrier", "no work")


@dataclass
class Warp:
    number: int
    slot: int
    program: Program
    age: int
    entered: int
    issued: dict[int, int] = field(default_factory=dict)  # position -> tick
    opened: dict[int, int] = field(default_factory=dict)  # barrier -> tick at which it lets the warp pass
    last_turn: int = -1

    def done(self, position: int) -> int | None:
        """When the result of an instruction is there, if that is known."""
        if position not in self.issued:
            return None
        if self.program[position][4]:
            return self.opened.get(position)
        return self.issued[position] + self.program[position][2]

    def arrived(self) -> bool:
        """It has issued a barrier that is not open yet."""
        return any(self.program[i][4] and i not in self.opened for i in self.issued)

    def left(self) -> bool:
        """It has nothing to issue and waits at no barrier."""
        return len(self.issued) == len(self.program) and not self.arrived()

    def held(self, tick: int) -> bool:
        return self.arrived() or any(tick < opens for opens in self.opened.values())

    def may_start(self, position: int, tick: int, in_order: bool) -> bool:
        """Whether nothing but a busy pipeline or the issue limit can keep the instruction from issuing."""
        if position in self.issued or self.held(tick):
            return False
        earlier = range(position)
        if (in_order or self.program[position][4]) and any(i not in self.issued for i in earlier):
            return False
        if any(self.program[i][4] and i not in self.issued for i in earlier):
            return False
        results = [self.done(other) for other in self.program[position][3]]
        return all(result is not None and result <= tick for result in results)

    def unissued_on(self, pipeline: int) -> bool:
        return any(i not in self.issued and item[0] == pipeline for i, item in enumerate(self.program))


@dataclass
class Run:
    ticks: int
    busy: list[int]
    idle: list[dict[str, int]]
    any_busy: int
    overlap: int
    rows: list[tuple[int, int, int, int, int, int]]  # warp, instruction, pipeline, start, end of λ, end of Λ


def simulate(
    groups: Sequence[Sequence[Program]], concurrent: int, pipelines: int, gap: int, policy: str, in_order: bool
) -> Run:
    """All groups on one core, `concurrent` at a time; an issue closes the valve for `gap` ticks."""
    slots: list[list[Warp]] = [[] for _ in range(min(concurrent, len(groups)))]
    waiting = list(enumerate(groups))
    free = [0] * pipelines
    busy = [0] * pipelines
    idle = [dict.fromkeys(CAUSES, 0) for _ in range(pipelines)]
    any_busy = overlap = 0
    rows: list[tuple[Warp, int, int]] = []
    valve = finish = tick = turn = age = 0
    last: Warp | None = None
    pointer = -1
    size = len(groups[0])

    def end_of_group(group: list[Warp]) -> int | None:
        """When the last result of a group is there; None if it has instructions left."""
        if not all(warp.left() for warp in group):
            return None
        return max(
            (warp.done(i) or 0 for warp in group for i in warp.issued), default=group[0].entered if group else 0
        )

    while True:
        while True:
            leaving = [(end, s) for s, group in enumerate(slots) if (end := end_of_group(group)) is not None]
            leaving = [(end, s) for end, s in leaving if end <= tick]
            if waiting and leaving:
                number, programs = waiting.pop(0)
                s = min(leaving)[1]
                slots[s] = []
                for index, program in enumerate(programs):
                    slots[s].append(Warp(number * size + index, s * size + index, program, age, tick))
                    age += 1
                continue
            warps = [warp for group in slots for warp in group]
            choices = [
                (warp, i)
                for warp in warps
                for i, item in enumerate(warp.program)
                if tick >= valve and free[item[0]] <= tick and warp.may_start(i, tick, in_order)
            ]
            if not choices:
                break
            if policy == "rr":
                warp = min((w for w, _ in choices), key=lambda w: (w.last_turn, w.age))
            elif policy == "lrr":
                warp = min((w for w, _ in choices), key=lambda w: (w.slot - pointer - 1) % (size * len(slots)))
            elif policy == "gto" and any(w is last for w, _ in choices):
                assert last is not None
                warp = last
            else:
                warp = min((w for w, _ in choices), key=lambda w: w.age)
            position = min(i for w, i in choices if w is warp)
            pipeline, interval, latency, _, _ = warp.program[position]
            warp.issued[position] = tick
            warp.last_turn, turn = turn, turn + 1
            last, pointer = warp, warp.slot
            free[pipeline] = tick + interval
            valve = tick + gap
            finish = max(finish, tick + interval, tick + latency)
            rows.append((warp, position, pipeline))
            group = slots[warp.slot // size]
            at_barrier = [w for w in group if w.arrived()]
            if at_barrier and all(w.arrived() or w.left() for w in group):
                # Λ after the last arrival, and not before the last warp that does not come has issued everything.
                opens = tick
                for w in at_barrier:
                    i = next(i for i in w.issued if w.program[i][4] and i not in w.opened)
                    opens = max(opens, w.issued[i] + w.program[i][2])
                for w in at_barrier:
                    i = next(i for i in w.issued if w.program[i][4] and i not in w.opened)
                    w.opened[i] = opens
                finish = max(finish, opens)
        unfinished = waiting or any(not warp.left() for group in slots for warp in group)
        if not unfinished and tick >= finish:
            break
        taken = 0
        for p in range(pipelines):
            having = [warp for warp in warps if warp.unissued_on(p)]
            if free[p] > tick:
                busy[p] += 1
                taken += 1
            elif not having:
                idle[p]["no work"] += 1
            elif any(
                item[0] == p and warp.may_start(i, tick, in_order)
                for warp in warps
                for i, item in enumerate(warp.program)
            ):
                idle[p]["issue limit"] += 1
            elif all(warp.held(tick) for warp in having):
                idle[p]["barrier"] += 1
            else:
                idle[p]["dependence"] += 1
        any_busy += taken >= 1
        overlap += taken >= 2
        tick += 1

    def row(warp: Warp, position: int, pipeline: int) -> tuple[int, int, int, int, int, int]:
        start = warp.issued[position]
        return (
            warp.number,
            position,
            pipeline,
            start,
            start + warp.program[position][1],
            warp.done(position) or 0,
        )

    return Run(tick, busy, idle, any_busy, overlap, [row(*each) for each in rows])
