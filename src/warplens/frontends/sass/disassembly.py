"""SASS as nvdisasm prints it: instructions of one kernel with guards, operands, targets and control bits."""

from __future__ import annotations

import re
import struct
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path, PurePath

from ...errors import TraceError
from ...traces.inlining import Chain, Place

INSTRUCTION_BYTES = 16
_SECTION = re.compile(r"\s*\.section\s+\.text\.([^,\s]+)")
_ANY_SECTION = re.compile(r"\s*\.section\s")
_LABEL = re.compile(r"([^\s:]+):\s*$")
_LINE = re.compile(r'\s*//## File "([^"]*)", line (\d+)(?: inlined at "([^"]*)", line (\d+))?')
_INSTRUCTION = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?);?\s*/\* 0x([0-9a-f]{16}) \*/\s*$")
_SECOND_WORD = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/\s*$")
_REFERENCE = re.compile(r"`\(([^)]+)\)")
_TARGETS = re.compile(r"BRANCH_TARGETS\s+([^\"*]+)")
_NUMBER = re.compile(r"-?0x[0-9a-f]+")
#: Control bits start here in the 128-bit word: stall 4, yield 1, write barrier 3, read barrier 3, waits 6, reuse 4.
_CONTROL_SHIFT, _CONTROL_MASK = 105 - 64, (1 << 21) - 1


@dataclass(frozen=True)
class SassInstruction:
    """One instruction. `targets` are the offsets that a branch, call or convergence barrier names."""

    pc: int
    opcode: str
    guard: str = ""
    """The predicate that guards it: `P0`, `!P1`, `UP2`; empty for none."""
    operands: tuple[str, ...] = ()
    targets: tuple[int, ...] = ()
    control: int = 0
    line: int = 0
    #: Places in other files that it was inlined from, the innermost first.
    inlined: Chain = ()

    @property
    def mnemonic(self) -> str:
        return self.opcode.partition(".")[0]

    @property
    def outside(self) -> str:
        """The function outside the kernel that a call names, or ""."""
        named = _REFERENCE.search(" ".join(self.operands))
        return named[1] if named else ""


@dataclass(frozen=True)
class SassKernel:
    """The instructions of a kernel in order, one every 16 bytes from 0."""

    name: str
    instructions: tuple[SassInstruction, ...]
    source_file: str = ""

    def index_of(self, pc: int) -> int:
        """The position of the instruction at an offset, or -1."""
        index, rest = divmod(pc, INSTRUCTION_BYTES)
        return index if rest == 0 and 0 <= index < len(self.instructions) else -1


