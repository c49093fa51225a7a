"""Lanes that leave early, through a tail that others share, are not waited for at barriers."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from reference.ptx import Launch
from warplens.frontends.ptx import execute, parse_ptx

from .comparing import assert_same_records

THREADS, REGISTERS = 40, 5
HEAD = f""".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .b64 %out, %at;
.reg .b32 %t, %mine, %other, %i, %n, %r<{REGISTERS}>;
.reg .pred %p;
.shared .align 4 .b32 words[{THREADS}];
ld.param.u64 %out, [out];
mov.u32 %t, %tid.x;
mad.wide.u32 %at, %t, {4 * REGISTERS}, %out;
mov.u32 %mine, words;
mad.lo.u32 %mine, %t, 4, %mine;
xor.b32 %other, %mine, 4;
mov.u32 %n, 0;
"""


def program(random: Random) -> str:
    """Registers change between ways to the tail and exchanges through shared memory, some of them in a loop."""
    lines = [HEAD, *(f"mad.lo.u32 %r{each}, %t, {each + 3}, {each};" for each in range(REGISTERS))]

    def register() -> str:
        return f"%r{random.randrange(REGISTERS)}"

    def compute() -> None:
        lines.append(f"mad.lo.u32 {register()}, {register()}, {random.randrange(2, 9)}, {register()};")

    def leave() -> None:
        modulus = random.choice([3, 5, 7])
        lines.append(f"rem.u32 %i, {register()}, {modulus};")
        lines.append(f"setp.eq.u32 %p, %i, {random.randrange(modulus)};")
        lines.append(f"@%p bra {random.choice(['TAIL', 'MIDDLE', 'OUT'])};")

    def exchange() -> None:
        lines.append(f"st.shared.u32 [%mine], {register()};\nbar.sync 0;")
        lines.append(f"ld.shared.u32 {register()}, [%other];\nbar.sync 0;")

    steps = [compute, compute, leave, exchange]
    for _ in range(random.randrange(2, 6)):
        random.choice(steps)()
    lines.append("LOOP:")
    for _ in range(random.randrange(4, 9)):
        random.choice(steps)()
    lines.append("add.u32 %n, %n, 1;\nsetp.lt.u32 %p, %n, 3;\n@%p bra LOOP;")
    for _ in range(random.randrange(1, 5)):
        random.choice(steps)()
    lines.append("MIDDLE:")
    compute()
    lines.append("TAIL:")
    compute()
    lines += [f"st.global.u32 [%at+{4 * each}], %r{each};" for each in range(REGISTERS)]
    lines.append("OUT:\nret;\n}")
    return "\n".join(lines)


@pytest.mark.parametrize("seed", range(16))
def test_lanes_leave_through_a_shared_tail(seed: int) -> None:
    text = program(Random(seed))
    module = parse_ptx(text)
    mine, theirs = (np.zeros(THREADS * REGISTERS, np.uint32) for _ in range(2))
    run = Launch(module, "k", (1, 1, 1), (THREADS, 1, 1), [theirs]).run()
    execution = execute(module, "k", 1, THREADS, [mine])
    assert np.array_equal(mine, theirs)
    assert_same_records(execution, run, text)
