"""SASS opcodes, Maxwell to Blackwell: which instruction class, address space and access size each has.

An opcode is a base mnemonic and modifiers (`LDG.E.128.CONSTANT`). The mnemonic
decides class and space, the modifiers the bytes that a lane accesses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from ..machine.classes import PRODUCT_COLUMNS, product_class, warp_product_class


@dataclass(frozen=True)
class SassOpcode:
    """Properties of an opcode; `access_bytes` is per lane, 0 if it does not access memory."""

    instruction_class: str
    space: str
    access_bytes: int
    known: bool = True


# (class, address space, base mnemonics)
_TABLE = (
    (
        "int32",
        "none",
        """
        IADD IADD32I IADD3 ISCADD ISCADD32I ISAD SAD IABS INEG IMNMX
        ISET ISETP ICMP LEA LOP LOP32I LOP3 SHL SHR SHF BFE BFI BMSK SGXT FLO POPC BREV PRMT
        PSET PSETP PLOP3 CSET CSETP VABSDIFF VABSDIFF4 VADD VADD2 VADD4 VMNMX VSET VSETP VSHL VSHR VSEL
        VIADD VIADDMNMX VIMNMX VIMNMX3 VHMNMX REDUX CREDUX
        """,
    ),
    ("int32_mad", "none", "IMAD IMAD32I IMADSP IMUL IMUL32I XMAD VMAD IDP IDP4A"),
    (
        "uniform",
        "none",
        """
        UIABS UIADD3 UIMAD UIMNMX UISETP ULEA ULOP ULOP3 ULOP32I USHF USHL USHR UBREV UBMSK UFLO UPOPC UPRMT USGXT
        UPLOP3 UPSETP UVIADD UVIMNMX UCLEA UMOV USEL UP2UR UR2UP
        """,
    ),
    (
        "fp32",
        "none",
        """
        FADD FADD32I FADD2 FMUL FMUL32I FMUL2 FFMA FFMA32I FFMA2 FMNMX FMNMX3 FSET FSETP FCMP FCHK FSWZ FSWZADD
        UFADD UFFMA UFMUL UFMNMX UFSET UFSETP
        """,
    ),
    ("fp64", "none", "DADD DMUL DFMA DMNMX DSET DSETP"),
    (
        "fp16",
        "none",
        "HADD2 HADD2_32I HMUL2 HMUL2_32I HFMA2 HFMA2_32I HMNMX2 HSET2 HSETP2",
    ),
    ("sfu", "none", "MUFU RRO IPA"),
    (
        "conversion",
        "none",
        "F2F F2FP F2I F2IP FRND I2F I2FP I2I I2IP UF2F UF2FP UF2I UF2IP UFRND UI2F UI2FP UI2I UI2IP",
    ),
    (
        "tensor",
        "none",
        "OMMA UTCHMMA UTCIMMA UTCQMMA UTCOMMA UTCMXQMMA",
    ),
    (
        "move",
        "none",
        """
        MOV MOV32I MOVM SEL FSEL S2R S2UR CS2R CS2UR B2R R2B P2R R2P R2UR UFSEL SHFL
        VOTE VOTEU MATCH QSPC LEPC ULEPC PMTRIG AL2P OUT GETLMEMBASE SETLMEMBASE SETCTAID GETCRSPTR SETCRSPTR
        LDT LDTM STT STTM UTCCP UTCSHIFT
        """,
    ),
    (
        "control",
        "none",
        """
        BRA BRX BRXU JMP JMX JMXU CAL JCAL CALL RET RTT EXIT PEXIT KILL BRK PBK CONT PCNT SSY SYNC PRET PLONGJMP
        LONGJMP BSSY BSYNC BREAK BMOV WARPSYNC YIELD NANOSLEEP NOP BPT RPCMOV IDE RAM SAM ELECT WARPGROUP WARPGROUPSET
        USETMAXREG ENDCOLLECTIVE PREEXIT ACQBULK ACQSHMINIT DEPBAR LDGDEPBAR LDSDEPBAR ARRIVES UCGABAR_ARV
        MEMBAR ERRBAR FENCE CCTL CCTLL CCTLT TEXDEPBAR CGAERRBAR UTMACCTL UTMACMDFLUSH UVIRTCOUNT
        UTCATOMSWS UTCBAR UGETNEXTWORKID USETSHMSZ NANOTRAP
        """,
    ),
    ("barrier", "none", "BAR"),
    ("barrier_cluster", "none", "UCGABAR_WAIT"),
    ("load_global", "generic", "LD"),
    ("store_global", "generic", "ST"),
    (
        "load_global",
        "global",
        "LDG LDGMC TEX TEXS TLD TLDS TLD4 TLD4S TXD TXQ TMML SULD SUQ",
    ),
    ("store_global", "global", "STG SUST USTGR"),
    ("atomic_global", "global", "ATOM ATOMG RED REDG UREDGR SUATOM SURED"),
    ("async_copy", "global", "LDGSTS UBLKCP UBLKPF UBLKRED UTMALDG UTMASTG UTMAREDG UTMAPF"),
    ("load_local", "local", "LDL"),
    ("store_local", "local", "STL"),
    ("load_shared", "shared", "LDS LDSM LDSLK ULDS"),
    ("store_shared", "shared", "STS STSM STSUL STSCUL STAS UMEMSETS"),
    ("atomic_shared", "shared", "ATOMS REDAS SYNCS"),
    ("load_constant", "constant", "LDC LDCU ULDC"),
)

_MNEMONICS = {
    mnemonic: (instruction_class, space) for instruction_class, space, text in _TABLE for mnemonic in text.split()
}
#: Matrix products of a warpgroup; the columns in their shape give the class (HGMMA.64x128x16.F32).
WARPGROUP_PRODUCTS = ("HGMMA", "IGMMA", "BGMMA", "QGMMA")
#: Matrix products of a warp, and the bits of an element if no modifier tells.
_WARP_PRODUCTS = {"HMMA": 16, "IMMA": 8, "BMMA": 1, "DMMA": 64, "QMMA": 8}
_ELEMENT_BITS = {"TF32": 32, "S4": 4, "U4": 4}
_SUMS = {"IMMA": "s32", "BMMA": "s32", "DMMA": "f64"}
_WARP_SHAPE = re.compile(r"(16|8)x?(8)x?(\d+)")
_UNKNOWN = SassOpcode("other", "none", 0, known=False)
#: Types of 64 bits that conversions name: F2F.F64.F32, F2I.S64.TRUNC, I2F.F64.
_WIDE = frozenset(("F64", "S64", "U64"))
_WIDTHS = {"64": 8, "U64": 8, "S64": 8, "F64": 8, "128": 16, "U8": 1, "S8": 1, "U16": 2, "S16": 2}


def access_width(opcode: str) -> int:
    """Bytes that a lane accesses, from the modifiers; 4 by default."""
    for modifier in opcode.split(".")[1:]:
        if modifier in _WIDTHS:
            return _WIDTHS[modifier]
    return 4


def product_columns(opcode: str) -> int:
    """Columns of a warpgroup's matrix product, the second number of its shape; without a shape, the fewest."""
    shape = next((each.split("x") for each in opcode.split(".") if each.count("x") == 2), ())
    return int(shape[1]) if shape and shape[1].isdigit() else PRODUCT_COLUMNS[0]


