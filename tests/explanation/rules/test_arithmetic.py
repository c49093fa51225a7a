"""Rules about what warps compute: their gains follow from how long each instruction holds its unit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from reference.traces import Step, evenly
from warplens.explanation.rules.tensor_cores import FRAGMENTS
from warplens.traces import MemoryTrace, StaticInstruction
from warplens.workload import Workload, workload_of_trace

from ..small import advice, findings, kernel, load, machine, row, scene, silent

#: Cycles to launch the kernel and the blocks of one wave, roughly.
OVERHEAD = 4144 + 383
#: Warps of an SM in the launches below: 16 blocks of 8 warps on two SMs.
WARPS = 64


def op(
    number: int, opcode: str, name: str, to: int = 1, of: tuple[int, ...] = (), line: int | None = None
) -> StaticInstruction:
    """An instruction that computes."""
    made = row(name, number, destinations=(to,), sources=of)
    return dataclasses.replace(made, opcode=opcode, line=number + 1 if line is None else line)


def repeated(*rows: StaticInstruction, times: int = 100, source: str = "") -> Workload:
    """Instructions that each warp executes one after the other, many times."""
    made = kernel(rows, lambda warp: [Step(index) for index in range(len(rows))] * times, blocks=16)
    trace = made.trace
    assert isinstance(trace, MemoryTrace)
    header = dataclasses.replace(trace.header, extra={"source": "kernel.cu", "source_text": source})
    return workload_of_trace(dataclasses.replace(trace, header=header))


def ratio(before: float, after: float) -> float:
    """Of the times of an SM whose warps hold a unit for so many cycles each."""
    return (WARPS * before + OVERHEAD) / (WARPS * after + OVERHEAD)


def test_a_division_becomes_three_instructions() -> None:
    found = advice("integer-division", repeated(op(0, "div.s32", "int32_div"), op(1, "rem.u32", "int32_div", to=2)))
    assert found.text == (
        "Integer division: a warp executes 100 divisions and 100 modulos by run-time values, each a sequence that "
        "takes 138 cycles."
    )
    assert {(line.line, line.share) for line in found.lines} == {(1, 0.5), (2, 0.5)}
    assert found.speedup == pytest.approx(ratio(200 * 7.5, 600 * 0.5), rel=0.05)


def test_divisions_in_machine_code() -> None:
    sequence = [
        op(0, "I2F.U32.RP", "conversion"),
        op(1, "MUFU.RCP", "sfu"),
        *(op(n, "IMAD", "int32") for n in (2, 3)),
    ]
    assert advice("integer-division", repeated(*sequence)).text.startswith(
        "Integer division: a warp executes 100 divisions"
    )


def test_shifts_are_no_divisions() -> None:
    assert not findings("integer-division", repeated(op(0, "shr.u32", "int32")))


def test_exact_divisions_become_approximate_ones() -> None:
    found = advice("special-functions", repeated(op(0, "div.rn.f32", "fp32_div")))
    assert found.text == "Special functions: a warp executes 100 exact divisions."
    assert found.speedup == pytest.approx(ratio(100 * 4.25, 100 * 2.0), rel=0.05)


def test_a_function_becomes_its_intrinsic() -> None:
    """Of 24 instructions stay the first, which waits for the argument, and two, one of them for the special unit."""
    rows = [op(0, "cvt.rni.s32.f32", "fp32", line=1), *(op(n, "fma.rn.f32", "fp32", line=1) for n in range(1, 24))]
    found = advice("special-functions", repeated(*rows, times=50, source="y = sinf(x);"))
    assert found.text == "Special functions: line 1 with its sinf takes 24 instructions, where __sinf takes 2."
    assert [(line.line, line.text) for line in found.lines] == [(1, "y = sinf(x);")]
    # 24 slots of a quarter of a cycle, against two cycles of the special unit.
    assert found.speedup == pytest.approx(ratio(50 * 24 / 4, 50 * 2.0), rel=0.05)


def test_each_copy_of_an_unrolled_function_keeps_what_it_needs() -> None:
    first = [op(0, "cvt.rni.s32.f32", "fp32", line=1), *(op(n, "fma.rn.f32", "fp32", line=1) for n in range(1, 24))]
    rows = [*first, *(dataclasses.replace(each, pc=each.pc + 16 * 24) for each in first)]
    found = advice("special-functions", repeated(*rows, times=25, source="y = sinf(x);"))
    assert found.speedup == pytest.approx(ratio(50 * 24 / 4, 50 * 2.0), rel=0.05)


def test_intrinsics_are_fine() -> None:
    rows = (op(0, "mul.f32", "fp32", line=1), op(1, "sin.approx.f32", "sfu", line=1))
    assert not findings("special-functions", repeated(*rows, source="y = __sinf(x);"))
    assert not findings("special-functions", repeated(op(0, "div.approx.f32", "fp32_div")))


def test_conversions_take_the_special_unit() -> None:
    rows = (op(0, "cvt.rn.f32.s32", "conversion"), op(1, "fma.rn.f32", "fp32", of=(1,)))
    found = advice("conversions", repeated(*rows))
    assert found.text == (
        "Type conversions are 50 % of the instructions, most of them from s32 to f32; an SM executes one warp's in "
        "1.25 cycles."
    )
    assert [line.line for line in found.lines] == [1]
    assert found.speedup == pytest.approx(ratio(100 * 1.25, 100 * 0.25), rel=0.15)


def test_wider_indices_are_no_conversions() -> None:
    assert not findings("conversions", repeated(op(0, "cvt.s64.s32", "conversion")))


@pytest.mark.parametrize(("product", "total"), [("mul.rn.f32", "add.rn.f32"), ("FMUL.FTZ", "FADD.FTZ")])
def test_a_product_that_is_only_added(product: str, total: str) -> None:
    rows = (op(0, product, "fp32", of=(3, 4)), op(1, total, "fp32", to=2, of=(1, 2)))
    found = advice("missed-fma", repeated(*rows, times=200))
    assert found.text == (
        "Missed FMA: 50 % of the instructions are multiplications whose product is only added to something: each "
        "such pair takes two instructions where one would do."
    )
    # A slot of two goes, and four cycles that the addition waits for the product; warps that want the same slot,
    # which are fewer with more instructions to choose from, take 1 % back.
    assert 0.99 * ratio(400 / 4, 200 / 4) < found.speedup < 2.0


def test_products_that_stay() -> None:
    """The assembler fuses what leaves the rounding to it; a product that is read twice is needed."""
    rows = (op(0, "mul.f32", "fp32", of=(3, 4)), op(1, "add.f32", "fp32", to=2, of=(1, 2)))
    assert not findings("missed-fma", repeated(*rows))
    rows = (
        op(0, "FMUL", "fp32", of=(3,)),
        op(1, "FADD", "fp32", to=2, of=(1,)),
        op(2, "FMUL", "fp32", to=5, of=(1,)),
    )
    assert not findings("missed-fma", repeated(*rows))


def test_a_double_literal_in_float_code() -> None:
    rows = (
        op(0, "cvt.f64.f32", "conversion", to=2, of=(1,), line=1),
        op(1, "fma.rn.f64", "fp64", to=2, of=(2,), line=1),
        op(2, "cvt.rn.f32.f64", "conversion", of=(2,), line=1),
    )
    found = advice("fp64", repeated(*rows, source="x = x * 2.5 + 1.0f;"))
    assert found.text == (
        "Double precision in float code: 33 % of the instructions are FP64, as the literal 2.5 of line 1 has no f; "
        "an SM executes FP32 2 times as fast."
    )
    assert "2.5f" in found.remedy
    # Two conversions of 1.25 cycles go, and half a cycle becomes a quarter.
    assert found.speedup == pytest.approx(ratio(100 * 2.5, 100 * 0.25), rel=0.2)


def test_data_stored_as_double_take_half_the_bytes_as_float() -> None:
    wide = dataclasses.replace(load(0, width=8), opcode="ld.global.f64")
    rows = (wide, op(1, "fma.rn.f64", "fp64", to=2, of=(1, 2)))
    made = kernel(
        rows,
        lambda warp: [*(Step(0, evenly((1 << 20) + (warp * 8 + k) * 256, 8)) for k in range(8)), *[Step(1)] * 600],
        blocks=16,
    )
    found = advice("fp64", made)
    assert found.text == (
        "Double precision: 99 % of the instructions are FP64 on data stored as double; an SM executes FP32 2 times "
        "as fast."
    )
    assert found.speedup == pytest.approx(ratio(600 * 0.5, 600 * 0.25), rel=0.15)


def test_single_precision_is_fine() -> None:
    assert not findings("fp64", repeated(op(0, "fma.rn.f32", "fp32")))


def product(*, tiles: bool) -> Workload:
    """Sums of products of two loaded values: of tiles that all warps read, or each value once."""
    rows = (
        row("load_shared", 0, space="shared", access_bytes=4, destinations=(1,)),
        row("load_shared", 1, space="shared", access_bytes=4, destinations=(2,)),
        op(2, "fma.rn.f32", "fp32", to=3, of=(1, 2, 3)),
    )

    def steps(warp: int) -> list[Step]:
        places = [(k * 128, 8192 + k * 128) if tiles else (warp % 8 * 8192 + k * 256,) * 2 for k in range(64)]
        return [
            each for a, b in places for each in (Step(0, evenly(1024 + a, 4)), Step(1, evenly(1152 + b, 4)), Step(2))
        ]

    return kernel(rows, steps, blocks=8, warps=16)


def test_tensor_cores_multiply_tiles() -> None:
    found = advice("tensor-cores", product(tiles=True))
    assert found.text == (
        "A matrix product in scalar arithmetic: 33 % of the instructions multiply and add loaded values; tensor "
        "cores do 32 of them at a time in TF32 (m16n8k8: 10 bits of mantissa, sums in FP32)."
    )
    # 128 loads hold the banks for a cycle each; four of them are left.
    assert found.speedup == pytest.approx(ratio(128, 4), rel=0.15)


def test_tiles_of_halves_are_copied_as_they_lie() -> None:
    """Loads of two bytes, conversions and stores whose lanes meet in one bank; 16 bytes per lane take an eighth."""
    rows = (
        load(0, 2, register=4),
        op(1, "cvt.f32.f16", "conversion", to=5, of=(4,)),
        row("store_shared", 2, space="shared", access_bytes=4, sources=(6, 5)),
        row("load_shared", 3, space="shared", access_bytes=4, destinations=(1,)),
        row("load_shared", 4, space="shared", access_bytes=4, destinations=(2,)),
        op(5, "fma.rn.f32", "fp32", to=3, of=(1, 2, 3)),
    )

    def steps(warp: int) -> list[Step]:
        filled = [
            each
            for k in range(8)
            for each in (Step(0, evenly((1 << 20) + (8 * warp + k) * 64, 2)), Step(1), Step(2, evenly(1024, 128)))
        ]
        read = [Step(3, evenly(1024, 4)), Step(4, evenly(1152, 4)), Step(5)]
        return filled + read * 64

    seen = scene(kernel(rows, steps, blocks=8, warps=16))
    (found,) = findings("tensor-cores", seen.workload)
    assert "64 of them at a time in FP16 or BF16" in found.text
    group = next(found.removal(seen).trace.groups())
    counts = np.bincount(group.static, minlength=8) / len(group)
    # One matrix instruction with two fragments; a wide load and a store; no conversion.
    assert counts.tolist() == [0, 0, 1, 0, FRAGMENTS, 1, 1, 1]


def test_a_product_with_a_vector_is_none_of_matrices() -> None:
    assert not findings("tensor-cores", product(tiles=False))


def test_horners_rule_is_no_product_of_matrices() -> None:
    """The sum is a factor, and the loaded value is added."""
    rows = (
        row("load_shared", 0, space="shared", access_bytes=4, destinations=(1,)),
        op(1, "fma.rn.f32", "fp32", to=3, of=(3, 2, 1)),
    )
    made = kernel(rows, lambda warp: [Step(0, evenly(1024, 4)), Step(1)] * 64, blocks=16)
    assert not findings("tensor-cores", made)


def loop(*, data: bool) -> Workload:
    """A loop with a counter, its test, a branch and a multiply-add; or the counter is data."""
    rows = (
        op(0, "add.s32", "int32", to=4, of=(4,)),
        op(1, "setp.lt.s32", "int32", to=5, of=(4,)),
        op(2, "bra", "control", to=255, of=(5,)),
        op(3, "fma.rn.f32", "fp32", of=(4,) if data else (1,)),
    )
    return repeated(*rows, times=400)


def test_a_loop_that_is_not_unrolled() -> None:
    found = advice("instruction-bound", loop(data=False))
    assert found.text.startswith("Instruction-bound: issue slots or a unit are ")
    assert found.text.endswith(
        "50 % of the instructions are integer, and 75 % only compute addresses, count or test in loops that run up "
        "to 400 times."
    )
    # Per iteration four slots and two integer instructions of half a cycle each; then 1.75 slots.
    assert found.speedup == pytest.approx(ratio(400.0, 400 * 1.75 / 4), rel=0.15)


def test_what_is_data_stays() -> None:
    """The counter is used, so that only the test and the branch can go."""
    (found,) = findings("instruction-bound", loop(data=True))
    assert found.weights.tolist()[0] == 0


def test_few_instructions_bind_nothing() -> None:
    assert silent("instruction-bound", repeated(op(0, "fma.rn.f32", "fp32"), times=400))


def test_the_machine_is_the_one_of_the_sums() -> None:
    gpu = machine()
    assert [gpu.timing(name, "tests").interval_cycles for name in ("int32", "int32_div", "fp32_div", "sfu")] == [
        0.5,
        7.5,
        4.25,
        2.0,
    ]
