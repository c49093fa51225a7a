"""Races and unset bytes in shared memory, from recorded executions."""

import numpy as np
import pytest

from warplens.frontends.ptx import execute, parse_ptx
from warplens.programs.hazards import Search, hazards

HEAD = """.version 8.0 .target sm_90 .address_size 64
.visible .entry k(.param .u64 out) {
.shared .align 4 .b8 s[512]; .reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %p<2>;
ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, s; add.s32 %r4, %r3, %r2;
sub.s32 %r5, 508, %r2; add.s32 %r5, %r5, %r3; mul.wide.u32 %d2, %r1, 4; add.s64 %d3, %d1, %d2;
"""
STORE, BARRIER, LOAD = "st.shared.u32 [%r4], %r1;\n", "bar.sync 0;\n", "ld.shared.u32 %r6, [%r5];\n"
TAIL = "st.global.u32 [%d3], %r6; ret; }"


def searched(body: str) -> Search:
    module = parse_ptx(HEAD + body + TAIL)
    return hazards(execute(module, "k", (2, 1, 1), (128, 1, 1), [np.zeros(128, np.int32)]).trace)


def told(body: str) -> list[str]:
    return list(searched(body).faults)


def test_a_barrier_divides_writes_from_reads():
    assert told(STORE + BARRIER + LOAD) == []


def test_a_race_has_both_threads_and_lines():
    (found,) = told(STORE + LOAD)
    assert found == (
        "k, block (0, 0, 0): thread (0, 0, 0) writes byte 0 of shared memory at line 6, "
        "thread (127, 0, 0) reads it at line 7, and no barrier lies between them"
    )


def test_a_byte_that_is_not_set_has_its_reader():
    (found,) = told("setp.lt.u32 %p1, %r1, 64;\n@%p1 " + STORE + BARRIER + LOAD)
    assert found == "k, block (0, 0, 0): thread (0, 0, 0) reads byte 508 of shared memory at line 9, which is not set"


@pytest.mark.parametrize(
    "body",
    [
        "st.shared.u32 [s], 7;\n" + BARRIER + "ld.shared.u32 %r6, [s];\n",  # all write the same
        STORE + BARRIER + "atom.shared.add.u32 %r6, [s], 1;\n",
        "st.shared.u32 [%r4], %r1; ld.shared.u32 %r6, [%r4];\n",  # each thread its own
        STORE + "cp.async.commit_group; cp.async.wait_group 0;\n" + LOAD,  # synchronised otherwise
    ],
)
def test_what_is_no_race(body):
    assert told(body) == []


def test_an_atomic_and_a_read_race():
    assert "reads it at line" in told(STORE + BARRIER + "atom.shared.add.u32 %r7, [s], 1;\n" + LOAD)[0]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (STORE + "cp.async.commit_group; cp.async.wait_group 0;\n" + LOAD, "cp.async.commit_group at line 7"),
        (
            STORE + "setp.ge.u32 %p1, %r1, 64;\n@%p1 bra skip;\nbar.sync 1, 64;\nskip:\n" + LOAD,
            "different numbers of barriers",
        ),
    ],
)
def test_what_cannot_be_searched_has_a_reason(body, reason):
    assert reason in searched(body).skipped["shared"]
