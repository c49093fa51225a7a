"""Small kernels for rules: traces spelled out lane by lane, on two SMs with their share of an H200's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from making import gpu
from reference.traces import Step, memory_trace
from warplens.explanation import RULES, Advice, Finding, Scene, explain
from warplens.explanation.scene import scene_of
from warplens.machine import Gpu
from warplens.traces import StaticInstruction
from warplens.workload import Workload, workload_of_trace

Rows = Sequence[StaticInstruction]


def machine() -> Gpu:
    """Two SMs of an H200, with 2/132 of its bandwidths and about as much of its L2: both use one half."""
    part = 2 / 132
    h200 = gpu("h200")
    return gpu(
        "h200",
        sms=2,
        dram__bandwidth=h200.dram.bandwidth_bytes_per_s * part,
        noc__bandwidth=h200.noc.bandwidth_bytes_per_s * part,
        noc__write_bandwidth=h200.noc.write_bandwidth_bytes_per_s * part,
        llc__size=5 * 96 * 16 * 128,
        llc__partitions=1,
    )


def kernel(rows: Rows, steps: Callable[[int], Sequence[Step]], *, blocks: int = 32, warps: int = 8) -> Workload:
    """A launch whose warps do what `steps` says for their number in the grid, and end."""
    ends = StaticInstruction(pc=16 * len(rows), opcode="exit", instruction_class="control")
    made = [[[*steps(block * warps + warp), Step(len(rows))] for warp in range(warps)] for block in range(blocks)]
    return workload_of_trace(memory_trace([*rows, ends], made))


def row(name: str, number: int, **values: object) -> StaticInstruction:
    """A static instruction of a class, at a line of the source that is its number."""
    return StaticInstruction(pc=16 * number, opcode=name, instruction_class=name, line=number + 1, **values)  # type: ignore[arg-type]


def load(number: int, width: int = 4, register: int = 1, sources: tuple[int, ...] = ()) -> StaticInstruction:
    return row("load_global", number, space="global", access_bytes=width, destinations=(register,), sources=sources)


def store(number: int, width: int = 4, register: int = 1) -> StaticInstruction:
    return row("store_global", number, space="global", access_bytes=width, sources=(9, register))


def scene(workload: Workload) -> Scene:
    return scene_of(workload, machine())


def findings(rule: str, workload: Workload) -> list[Finding]:
    """What a rule sees, whatever it would bring."""
    return list(RULES[rule].look(scene(workload)))


def advice(rule: str, workload: Workload, on: Gpu | None = None) -> Advice:
    """The only advice of a rule."""
    (found,) = explain(workload, on or machine(), [RULES[rule]]).advice
    return found


def silent(rule: str, workload: Workload) -> bool:
    return not explain(workload, machine(), [RULES[rule]]).advice