def _warp_product(mnemonic: str, modifiers: list[str]) -> str:
    """The class of a warp's product: HMMA.1688.F32.TF32, DMMA.16x8x16. Volta's HMMA.884 counts as a whole one."""
    shape = next((match for each in modifiers if (match := _WARP_SHAPE.fullmatch(each))), None)
    if shape is None or (mnemonic, shape[0]) == ("HMMA", "884"):
        return "tensor"
    bits = next((_ELEMENT_BITS[each] for each in modifiers if each in _ELEMENT_BITS), _WARP_PRODUCTS[mnemonic])
    sums = _SUMS.get(mnemonic) or ("f16" if "F16" in modifiers else "f32")
    return warp_product_class(int(shape[1]), int(shape[2]), int(shape[3]), bits, sums)


@lru_cache(maxsize=1 << 14)
def decode_opcode(opcode: str) -> SassOpcode:
    """Class, space and access size of an opcode; an unknown opcode gets class "other"."""
    mnemonic = opcode.partition(".")[0]
    if mnemonic in WARPGROUP_PRODUCTS:
        return SassOpcode(product_class(product_columns(opcode)), "none", 0)
    if mnemonic in _WARP_PRODUCTS:
        return SassOpcode(_warp_product(mnemonic, opcode.split(".")[1:]), "none", 0)
    found = _MNEMONICS.get(mnemonic)
    if found is None:
        return _UNKNOWN
    instruction_class, space = found
    if instruction_class == "conversion" and not _WIDE.isdisjoint(opcode.split(".")):
        instruction_class = "conversion_fp64"
    return SassOpcode(instruction_class, space, 0 if space == "none" else access_width(opcode))


