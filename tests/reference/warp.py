"""One warp executed in order, cycle by cycle (G-4), its dependence chains, and its work flow."""

from __future__ import annotations

from collections.abc import Sequence

#: One instruction: (its class, the positions of those it waits for).
Program = Sequence[tuple[str, tuple[int, ...]]]


def issue_cycles(program: Program, latency: dict[str, int], step: int = 1) -> list[int]:
    """Cycle in which each instruction issues, found by waiting cycle by cycle. Eq. (G-4)

    `step` cycles lie between two issues; a result is there `step` cycles after the done cycle.
    """
    issued: list[int] = []
    done: list[int] = []
    cycle = 0
    for name, depends in program:
        while (issued and cycle < issued[-1] + step) or any(cycle < done[other] + step for other in depends):
            cycle += 1
        issued.append(cycle)
        done.append(cycle + latency[name])
    return issued


def intervals(
    program: Program, latency: dict[str, int], reads: set[str], writes: set[str], *, step: int = 1, min_gap: float = 1
) -> list[dict[str, float]]:
    """Intervals of the program: instructions, reads and writes among them, and stall cycles by cause."""
    issued = issue_cycles(program, latency, step)
    done = [cycle + latency[name] for cycle, (name, _) in zip(issued, program, strict=True)]
    fresh = {"instructions": 0, "reads": 0, "writes": 0, "DEP": 0, "DRAM": 0}
    found: list[dict[str, float]] = []
    now = dict(fresh)
    for position, (name, _) in enumerate(program):
        now["instructions"] += 1
        now["reads"] += name in reads
        now["writes"] += name in writes
        if position + 1 < len(program):
            gap = issued[position + 1] - issued[position] - step
            producers = program[position + 1][1]
        else:  # the warp leaves when its last result is there
            gap = max(done) - issued[position]
            producers = tuple(range(len(program)))
        if gap > 0:
            latest = max(done[other] for other in producers)
            culprit = min(other for other in producers if done[other] == latest)
            now["DRAM" if program[culprit][0] in reads | writes else "DEP"] += gap
        if position + 1 == len(program) or (gap > 0 and gap >= min_gap):
            found.append(now)
            now = dict(fresh)
    return found


def all_chains(program: Program) -> list[tuple[int, ...]]:
    """Every path along dependences, first instruction first, that ends anywhere."""
    ending: list[list[tuple[int, ...]]] = []
    for position, (_, depends) in enumerate(program):
        chains = [(position,)]
        for other in depends:
            chains += [(*chain, position) for chain in ending[other]]
        ending.append(chains)
    return [chain for chains in ending for chain in chains]


def longest_latency(program: Program, latency: dict[str, float]) -> float:
    """Largest sum of latencies over all paths."""
    return max(sum(latency[program[position][0]] for position in chain) for chain in all_chains(program))


def in_order_latency(program: Program, latency: dict[str, float]) -> float:
    """Time of a warp alone whose instructions wait for their operands and issue in order."""
    issued, done = 0.0, []
    for name, depends in program:
        issued = max([issued, *(done[position] for position in depends)])
        done.append(issued + latency[name])
    return max(done)


def blocks(program: Program, memory: set[str], barriers: set[str]) -> list[tuple[str, list[int]]]:
    """Nodes of the work flow graph: runs of computation together, memory accesses and barriers alone."""
    nodes: list[tuple[str, list[int]]] = []
    for position, (name, _) in enumerate(program):
        if name in memory or name in barriers:
            nodes.append(("memory" if name in memory else "barrier", [position]))
        elif nodes and nodes[-1][0] == "compute":
            nodes[-1][1].append(position)
        else:
            nodes.append(("compute", [position]))
    return nodes


def depth(program: Program, members: list[int]) -> int:
    """Instructions on the longest path that stays inside `members`."""
    inside = set(members)
    return max(len(chain) for chain in all_chains(program) if set(chain) <= inside)
