"""A wait for groups of asynchronous work keeps how many of them it leaves under way."""

from __future__ import annotations

from pathlib import Path

import pytest

import warplens

EXAMPLES = Path(__file__).parents[3] / "examples" / "cuda"


@pytest.mark.parametrize(
    ("example", "wait", "left"), [("mma_pipeline", "cp.async.wait_group", 2), ("attention", "wgmma.wait_group", 0)]
)
def test_the_number_of_a_wait_is_its_immediate(example, wait, left):
    static = warplens.load_workload(EXAMPLES / f"{example}.toml").trace.static
    waits = [index for index, opcode in enumerate(static.opcode) if opcode.startswith(wait)]
    assert waits
    assert {int(static.immediate[index]) for index in waits} == {left}
    others = set(range(len(static))) - {i for i, opcode in enumerate(static.opcode) if "wait_group" in opcode}
    assert not any(static.immediate[index] for index in others)
