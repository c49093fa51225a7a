"""Waits, arrivals and bulk copies in machine code: each of the PTX once, and in its order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import warplens
from reference.traces import spelled_out
from warplens.analysis.machine_form import machine_form
from warplens.analysis.machine_waits import straightened
from warplens.analysis.mbarriers import is_wait
from warplens.traces import StaticTable, WarpGroup
from warplens.traces.machine_code import code_of
from warplens.workload.source import load_cuda_launch, record_launch

pytest.importorskip("cuda.bindings.nvrtc", reason="NVRTC has no wheel for this platform")

EXAMPLES = Path(__file__).parents[2] / "examples" / "cuda"


def synchronised(group: WarpGroup, static: StaticTable) -> list[list[tuple[str, tuple[int, ...]]]]:
    """Of each warp: opcodes and addresses of what it does at mbarriers, and of its bulk copies."""
    return [
        [
            (static.opcode[row], addresses)
            for row, _, addresses in warp
            if static.access_bytes[row] and static.opcode[row].startswith(("mbarrier.", "cp.async.bulk"))
        ]
        for warp in spelled_out(group, static)
    ]


@pytest.mark.parametrize("name", ["attention", "warp_specialised"])
def test_machine_code_waits_where_the_ptx_does(name: str) -> None:
    trace = record_launch(load_cuda_launch(EXAMPLES / f"{name}.toml"), warplens.load_gpu("h200")).trace
    group = next(iter(trace.groups()))
    form = machine_form(group, trace)
    assert form is not None and form.share > 0.99
    expected, found = synchronised(group, trace.static), synchronised(form.group, form.static)
    assert found == expected
    assert sum(is_wait(opcode) for warp in found for opcode, _ in warp) > 20
    # In place of the line that the compiler gives it, a first try has that of the wait.
    code = code_of(trace.header)
    assert code is not None
    waits = {i for i, opcode in enumerate(trace.static.opcode) if is_wait(opcode)}
    before, after = (
        sum(opcode == "SYNCS" and origin in waits for opcode, origin in zip(each.opcodes, each.origins, strict=True))
        for each in (code, straightened(code, trace.static))
    )
    assert after > before


def test_code_without_waits_stays_as_it_is() -> None:
    trace = record_launch(load_cuda_launch(EXAMPLES / "matmul.toml"), warplens.load_gpu("h200")).trace
    code = code_of(trace.header)
    assert code is not None and straightened(code, trace.static) is code
    # Nor is there one in code that only elects.
    code = replace(code, opcodes=("ELECT", *code.opcodes[1:]))
    assert straightened(code, trace.static) is code and np.any(np.array(code.targets) >= 0)
