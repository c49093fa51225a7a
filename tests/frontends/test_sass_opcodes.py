"""The opcode table: classes, spaces and widths of opcodes as they stand in SASS."""

from __future__ import annotations

import pytest

from warplens.frontends.sass_opcodes import _REPRESENTATIVES, _TABLE, coverage, decode_opcode, representative
from warplens.machine import INSTRUCTION_CLASSES
from warplens.traces import CLASS_NAMES, SPACES


def test_the_table_is_sound() -> None:
    mnemonics = [each for _, _, text in _TABLE for each in text.split()]
    assert len(mnemonics) == len(set(mnemonics))
    assert all(name in INSTRUCTION_CLASSES and space in SPACES for name, space, _ in _TABLE)


@pytest.mark.parametrize(
    ("opcode", "name", "space", "width"),
    [
        ("IADD3.X", "int32", "none", 0),
        ("IMAD.MOV.U32", "int32_mad", "none", 0),
        ("XMAD.PSL.CBCC", "int32_mad", "none", 0),
        ("UIADD3", "uniform", "none", 0),
        ("ISETP.GE.AND", "int32", "none", 0),
        ("FFMA.FTZ", "fp32", "none", 0),
        ("FSETP.GT.AND", "fp32", "none", 0),
        ("DFMA", "fp64", "none", 0),
        ("HFMA2.MMA", "fp16", "none", 0),
        ("MUFU.RSQ", "sfu", "none", 0),
        ("I2F.F64.S32", "conversion_fp64", "none", 0),
        ("HMMA.16816.F32", "tensor", "none", 0),
        ("HGMMA.64x64x16.F32", "tensor_n64", "none", 0),
        ("HGMMA.64x176x16.F32.BF16", "tensor_n192", "none", 0),
        ("QGMMA.64x256x32.F32.E4M3.E4M3", "tensor_n256", "none", 0),
        ("IGMMA.SP.64x8x64.S8.S8", "tensor_n8", "none", 0),
        ("HGMMA", "tensor_n8", "none", 0),
        ("HMMA.884.F32.STEP0", "tensor", "none", 0),
        ("HMMA.16816.F32.BF16", "tensor", "none", 0),
        ("HMMA.16816.F16", "tensor_fp16", "none", 0),
        ("HMMA.1688.F32", "tensor_half", "none", 0),
        ("HMMA.1688.F32.TF32", "tensor", "none", 0),
        ("HMMA.1684.F32.TF32", "tensor_half", "none", 0),
        ("QMMA.16832.F32.E4M3.E4M3", "tensor", "none", 0),
        ("IMMA.8816.S8.S8", "tensor_int_quarter", "none", 0),
        ("IMMA.16816.S8.S8", "tensor_int_half", "none", 0),
        ("IMMA.16864.S4.S4", "tensor_int", "none", 0),
        ("BMMA.168256.AND.POPC", "tensor_int", "none", 0),
        ("DMMA.884", "tensor_fp64", "none", 0),
        ("DMMA.16x8x16", "tensor_fp64_eightfold", "none", 0),
        ("S2R", "move", "none", 0),
        ("SHFL.BFLY", "move", "none", 0),
        ("VOTE.ANY", "move", "none", 0),
        ("BSSY", "control", "none", 0),
        ("EXIT", "control", "none", 0),
        ("WARPGROUP.ARRIVE", "control", "none", 0),
        ("BAR.SYNC.DEFER_BLOCKING", "barrier", "none", 0),
        ("UCGABAR_WAIT", "barrier_cluster", "none", 0),
        ("UCGABAR_ARV", "control", "none", 0),
        ("DEPBAR.LE.1", "control", "none", 0),
        ("LDG.E", "load_global", "global", 4),
        ("LDG.E.128.CONSTANT", "load_global", "global", 16),
        ("LDG.E.64.SYS", "load_global", "global", 8),
        ("LDG.E.U8", "load_global", "global", 1),
        ("LDG.E.S8", "load_global", "global", 1),
        ("LDG.E.U16.CONSTANT", "load_global", "global", 2),
        ("LDG.E.LTC128B", "load_global", "global", 4),
        ("STG.E.S16", "store_global", "global", 2),
        ("LD.E.64", "load_global", "generic", 8),
        ("ST.E", "store_global", "generic", 4),
        ("LDL.LU", "load_local", "local", 4),
        ("STL.64", "store_local", "local", 8),
        ("LDS.U.128", "load_shared", "shared", 16),
        ("STS", "store_shared", "shared", 4),
        ("ATOMS.POPC.INC.32", "atomic_shared", "shared", 4),
        ("LDC", "load_constant", "constant", 4),
        ("ULDC.64", "load_constant", "constant", 8),
        ("ATOM.E.ADD", "atomic_global", "global", 4),
        ("ATOMG.E.ADD.64.STRONG.GPU", "atomic_global", "global", 8),
        ("RED.E.ADD.F64.RN.STRONG.GPU", "atomic_global", "global", 8),
        ("LDGSTS.E.BYPASS.LTC128B.128", "async_copy", "global", 16),
        ("UTMALDG.2D", "async_copy", "global", 4),
        ("FFMA2", "fp32", "none", 0),
        ("UTCHMMA.2CTA", "tensor", "none", 0),
        ("OMMA.SF.16864.F32.E2M1.E2M1.E8", "tensor", "none", 0),
        ("LDTM.x32", "move", "none", 0),
        ("UTCBAR.MULTICAST", "control", "none", 0),
    ],
)
def test_opcodes(opcode: str, name: str, space: str, width: int) -> None:
    found = decode_opcode(opcode)
    assert (found.instruction_class, found.space, found.access_bytes, found.known) == (name, space, width, True)


@pytest.mark.parametrize("opcode", ["FROB", "", "ldg", "LDGX.E", ".E", "é"])
def test_unknown_opcodes(opcode: str) -> None:
    found = decode_opcode(opcode)
    assert (found.instruction_class, found.space, found.access_bytes, found.known) == ("other", "none", 0, False)


def test_coverage() -> None:
    assert coverage({"FFMA": 3, "FROB": 1}) == 0.75
    assert coverage([("FROB", 2), ("FROB", 2)]) == 0
    assert coverage({}) == 1


def test_representatives_are_taken_for_their_class() -> None:
    assert set(_REPRESENTATIVES) == set(CLASS_NAMES) - {"other"}
    for name in CLASS_NAMES:
        if name in ("comp", "mem", "shared") or name.endswith("_div"):
            continue  # classes that no single opcode has
        assert decode_opcode(representative(name, "none", 0)).instruction_class == name
    for width in (1, 2, 4, 8, 16):
        found = decode_opcode(representative("load_global", "generic", width))
        assert (found.instruction_class, found.space, found.access_bytes) == ("load_global", "generic", width)
    assert not decode_opcode(representative("other", "none", 0)).known
