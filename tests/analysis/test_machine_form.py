"""PTX in the form of its machine code: the same accesses, as the compiler arranged them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import warplens
from reference.traces import Step, evenly, spelled_out
from warplens.analysis.atomics import swaps_of
from warplens.analysis.machine_form import machine_form
from warplens.traces import CLASS_NAMES, MemoryTrace
from warplens.traces.headers import header_of_json, json_of_header
from warplens.traces.machine_code import MACHINE_CODE, code_of
from warplens.traces.rewrite import joined, lane_addresses

from .assembly import Line, assembled, ptx, traced

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")

LOOP = """
extern "C" __global__ void kernel(const float* x, float* y, int n)
{
    float sum = 0.0f;
    PRAGMA
    for (int i = 0; i < n; ++i)
        sum += x[i * blockDim.x + threadIdx.x];
    if (threadIdx.x % 3)
        sum = sqrtf(sum) / 3.5f;
    else
        y[threadIdx.x + 64] = sum;
    y[threadIdx.x] = sum;
}
"""
ROWS = """
extern "C" __global__ void kernel(const float* x, float* y, int n)
{
    __shared__ float a[16][WIDTH];
    a[threadIdx.x / 4][threadIdx.x % 4] = x[threadIdx.x];
    __syncthreads();
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        sum += a[threadIdx.x / 4][i];
    y[threadIdx.x] = sum;
}
"""
SUMS = """
extern "C" __global__ void kernel(const float* x, float* y, int n)
{
    __shared__ TYPE a[64];
    a[threadIdx.x] = 0;
    __syncthreads();
    PRAGMA
    for (int i = 0; i < n; ++i)
        atomicAdd(&a[INDEX], (TYPE)1);
    __syncthreads();
    y[threadIdx.x] = a[threadIdx.x];
}
"""
FRAGMENTS = """
#include <mma.h>
using namespace nvcuda::wmma;
extern "C" __global__ void kernel(const float* x, float* y, int n)
{
    fragment<matrix_a, 16, 16, 16, half, row_major> a;
    fragment<matrix_b, 16, 16, 16, half, col_major> b;
    fragment<accumulator, 16, 16, 16, float> c;
    fill_fragment(c, 0.0f);
    for (int i = 0; i < n / 4; ++i) {
        load_matrix_sync(a, (const half*)x + 256 * i, 16);
        load_matrix_sync(b, (const half*)x + 256 * (n / 4 + i), 16);
        mma_sync(c, a, b, c);
    }
    store_matrix_sync(y, c, 16, mem_row_major);
}
"""


def run(source: str, n: int = 13) -> MemoryTrace:
    x, y = np.ones(64 * n, np.float32), np.zeros(256, np.float32)
    return warplens.cuda(source).kernel("kernel").launch(2, 64, x, y, np.int32(n)).trace()


def formed(trace: MemoryTrace):
    group = joined(list(trace.groups()))
    form = machine_form(group, trace)
    assert form is not None
    return group, form


def accesses(group, static, name: str) -> list[tuple[int, int, int, int]]:
    """(Warp, mask, address, bytes) of the accesses of a class."""
    warp = np.repeat(np.arange(len(group)), np.diff(group.start))
    has = static.access_bytes[group.static] > 0
    mine = np.flatnonzero((static.class_id == CLASS_NAMES.index(name))[group.static[has]])
    columns = warp[has], group.mask[has], group.base, static.access_bytes[group.static[has]]
    return sorted(tuple(int(column[i]) for column in columns) for i in mine)


@pytest.mark.parametrize("pragma", ["", "#pragma unroll 1", "#pragma unroll 4"])
@pytest.mark.parametrize("n", [1, 3, 4, 13, 64])
def test_all_accesses_are_there_once(pragma: str, n: int) -> None:
    trace = run(LOOP.replace("PRAGMA", pragma), n)
    group, form = formed(trace)
    assert form.share == 1.0
    for name in ("load_global", "store_global"):
        found = accesses(form.group, form.static, name)
        assert found == accesses(group, trace.static, name)
    assert (form.origin < len(trace.static)).all() and len(form.origin) == len(form.group.static)


def test_the_division_and_the_root_are_as_long_as_in_machine_code() -> None:
    group, form = formed(run(LOOP.replace("PRAGMA", ""), 1))
    assert len(form.group.static) > 1.2 * len(group.static)


@pytest.mark.parametrize(("width", "wide"), [(4, True), (5, False)])
def test_reads_of_a_row_are_one_access_if_it_is_aligned(width: int, wide: bool) -> None:
    trace = run(ROWS.replace("WIDTH", str(width)))
    group, form = formed(trace)
    found = accesses(form.group, form.static, "load_shared")
    before = accesses(group, trace.static, "load_shared")
    assert len(found) == (len(before) // 4 if wide else len(before))
    assert {address for _, _, address, _ in found} <= {address for _, _, address, _ in before}
    assert sum(size for *_, size in found) == sum(size for *_, size in before)


def test_loops_that_machine_code_lacks_stay_ptx() -> None:
    trace = run(LOOP.replace("PRAGMA", "#pragma unroll 1"))
    code = code_of(trace.header)
    assert code is not None
    # Machine code of which a turn of the loop stands for two turns, and nothing for the last of an odd number.
    load = next(i for i, name in enumerate(code.opcodes) if name.startswith("LDG"))

    def doubled(column: tuple) -> tuple:
        return (*column[: load + 1], column[load], *column[load + 1 :])

    targets = tuple(each + (each > load) for each in doubled(code.targets))
    changed = replace(
        code,
        opcodes=doubled(code.opcodes),
        control=doubled(code.control),
        guarded=doubled(code.guarded),
        origins=doubled(code.origins),
        reads=doubled(code.reads),
        targets=targets,
    )
    header = replace(trace.header, extra={**trace.header.extra, MACHINE_CODE: changed.packed()})
    group, form = formed(MemoryTrace(header, trace.static, tuple(trace.groups())))
    assert 0.8 < form.share < 1.0
    assert len(accesses(form.group, form.static, "load_global")) == 13 * len(group)


def test_blocks_that_access_nothing_become_machine_code() -> None:
    code = assembled([Line("FFMA", 0), Line("FFMA", 0), Line("EXIT", 1)], 2, (0,))
    _, form = formed(traced(ptx("fma", "exit"), [Step(0), Step(1)], code))
    assert form.group.static.tolist() == [0, 1, 2]
    assert form.share == 1.0


@pytest.mark.parametrize("pragma", ["", "#pragma unroll 1"])
@pytest.mark.parametrize("index", ["0", "threadIdx.x"])
@pytest.mark.parametrize("kind", ["float", "double", "unsigned long long", "int"])
def test_a_loop_of_compare_and_swap_costs_what_its_atomic_does(kind: str, index: str, pragma: str) -> None:
    """Its first pass stands for all: a GPU repeats it once for each lane at the word."""
    trace = run(SUMS.replace("TYPE", kind).replace("INDEX", index).replace("PRAGMA", pragma), 64)
    group, form = formed(trace)
    swaps = [swaps_of(*each) for each in ((group, trace.static), (form.group, form.static))]
    for column in ("lanes", "warps"):
        before, after = (getattr(each, column).tolist() for each in swaps)
        assert before == after and bool(before) == (kind != "int")
    made, without = (warplens.predict(trace, "h200", options={"machine_code": on}).cycles for on in (True, False))
    assert made == pytest.approx(without, rel=0.08)


def test_fragments_are_several_accesses_of_all_their_lanes() -> None:
    trace = run(FRAGMENTS, 52)
    group, form = formed(trace)
    for name, several in (("load_global", 4), ("store_global", 4)):
        chosen = [table.class_id == CLASS_NAMES.index(name) for table in (trace.static, form.static)]
        whole, parts = (
            lane_addresses(each, table, mine)
            for each, table, mine in zip((group, form.group), (trace.static, form.static), chosen, strict=True)
        )
        assert len(parts.instruction) == several * len(whole.instruction)
        assert sorted(parts.address.tolist()) == sorted(whole.address.tolist())
        assert set(parts.counts.tolist()) == {32 // several}


# -- machine code by hand ------------------------------------------------------------------------


def written(rows: list[str], steps: list[Step], lines: list[Line], *blocks: tuple[int, ...]) -> list[tuple[str, int]]:
    """(Opcode, first address or 0) of the machine code of one warp."""
    _, form = formed(traced(ptx(*rows), steps, assembled(lines, len(rows), *blocks)))
    (warp,) = spelled_out(form.group, form.static)
    return [(form.static.opcode[row], addresses[0] if addresses else 0) for row, _, addresses in warp]


def test_passes_of_an_unrolled_loop_keep_their_order() -> None:
    places = [4096 * (each + 1) for each in range(6)]
    steps = [step for place in places for step in (Step(0, evenly(place, 4)), Step(1))]
    lines = [*[Line("LDG.E", 0)] * 3, Line("BRA", 1, target=0, guarded=True), Line("EXIT", 2)]
    found = written(["ld.global", "bra", "exit"], [*steps, Step(2)], lines, (0, 0, 1), (2,))
    assert [place for opcode, place in found if opcode == "LDG.E"] == places


def test_a_barrier_on_both_sides_of_a_branch_is_passed_once() -> None:
    sides = [Line("BAR.SYNC", 1), Line("BRA", target=5), Line("BAR.SYNC", 1)]
    lines = [Line("STS", 0), Line("BRA", target=4, guarded=True), *sides, Line("LDS", 2), Line("EXIT", 3)]
    steps = [Step(0, evenly(128, 4)), Step(1), Step(2, evenly(128, 4)), Step(3)]
    found = written(["st.shared", "bar", "ld.shared", "exit"], steps, lines, (0,))
    assert [opcode for opcode, _ in found if opcode != "BRA"] == ["STS", "BAR.SYNC", "LDS", "EXIT"]


def test_what_was_moved_out_of_a_loop_runs_before_it() -> None:
    lines = [Line("FFMA", 0), Line("IADD3", 1), Line("IADD3", 2), Line("LDG.E", 3)]
    lines += [Line("BRA", 4, target=3, guarded=True), Line("EXIT", 5)]
    turn = [Step(1), Step(2), Step(3, evenly(4096, 4)), Step(4)]
    rows = ["fma", "add", "add", "ld.global", "bra", "exit"]
    found = written(rows, [Step(0), *turn, *turn, Step(5)], lines, (0, 1), (1, 1, 2), (5,))
    before, after = ["FFMA", "IADD3", "IADD3"], ["LDG.E", "BRA"] * 2
    assert [opcode for opcode, _ in found] == [*before, *after, "EXIT"]


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_a_loop_that_is_left_in_the_middle_is_entered_there(turns: int) -> None:
    """The compiler has what comes before that place twice: before the loop, and at the end of each pass."""
    lines = [Line("FFMA", 0), Line("LDG.E", 1)]
    lines += [Line("LDS", 3), Line("LDG.E", 1), Line("BRA", 2, target=2, guarded=True), Line("EXIT", 5)]
    steps = [Step(0), Step(1, evenly(4096, 4)), Step(2)]
    for turn in range(1, turns + 1):
        steps += [Step(3, evenly(128 * turn, 4)), Step(4), Step(1, evenly(4096 * (turn + 1), 4)), Step(2)]
    rows = ["fma", "ld.global", "bra", "ld.shared", "bra", "exit"]
    found = written(rows, [*steps, Step(5)], lines, (0, 1), (1, 3, 2), (3, 1), (5,))
    passes = [(name, place * each) for each in range(1, turns + 1) for name, place in (("LDS", 128), ("LDG.E", 4096))]
    expected = [(name, place + 4096 * (name == "LDG.E")) for name, place in passes]
    assert [each for each in found if each[1]] == [("LDG.E", 4096), *expected]
    assert sum(opcode == "BRA" for opcode, _ in found) == turns


def test_a_wide_access_has_the_lowest_address_wherever_the_ptx_has_it() -> None:
    steps = [Step(0, evenly(1028, 8)), Step(1, evenly(1024, 8)), Step(2)]
    found = written(["ld.shared", "ld.shared", "exit"], steps, [Line("LDS.64", 0), Line("EXIT", 2)], (0,))
    assert found == [("LDS.64", 1024), ("EXIT", 0)]


def test_traces_without_machine_code_have_no_form() -> None:
    trace = run(LOOP.replace("PRAGMA", ""))
    extra = {key: value for key, value in trace.header.extra.items() if key != MACHINE_CODE}
    plain = MemoryTrace(replace(trace.header, extra=extra), trace.static, tuple(trace.groups()))
    group = joined(list(plain.groups()))
    assert machine_form(group, plain) is None


def test_the_model_says_how_much_of_the_ptx_it_replaced() -> None:
    trace = run(LOOP.replace("PRAGMA", ""), 64)
    made = warplens.predict(trace, "h200")
    assert made.terms["machine_code"] == 1.0
    without = warplens.predict(trace, "h200", options={"machine_code": False})
    assert "machine_code" not in without.terms and without.cycles != made.cycles


def test_headers_keep_machine_code_and_refuse_what_is_none() -> None:
    header = run(LOOP.replace("PRAGMA", "")).header
    text = json_of_header(header)
    assert code_of(header_of_json(text.encode())) == code_of(header)
    packed = dict(header.extra[MACHINE_CODE])
    for broken in ({}, [], {**packed, "control": packed["control"][1:]}, {**packed, "opcodes": [10**6]}):
        with pytest.raises(ValueError, match=MACHINE_CODE):
            json_of_header(replace(header, extra={MACHINE_CODE: broken}))
