"""Registers, classes and sizes of SASS instructions."""

from __future__ import annotations

import numpy as np
import pytest

from warplens.frontends.sass.disassembly import SassInstruction, SassKernel, parse_kernel
from warplens.frontends.sass.statics import build_statics, registers_of
from warplens.traces import CLASS_NAMES, SPACES

from .making import sample_sass


def _unsure(count):
    """No instruction is sure to be recorded."""
    return np.zeros(count, dtype=np.uint8)


@pytest.mark.parametrize(
    ("opcode", "guard", "operands", "destinations", "sources"),
    [
        ("FFMA", "", "R0, RZ, R21, R9", "R0", "R21 R9"),
        ("IADD3", "", "R2, P0, R4, 0x8, RZ", "R2 P0", "R4"),
        ("IMAD.WIDE", "", "R2, R5, 0x8, R2", "R2 R3", "R5 R2 R3"),
        ("ISETP.GE.AND", "", "P0, PT, R7, UR6, PT", "P0", "R7 UR6"),
        ("DFMA", "", "R6, -R20, R8, R24", "R6 R7", "R20 R21 R8 R9 R24 R25"),
        ("LDG.E.128", "!P1", "R4, desc[UR8][R26.64+0x100]", "R4 R5 R6 R7", "P1 UR8 UR9 R26 R27"),
        ("STG.E.64", "", "desc[UR4][R4.64], R2", "", "UR4 UR5 R4 R5 R2 R3"),
        ("ATOMG.E.ADD.STRONG.GPU", "", "PT, R8, desc[UR4][R4.64], R11", "R8", "UR4 UR5 R4 R5 R11"),
        ("REDG.E.ADD.F32.FTZ.RN.STRONG.GPU", "", "desc[UR8][R2.64], R16", "", "UR8 UR9 R2 R3 R16"),
        ("LDGSTS.E.BYPASS.128", "", "[R17], desc[UR8][R24.64]", "", "R17 UR8 UR9 R24 R25"),
        ("LDSM.16.M88.4", "", "R12, [R2]", "R12 R13 R14 R15", "R2"),
        ("HMMA.16816.F32", "", "R4, R12.reuse, R22, R4", "R4 R5 R6 R7", "R12 R13 R14 R15 R22 R23 R4 R5 R6 R7"),
        ("SHFL.DOWN", "", "PT, R3, R6, 0x10, 0x1f", "R3", "R6"),
        ("BRA", "P0", "P1, `(.L_x_57)", "", "P0 P1"),
        ("STS", "", "[R3+UR4], R16", "", "R3 UR4 R16"),
    ],
)
def test_registers(opcode, guard, operands, destinations, sources):
    item = SassInstruction(0, opcode, guard, tuple(operands.split(", ")))
    assert registers_of(item) == (destinations.split(), sources.split())


@pytest.mark.parametrize(
    ("text", "opcode"),
    [
        ("DEPBAR.LE SB0, 0x1", "DEPBAR.LE.1"),
        ("DEPBAR.LE SB0, 0x0, {4,3}", "DEPBAR.LE.0"),
        ("WARPGROUP.DEPBAR.LE gsb0, 0xa", "WARPGROUP.DEPBAR.LE.10"),
        ("DEPBAR {2,1}", "DEPBAR"),
        ("LDGDEPBAR", "LDGDEPBAR"),
    ],
)
def test_a_wait_keeps_how_many_groups_may_be_under_way(text, opcode):
    name, _, operands = text.partition(" ")
    kernel = SassKernel("k", (SassInstruction(0, name, "", tuple(operands.split(", ")) if operands else ()),))
    assert build_statics(kernel, np.zeros(1, dtype=np.uint64), _unsure(1)).opcode == (opcode,)


def test_numbers_stay_below_255_and_keep_dependences():
    table = build_statics(
        parse_kernel(sample_sass(), "_Z6reducePKfPfi"), np.zeros(152, dtype=np.uint64), _unsure(152)
    )
    assert table.destinations.max(initial=0) < 255 and table.sources.max(initial=0) < 255
    setp = next(i for i, opcode in enumerate(table.opcode) if opcode.startswith("ISETP"))
    branch = next(i for i in range(setp, len(table)) if table.opcode[i] == "BRA")
    assert set(table.destinations_of(setp)) & set(table.sources_of(branch))


def test_generic_accesses_take_the_space_they_met():
    rows = (SassInstruction(0, "LD.E", "", ("R0", "[R2.64]")), SassInstruction(16, "LDC", "", ("R0", "c[0x0][0x28]")))
    kernel = SassKernel("k", rows)
    for kind, space, name in ((3, "global", "load_global"), (4, "shared", "load_shared"), (5, "local", "load_local")):
        table = build_statics(kernel, np.array([1 << kind, 0], dtype=np.uint64), _unsure(2))
        assert SPACES[table.space[0]] == space and CLASS_NAMES[table.class_id[0]] == name
        assert table.access_bytes.tolist() == [4, 0]
    mixed = build_statics(kernel, np.array([1 << 3 | 1 << 4, 0], dtype=np.uint64), _unsure(2))
    assert SPACES[mixed.space[0]] == "generic"
