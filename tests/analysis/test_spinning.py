"""Loops that wait for other threads are told apart from loops that work."""

from __future__ import annotations

import pytest

from reference.traces import Step, memory_trace
from warplens.analysis.spinning import spinning, spins
from warplens.api import predict
from warplens.machine import load_gpu
from warplens.traces import StaticInstruction
from warplens.workload import workload_of_trace

FLAG, DATA = 1 << 20, 1 << 24


def trace(opcode: str, addresses: list[int], *, work=1, name="load_global", result=1, lanes=(0,) * 32):
    """A warp that loads from one address after another, with some arithmetic on register 1 in between."""
    rows = [
        StaticInstruction(0, opcode, name, "global", 4, (result,), (0,)),
        StaticInstruction(16, "FADD", "fp32", destinations=(2,), sources=(1,)),
    ]
    asked = [Step(0, tuple(at + lane for lane in lanes)) for at in addresses]
    return memory_trace(rows, [[[step for each in asked for step in (each, *[Step(1)] * work)]]])


@pytest.mark.parametrize("opcode", ["ld.volatile.global.u32", "ld.acquire.gpu.u32", "LDG.E.STRONG.GPU"])
def test_a_load_that_comes_back_to_its_word_waits(opcode):
    made = trace(opcode, [FLAG] * 4)
    (group,) = made.groups()
    assert spins(group, made.static)
    notes = predict(workload_of_trace(made), load_gpu("h200"), "warplens").warnings
    assert any("warps wait in a loop for what others write" in each for each in notes)


def test_a_lock_waits():
    made = trace("atom.global.cas.b32", [FLAG] * 4, name="atomic_global")
    assert spins(*(group for group in made.groups()), made.static)


@pytest.mark.parametrize(
    "made",
    [
        trace("LDG.E", [FLAG] * 20),
        trace("LDG.E.STRONG.GPU", [FLAG] * 3),
        trace("LDG.E.STRONG.GPU", [DATA + 128 * k for k in range(20)]),
        trace("LDG.E.STRONG.GPU", [FLAG] * 20, work=100),
        trace("atom.global.add.u32", [FLAG] * 20, name="atomic_global", result=3),
        trace("atom.global.add.u32", [FLAG] * 20, name="atomic_global", lanes=(0, 96, 32)),
    ],
    ids=["may be kept in a register", "three times", "from place to place", "long loop", "unread", "many places"],
)
def test_other_loops_do_not(made):
    assert not any(spins(group, made.static) for group in made.groups())


def test_the_loop_is_what_spins():
    made = trace("LDG.E.STRONG.GPU", [DATA, DATA + 128, *[FLAG] * 5])
    (group,) = made.groups()
    first = int((group.static == 0).nonzero()[0][2])  # the first load of the flag
    last = int((group.static == 0).nonzero()[0][-1])
    assert spinning(group, made.static).nonzero()[0].tolist() == list(range(first, last + 1))


def test_a_queue_is_no_wait():
    """A loop that takes places of a queue from a counter, and puts something there, works."""
    rows = [
        StaticInstruction(0, "atom.global.add.u32", "atomic_global", "global", 4, (1,), (0,)),
        StaticInstruction(16, "st.global.u32", "store_global", "global", 4, (), (1, 2)),
    ]
    steps = [step for k in range(20) for step in (Step(0, (FLAG,) * 32), Step(1, (DATA + 4 * k,) * 32))]
    made = memory_trace(rows, [[steps]])
    assert not any(spins(group, made.static) for group in made.groups())
