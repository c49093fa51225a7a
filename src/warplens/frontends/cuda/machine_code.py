"""Machine code of the kernels in a cubin: opcodes, control bits, branches, and the PTX line of each instruction.

From Volta on an instruction has 128 bits: the lowest nine name the operation, the next three the kind of its
operands, four more its guard, and the highest are the control bits. That, the width of accesses, places on the stack,
the targets of branches and the registers that arithmetic reads are all that is read, so no disassembler is needed.
The names are those that nvdisasm prints.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..sass_opcodes import decode_opcode
from .cubin import Section, bytes_of, sections_of, symbols_of
from .line_tables import read_lines

INSTRUCTION_BYTES = 16
#: Control bits start here in the upper word: stall 4, yield 1, write barrier 3, read barrier 3, waits 6, reuse 4.
_CONTROL_SHIFT, _CONTROL_MASK = 41, (1 << 21) - 1
#: Where the upper word has the width of an access: U8, S8, U16, S16, 32, 64 and 128 bits.
_WIDTH_SHIFT = 9
_WIDTHS = (".U8", ".S8", ".U16", ".S16", "", ".64", ".128", "")
#: Where the lower word has the register and the offset of an address; the stack pointer is register 1.
_BASE_SHIFT, _STACK_POINTER, _OFFSET_SHIFT, _OFFSET_BITS = 24, 1, 40, 24
_OPERATION = 0x1FF
_LINES = ".nv_debug_line_sass"
#: Sections that say which functions a line table is about; from Hopper on they have an addend.
_RELOCATIONS = {".rela": struct.Struct("<QQq"), ".rel": struct.Struct("<QQ")}

#: The lowest nine bits of an instruction, and its name.
_OPERATIONS = """
002:MOV 003:P2R 004:R2P 005:CS2R 006:VOTE 007:SEL 008:FSEL 009:FMNMX 00a:FSET 00b:FSETP 00c:ISETP 00f:VIMNMX3
010:IADD3 011:LEA 012:LOP3 013:IABS 014:VABSDIFF 015:VABSDIFF4 016:PRMT 017:IMNMX 019:SHF 01a:SGXT 01c:PLOP3 020:FMUL
021:FADD 023:FFMA 024:IMAD 025:IMAD 026:IDP 027:IMAD 028:DMUL 029:DADD 02a:DSETP 02b:DFMA 02d:PREEXIT 02e:ACQBULK
02f:ELECT 030:HADD2 031:HFMA2 032:HMUL2 033:HSET2 034:HSETP2 035:HFMA2 036:VIADD 037:IMMA 03a:MOVM 03b:LDSM 03c:HMMA
03e:F2FP 03f:DMMA 040:HMNMX2 044:STSM 045:I2FP 046:VIADDMNMX 048:VIMNMX 082:UMOV 086:VOTEU 087:USEL 08c:UISETP
090:UIADD3 091:ULEA 092:ULOP3 096:UPRMT 099:USHF 09a:USGXT 0a4:UIMAD 0a5:UIMAD 0b9:ULDC 0bb:ULDC 0bd:UFLO 0bf:UPOPC
0ca:R2UR 0cc:CREDUX 100:FLO 101:BREV 102:FCHK 104:F2F 105:F2I 106:I2F 107:FRND 108:MUFU 109:POPC 110:F2F.F64
111:F2I.F64 112:I2F.F64 113:FRND.F64 118:NOP 119:S2R 11a:DEPBAR 11b:ENDCOLLECTIVE 11c:B2R 11d:BAR 141:BSYNC 142:BREAK
143:CALL 144:CALL 145:BSSY 146:YIELD 147:BRA 148:WARPSYNC 149:BRX 14d:EXIT 14e:LEPC 150:RET 155:BMOV 156:BMOV 15c:BPT
15d:NANOSLEEP 160:TEX 163:TLD4 166:TLD 180:LD 181:LDG 182:LDC 183:LDL 184:LDS 185:ST 186:STG 187:STL 188:STS 189:SHFL
18a:ATOM 18b:ATOM 18c:ATOMS 18d:ATOMS 18e:REDG 18f:CCTL 192:MEMBAR 199:SULD 19d:SUST 1a1:MATCH 1a2:ATOM 1a3:ATOMG
1a6:REDG 1a7:SYNCS 1a8:ATOMG 1a9:ATOMG 1aa:QSPC 1ab:ERRBAR 1ac:LDCU 1ae:LDGSTS 1af:LDGDEPBAR 1b1:SYNCS 1b2:SYNCS
1b4:UTMALDG 1b5:UTMASTG 1b7:UTMACMDFLUSH 1b9:UTMACCTL 1ba:UBLKCP 1bb:UBLKRED 1bd:STAS 1c3:S2UR 1c4:REDUX 1c5:WARPGROUP
1c6:FENCE 1c7:UCGABAR_WAIT 1f0:HGMMA 1f1:IGMMA 1f3:QGMMA
"""
_NAMES = {int(code, 16): name for code, _, name in (each.partition(":") for each in _OPERATIONS.split())}
#: Operations that later architectures have under a number of an older one.
_SINCE_100 = {0x035: "IADD"}
_PLAIN_WIDTH = frozenset(("LD", "ST", "LDG", "STG", "LDS", "STS", "LDL", "STL", "LDC", "LDGSTS"))
_LOCAL = ("LDL", "STL")
#: Share of a kernel's instructions.
_MOST_UNKNOWN = 0.02
_ALWAYS = 7  # the predicate that is always true
#: Where `WARPGROUP` says that it waits. Waits have a number behind their name: groups that may still be under way.
_WAITS_SHIFT = 47
#: Where the barrier of a cluster says so.
_AWAITS_SHIFT = 10
#: Branches and calls whose target is relative.
_GO_ELSEWHERE = (0x147, 0x144)
#: Where a branch has a second predicate.
_SECOND_SHIFT = 23
#: Where the lower word has the kind of its operands and two registers, and the upper word the third.
_KIND_SHIFT, _FIRST_SHIFT, _SECOND_REGISTER_SHIFT = 9, 24, 32
#: The kind with registers alone; others have a constant, an immediate or a uniform register in place of the second,
#: and what would be second or third in the upper word.
_REGISTERS_ALONE = 1
#: Operations that read two and three registers when they issue.
_READS_TWO = frozenset(
    (
        *("FADD", "FMUL", "FSEL", "FMNMX", "FSET", "FSETP", "SEL", "ISETP", "IMNMX", "VIMNMX", "VIADD", "SGXT"),
        *("HADD2", "HMUL2", "HSET2", "HSETP2", "HMNMX2"),
    )
)
_READS_THREE = frozenset(
    (
        *("FFMA", "IMAD", "IADD3", "LEA", "LOP3", "SHF", "PRMT", "HFMA2", "IDP", "VABSDIFF", "VABSDIFF4"),
        *("VIADDMNMX", "VIMNMX3"),
    )
)
#: The multiplication whose third operand takes two registers.
_WIDE_MULTIPLICATION = 0x025
#: In place of a register: none, or the one that is always zero.
NO_READ = 0xFF
_MOST_READS = 4


@dataclass(frozen=True)
class MachineCode:
    """The instructions of a kernel, in the order in which they lie in memory."""

    opcodes: tuple[str, ...]
    control: tuple[int, ...]
    #: Whether lanes may skip it or, for a branch, not take it.
    guarded: tuple[bool, ...]
    #: Where a branch or a call goes: an index, or -1.
    targets: tuple[int, ...]
    #: Line of the PTX that each comes from, or 0.
    ptx_lines: tuple[int, ...]
    #: Where on the stack an access to local memory lies, or -1.
    offsets: tuple[int, ...] = ()
    #: Registers that arithmetic reads when it issues, a byte each; `NO_READ` where it reads fewer.
    reads: tuple[int, ...] = ()


def read_machine_code(cubin: bytes) -> dict[str, MachineCode]:
    """The code of every kernel that has lines of PTX and few operations without a name here.

    ValueError says why a file is unreadable.
    """
    sections = {section.name: section for section in sections_of(cubin)}
    architecture = _architecture(cubin)
    lines = _ptx_lines(cubin, sections)
    found = {}
    for name, rows in lines.items():
        if f".text.{name}" in sections:
            code = _decoded(bytes_of(cubin, sections, f".text.{name}"), rows, architecture)
            unknown = sum(not decode_opcode(opcode).known for opcode in code.opcodes)
            if unknown <= _MOST_UNKNOWN * len(code.opcodes):
                found[name] = code
    return found


def _architecture(cubin: bytes) -> int:
    """The compute capability, times ten. From CUDA 12.8 on, the flags of an ELF file have it in another place."""
    (flags,) = struct.unpack_from("<I", cubin, 48)
    return (flags >> 8 & 0xFF) if cubin[8] >= 8 else flags & 0xFF


def _ptx_lines(cubin: bytes, sections: Mapping[str, Section]) -> dict[str, list[tuple[int, int]]]:
    kind = next((kind for kind in _RELOCATIONS if f"{kind}{_LINES}" in sections), None)
    if _LINES not in sections or kind is None:
        return {}
    symbols, row = symbols_of(cubin, sections), _RELOCATIONS[kind]
    places = bytes_of(cubin, sections, f"{kind}{_LINES}")
    rows = row.iter_unpack(places[: len(places) // row.size * row.size])
    functions = {offset: symbols.get(info >> 32, "") for offset, info, *_ in rows}
    return read_lines(bytes_of(cubin, sections, _LINES), functions)


def _decoded(code: bytes, rows: Iterable[tuple[int, int]], architecture: int) -> MachineCode:
    words = list(struct.iter_unpack("<QQ", code[: len(code) // INSTRUCTION_BYTES * INSTRUCTION_BYTES]))
    lines = [0] * len(words)
    ordered = sorted(dict(rows).items())
    for (offset, line), (end, _) in zip(ordered, [*ordered[1:], (len(code), 0)], strict=True):
        begin, stop = offset // INSTRUCTION_BYTES, min(end // INSTRUCTION_BYTES, len(words))
        lines[begin:stop] = [line] * max(stop - begin, 0)
    opcodes = tuple(_opcode(low, high, architecture) for low, high in words)
    return MachineCode(
        opcodes=opcodes,
        control=tuple(high >> _CONTROL_SHIFT & _CONTROL_MASK for _, high in words),
        guarded=tuple(
            low >> 12 & 15 != _ALWAYS or (opcode == "BRA" and high >> _SECOND_SHIFT & 15 != _ALWAYS)
            for opcode, (low, high) in zip(opcodes, words, strict=True)
        ),
        targets=tuple(
            _target(index, low, high, architecture) if low & _OPERATION in _GO_ELSEWHERE else -1
            for index, (low, high) in enumerate(words)
        ),
        ptx_lines=tuple(lines),
        offsets=tuple(
            _stack_offset(low) if opcode.startswith(_LOCAL) else -1
            for opcode, (low, _) in zip(opcodes, words, strict=True)
        ),
        reads=tuple(_reads(opcode, low, high) for opcode, (low, high) in zip(opcodes, words, strict=True)),
    )


def _reads(opcode: str, low: int, high: int) -> int:
    """The registers of an operation that reads them when it issues."""
    found: list[int] = []
    alone = low >> _KIND_SHIFT & 7 == _REGISTERS_ALONE
    if opcode in _READS_TWO or opcode in _READS_THREE:
        found = [low >> _FIRST_SHIFT & 0xFF]
        if alone:
            found.append(low >> _SECOND_REGISTER_SHIFT & 0xFF)
        if opcode in _READS_THREE:
            found.append(high & 0xFF)
            if low & _OPERATION == _WIDE_MULTIPLICATION and found[-1] != NO_READ:
                found.append(found[-1] + 1)
    found += [NO_READ] * (_MOST_READS - len(found))
    return int.from_bytes(bytes(found), "little")


def _opcode(low: int, high: int, architecture: int) -> str:
    number = low & _OPERATION
    name = (_SINCE_100.get(number) if architecture >= 100 else None) or _NAMES.get(number, f"OP{number:03X}")
    if name in _PLAIN_WIDTH:
        return name + _WIDTHS[high >> _WIDTH_SHIFT & 7]
    if name == "WARPGROUP":
        return f"{name}.DEPBAR.LE.{high >> 8 & 0x3F}" if low >> _WAITS_SHIFT & 1 else f"{name}.ARRIVE"
    if name == "UCGABAR_WAIT" and not low >> _AWAITS_SHIFT & 1:
        return "UCGABAR_ARV"
    if name == "DEPBAR":
        return f"{name}.LE.{low >> 38 & 0x3F}"
    return name


def _stack_offset(low: int) -> int:
    """The offset of an address from the stack pointer; -1 if it has another base."""
    if low >> _BASE_SHIFT & 0xFF != _STACK_POINTER:
        return -1
    return max(_signed(low >> _OFFSET_SHIFT, _OFFSET_BITS), -1)


def _target(index: int, low: int, high: int, architecture: int) -> int:
    """The index that a branch names relative to the next one; its bits moved with Hopper."""
    if architecture >= 90:
        offset = (_signed(low >> 34 | (high & 0x3FFFF) << 30, 48) << 8 | low >> 16 & 0xFF) * 4
    else:
        offset = _signed(low >> 32 | (high & 0x3FFFF) << 32, 50)
    return index + 1 + offset // INSTRUCTION_BYTES


def _signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value
