"""Every covered instruction on edge values: against the oracle, and the oracle against real hardware."""

from __future__ import annotations

import json
import zlib
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from reference.ptx import Launch
from reference.ptx.floats import decode, to_float, ulps_apart
from warplens.frontends.ptx import execute, parse_ptx

from .comparing import FORMATS, same
from .instructions import Case, arrays, cases, groups, kernel
from .more_instructions import more_cases

DATA = Path(__file__).parent / "data"
BLOCK = 128
ROWS = 200
GROUPS = [*groups(cases()), *groups(more_cases())]


def near(case: Case, kind: str, bits: int, other: int) -> bool:
    if same(kind, bits, other):
        return True
    if not case.ulps:
        return False
    if kind.endswith("x2"):
        halves = [(bits >> shift & 0xFFFF, other >> shift & 0xFFFF) for shift in (0, 16)]
        return all(near(case, kind[:-2], *each) for each in halves)
    form = FORMATS[kind]
    distance = abs(to_float(decode(bits, form)) - to_float(decode(other, form)))
    return ulps_apart(bits, other, form) <= case.ulps or distance <= case.absolute


@cache
def oracle(number: int, rows: int) -> list[np.ndarray]:
    """A group's results as the slow interpreter gives them."""
    count, given, outputs = arrays(GROUPS[number], rows)
    module = parse_ptx(kernel(GROUPS[number]))
    Launch(module, "cases", (-(-count // BLOCK), 1, 1), (BLOCK, 1, 1), [count, *given, *outputs]).run()
    return outputs


def differences(number: int, rows: int) -> list[str]:
    """What execution and the oracle disagree on, case by case."""
    group = GROUPS[number]
    count, given, mine = arrays(group, rows)
    theirs = oracle(number, rows)
    module = parse_ptx(kernel(group))
    execute(module, "cases", (-(-count // BLOCK), 1, 1), (BLOCK, 1, 1), [count, *given, *mine], record=False)
    found, output = [], 0
    for case in group:
        for place, kind in enumerate(case.to):
            for row in np.flatnonzero(mine[output] != theirs[output]):
                bits, other = int(mine[output][row]), int(theirs[output][row])
                if not near(case, kind, bits, other):
                    sources = [f"{int(each[row]):#x}" for each in given]
                    found.append(f"{case}({', '.join(sources)})[{place}] = {bits:#x}, oracle {other:#x}")
            output += 1
    return found


def label(number: int) -> str:
    return f"{GROUPS[number][0]}-{GROUPS[number][-1]}"


@pytest.mark.parametrize("number", range(len(GROUPS)), ids=label)
def test_edge_values(number: int) -> None:
    found = differences(number, ROWS)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:10])


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(GROUPS)), ids=label)
def test_more_values(number: int) -> None:
    found = differences(number, 1000)
    assert not found, f"{len(found)} differences:\n" + "\n".join(found[:10])


def digest(kind: str, values: np.ndarray) -> int:
    """A checksum in which all NaNs are alike."""
    if kind.endswith("x2"):
        return digest(kind[:-2], values.view(np.uint16))
    if kind in FORMATS:
        form = FORMATS[kind]
        kept = [form.nan if decode(int(each), form).kind == "nan" else each for each in values]
        values = np.array(kept, values.dtype)
    return zlib.crc32(values.astype(values.dtype.newbyteorder("<")).tobytes())


def test_oracle_agrees_with_hardware() -> None:
    """Checksums of an H200's results on the same inputs (exact instructions only)."""
    measured = json.loads((DATA / "h200_instructions.json").read_text())
    unknown = {str(case) for case in (*cases(), *more_cases()) if not case.ulps} - measured.keys()
    # Hopper lacks pairs of singles and most saturated tf32; it ignores .ftz in directed conversions to halves.
    assert all("f32x2" in name or ".satfinite.tf32" in name or ".ftz.f16.f32" in name for name in unknown), unknown
    wrong = []
    for number, group in enumerate(GROUPS):
        outputs = iter(oracle(number, ROWS))
        for case in group:
            digests = [digest(kind, next(outputs)) for kind in case.to]
            if not case.ulps and measured.get(str(case), digests) != digests:
                wrong.append(str(case))
    assert not wrong
