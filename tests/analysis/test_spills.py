"""Spilled registers in the trace of PTX: accesses to the stack that the machine code has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import warplens
from reference.traces import Step, evenly, memory_trace, spelled_out
from warplens.analysis.machine_form import machine_form
from warplens.analysis.spills import with_spills
from warplens.traces import CLASS_NAMES, MemoryTrace
from warplens.traces.checks import problem_of_spills
from warplens.traces.headers import header_of_json, json_of_header
from warplens.traces.machine_code import MACHINE_CODE, code_of
from warplens.traces.rewrite import joined

from .assembly import Line, assembled, ptx

FRAME = 0x7E20_0000_0000
#: A loop whose sum goes to the stack in each turn and comes back in the next.
PTX = ("ld.global", "fma", "bra", "exit")
LINES = (
    Line("LDL.64", 1),
    Line("LDG.E", 0),
    Line("FFMA", 1),
    Line("STL.64", 1),
    Line("BRA", 2, target=0, guarded=True),
    Line("EXIT", 3),
)
OFFSETS = (8, -1, -1, 8, -1, -1)


def spilling(turns: int = 3, warps: int = 2, blocks: int = 2, offsets: tuple[int, ...] = OFFSETS) -> MemoryTrace:
    code = replace(assembled(LINES, len(PTX), (0, 0, 1), (3,)), offsets=offsets)
    steps = [*[Step(0, evenly(4096, 4)), Step(1), Step(2)] * turns, Step(3)]
    trace = memory_trace(ptx(*PTX), [[steps] * warps] * blocks)
    return replace(trace, header=replace(trace.header, extra={MACHINE_CODE: code.packed()}))


def test_spills_are_accesses_by_lane() -> None:
    trace = with_spills(spilling())
    group = joined(list(trace.groups()))
    names = [trace.static.opcode[row] for row in group.static[: group.start[1]]]
    assert names == [*["ld.global", "fma", "LDL.64", "STL.64", "bra"] * 3, "exit"]
    for number, warp in enumerate(spelled_out(group, trace.static)):
        start = FRAME + 32 * (16 * number + 8)
        stack = [addresses for row, _, addresses in warp if trace.static.opcode[row].endswith("L.64")]
        assert stack == [tuple(start + 8 * lane for lane in range(32))] * 6
    assert trace.static.line[[4, 5]].tolist() == [2, 2]


def test_machine_code_takes_them_from_the_trace() -> None:
    trace = with_spills(spilling())
    group = joined(list(trace.groups()))
    form = machine_form(group, trace)
    assert form is not None and form.share == 1.0
    (warp, *_) = spelled_out(form.group, form.static)
    found = [(form.static.opcode[row], addresses[0] if addresses else 0) for row, _, addresses in warp]
    turn = [("LDL.64", FRAME + 256), ("LDG.E", 4096), ("FFMA", 0), ("STL.64", FRAME + 256), ("BRA", 0)]
    assert found == [*turn * 3, ("EXIT", 0)]
    assert [CLASS_NAMES[each] for each in form.static.class_id[[0, 3]]] == ["load_local", "store_local"]


def test_a_trace_gets_its_spills_once_and_keeps_them_in_its_header() -> None:
    trace = with_spills(spilling())
    assert with_spills(trace) is trace
    again = header_of_json(json_of_header(trace.header))
    assert code_of(again) == code_of(trace.header)
    assert problem_of_spills(again, trace.static) is None
    assert problem_of_spills(again, spilling().static) == "machine_code: the spill 0 has no instruction"


@pytest.mark.parametrize("offsets", [(), (-1,) * 6])
def test_a_trace_without_places_on_the_stack_stays_as_it_is(offsets: tuple[int, ...]) -> None:
    trace = spilling(offsets=offsets)
    assert with_spills(trace) is trace


SUMS = """
extern "C" __global__ void kernel(const float* x, float* y, int n)
{
    float sums[64] = {};
    #pragma unroll 1
    for (int i = 0; i < n; ++i)
        #pragma unroll
        for (int k = 0; k < 64; ++k)
            sums[k] += x[i * 64 + k] * x[i * 64 + threadIdx.x % 32];
    #pragma unroll
    for (int k = 0; k < 64; ++k)
        y[k * blockDim.x + threadIdx.x] = sums[k];
}
"""


def test_spills_that_the_l1_does_not_hold_take_longer() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")
    x, y = np.ones(64 * 9, np.float32), np.zeros(64 * 256, np.float32)
    kernel = warplens.cuda(SUMS, options=("-maxrregcount=32",)).kernel("kernel")
    trace = kernel.launch(8, 256, x, y, np.int32(4)).trace()
    held, lost = (warplens.predict(trace, "h200", overrides={"l1.size": size}) for size in ("216 KiB", "4 KiB"))
    assert lost.cycles > 1.2 * held.cycles
