"""Kernels of a graph that share a pointer, told apart by the header that the patches are built with."""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass

import pytest

from .making import compile_with_headers

#: Lines: k(ernel) base bytes blocks threads; b(lock begins); r(ecord) pc; l(eave) pc threads.
#: Records and leaving threads print the number of their kernel, the end executions and overlaps of each.
MAIN = """
#include "turns.h"
#include <cstdio>
#include <deque>
#include <map>
int main() {
    std::deque<Tracker> kernels;
    std::map<unsigned long long, Turns> turns;
    const auto print = [&](const Tracker* tracker) {
        size_t number = 0;
        while (&kernels[number] != tracker) ++number;
        std::printf("%zu\\n", number);
    };
    char what;
    unsigned long long pc, threads;
    while (std::scanf(" %c", &what) == 1) {
        if (what == 'k') {
            Tracker& added = kernels.emplace_back();
            if (std::scanf("%llu%llu", &added.code_base, &added.code_bytes) != 2) return 1;
            if (std::scanf("%llu%llu", &added.blocks, &added.threads) != 2) return 1;
            join(&kernels[0], turns[added.code_base], &added);
        } else if (what == 'b') {
            begin_block(&kernels[0]);
        } else if (std::scanf("%llu", &pc) == 1) {
            print(tracker_at(&kernels[0], pc));
            if (what == 'l' && std::scanf("%llu", &threads) == 1) leave(&kernels[0], pc, threads);
        }
    }
    for (const Tracker& each : kernels) std::printf("%llu %u\\n", each.executions, each.overlapped);
}
"""


@dataclass(frozen=True)
class Kernel:
    base: int
    blocks: int
    warps: int = 2

    def added(self) -> str:
        return f"k {self.base} 256 {self.blocks} {self.blocks * self.warps * 32}"

    def run(self, chance: random.Random) -> list[str]:
        """Warps in any order, lanes of which leave early, and blocks that begin when others have ended."""
        lines = []
        waiting = [
            ["b"] * (warp == 0) + [f"r {self.base + 16}", f"l {self.base + 64} 5", f"l {self.base + 240} 27"]
            for _ in range(self.blocks)
            for warp in range(self.warps)
        ]
        while any(waiting):
            lines.append(chance.choice([warp for warp in waiting[:6] if warp]).pop(0))
            waiting = [warp for warp in waiting if warp]
        return lines


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """(kernels of records and leaving threads, (executions, overlapped) of each kernel) for what happened."""
    folder = tmp_path_factory.mktemp("turns")
    main = compile_with_headers(folder, MAIN)

    def run(lines: list[str]):
        ran = subprocess.run([main], input="\n".join(lines), capture_output=True, text=True, check=True)
        words = [tuple(map(int, line.split())) for line in ran.stdout.splitlines()]
        return [each[0] for each in words if len(each) == 1], [each for each in words if len(each) == 2]

    return run


FILL, BLUR, ADD = 4096, 8192, 8448
CHAIN = [Kernel(FILL, 4), Kernel(BLUR, 3), Kernel(FILL, 2, 1), Kernel(ADD, 1), Kernel(FILL, 4), Kernel(BLUR, 3)]


@pytest.mark.parametrize("ahead", [1, 3, len(CHAIN)])
def test_kernels_take_turns(told, ahead):
    """Also where a kernel runs before those after it were added."""
    chance = random.Random(ahead)
    lines, expected = [kernel.added() for kernel in CHAIN[:ahead]], []
    for number, kernel in enumerate(CHAIN):
        events = kernel.run(chance)
        lines += events + [later.added() for later in CHAIN[number + ahead : number + ahead + 1]]
        expected += [number] * sum(event != "b" for event in events)
    assert told(lines) == (expected, [(1, 0)] * len(CHAIN))


def test_kernels_that_overlap_are_noticed(told):
    one, two, other = Kernel(FILL, 2, 1), Kernel(FILL, 2, 1), Kernel(BLUR, 1, 1)
    added = [one.added(), two.added(), other.added()]
    first, second = one.run(random.Random(1)), two.run(random.Random(1))
    _, ran = told(added + first[:-1] + second[:1] + first[-1:] + second[1:] + other.run(random.Random(1)))
    assert ran == [(1, 1), (1, 0), (1, 0)]
    # Different functions are told apart all the same.
    chain = [one, other]
    first, second = one.run(random.Random(1)), other.run(random.Random(1))
    numbers, ran = told([kernel.added() for kernel in chain] + first[:-1] + second + first[-1:])
    assert numbers == [0] * 5 + [1] * 3 + [0]
    assert ran == [(1, 0), (1, 1)]


def test_kernels_that_run_several_times_are_counted(told):
    chance = random.Random(1)
    loop, after = Kernel(FILL, 2), Kernel(BLUR, 2)
    runs = loop.run(chance) + loop.run(chance) + loop.run(chance) + after.run(chance)
    assert told([loop.added(), after.added(), *runs])[1] == [(3, 0), (1, 0)]
    assert told([loop.added(), loop.added(), after.added(), *runs])[1] == [(1, 0), (2, 0), (1, 0)]
    assert told([loop.added(), loop.added(), loop.added(), loop.added(), *runs])[1][-1] == (0, 0)


def test_a_called_function_is_told_of_the_kernel_that_ran_last(told):
    kernels = [Kernel(FILL, 1, 1), Kernel(BLUR, 1, 1)]
    numbers, _ = told([kernel.added() for kernel in kernels] + [f"r {BLUR + 16}", "r 99", f"r {FILL}", "r 99"])
    assert numbers == [1, 1, 0, 0]
