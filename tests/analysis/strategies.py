"""Random small traces and machines for the tests of the memory analysis."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from reference.traces import Block, Step, evenly
from warplens.machine import Gpu, load_gpu
from warplens.traces import StaticInstruction

#: Loads, stores and atomics of several widths, some of which depend on each other, and what lies between them.
ROWS = (
    StaticInstruction(0x00, "LDG.E", "load_global", "global", 4, (1,), (10,)),
    StaticInstruction(0x10, "LDG.E.128", "load_global", "global", 16, (2, 3), (1, 255)),
    StaticInstruction(0x20, "LDG.E.U8", "load_global", "generic", 1, (3,), (1, 2)),
    StaticInstruction(0x30, "STG.E", "store_global", "global", 4, (), (1, 2)),
    StaticInstruction(0x40, "STG.E.128", "store_global", "global", 16, (), (3,)),
    StaticInstruction(0x50, "ATOMG.E", "atomic_global", "global", 4, (4,), (1,)),
    StaticInstruction(0x60, "RED.E.64", "atomic_global", "global", 8, (), (4, 2)),
    StaticInstruction(0x70, "BAR.SYNC", "barrier"),
    StaticInstruction(0x80, "FADD", "fp32", "none", 0, (5,), (1, 5)),
    StaticInstruction(0x90, "IMAD", "int32", "none", 0, (1,), (5, 255)),
    StaticInstruction(0xA0, "MUFU.RCP", "sfu", "none", 0, (2,), (2, 4)),
    StaticInstruction(0xB0, "LDS", "load_shared", "shared", 4, (6,), (2,)),
    StaticInstruction(0xC0, "STL", "store_local", "local", 4, (), (6,)),
    StaticInstruction(0xD0, "LDL", "load_local", "local", 4, (6,), ()),
    StaticInstruction(0xE0, "MOV", "move", "none", 0, (255,), (255,)),
    StaticInstruction(0xF0, "LDG.E.CONSTANT", "load_global", "global", 0, (7,), (7,)),  # front end gave no width
)
LATENCIES = {"fp32": 4.0, "int32": 4.5, "sfu": 20.0, "load_shared": 21.3, "move": 1.0, "barrier": 2.0}


def latency(name: str) -> float:
    """Of everything but memory; fractions, so that rounding shows."""
    return LATENCIES.get(name, 0.0)


_lane_counts = st.one_of(st.integers(0, 6), st.just(32))
_bases = st.one_of(
    st.integers(0, 40).map(lambda i: 4 * i), st.integers(0, 3000), st.integers(0, 2000).map(lambda i: 2**46 + i)
)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    row = draw(st.integers(0, len(ROWS) - 1))
    width = ROWS[row].access_bytes
    if not width:
        return Step(row)
    if draw(st.booleans()):
        base, count = draw(_bases), draw(_lane_counts)
        stride = draw(st.sampled_from((0, 1, 4, width, width, 32, 128, 160)))
        addresses = evenly(base, stride, count)
        if draw(st.booleans()):
            addresses = addresses[::-1]
        return Step(row, addresses, draw(st.booleans()))
    return Step(row, tuple(draw(st.lists(st.one_of(st.just(0), _bases), max_size=8))), draw(st.booleans()))


def launches(most_blocks: int = 7) -> st.SearchStrategy[list[list[list[Step]]]]:
    """Blocks of warps of steps; warps may be empty."""
    warps = st.lists(steps(), max_size=9)
    return st.lists(st.lists(warps, min_size=1, max_size=4), min_size=1, max_size=most_blocks)


write_policies = st.fixed_dictionaries(
    {
        "write_policy": st.sampled_from(("back", "through", None)),
        "write_allocate": st.sampled_from((True, False, None)),
    }
)


@st.composite
def machines(draw: st.DrawFn) -> Gpu:
    """Tiny caches of all shapes: none, direct mapped, numbers of sets and banks that are no powers of two."""
    line = draw(st.sampled_from((32, 64, 128, 128, 256)))
    l1_ways, llc_ways = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    return small_gpu(
        sms=draw(st.sampled_from((1, 2, 3, 5))),
        l1={
            "line_bytes": line,
            "sector_bytes": draw(st.sampled_from((None, line, line // 2, line // 4, line // 32))),
            "size_bytes": draw(st.integers(0, 5)) * l1_ways * line or None,
            "ways": l1_ways,
            "hashed": draw(st.booleans()),
        }
        | draw(write_policies),
        llc={
            "size_bytes": draw(st.integers(0, 11)) * llc_ways * line or None,
            "ways": llc_ways,
            "banks": draw(st.sampled_from((None, 1, 2, 3))),
            "partitions": draw(st.sampled_from((None, 1, 2, 2, 3))),
            "fetch_bytes": draw(st.sampled_from((None, line // 4, line // 2, line))),
        }
        | draw(write_policies),
    )


@st.composite
def timed_machines(draw: st.DrawFn) -> Gpu:
    """The same with times, some of them fractions, and limits that are reached."""
    gpu = draw(machines())
    times = st.sampled_from((0.0, 1.0, 7.25, 120.0, 333.3))
    return dataclasses.replace(
        gpu,
        scheduler=draw(st.sampled_from(("gto", "oldest", "lrr", "rr"))),
        schedulers=draw(st.sampled_from((1, 2, 4))),
        operand_collectors=draw(st.sampled_from((None, 1))),
        l1=dataclasses.replace(
            gpu.l1,
            latency_cycles=draw(times),
            mshrs=draw(st.sampled_from((1, 2, 5, 128))),
            queue_entries=draw(st.sampled_from((None, 1, 2, 3))),
            streaming=draw(st.booleans()),
            merge_lines=draw(st.sampled_from((0, 1, 2, 5))),
            lines_per_cycle=draw(st.sampled_from((None, 1, 4))),
            reply_cycles=draw(st.sampled_from((None, 0.63))),
            banked=draw(st.booleans()),
        ),
        llc=dataclasses.replace(gpu.llc, latency_cycles=draw(times)),
        dram=dataclasses.replace(
            gpu.dram, latency_cycles=draw(times), bandwidth_bytes_per_s=draw(st.sampled_from((1e9, 480e9)))
        ),
        noc=dataclasses.replace(
            gpu.noc,
            bandwidth_bytes_per_s=draw(st.sampled_from((None, 3e9, 1050e9))),
            sm_bandwidth_bytes_per_s=draw(st.sampled_from((None, 2e9, 43.75e9))),
            write_bandwidth_bytes_per_s=draw(st.sampled_from((None, 2e9))),
            sm_write_bandwidth_bytes_per_s=draw(st.sampled_from((None, 1e9))),
            queue_entries=draw(st.sampled_from((1, 3, 64))),
            request_cycles=draw(st.sampled_from((None, 0.5, 30.0))),
            sm_request_cycles=draw(st.sampled_from((None, 1.006, 50.0))),
        ),
    )


def small_gpu(sms: int = 2, l1: dict[str, Any] | None = None, llc: dict[str, Any] | None = None, **top: Any) -> Gpu:
    """`accelsim-mdm` with other caches (a missing `size_bytes` stays, None takes the cache away)."""
    gpu = load_gpu("accelsim-mdm")
    return dataclasses.replace(
        gpu,
        sms=sms,
        l1=dataclasses.replace(gpu.l1, **(l1 or {})),
        llc=dataclasses.replace(gpu.llc, **(llc or {})),
        **top,
    )


def chunked(blocks: Sequence[Block], together: bool) -> list[Sequence[Block]]:
    """Blocks that are simulated together: all, or each alone, whatever groups they are stored in."""
    return [blocks] if together else [blocks[at : at + 1] for at in range(len(blocks))]
