"""Values in local memory."""

from __future__ import annotations

from reference.traces import Step, evenly
from warplens.workload import Workload

from ..small import advice, findings, kernel, load, row

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
