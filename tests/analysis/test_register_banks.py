"""Registers of one bank that an instruction reads, shuffles, and what both cost a warp."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest

from reference.traces import Step, memory_trace
from warplens.analysis.machine_form import machine_form
from warplens.analysis.register_banks import further_reads
from warplens.api import predict
from warplens.frontends.cuda.machine_code import NO_READ
from warplens.machine import load_gpu
from warplens.traces import StaticInstruction
from warplens.traces.machine_code import unpacked_code
from warplens.traces.rewrite import changed, joined
from warplens.workload import workload_of_trace

from .assembly import Line, assembled, ptx, traced

REUSE_FIRST = 1 << 17
NO_LAUNCH = {"launch_overhead": "false"}


def machine_code(*rows, blocks: int = 1, warps: int = 1, repeats: int = 1):
    """Instructions (opcode, class, sources, control bits) of threads with 32 registers."""
    table = [
        StaticInstruction(16 * i, opcode, name, destinations=(31,), sources=sources)
        for i, (opcode, name, sources, _) in enumerate(rows)
    ]
    steps = [Step(i) for i in range(len(rows))] * repeats
    trace = memory_trace(table, [[steps] * warps] * blocks, registers_per_thread=32)
    header = dataclasses.replace(trace.header, extra={"sass_control": [each[3] for each in rows]})
    return changed(trace, header=header)


@pytest.mark.parametrize(
    ("sources", "further"),
    [((), 0), ((2,), 0), ((2, 3), 0), ((2, 4), 1), ((3, 5), 1), ((2, 3, 4), 1), ((2, 4, 6), 2), ((2, 254), 0)],
)
def test_registers_of_one_bank_are_read_one_by_one(sources, further):
    assert further_reads(machine_code(("FFMA", "fp32", sources, 1))).tolist() == [further]


def test_what_is_in_the_reuse_cache_is_not_read_again():
    first, second = ("FFMA", "fp32", (2, 3), 1), ("FFMA", "fp32", (2, 4), 1)
    assert further_reads(machine_code(first, second)).tolist() == [0, 1]
    kept = (*first[:3], 1 | REUSE_FIRST)
    assert further_reads(machine_code(kept, second)).tolist() == [0, 0]


@pytest.mark.parametrize("name", ["load_global", "fp64", "sfu"])
def test_other_units_collect_their_operands(name):
    assert not further_reads(machine_code(("X", name, (2, 4), 1))).any()


def test_ptx_names_no_registers_of_the_machine():
    rows = [StaticInstruction(0, "fma.rn.f32", "fp32", destinations=(1,), sources=(2, 4))]
    assert not further_reads(memory_trace(rows, [[[Step(0)]]], registers_per_thread=32)).any()


@pytest.mark.parametrize(("second", "further"), [(3, 0), (6, 1), (NO_READ, 0)])
def test_machine_code_of_ptx_names_them(second, further):
    reads = (
        int.from_bytes(bytes((4, second, NO_READ, NO_READ)), "little"),
        int.from_bytes(bytes([NO_READ] * 4), "little"),
    )
    code = replace(assembled([Line("FFMA", 0), Line("EXIT", 1)], 2, (0,)), reads=reads)
    trace = traced(ptx("fma", "exit"), [Step(0), Step(1)], code)
    form = machine_form(joined(list(trace.groups())), trace)
    assert form.further_reads[form.group.static].tolist() == [further, 0]


def test_machine_code_without_registers_has_none():
    code = assembled([Line("FFMA", 0), Line("EXIT", 1)], 2, (0,))
    trace = traced(ptx("fma", "exit"), [Step(0), Step(1)], code)
    assert not machine_form(joined(list(trace.groups())), trace).further_reads.any()


@pytest.mark.parametrize("reads", [[1], [1, -1], [1, 1 << 32], "1"])
def test_reads_are_a_column_of_registers(reads):
    code = assembled([Line("FFMA", 0), Line("EXIT", 1)], 2, (0,))
    with pytest.raises(ValueError, match="machine_code"):
        unpacked_code({**code.packed(), "reads": reads})


def cycles(trace) -> float:
    return float(predict(workload_of_trace(trace), load_gpu("h200"), "warplens", options=NO_LAUNCH).cycles)


def test_a_conflict_takes_an_issue_slot():
    def of_all_warps(sources):
        return cycles(machine_code(("FFMA", "fp32", sources, 1), warps=32, repeats=400))

    assert of_all_warps((2, 4)) == pytest.approx(2 * of_all_warps((2, 3)), rel=0.05)


def test_a_chain_of_shuffles_takes_their_latency():
    rows = [StaticInstruction(0, "SHFL.DOWN", "move", destinations=(1,), sources=(1,))]
    trace = memory_trace(rows, [[[Step(0)] * 500]])
    assert cycles(trace) == pytest.approx(500 * 24, rel=0.02)
