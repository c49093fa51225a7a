"""Traces with odd values, predicted: masks without lanes, wild addresses, other instructions, grids and resources.

What the reader takes is predicted by every model, and explained; each number is finite, and no time is negative.
"""

from __future__ import annotations

import json
import math
import random
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from warplens import compare, explain
from warplens.frontends.ptx import execute, parse_ptx
from warplens.traces import CLASS_NAMES, IRREGULAR, SPACES, TraceWriter, WarpGroup, read_trace

_SOURCE = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 at, .param .u32 n)
{
    .reg .b64 %a, %b; .reg .b32 %n, %t, %i, %s; .reg .f32 %x, %y; .reg .pred %p;
    .shared .align 4 .b8 tile[256];
    ld.param.u64 %a, [at];
    mov.u32 %t, %tid.x;
    mov.u32 %i, %ctaid.x;
    mad.lo.u32 %i, %i, 48, %t;
    mul.lo.u32 %n, %i, 7919;
    and.b32 %n, %n, 1023;
    mad.wide.u32 %b, %n, 4, %a;
    ld.global.f32 %x, [%b];
    mov.u32 %s, tile;
    mad.lo.u32 %s, %t, 4, %s;
    st.shared.f32 [%s], %x;
    bar.sync 0;
    ld.shared.f32 %y, [%s];
    fma.rn.f32 %y, %y, %x, %x;
    setp.gt.u32 %p, %t, 20;
    @%p atom.global.add.f32 %x, [%a], %y;
    mad.wide.u32 %b, %i, 4, %a;
    st.global.f32 [%b], %y;
    ret;
}
"""
_BLOCKS, _THREADS = 6, 48
_WORDS = (0, 1, 2, 31, 32, 33, 127, 128, 2**31 - 1, 2**31, 2**32 - 1)
_WIDE = (*_WORDS, 2**32, 2**47, 2**62, 2**63 - 1)


def made(_folder: Path) -> list[bytes]:
    """A launch with gathers, shared memory, a barrier and atomics."""
    memory = np.zeros(4096, np.float32)
    trace = execute(
        parse_ptx(_SOURCE), "k", (_BLOCKS, 1, 1), (_THREADS, 1, 1), [memory, np.uint32(0)], workers=1
    ).trace
    return [_stored(trace.header, trace.static, list(trace.groups()))]


def mutate(chance: random.Random, raw: bytes) -> bytes:
    """Another value in some columns of the warps, in the static table and in the header."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.wlt"
        path.write_bytes(raw)
        (launch,) = read_trace(path)
        groups, static, header = list(launch.groups()), launch.static, launch.header
    for _ in range(chance.randint(1, 3)):
        kind = chance.randrange(4)
        if kind == 0:
            header = _header(chance, header)
        elif kind == 1:
            static = _static(chance, static)
        else:
            number = chance.randrange(len(groups))
            groups[number] = _group(chance, groups[number], len(static))
    if chance.random() < 0.1:
        groups = groups * 2 if chance.random() < 0.3 else groups[: chance.randrange(len(groups) + 1)]
    return _stored(header, static, groups)


def _stored(header: Any, static: Any, groups: list[WarpGroup]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.wlt"
        with TraceWriter(path) as writer:
            for group in groups:
                writer.write(group)
            writer.end_launch(header, static)
        return path.read_bytes()


def _header(chance: random.Random, header: Any) -> Any:
    extent = chance.choice((1, 2, 31, 32, 33, 1024, 65535, 2**31 - 1))
    threads = chance.choice((1, 31, 32, 33, 64, 1023, 1024))
    changes: tuple[dict[str, Any], ...] = (
        {"grid": (extent, 1, 1)},
        {"grid": (_BLOCKS, chance.choice((1, 2, 65535)), chance.choice((1, 3)))},
        {"block": (threads, 1, 1)},
        {"block": (8, 2, 3)},
        {"registers_per_thread": chance.choice((0, 1, 16, 255, 256, 65535))},
        {"shared_memory_per_block_bytes": chance.choice((0, 1, 1024, 49152, 233472, 2**30))},
    )
    return replace(header, **chance.choice(changes))


def _static(chance: random.Random, static: Any) -> Any:
    at = chance.randrange(len(static))
    name, value = chance.choice(
        (
            ("class_id", chance.randrange(len(CLASS_NAMES))),
            ("space", chance.randrange(len(SPACES))),
            ("access_bytes", chance.choice((0, 1, 2, 3, 4, 8, 16, 32, 127, 128))),
            ("line", chance.choice(_WORDS)),
        )
    )
    column = getattr(static, name).copy()
    column[at] = value
    return replace(static, **{name: column})


def _group(chance: random.Random, group: WarpGroup, instructions: int) -> WarpGroup:
    name = chance.choice(("block", "warp", "static", "mask", "mask", "base", "stride", "lanes"))
    column = getattr(group, name).copy()
    if not len(column):
        return group
    at = chance.randrange(len(column))
    last = at + chance.choice((1, 1, 3, len(column)))
    if name == "static":
        column[at:last] = chance.randrange(instructions)
    elif name in ("block", "warp"):
        column[at:last] = chance.randrange(_BLOCKS)
    elif name == "mask":
        column[at:last] = chance.choice((*_WORDS, chance.getrandbits(32)))
    elif name == "stride":
        column[at:last] = chance.choice((*_WIDE, -1, -4, IRREGULAR))
    else:
        column[at:last] = chance.choice((*_WIDE, 2**64 - 1, 2**64 - 4))
    return replace(group, **{name: column})


def read(path: Path) -> None:
    """What the models and the advice say; a number that is none, or below 0, is a ValueError."""
    compared = compare(path, ["h200"])
    for each in compared.predictions:
        cycles = float(np.asarray(each.cycles))
        if not (math.isfinite(cycles) and cycles > 0):
            raise ValueError(f"{each.model} predicts {cycles} cycles")
    json.dumps(compared.to_dict(), allow_nan=False)
    json.dumps(explain(path, "h200").to_dict(), allow_nan=False)
