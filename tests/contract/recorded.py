"""Small launches on small machines, and all that models and simulators say of them.

`python tests/contract/recorded.py` records the outcomes anew; `git diff` then shows which ones change.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from reference.traces import Step, evenly, memory_trace
from warplens import InputError, compare, load_gpu, model_names, predict, simulate
from warplens.traces import MemoryTrace, StaticInstruction
from warplens.workload import Workload, workload_of_trace

PATH = Path(__file__).with_name("recorded.json")
ROWS = (
    StaticInstruction(0x00, "LDG.E", "load_global", "global", 4, (1,), (10,)),
    StaticInstruction(0x10, "LDG.E.128", "load_global", "global", 16, (2, 3), (1,)),
    StaticInstruction(0x20, "STG.E", "store_global", "global", 4, (), (1, 5)),
    StaticInstruction(0x30, "STG.E.128", "store_global", "global", 16, (), (2, 3)),
    StaticInstruction(0x40, "ATOMG.E", "atomic_global", "global", 4, (4,), (1,)),
    StaticInstruction(0x50, "LDS", "load_shared", "shared", 4, (6,), (5,)),
    StaticInstruction(0x60, "STS.64", "store_shared", "shared", 8, (), (6, 1)),
    StaticInstruction(0x70, "BAR.SYNC", "barrier"),
    StaticInstruction(0x80, "FFMA", "fp32", "none", 0, (5,), (1, 2, 5)),
    StaticInstruction(0x90, "IMAD", "int32", "none", 0, (10,), (10, 6)),
    StaticInstruction(0xA0, "MUFU.RCP", "sfu", "none", 0, (7,), (5,)),
    StaticInstruction(0xB0, "FADD", "fp32", "none", 0, (8,), (7, 8)),
    StaticInstruction(0xC0, "LDL", "load_local", "local", 4, (9,), ()),
    StaticInstruction(0xD0, "STL", "store_local", "local", 4, (), (9,)),
)
#: As above, and operands that are no registers, an atomic without a result, and a load whose width nobody knows.
MORE_ROWS = (
    *ROWS,
    StaticInstruction(0xE0, "IADD", "int32", "none", 0, (10,), (255, 10)),
    StaticInstruction(0xF0, "MOV", "move", "none", 0, (255,), (255,)),
    StaticInstruction(0x100, "RED.E.64", "atomic_global", "global", 8, (), (4, 255)),
    StaticInstruction(0x110, "LDG.E.CONSTANT", "load_global", "global", 0, (7,), (7,)),
    StaticInstruction(0x120, "LDG.E.U8", "load_global", "generic", 1, (254,), (1, 10)),
)
LDG, LDG128, STG, STG128, ATOM, LDS, STS64, BAR, FFMA, IMAD, MUFU, FADD, LDL, STL, IADD, MOV, RED, LDGC, LDG8 = range(
    len(MORE_ROWS)
)
ARRAY = 1 << 20


class _Random:
    """The same whole numbers on every machine and in every version (Park and Miller's generator)."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def below(self, limit: int) -> int:
        self.state = self.state * 48271 % 2147483647
        return self.state % limit


def _streaming(block: int, warp: int) -> Iterator[Step]:
    """Loads side by side, computation that depends on them, and a store; the last warps have fewer lanes."""
    first = ARRAY + 128 * (3 * block + warp)
    lanes = 32 if warp < 2 else 9 + block % 8
    for turn in range(3):
        yield Step(IMAD)
        yield Step(LDG, evenly(first + 4096 * turn, 4, lanes))
        yield Step(LDG128, evenly(2 * ARRAY + 4 * (first - ARRAY) + 16384 * turn, 16, lanes))
        yield from (Step(FFMA), Step(FFMA), Step(FADD))
        yield Step(STG, evenly(4 * ARRAY + first + 4096 * turn, 4, lanes))


def _scattered(block: int, warp: int) -> Iterator[Step]:
    """Gathers over few lines, so that they are used again and evicted, with stores and atomics among them."""
    numbers = _Random(17 + 100 * block + warp)
    for turn in range(4 + (block + warp) % 3):
        lanes = 3 + numbers.below(8)
        yield Step(LDG, tuple(ARRAY + 4 * numbers.below(2400) for _ in range(lanes)))
        yield Step(FFMA)
        if turn % 2:
            yield Step(STG128, tuple(ARRAY + 16 * numbers.below(500) for _ in range(4)))
            yield Step(ATOM, tuple(3 * ARRAY + 4 * numbers.below(40) for _ in range(lanes)))
        yield from (Step(LDL, evenly(8 * ARRAY + 128 * warp, 4)), Step(MUFU), Step(IMAD))
        yield Step(STL, evenly(8 * ARRAY + 128 * warp, 4))


def _tiled(block: int, warp: int) -> Iterator[Step]:
    """Shared memory with bank conflicts between barriers; one warp has more to do than the others."""
    for turn in range(2):
        yield Step(LDG, evenly(ARRAY + 512 * block + 2048 * turn + 128 * warp, 4))
        yield Step(STS64, evenly(128 * warp, 8))
        yield Step(BAR)
        for column in range(3 if warp else 5):
            yield Step(LDS, evenly(4 * column, 4 << column % 4))
            yield from (Step(FFMA), Step(FADD))
        yield Step(BAR)
    yield Step(STG, evenly(2 * ARRAY + 8192 * warp + 4 * block, 256))


def _tiny(block: int, warp: int) -> Iterator[Step]:
    """A few of everything: parts of lines, a lane without an access, the same line again, a warp that ends early."""
    yield from (Step(IADD), Step(MOV), Step(LDGC), Step(FADD))
    yield Step(LDG, (0, ARRAY + 512 * block, ARRAY + 512 * block + 4))
    yield Step(LDG8, evenly(ARRAY + 512 * block + 30, 1, 7))
    if warp == 1:
        return
    yield Step(BAR)
    yield Step(STG, evenly(ARRAY + 512 * block + 32, 4, 3 + block))
    yield Step(RED, evenly(2 * ARRAY + 8 * warp, 8, 2))
    yield from (Step(FFMA), Step(LDG, evenly(ARRAY + 1536, 4)), Step(FFMA), Step(BAR), Step(MUFU))


def _uneven(block: int, warp: int) -> Iterator[Step]:
    """Loops of different length in more blocks than are sampled: events stand for others, and some SM ends last."""
    for turn in range(24 + 40 * (block % 7 == 3) + 8 * (block % 3) + warp):
        yield Step(LDG, evenly(ARRAY + 4096 * block + 128 * (turn + warp), 4, 32 - turn % 5))
        yield from (Step(FFMA), Step(IMAD), Step(LDS, evenly(4 * turn, 8)))
        if turn % 3 == 0:
            yield Step(STG, evenly(4 * ARRAY + 65536 * block + 512 * turn, 64, 6))
        elif turn % 11 == 5:
            yield from (Step(BAR), Step(MUFU))


LAUNCHES = {
    "streaming": (_streaming, 10, 3, ROWS),
    "scattered": (_scattered, 7, 2, ROWS),
    "tiled": (_tiled, 6, 3, ROWS),
    "tiny": (_tiny, 5, 2, MORE_ROWS),
    "uneven": (_uneven, 60, 2, ROWS),
}


@cache
def launch(name: str) -> MemoryTrace:
    make, blocks, warps, rows = LAUNCHES[name]
    steps = [[list(make(block, warp)) for warp in range(warps)] for block in range(blocks)]
    return memory_trace(rows, steps, blocks_per_group=4, kernel=name, registers_per_thread=24)


#: Machines on which a small launch meets limits: few SMs, small caches, narrow links.
SMALL = {"sms": 2, "l1.size_bytes": 1536, "l1.ways": 2, "llc.size_bytes": 6144, "llc.ways": 2, "llc.banks": 3}
NARROW = {"noc.bandwidth": "20GB/s", "dram.bandwidth": "9GB/s", "l1.mshrs": 3}


@dataclass(frozen=True)
class Setting:
    gpu: str
    overrides: Mapping[str, Any] = field(default_factory=dict)
    order: str = "progress"


SETTINGS = {
    "mdm2020": Setting("mdm2020"),
    "mdm2020-small": Setting("mdm2020", SMALL | {"scheduler": "lrr"}),
    "mdm2020-narrow": Setting("mdm2020", SMALL | NARROW | {"l1.mshr_merges": 2, "l1.queue": 2, "noc.queue": 3}),
    "mdm2020-rounds": Setting("mdm2020", SMALL | {"l1.sector": 32, "schedulers": 2}, "round-robin"),
    "mdm2020-writes": Setting(
        "mdm2020",
        SMALL | {"l1.write_policy": "back", "l1.write_allocate": True, "llc.write_policy": "through", "sms": 1},
        "oldest-2",
    ),
    "accelsim-small": Setting("accelsim-mdm", SMALL | {"noc.sm_bandwidth": "10GB/s", "dram.channels": 2}),
    "accelsim-two-level": Setting("accelsim-mdm", SMALL | NARROW | {"scheduler": "two-level", "dram.queue": 2}),
    "h200": Setting("h200", {"sms": 3}),
    "h200-small": Setting(
        "h200", SMALL | {"noc.queue": 6, "llc.dirty_bytes": 1024, "dram.bandwidth": "30GB/s", "block_launch": 40}
    ),
    "h200-narrow": Setting(
        "h200",
        SMALL | {"noc.request_cycles": 3, "noc.store_cycles": 9, "noc.atomic_cycles": 5, "noc.sm_request_cycles": 7.5}
        | {"schedulers": 1, "scheduler": "oldest", "dram.channels": 2, "l1.lines_per_cycle": 1}
        | {"l1.streaming": False},
    ),
    "gpumech2014-small": Setting("gpumech2014", SMALL | {"scheduler": "rr", "clock": "700MHz"}),
}  # fmt: skip


def placed(name: str, setting: Setting) -> Workload:
    return workload_of_trace(launch(name), order=setting.order)


# -- outcomes ------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Numbers to ten digits, without words."""
    if isinstance(value, Mapping):
        return {key: made for key, item in value.items() if (made := _plain(item)) is not None}
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return None
    return value if value is None or isinstance(value, bool | int) else float(f"{float(value):.10g}")


def _prediction(found: Any) -> Any:
    return _plain([found.cycles, list((found.stack or {}).values()), list(found.terms.values())])


def _numbers(found: Mapping[str, Any]) -> dict[str, Any]:
    """What a simulation says of the launch, apart from what it was asked."""
    return {key: value for key, value in _plain(found).items() if key not in ("overrides", "warnings", "launch")}


def _weighted(values: Any) -> float:
    """One number in which every value and its place count."""
    return float(np.sum(values * np.arange(1, len(values) + 1)))


def _arrays(record: Any) -> Iterator[tuple[str, Any]]:
    """Numbers per instruction of a record, by name; a table has several."""
    for key, value in vars(record).items():
        if isinstance(value, np.ndarray) and value.dtype.names:
            yield from ((f"{key} {name}", value[name].ravel()) for name in value.dtype.names)
        elif isinstance(value, np.ndarray):
            yield key, value.ravel()


def models(name: str, setting: Setting) -> dict[str, Any]:
    """Cycles, stack and terms of every model, and what was found out about the trace."""
    found = compare(placed(name, setting), [setting.gpu], overrides=setting.overrides)
    made = {each.model: _prediction(each) for each in found.predictions}
    (facts,) = found.inputs
    return made | {"inputs": [value for key, value in _plain(facts).items() if key not in ("kernel", "gpu")]}


def batches(name: str, setting: Setting) -> dict[str, Any]:
    """Every model on four machines at once."""
    machine = load_gpu(setting.gpu)
    changes = {
        "l1.mshrs": np.array([2, 8, 64, 64]),
        "dram.bandwidth_bytes_per_s": machine.dram.bandwidth_bytes_per_s / np.array([50.0, 50.0, 10.0, 1.0]),
        "clock_hz": machine.clock_hz * np.array([1.0, 0.5, 1.0, 1.5]),
        "launch.blocks_per_sm": np.array([1.0, 2.0, 3.0, 2.0]),
        "instructions.comp.latency_cycles": np.array([3.0, 6.0, 12.0, 24.0]),
    }
    made = {}
    for model in model_names():
        try:
            found = predict(placed(name, setting), setting.gpu, model, overrides=dict(setting.overrides) | changes)
        except InputError:
            continue
        made[model] = _plain(found.cycles)
    return made


def detailed(name: str, setting: Setting) -> dict[str, Any]:
    found = simulate(placed(name, setting), setting.gpu, "detailed", overrides=setting.overrides, record=True)
    sums = {f"{key} slots": _weighted(part) for key, part in found.stalled_slots.items()}
    sums |= {key: _weighted(getattr(found, key)) for key in ("dram_bytes_over_time", "noc_bytes_over_time")}
    sums |= {key: _weighted(getattr(found.profile, key)) for key in ("warp", "start", "busy_until", "done")}
    sums |= {f"misses {key}": _weighted(part) for key, part in _arrays(found.misses)}
    return _numbers(found.to_dict() | sums)


def pipeline(name: str, setting: Setting) -> dict[str, Any]:
    made = {}
    for warps in ("representative", "all"):
        found = simulate(
            placed(name, setting), setting.gpu, "pipeline", overrides=setting.overrides, warps=warps, record=True
        )
        made[warps] = _numbers(found.to_dict() | {"starts": _weighted(found.profile.start)})
    return made


def unordered(name: str, setting: Setting) -> dict[str, Any]:
    """The Pipeline model with warps that issue what is ready, under two policies."""
    made = {}
    for policy in ("gto", "lrr"):
        options = {"policy": policy, "in_order": False, "warps": "all"}
        found = simulate(placed(name, setting), setting.gpu, "pipeline", overrides=setting.overrides, **options)
        made[policy] = _numbers(found.to_dict())
    return made


PARTS = {"models": models, "batches": batches, "detailed": detailed, "pipeline": pipeline, "unordered": unordered}
#: Parts and launches that need few machines. That batches equal single predictions is tested elsewhere.
FEW = {
    "batches": ("mdm2020-small", "h200-small"),
    "unordered": ("mdm2020-small",),
    "tiny": ("mdm2020-narrow", "mdm2020-writes", "h200-narrow"),
    "uneven": ("accelsim-small", "h200-small"),
}
CASES = [
    f"{part} {name} {setting}"
    for part in PARTS
    for name in LAUNCHES
    for setting in FEW.get(part) or FEW.get(name) or SETTINGS
]


def outcome(case: str) -> dict[str, Any]:
    part, name, setting = case.split(" ")
    return PARTS[part](name, SETTINGS[setting])


def record() -> None:
    lines = []
    for case in CASES:
        try:
            lines.append(f"{json.dumps(case)}: {json.dumps(outcome(case), separators=(',', ':'))}")
        except InputError as error:
            print(f"{case}: {error}")
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    record()
