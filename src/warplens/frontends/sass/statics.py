"""The static table of a SASS kernel: classes, address spaces, and registers from the operands."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from ...traces import StaticInstruction, StaticTable, static_table
from ..sass_opcodes import WARPGROUP_PRODUCTS, access_width, decode_opcode, product_columns
from ._program import SURE
from .disassembly import SassInstruction, SassKernel
from .flow import ADDRESS_KINDS, KIND_GLOBAL, KIND_LOCAL, KIND_SHARED

_REGISTER = re.compile(r"(?<![\w.])(UR|UP|R|P)(\d+)((?:\.(?:64|reuse|H0_H0|H1_H1|U8|X\d+|U32))*)", re.ASCII)
_STORES = frozenset(("ST", "STG", "STL", "STS", "STSM", "RED", "REDG"))
_WAIT, _COUNT = "DEPBAR.LE", re.compile(r"0x[0-9a-f]+", re.ASCII)
#: All operands are sources: these write memory or change control flow.
_NO_DESTINATION = frozenset(
    (
        *("BRA", "BRX", "BRXU", "JMP", "JMX", "CALL", "RET", "EXIT", "BSSY", "BSYNC", "BREAK", "WARPSYNC", "YIELD"),
        *("BAR", "NOP", "MEMBAR", "DEPBAR", "LDGDEPBAR", "LDGSTS", "CCTL", "ERRBAR", "BPT", "KILL", "NANOSLEEP"),
        *("UBLKCP", "UBLKRED", "UBLKPF", "UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF", "UTMACCTL", "UTMACMDFLUSH"),
        *("UCGABAR_ARV", "UCGABAR_WAIT", "FENCE", "ARRIVES", "R2B", "WARPGROUP", "WARPGROUPSET", "ACQBULK"),
    )
)
_SPACE_OF_KIND = {KIND_GLOBAL: "global", KIND_SHARED: "shared", KIND_LOCAL: "local"}
#: Predicates and uniform registers get the numbers that the kernel's registers leave free, from here down.
_TOP = 254


def build_statics(kernel: SassKernel, kinds_seen: NDArray[np.uint64], recorded: NDArray[np.uint8]) -> StaticTable:
    """One row per instruction. An access has a size if its addresses are `recorded` (see `recordings`).

    `kinds_seen` has a bit per kind of record of each instruction: it tells which
    memory a generic access reached.
    """
    names = _numbers(kernel.instructions)
    rows = []
    for item, bits, sure in zip(kernel.instructions, kinds_seen.tolist(), recorded == SURE, strict=True):
        known = decode_opcode(item.opcode)
        name, space = known.instruction_class, known.space
        met = {kind for kind in range(64) if bits >> kind & 1}
        if space == "generic" and len(met) == 1 and (found := _SPACE_OF_KIND.get(next(iter(met)))):
            space = found
            name = name if found == "global" else name.replace("global", found)
        destinations, sources = registers_of(item)
        rows.append(
            StaticInstruction(
                pc=item.pc,
                opcode=opcode_of(item),
                instruction_class=name,
                space=space,
                access_bytes=access_width(item.opcode) if has_addresses(item, met, bool(sure)) else 0,
                destinations=tuple(names[each] for each in destinations if each in names),
                sources=tuple(names[each] for each in sources if each in names),
                line=item.line,
            )
        )
    return static_table(rows)


def opcode_of(item: SassInstruction) -> str:
    """The opcode; that of a wait for groups of copies or products ends in the number that may still be under way."""
    left = item.operands[1] if item.opcode.endswith(_WAIT) and len(item.operands) > 1 else ""
    return f"{item.opcode}.{int(left, 16)}" if _COUNT.fullmatch(left) else item.opcode


def has_addresses(item: SassInstruction, met: Iterable[int], sure: bool) -> bool:
    """Whether the trace has its addresses: the access has records, or never ran but would have left them."""
    space = decode_opcode(item.opcode).space
    return space not in ("none", "constant") and (sure or bool(ADDRESS_KINDS & set(met)))


def _numbers(items: Iterable[SassInstruction]) -> dict[str, int]:
    """A number below 255 for each register; registers beyond that are not in the trace."""
    used: dict[str, None] = {}
    for item in items:
        for each in (*registers_of(item)[0], *registers_of(item)[1]):
            used[each] = None
    numbers = {name: int(name[1:]) for name in used if name[0] == "R"}
    free = iter(range(_TOP, max(numbers.values(), default=-1), -1))
    for name in sorted((name for name in used if name[0] != "R"), key=lambda each: (each[0] != "P", each)):
        number = next(free, None)
        if number is not None:
            numbers[name] = number
    return numbers


def registers_of(item: SassInstruction) -> tuple[list[str], list[str]]:
    """(destinations, sources): names of registers, uniform registers and predicates, without constants such as RZ."""
    name = item.mnemonic
    operands = list(item.operands)
    destinations: list[str] = []
    sources: list[str] = []
    if item.guard:
        sources += _names(item.guard, 1)
    if name not in _STORES and name not in _NO_DESTINATION:
        while operands and _is_predicate(operands[0]) and (_writes_predicates(item) or len(operands) > 1):
            destinations += _names(operands.pop(0), 1)
            if name.endswith("PLOP3") or "SETP" in name:
                if operands and _is_predicate(operands[0]):
                    destinations += _names(operands.pop(0), 1)
                break
        if operands and "[" not in operands[0] and not _only_predicates(item):
            destinations += _names(operands.pop(0), _destination_width(item))
            while operands and _is_predicate(operands[0]) and name in ("IADD3", "UIADD3", "LEA", "ULEA", "IMAD"):
                destinations += _names(operands.pop(0), 1)  # carries
    for place, operand in enumerate(operands):
        sources += _names(operand, _source_width(item, operand, place))
    return list(dict.fromkeys(destinations)), list(dict.fromkeys(sources))


def _is_predicate(text: str) -> bool:
    return re.fullmatch(r"!?U?P(\d+|T)", text) is not None


def _writes_predicates(item: SassInstruction) -> bool:
    return "SETP" in item.mnemonic or item.mnemonic.endswith("PLOP3") or item.mnemonic in ("R2P", "UR2UP", "VOTE")


def _only_predicates(item: SassInstruction) -> bool:
    return "SETP" in item.mnemonic or item.mnemonic.endswith("PLOP3")


def _names(text: str, width: int) -> list[str]:
    """Registers in an operand; a `.64` address or an operand wider than 32 bits has several."""
    found: list[str] = []
    in_brackets = "[" in text
    for match in _REGISTER.finditer(text):
        kind, number, suffix = match[1], int(match[2]), match[3]
        count = 1
        if kind in ("R", "UR"):
            if ".64" in suffix or (kind == "UR" and "desc[" in text):
                count = 2
            elif not in_brackets:
                count = width
        found += [f"{kind}{number + k}" for k in range(count)]
    return found


def _destination_width(item: SassInstruction) -> int:
    """32-bit registers that the result takes."""
    name, modifiers = item.mnemonic, item.opcode.split(".")[1:]
    if name in ("HMMA", "IMMA", "DMMA", "QMMA"):
        return {"F16": 2}.get(modifiers[1] if len(modifiers) > 1 else "", 4)
    if name in WARPGROUP_PRODUCTS:
        accumulators = product_columns(item.opcode) // 2
        return accumulators // 2 if "F16" in modifiers else accumulators
    if name == "LDSM":
        return next((int(each) for each in modifiers if each in ("2", "4")), 1)
    if name in ("DADD", "DMUL", "DFMA", "DMNMX", "CS2R") and "32" not in modifiers:
        return 2
    if "WIDE" in modifiers or ("F64" in modifiers and name in ("I2F", "F2F")):
        return 2
    if decode_opcode(item.opcode).space != "none" or name in ("ULDC", "LDC"):
        return max(access_width(item.opcode) // 4, 1)
    return 2 if "64" in modifiers and name in ("F2I", "UMOV") else 1


def _source_width(item: SassInstruction, operand: str, place: int) -> int:
    """32-bit registers that a source takes; `place` counts the sources."""
    name, modifiers = item.mnemonic, item.opcode.split(".")[1:]
    if name in _STORES or name.startswith("ATOM"):
        return max(access_width(item.opcode) // 4, 1)
    if name in ("DADD", "DMUL", "DFMA", "DMNMX", "DSETP"):
        return 2
    if name in ("HMMA", "IMMA", "QMMA"):
        return (4, 2, _destination_width(item))[min(place, 2)] if "16816" in item.opcode else (2, 1, 4)[min(place, 2)]
    if name in WARPGROUP_PRODUCTS:
        return _destination_width(item) if operand.startswith("R") else 2
    if "WIDE" in modifiers and place == 2:
        return 2
    return 1
