"""Machine code in the header of a PTX trace: what the compiler made of the kernel, and from which PTX."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .schema import LaunchHeader

#: The key in the header's `extra`.
MACHINE_CODE = "machine_code"
_MOST = 1 << 31
_MOST_COUNT = 1 << 62
#: In place of a register: none.
_NO_READ = 0xFF


@dataclass(frozen=True)
class TracedCode:
    """Columns with an entry per machine instruction, in the order in which they lie in memory."""

    opcodes: tuple[str, ...]
    control: tuple[int, ...]
    guarded: tuple[bool, ...]
    #: Index of the instruction that a branch or a call goes to, or -1.
    targets: tuple[int, ...]
    #: Index of the PTX instruction that each comes from, or -1.
    origins: tuple[int, ...]
    #: First instruction and successors of each basic block of the PTX.
    ptx_blocks: tuple[tuple[int, ...], ...]
    #: Instructions of the PTX; rows of a trace behind these stand for accesses of bulk copies and for spills.
    ptx_size: int
    #: Where on the stack an access to local memory lies, or -1; empty where none does.
    offsets: tuple[int, ...] = ()
    #: Spills: machine instructions that keep a register in local memory, and the row of the trace that each has.
    spills: Mapping[int, int] = field(default_factory=dict)
    #: Registers that arithmetic reads when it issues, a byte each, 255 for none; empty where that is not known.
    reads: tuple[int, ...] = ()
    #: PTX divisions and roots: how often each was executed, and how often with operands for the rare path.
    rare_paths: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def read_by(self, index: int) -> set[int]:
        """Registers that an instruction reads when it issues."""
        return set(self.reads[index].to_bytes(4, "little")) - {_NO_READ} if self.reads else set()

    def packed(self) -> dict[str, Any]:
        """As JSON has it."""
        names = list(dict.fromkeys(self.opcodes))
        numbers = {name: number for number, name in enumerate(names)}
        found = {
            "names": names,
            "opcodes": [numbers[name] for name in self.opcodes],
            "control": list(self.control),
            "guarded": [int(each) for each in self.guarded],
            "targets": list(self.targets),
            "origins": list(self.origins),
            "ptx_blocks": [list(each) for each in self.ptx_blocks],
            "ptx_size": self.ptx_size,
        }
        if self.offsets:
            found["offsets"] = list(self.offsets)
        if self.spills:
            found["spills"] = [list(each) for each in self.spills.items()]
        if self.reads:
            found["reads"] = list(self.reads)
        if self.rare_paths:
            found["rare_paths"] = [[index, *counts] for index, counts in self.rare_paths.items()]
        return found


def code_of(header: LaunchHeader) -> TracedCode | None:
    """The machine code in a header, if it has any."""
    packed = header.extra.get(MACHINE_CODE)
    return None if packed is None else unpacked_code(packed)


def unpacked_code(packed: Any) -> TracedCode:
    """Machine code from JSON; ValueError says what is wrong with it."""
    if not isinstance(packed, Mapping):
        raise ValueError(f"{MACHINE_CODE} must be a table")
    names = packed.get("names")
    if not isinstance(names, list | tuple) or not all(isinstance(each, str) for each in names):
        raise ValueError(f"{MACHINE_CODE}: names must be a list of texts")
    opcodes = _numbers(packed.get("opcodes"), "opcodes", 0, len(names) - 1)
    size = len(opcodes)
    blocks = packed.get("ptx_blocks")
    if not isinstance(blocks, list | tuple):
        raise ValueError(f"{MACHINE_CODE}: ptx_blocks must be a list")
    spills, rare_paths = _rows(packed, "spills", 2), _rows(packed, "rare_paths", 3)
    if not all(each[0] < size for each in spills):
        raise ValueError(f"{MACHINE_CODE}: spills must be pairs of an instruction and its row")
    if not all(each[2] <= each[1] for each in rare_paths):
        raise ValueError(f"{MACHINE_CODE}: rare_paths must be taken by executions")
    found = TracedCode(
        opcodes=tuple(names[each] for each in opcodes),
        control=_numbers(packed.get("control"), "control", 0, _MOST),
        guarded=tuple(map(bool, _numbers(packed.get("guarded"), "guarded", 0, 1))),
        targets=_numbers(packed.get("targets"), "targets", -_MOST, _MOST),
        origins=_numbers(packed.get("origins"), "origins", -1, _MOST),
        ptx_blocks=tuple(_numbers(each, "ptx_blocks", 0, _MOST) for each in blocks),
        ptx_size=_numbers([packed.get("ptx_size")], "ptx_size", 0, _MOST)[0],
        offsets=_numbers(packed.get("offsets", []), "offsets", -1, _MOST),
        spills={each[0]: each[1] for each in spills},
        reads=_numbers(packed.get("reads", []), "reads", 0, (1 << 32) - 1),
        rare_paths={each[0]: (each[1], each[2]) for each in rare_paths},
    )
    columns = (found.control, found.guarded, found.targets, found.origins)
    if not all(len(each) == size for each in (*columns, found.offsets or columns[0], found.reads or columns[0])):
        raise ValueError(f"{MACHINE_CODE}: columns have different lengths")
    if not all(each and max(each[1:], default=0) < len(blocks) for each in found.ptx_blocks):
        raise ValueError(f"{MACHINE_CODE}: ptx_blocks names blocks that are not there")
    return found


def _rows(packed: Mapping[str, Any], name: str, length: int) -> list[tuple[int, ...]]:
    """Rows of as many numbers each; none where there is no such key."""
    found = packed.get(name, [])
    if not isinstance(found, list | tuple):
        raise ValueError(f"{MACHINE_CODE}: {name} must be a list")
    rows = [_numbers(each, name, 0, _MOST_COUNT) for each in found]
    if not all(len(each) == length for each in rows):
        raise ValueError(f"{MACHINE_CODE}: {name} must have {length} numbers each")
    return rows


def _numbers(values: Any, name: str, least: int, most: int) -> tuple[int, ...]:
    if not isinstance(values, list | tuple) or not all(
        isinstance(each, int) and least <= each <= most for each in values
    ):
        raise ValueError(f"{MACHINE_CODE}: {name} must be a list of whole numbers from {least} to {most}")
    return tuple(values)
