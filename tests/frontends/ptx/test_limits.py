"""Limits of an execution hold, whatever the kernel does: time, instructions, memory, and the time to compile."""

from __future__ import annotations

import time

import numpy as np
import pytest

from warplens.errors import KernelFault, PtxError
from warplens.frontends.ptx import execute, flow, parse_ptx, worker
from warplens.frontends.ptx.bulk_record import BulkRecord
from warplens.frontends.ptx.codegen.layout import Context, Frame
from warplens.frontends.ptx.flatten import flatten
from warplens.frontends.ptx.flow import Flow
from warplens.frontends.ptx.registers import allocate_registers

HEAD = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<4>;
    .reg .b32 %r<8000>;
    .reg .b64 %rd<4>;
"""
#: Blocks below 20 000 return at once; those after them take 240 000 instructions each.
LATE = (
    HEAD
    + """
    mov.u32 %r1, %ctaid.x;
    setp.lt.u32 %p1, %r1, 20000;
    @%p1 ret;
    mov.u32 %r2, 0;
AGAIN:
    add.u32 %r2, %r2, 1;
    setp.lt.u32 %p2, %r2, 80000;
    @%p2 bra AGAIN;
    ret;
}
"""
)
ENDLESS = LATE.replace("20000", "0").replace("80000", "0xffffffff")


def launch(text: str, grid: int, block: int, **options: object) -> None:
    execute(parse_ptx(text), "k", grid, block, [np.zeros(4)], **options)  # type: ignore[arg-type]


def test_seconds_hold_when_slow_blocks_come_late() -> None:
    launch(LATE, 4, 32, record=False)  # compiled
    started = time.perf_counter()
    with pytest.raises(KernelFault, match=r"stopped after 0\.3 s"):
        launch(LATE, 60_000, 32, record=False, most_seconds=0.3)
    assert time.perf_counter() - started < 1.5


def test_seconds_hold_when_late_blocks_have_slow_instructions() -> None:
    """Fast instructions earn a large allowance, which slow ones would spend for seconds."""
    atomics = "atom.global.add.f32 %r3, [%rd1], %r2;\n" * 8
    slow = LATE.replace("mov.u32 %r2, 0;", "mov.u32 %r2, 0;\nld.param.u64 %rd1, [out];").replace(
        "    add.u32 %r2", atomics + "    add.u32 %r2"
    )
    launch(slow.replace("80000", "2"), 4, 32, record=False)
    started = time.perf_counter()
    with pytest.raises(KernelFault, match=r"stopped after 0\.3 s"):
        launch(slow, 60_000, 32, record=False, most_seconds=0.3)
    assert time.perf_counter() - started < 1.5


@pytest.mark.parametrize("workers", [1, 2])
def test_instructions_hold_over_all_workers(workers: int) -> None:
    with pytest.raises(KernelFault, match="thread instructions") as caught:
        launch(LATE, 60_000, 32, record=False, most_instructions=100_000_000, workers=workers)
    spent = int(str(caught.value).split("after ")[1].split(" ")[0].replace(",", ""))
    assert 100_000_000 < spent < 110_000_000


def test_records_of_late_blocks_are_handed_over_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "RECORD_FULL_WORDS", 50_000)
    groups: list[tuple[int, int]] = []
    launch(
        LATE.replace("20000", "100"),
        120,
        32,
        consume=lambda group: groups.append((int(group.block[0]), len(group.static))),
    )
    assert [first for first, _ in groups] == sorted(first for first, _ in groups)
    assert max(instructions for _, instructions in groups) < 2 * 240_010
    assert sum(instructions for _, instructions in groups) == 100 * 3 + 20 * (5 + 3 * 80_000)


def test_a_record_without_memory_is_a_clean_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MOST_RECORD_BYTES", 1 << 20)
    with pytest.raises(KernelFault, match="the record of a thread block"):
        launch(ENDLESS, 1, 64)


def test_working_memory_is_bounded() -> None:
    local = HEAD + ".local .align 8 .b8 depot[60000];\nst.local.u32 [depot], %r1;\nret;\n}\n"
    launch(local, 2, 32, record=False, workers=2)
    with pytest.raises(KernelFault, match="stopped after"):
        launch(local, 1_000_000, 512, record=False, most_seconds=0.2)


def branches(count: int) -> str:
    """Consecutive branches and, after each second one, code that runs last."""
    lines = [HEAD, "mov.u32 %r1, %tid.x;", "mov.u32 %r2, 0;"]
    for number in range(count):
        lines.append(f"setp.gt.u32 %p1, %r1, {number % 32};\n@%p1 bra L{number};\nadd.u32 %r2, %r2, %r1;")
        lines.append(f"L{number}:" if number % 2 else "")
    lines += [f"L{number}:\nadd.u32 %r2, %r2, {number};" for number in range(count - 2 + count % 2, -1, -2)]
    return "\n".join([*lines, "ret;\n}\n"])


def seconds_to_analyse(count: int) -> float:
    kernel = flatten(parse_ptx(branches(count)), "k")
    started = time.process_time()
    found = Flow(kernel)
    assert found.must_keep and found.loop_heads == set()
    allocate_registers(kernel, found)
    return time.process_time() - started


def test_analysis_of_branches_is_near_linear() -> None:
    """Eight times the branches took 60 times as long."""
    small = min(seconds_to_analyse(200) for _ in range(3))
    assert min(seconds_to_analyse(1600) for _ in range(2)) < 24 * small + 0.2


def test_a_kernel_of_many_branches_compiles_and_runs() -> None:
    text = branches(302).replace("ret;", "ld.param.u64 %rd1, [out];\nst.global.u32 [%rd1], %r2;\nret;")
    out = np.zeros(4)
    started = time.process_time()
    execute(parse_ptx(text), "k", 1, 1, [out], record=False)
    assert time.process_time() - started < 20
    assert out.view(np.uint32)[0] == sum(range(0, 302, 2))  # thread 0 never branches


def test_regions_that_an_outer_one_contains_keep_what_waits() -> None:
    """The shortcut for nested regions finds what walking each of them finds."""
    kernel = flatten(parse_ptx(branches(24)), "k")
    found = Flow(kernel)
    for number in found.divergent_branches:
        meeting = found.post_dominator[number]
        sides = set(kernel.blocks[number].successors)
        for side in sides - {meeting}:
            waiting = set().union(*(found.live_in[other] for other in sides - {side}))
            waiting |= found.live_in[meeting] if meeting != flow.END else set()
            seen, stack = {side}, [side]
            while stack:
                block = stack.pop()
                assert waiting <= found.must_keep[block]
                ahead = set(kernel.blocks[block].successors) - seen - {meeting}
                seen |= ahead
                stack += ahead


CONSTANT = """
.version 8.0
.target sm_90
.address_size 64
.const .align 4 .b32 table[80] = {1, 2};
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    mov.u64 %rd2, table;
    cvta.const.u64 %rd3, %rd2;
    ld.global.u32 %r1, [%rd3+300];
    WRITE
    ret;
}
"""


@pytest.mark.parametrize("write", ["st.global.u32 [%rd3+4], %r1;", "st.u32 [%rd3+300], %r1;",
                                   "atom.global.add.u32 %r2, [%rd3], %r1;"])  # fmt: skip
def test_constant_memory_cannot_be_written(write: str) -> None:
    launch(CONSTANT.replace("WRITE", ""), 1, 32, record=False)
    with pytest.raises(KernelFault, match=r"constant memory cannot be written \(inside variable table"):
        launch(CONSTANT.replace("WRITE", write), 1, 32, record=False)


@pytest.mark.parametrize(
    ("instruction", "remedy"),
    [
        ("setp.eq.u32 %p0, %r1, 0; @%p0 bar.sync 0;", "branch around it instead"),
        ("clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p0, %rd1;", "compile the kernel for sm_90a"),
        ("sured.b.add.2d.u32.clamp [%rd1, {%r1, %r1}], %r1;", "use atomics on linear memory"),
    ],
)
def test_what_is_not_supported_has_a_remedy(instruction: str, remedy: str) -> None:
    text = CONSTANT.replace("WRITE", instruction).replace(".reg .b32", ".reg .pred %p0;\n    .reg .b32")
    with pytest.raises(PtxError, match=f"line .*not supported; .*{remedy}"):
        launch(text, 1, 32, record=False)


def test_there_are_sixteen_barriers() -> None:
    text = CONSTANT.replace("WRITE", "add.u32 %r2, %r1, 16; bar.sync %r2;")
    with pytest.raises(KernelFault, match="a block has the barriers 0 to 15 only"):
        launch(text, 1, 32, record=False)


def test_parameters_have_no_atomics() -> None:
    with pytest.raises(PtxError, match="line"):
        launch(CONSTANT.replace("WRITE", "atom.param.add.u32 %r2, [out], %r1;"), 1, 32, record=False)


def test_records_of_bulk_copies_keep_to_the_room_that_is_left() -> None:
    context, frame = np.zeros(Context.FIELDS, np.int64), np.zeros(int(max(Frame)) + 1, np.int64)
    record = BulkRecord({0: 1}, 8, context)
    context[Context.ROOM_LEFT] = 4
    with pytest.raises(MemoryError, match="no room for its record"):
        record.add(frame.ctypes.data, 0, np.array([4096]), 64)
    context[Context.ROOM_LEFT] = 100
    record.add(frame.ctypes.data, 0, np.array([4096]), 64)
    assert context[Context.ROOM_LEFT] == 100 - frame[Frame.RECORD_ROOM]
    assert frame[Frame.RECORD_LENGTH] == 3
