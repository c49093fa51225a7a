"""Small traced kernels, and the machine that they run on."""

from __future__ import annotations

from functools import cache

from reference.traces import Step, evenly, memory_trace
from warplens.api import load_workloads
from warplens.machine import Gpu, load_gpu
from warplens.traces import MemoryTrace, StaticInstruction
from warplens.workload import Workload, workload_of_trace
from warplens_studies.validate import accelsim

ROWS = (
    StaticInstruction(0x00, "S2R", "move", "none", 0, (0,), ()),
    StaticInstruction(0x10, "LDG.E", "load_global", "global", 4, (1,), (0,)),
    StaticInstruction(0x20, "LDG.E", "load_global", "global", 4, (2,), (0,)),
    StaticInstruction(0x30, "FFMA", "fp32", "none", 0, (3,), (1, 2, 3)),
    StaticInstruction(0x40, "STS", "store_shared", "shared", 4, (), (3,)),
    StaticInstruction(0x50, "BAR.SYNC", "barrier"),
    StaticInstruction(0x60, "LDS", "load_shared", "shared", 4, (4,), (0,)),
    StaticInstruction(0x70, "MUFU.RCP", "sfu", "none", 0, (5,), (4,)),
    StaticInstruction(0x80, "STG.E", "store_global", "global", 4, (), (5, 0)),
    StaticInstruction(0x90, "RED.E.ADD", "atomic_global", "global", 4, (), (5, 0)),
    StaticInstruction(0xA0, "EXIT", "control"),
)
S2R, LDG, GATHER, FFMA, STS, BAR, LDS, MUFU, STG, RED, EXIT = range(len(ROWS))
WARPS_PER_BLOCK = 4


def warp(number: int, rounds: int) -> list[Step]:
    """A coalesced and a divergent load per round, shared memory around a barrier, then results."""
    mine = evenly(2**20 + 128 * number, 4)
    steps = [Step(S2R)]
    for turn in range(rounds):
        scattered = tuple(2**21 + 128 * ((37 * (number + lane) + turn) % 500) for lane in range(0, 32, 4))
        steps += [Step(LDG, mine), Step(GATHER, scattered), Step(FFMA), Step(FFMA)]
    steps += [Step(STS, evenly(64, 4)), Step(BAR), Step(LDS, evenly(64, 8)), Step(MUFU), Step(STG, mine)]
    return [*steps, Step(RED, (2**22, 2**22 + 4 * number)), Step(EXIT)]


@cache
def made_trace(blocks: int = 70, longer: int = 0) -> MemoryTrace:
    """Every seventh warp does twice the work."""
    launch = []
    for block in range(blocks):
        numbers = range(WARPS_PER_BLOCK * block, WARPS_PER_BLOCK * (block + 1))
        launch.append([warp(number, (6 if number % 7 == 0 else 3) + longer) for number in numbers])
    return memory_trace(ROWS, launch, blocks_per_group=9, kernel="made", registers_per_thread=32)


@cache
def bundled_trace(kernel: str):
    (workload,) = load_workloads(accelsim.trace_path(kernel))
    return workload.trace


def fresh(kernel: str = "made", **options: str) -> Workload:
    """A workload that remembers nothing."""
    return workload_of_trace(made_trace() if kernel == "made" else bundled_trace(kernel), **options)


#: What some models need and the simulator's description does not give.
COMPLETE = {"dram.departure_coalesced": 4, "dram.departure_uncoalesced": 10}


def machine(**overrides: object) -> Gpu:
    return load_gpu("accelsim-mdm", COMPLETE | {key.replace("__", "."): value for key, value in overrides.items()})
