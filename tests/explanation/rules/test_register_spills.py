"""Values in local memory."""

from __future__ import annotations

from dataclasses import replace

from analysis.assembly import Line, assembled, ptx
from reference.traces import Step, evenly, memory_trace
from warplens.traces.machine_code import MACHINE_CODE
from warplens.workload import Workload, workload_of_trace

from ..small import advice, findings, kernel, load, row, scene

LOCAL = 1 << 34


def sorting(*, local: bool) -> Workload:
    """Each element read goes to an array and comes back four times."""
    rows = (
        load(0),
        row("store_local", 1, space="local", access_bytes=4, sources=(1,)),
        row("load_local", 2, space="local", access_bytes=4, destinations=(2,)),
        row("fp32", 3, destinations=(3,), sources=(1, 2)),
    )

    def steps(warp: int) -> list[Step]:
        mine = evenly(LOCAL + warp * 1024, 4)
        held = [Step(1, mine), Step(2, mine)] if local else []
        return [Step(0, evenly((1 << 20) + warp * 128, 4)), *[*held, Step(3)] * 4]

    return kernel(rows, steps)


def test_local_memory_is_counted_per_thread() -> None:
    found = advice("register-spills", sorting(local=True))
    assert found.text == (
        "Local memory holds spilled registers or arrays: 4.0 loads and 4.0 stores per thread, "
        "100 % of the loads hit the L1."
    )
    assert {line.line for line in found.lines} == {2, 3}


def test_registers_need_no_advice() -> None:
    assert not findings("register-spills", sorting(local=False))


def test_spills_of_the_compiler_go_where_registers_are() -> None:
    """PTX has no spills: the machine code that was made of it has them."""
    code = replace(
        assembled(
            [Line("LDG.E", 0), *[Line("STL", 1), Line("LDL", 1)] * 16, Line("FFMA", 1), Line("EXIT", 2)], 3, (0,)
        ),
        offsets=(-1, *(4 * (each // 2) for each in range(32)), -1, -1),
    )
    steps = [Step(0, evenly(1 << 20, 4)), Step(1), Step(2)]
    trace = memory_trace(ptx("ld.global", "fma", "exit"), [[steps] * 8] * 8)
    header = replace(trace.header, origin="ptx", registers_per_thread=32, extra={MACHINE_CODE: code.packed()})
    workload = workload_of_trace(replace(trace, header=header))
    found = advice("register-spills", workload)
    assert found.text == (
        "The compiler spills registers to local memory: 16.0 loads and 16.0 stores per thread, "
        "100 % of the loads hit the L1."
    )
    assert {line.line for line in found.lines} == {2}
    (finding,) = findings("register-spills", workload)
    after = finding.removal(scene(workload))
    assert after.workload.launch.registers_per_thread == 32 + 16
    assert "machine_code" in after.prediction.terms and not after.executions[after.spilled].any()
