"""Executions against the oracle: records, and memory with NaNs taken as equal."""

from __future__ import annotations

from typing import Any

import numpy as np

from reference.ptx import Launch, Record, Run
from reference.ptx.floats import BF16, F16, F32, F64, Format, decode
from warplens.frontends.ptx import execute, parse_ptx
from warplens.traces import IRREGULAR

from .programs import THREAD_BYTES, Program

FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "tf32": F32, "f64": F64}


def records(execution: Any) -> dict[tuple[int, int], list[Record]]:
    """A trace as the oracle's records."""
    static = execution.trace.static
    found: dict[tuple[int, int], list[Record]] = {}
    for group in execution.trace.groups():
        for warp in range(len(group)):
            listed = found.setdefault((int(group.block[warp]), int(group.warp[warp])), [])
            access, lane = int(group.access_start[warp]), int(group.lane_start[warp])
            for position in range(int(group.start[warp]), int(group.start[warp + 1])):
                index, mask = int(group.static[position]), int(group.mask[position])
                addresses = None
                if static.access_bytes[index]:
                    active = mask.bit_count()
                    base, stride = int(group.base[access]), int(group.stride[access])
                    if stride == IRREGULAR:
                        addresses = tuple(group.lanes[lane : lane + active].tolist())
                        lane += active
                    else:
                        addresses = tuple((base + each * stride) % (1 << 64) for each in range(active))
                    access += 1
                listed.append(Record(int(static.line[index]), mask, addresses))
            assert access == group.access_start[warp + 1], "accesses are left over"
            assert lane == group.lane_start[warp + 1], "addresses are left over"
    return found


def assert_same_records(execution: Any, run: Run, text: str) -> None:
    mine, theirs = records(execution), run.records
    assert mine.keys() == theirs.keys()
    lines = text.splitlines()
    for key, expected in theirs.items():
        for position, (one, two) in enumerate(zip(mine[key], expected, strict=False)):
            where = f"block, warp {key}, instruction {position}, line {two.line}: {lines[two.line - 1].strip()}"
            assert one == two, f"{where}: executed {show(one)}, oracle {show(two)}"
        assert len(mine[key]) == len(expected), f"block, warp {key}"


def show(record: Record) -> str:
    addresses = None if record.addresses is None else [hex(each) for each in record.addresses]
    return f"line {record.line} mask {record.mask:#x} addresses {addresses}"


def both(bits: int, other: int, form: Format) -> bool:
    """Equal, or two NaNs in double precision: PTX fixes those of narrower floats."""
    return bits == other or (form == F64 and decode(bits, form).kind == decode(other, form).kind == "nan")


def same(kind: str, bits: int, other: int) -> bool:
    if kind in FORMATS:
        return both(bits, other, FORMATS[kind])
    if kind.endswith("x2"):
        form = FORMATS[kind[:-2]]
        size = 32 if kind == "f32x2" else 16
        low = (1 << size) - 1
        return both(bits & low, other & low, form) and both(bits >> size, other >> size, form)
    return bits == other


def assert_same_output(program: Program, mine: np.ndarray, theirs: np.ndarray) -> None:
    """Bit for bit, apart from which NaN."""
    if np.array_equal(mine, theirs):
        return
    sizes = {"b16": 2, "b64": 8, "f64": 8, "f16": 2, "bf16": 2}
    for thread in range(program.threads):
        part = slice(thread * THREAD_BYTES, (thread + 1) * THREAD_BYTES)
        one, two = mine[part].tobytes(), theirs[part].tobytes()
        first = program.fields[0].offset
        assert one[:first] == two[:first], f"thread {thread}: stores in the middle of the program"
        for field in program.fields:
            place = slice(field.offset, field.offset + sizes.get(field.kind, 4))
            bits, other = (int.from_bytes(each[place], "little") for each in (one, two))
            number = [each for each in program.fields if each.kind == field.kind].index(field)
            assert same(field.kind, bits, other), (
                f"thread {thread}: {field.kind} register {number} is {bits:#x}, oracle {other:#x}"
            )


def assert_agrees(program: Program) -> None:
    """Memory and records of a program are the oracle's."""
    module = parse_ptx(program.text)
    mine, theirs = program.arguments(), program.arguments()
    run = Launch(module, "program", program.grid, program.block, theirs).run()
    execution = execute(module, "program", program.grid, program.block, mine)
    assert_same_records(execution, run, program.text)
    for one, two in zip(mine[:1] + mine[2:3], theirs[:1] + theirs[2:3], strict=True):
        np.testing.assert_array_equal(one, two)
    assert_same_output(program, mine[1], theirs[1])