def coverage(counts: Mapping[str, int] | Iterable[tuple[str, int]]) -> float:
    """Share of executed instructions with a known opcode, from executions per opcode; 1 if none ran."""
    pairs = list(counts.items() if isinstance(counts, Mapping) else counts)
    total = sum(count for _, count in pairs)
    known = sum(count for opcode, count in pairs if decode_opcode(opcode).known)
    return known / total if total else 1.0


# A SASS opcode per class, for traces in another instruction set.
_REPRESENTATIVES = {
    "comp": "IADD3",
    "int32": "IADD3",
    "int32_div": "IADD3",
    "fp32": "FFMA",
    "fp32_div": "FFMA",
    "fp64": "DFMA",
    "fp64_div": "DFMA",
    "fp16": "HFMA2",
    "sfu": "MUFU",
    "tensor": "HMMA",
    "conversion": "F2F",
    "conversion_fp64": "F2F.F64.F32",
    "move": "MOV",
    "control": "BRA",
    "barrier": "BAR.SYNC",
    "barrier_cluster": "UCGABAR_WAIT",
    "int32_mad": "IMAD",
    "uniform": "UIADD3",
    "shared": "LDS",
    "load_shared": "LDS",
    "store_shared": "STS",
    "atomic_shared": "ATOMS",
    "mem": "LDG.E",
    "load_global": "LDG.E",
    "store_global": "STG.E",
    "atomic_global": "ATOMG.E",
    "load_local": "LDL",
    "store_local": "STL",
    "async_copy": "LDGSTS.E",
    "load_constant": "LDC",
    "tensor_half": "HMMA.1688.F32",
    "tensor_fp16": "HMMA.16816.F16",
    "tensor_fp16_half": "HMMA.1688.F16",
    "tensor_int": "IMMA.16832.S8.S8",
    "tensor_int_half": "IMMA.16816.S8.S8",
    "tensor_int_quarter": "IMMA.8816.S8.S8",
    "tensor_fp64": "DMMA.8x8x4",
    "tensor_fp64_double": "DMMA.16x8x4",
    "tensor_fp64_fourfold": "DMMA.16x8x8",
    "tensor_fp64_eightfold": "DMMA.16x8x16",
    **{product_class(columns): f"HGMMA.64x{columns}x16.F32" for columns in PRODUCT_COLUMNS},
}
_GENERIC = {"load_global": "LD.E", "store_global": "ST.E"}
_SUFFIXES = {1: ".U8", 2: ".U16", 8: ".64", 16: ".128"}


def representative(instruction_class: str, space: str, access_bytes: int) -> str:
    """An opcode that `decode_opcode` maps to this class and, if one exists, this access size."""
    base = _GENERIC[instruction_class] if space == "generic" and instruction_class in _GENERIC else None
    return (base or _REPRESENTATIVES.get(instruction_class, "OTHER")) + _SUFFIXES.get(access_bytes, "")