def symbol_index(cubin: bytes, kernel: str) -> int:
    """The index of a kernel in a cubin's symbol table, by which nvdisasm prints it alone."""
    try:
        table, count, entry = struct.unpack_from("<Q", cubin, 40)[0], *struct.unpack_from("<HH", cubin, 60)[:1], 64
        sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, table + i * entry) for i in range(count)]
        wanted = kernel.encode()
        for section in sections:
            if section[1] != 2:  # SHT_SYMTAB
                continue
            names = sections[section[6]][4]
            for index in range(section[5] // 24):
                name, information = struct.unpack_from("<IB", cubin, section[4] + index * 24)
                start = names + name
                if information & 15 == 2 and cubin[start : start + len(wanted) + 1] == wanted + b"\0":
                    return index
    except (struct.error, IndexError):
        raise TraceError("the module that the program loaded is not a cubin and cannot be disassembled") from None
    raise TraceError(f"the module that the program loaded has no kernel {kernel}")


def disassemble(nvdisasm: str, cubin: Path, kernel: str) -> str:
    """What nvdisasm prints for one kernel."""
    index = symbol_index(cubin.read_bytes(), kernel)
    command = [nvdisasm, "-c", "-hex", "-fun", str(index), str(cubin)]
    # -gi asks for lines and where they were inlined; an nvdisasm that refuses it gives lines alone. Its data-flow
    # analysis fails on some code; -ndf turns it off.
    for options in (["-gi"], ["-gi", "-ndf"], ["-g"], ["-g", "-ndf"]):
        ran = subprocess.run([*command, *options], capture_output=True, text=True, errors="replace", check=False)
        if ran.returncode == 0:
            return ran.stdout
    words = " ".join(ran.stderr.split())[:300]
    raise TraceError(f"nvdisasm cannot print kernel {kernel}: {words or f'exit code {ran.returncode}'}")


def parse_kernel(text: str, kernel: str) -> SassKernel:
    """The instructions of one kernel in a disassembly."""
    lines = _section(text, kernel)
    labels: dict[str, int] = {}
    raw: list[tuple[int, str, int, Chain]] = []
    pending: list[str] = []
    files: Counter[str] = Counter()
    places: list[Place] = []
    begins = True
    for line in lines:
        if match := _INSTRUCTION.match(line):
            pc = int(match[1], 16)
            labels.update(dict.fromkeys(pending, pc))
            pending.clear()
            files.update(file for file, _ in places[-1:])
            raw.append((pc, match[2], 0, tuple(places)))
            begins = True
        elif (match := _SECOND_WORD.match(line)) and raw:
            control = int(match[1], 16) >> _CONTROL_SHIFT & _CONTROL_MASK
            raw[-1] = (raw[-1][0], raw[-1][1], control, raw[-1][3])
        elif match := _LABEL.match(line):
            pending.append(match[1])
        elif match := _LINE.match(line):
            # Several lines before an instruction go outwards, each from the place at which the last was inlined.
            places = [] if begins else places
            begins = False
            for file, number in (match[1], match[2]), (match[3], match[4]):
                if file and (file, int(number)) not in places[-1:]:
                    places.append((file, int(number)))
    if not raw:
        raise TraceError(f"the disassembly has no instructions of kernel {kernel}")
    if [pc for pc, *_ in raw] != list(range(0, len(raw) * INSTRUCTION_BYTES, INSTRUCTION_BYTES)):
        raise TraceError(f"the disassembly of kernel {kernel} has gaps; GPUs before Volta are not supported")
    source = max(files, key=lambda each: files[each]) if files else ""
    instructions = (_instruction(pc, words, control, chain, source, labels) for pc, words, control, chain in raw)
    return SassKernel(kernel, tuple(instructions), PurePath(source).name)


def _section(text: str, kernel: str) -> list[str]:
    """The lines of a kernel's section, or of the only code section if that has another name."""
    sections: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if match := _SECTION.match(line):
            name = match[1].strip('"')
        elif _ANY_SECTION.match(line):
            name = ""
        if name:
            sections.setdefault(name, []).append(line)
    return sections.get(kernel) or (next(iter(sections.values())) if len(sections) == 1 else [])


def _instruction(
    pc: int, words: str, control: int, places: Chain, source: str, labels: dict[str, int]
) -> SassInstruction:
    """An instruction of a kernel in the file `source`, where code from other files counts where that calls it."""
    own = next((index for index, (file, _) in enumerate(places) if file == source), None)
    line = 0 if own is None else places[own][1]
    inlined = tuple((PurePath(file).name, number) for file, number in places[: own or 0])
    guard = ""
    if words.startswith("@"):
        guard, _, words = words[1:].partition(" ")
    named = [*(_TARGETS.search(words) or ("", ""))[1].split(","), *_REFERENCE.findall(words)]
    words = re.sub(r"\(\*.*?\*\)", "", words).strip()
    opcode, _, rest = words.partition(" ")
    operands = tuple(part.strip() for part in rest.split(",") if part.strip()) if rest else ()
    targets = [labels[name.strip()] for name in named if name.strip() in labels]
    if not targets and opcode.partition(".")[0] in ("BRA", "BSSY", "CALL", "JMP", "WARPSYNC") and operands:
        targets = [int(operands[-1], 16)] if _NUMBER.fullmatch(operands[-1]) else []
    return SassInstruction(pc, opcode, guard, operands, tuple(dict.fromkeys(targets)), control, line, inlined)
