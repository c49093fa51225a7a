"""A slow, obvious reader of Accel-Sim kernel traces, written from the format's description and from nothing else.

It keeps every lane's address and refuses what the description does not allow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

VERSIONS = (2, 3, 4, 5)


@dataclass(frozen=True)
class Instruction:
    line: int
    pc: int
    mask: int
    destinations: tuple[int, ...]
    opcode: str
    sources: tuple[int, ...]
    width: int
    #: Of the active lanes, in order; None where the instruction accesses no memory.
    addresses: tuple[int, ...] | None
    immediate: int


@dataclass
class Warp:
    block: tuple[int, int, int]
    warp: int
    instructions: list[Instruction] = field(default_factory=list)


@dataclass
class Kernel:
    header: dict[str, str]
    warps: list[Warp]


def parse(text: bytes) -> Kernel:
    """The kernel, or ValueError."""
    lines = [line.strip(b" \t\r") for line in text.split(b"\n")]
    header, at = _header(lines)
    version = _plain(header["accelsim tracer version"])
    lineinfo = _plain(header.get("enable lineinfo", "0")) != 0
    grid, block_size = _triple(header["grid dim"]), _triple(header["block dim"])
    threads = block_size[0] * block_size[1] * block_size[2]
    if version not in VERSIONS or not header["kernel name"] or threads > 65536 or _volume(grid) > 2**62:
        raise ValueError("header")
    for key in ("kernel id", "shmem", "nregs", "binary version", "cuda stream id"):
        _plain(header.get(key, "0"))
    for key in ("shmem base_addr", "local mem base_addr"):
        _hexadecimal(header.get(key, "0"))

    body = [line for line in lines[at:] if line]
    warps: list[Warp] = []
    blocks: list[tuple[int, int, int]] = []
    position = 0
    noted = None

    def take() -> bytes:
        nonlocal position
        if position == len(body):
            raise ValueError("the text ends")
        position += 1
        return body[position - 1]

    def take_no_comment() -> str:
        """The next line inside a block; comments may stand between warps."""
        while True:
            raw = take()
            if not raw.startswith(b"#"):
                return _text(raw)
            if _first_word(raw) in (b"#BEGIN_TB", b"#END_TB"):
                return _first_word(raw).decode()

    while position < len(body):
        raw = take()
        if raw.startswith(b"#") and _first_word(raw) not in (b"#BEGIN_TB", b"#END_TB"):
            found = re.fullmatch(rb"#warplens: (\d{1,18}) of the blocks are recorded", raw)
            noted = int(found[1]) if found else noted
            continue
        if _first_word(raw) != b"#BEGIN_TB":
            raise ValueError("no block begins")
        here = _coordinates(take_no_comment())
        if any(c >= size for c, size in zip(here, grid, strict=True)) or here in blocks:
            raise ValueError("block")
        blocks.append(here)
        seen: list[int] = []
        while True:
            line = take_no_comment()
            if line == "#END_TB":
                break
            found_warp = re.fullmatch(r"warp[ \t\r]*=[ \t\r]*\+?(\d{1,18})", line, re.ASCII)
            if found_warp is None:
                raise ValueError("no warp")
            warp = Warp(here, int(found_warp[1]))
            if warp.warp * 32 >= threads or warp.warp in seen:
                raise ValueError("warp")
            seen.append(warp.warp)
            found_insts = re.fullmatch(r"insts[ \t\r]*=[ \t\r]*\+?(\d{1,18})", take_no_comment(), re.ASCII)
            if found_insts is None:
                raise ValueError("no insts")
            for _ in range(int(found_insts[1])):
                raw = take()
                if raw.startswith((b"#", b"w", b"t", b"i")):
                    raise ValueError("too few instructions")
                instruction = _instruction(_words(_text(raw)), version, lineinfo, here, warp.warp)
                if instruction.mask >> max(0, threads - 32 * warp.warp):
                    raise ValueError("lanes that do not exist")
                warp.instructions.append(instruction)
            warps.append(warp)
        if not seen:
            raise ValueError("no warps")
    if len(blocks) != (_volume(grid) if noted is None else noted):
        raise ValueError("blocks are missing")
    return Kernel(header, warps)


def _header(lines: list[bytes]) -> tuple[dict[str, str], int]:
    header: dict[str, str] = {}
    for number, raw in enumerate(lines):
        raw = raw.strip()
        if raw.startswith(b"#"):
            if raw.split()[0] != b"#BEGIN_TB":
                number += 1
            if any(key not in header for key in ("kernel name", "grid dim", "block dim", "accelsim tracer version")):
                raise ValueError("a key is missing")
            return header, number
        if not raw:
            continue
        line = raw.decode("utf-8").replace("\t", " ").strip()
        key, equals, value = line[1:].partition("=")
        key = " ".join(key.split())
        if not line.startswith("-") or not equals or not key or not line.isprintable() or key in header:
            raise ValueError("header line")
        header[key] = value.strip()
    raise ValueError("the header does not end")


def _instruction(
    words: list[str], version: int, lineinfo: bool, block: tuple[int, int, int], warp: int
) -> Instruction:
    def take() -> str:
        if not words:
            raise ValueError("the line ends")
        return words.pop(0)

    def registers() -> tuple[int, ...]:
        count = _decimal(take())
        if not 0 <= count <= 64:
            raise ValueError("register count")
        found = []
        for _ in range(count):
            match = re.fullmatch(r"R(\d{1,5})", take(), re.ASCII)
            if match is None or int(match[1]) > 65535:
                raise ValueError("register")
            found.append(int(match[1]))
        return tuple(found)

    if version < 3 and (*block, warp) != tuple(_decimal(take()) for _ in range(4)):
        raise ValueError("other block or warp")
    line = _decimal(take()) if lineinfo else 0
    if not 0 <= line < 2**32:
        raise ValueError("line")
    pc = _hexadecimal(take())
    mask = _hexadecimal(take())
    if mask >= 2**32:
        raise ValueError("mask")
    destinations = registers()
    opcode = take()
    if re.fullmatch(r"[A-Za-z_][!-~]*", opcode, re.ASCII) is None:
        raise ValueError("opcode")
    sources = registers()
    width = _decimal(take())
    if not 0 <= width < 65536:
        raise ValueError("width")
    addresses = _addresses(take, mask) if width else None
    immediate = _immediate(take()) if version >= 4 else 0
    if words:
        raise ValueError("more words")
    return Instruction(line, pc, mask, destinations, opcode, sources, width, addresses, immediate)


def _addresses(take, mask: int) -> tuple[int, ...]:  # type: ignore[no-untyped-def]
    lanes = [lane for lane in range(32) if mask >> lane & 1]
    mode = take()
    if mode == "0":
        return tuple(_hexadecimal(take()) for _ in lanes)
    if mode not in ("1", "2"):
        raise ValueError("mode")
    base = _hexadecimal(take())
    if mode == "1":
        stride = _decimal(take())
        if abs(stride) > 2**58 or (lanes and lanes[-1] - lanes[0] + 1 != len(lanes)):
            raise ValueError("stride")
        found = [base + i * stride for i in range(len(lanes))]
    else:
        found = [base][: len(lanes)]
        for _ in lanes[1:]:
            found.append(found[-1] + _decimal(take()))
    if any(not 0 <= address < 2**64 for address in found):
        raise ValueError("address")
    return tuple(found)


def _text(raw: bytes) -> str:
    if any(byte < 32 and byte not in b"\t\r" for byte in raw):
        raise ValueError("control characters")
    return raw.decode("latin-1")


def _words(line: str) -> list[str]:
    return re.split(r"[ \t\r]+", line)


def _first_word(raw: bytes) -> bytes:
    found = re.match(rb"[^\x00-\x20]*", raw)
    return found[0] if found else b""


def _plain(word: str) -> int:
    if re.fullmatch(r"\d{1,20}", word, re.ASCII) is None:
        raise ValueError(f"number {word}")
    return int(word)


def _decimal(word: str) -> int:
    if re.fullmatch(r"[+-]?\d{1,18}", word, re.ASCII) is None:
        raise ValueError(f"number {word}")
    return int(word)


def _hexadecimal(word: str) -> int:
    if re.fullmatch(r"(0[xX])?[0-9a-fA-F]{1,16}", word, re.ASCII) is None:
        raise ValueError(f"hexadecimal {word}")
    return int(word, 16)


def _immediate(word: str) -> int:
    if re.fullmatch(r"[+-]?\d{1,19}", word, re.ASCII):
        value = int(word)
    elif re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}", word, re.ASCII):
        value = int(word, 16)
    else:
        raise ValueError(f"immediate {word}")
    if not -(2**63) <= value < 2**63:
        raise ValueError("immediate")
    return value


def _triple(text: str) -> tuple[int, int, int]:
    found = re.fullmatch(r"\(\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)", text, re.ASCII)
    if found is None:
        raise ValueError("dimensions")
    x, y, z = (int(each) for each in found.groups())
    if not all(0 < each < 2**31 for each in (x, y, z)):
        raise ValueError("dimensions")
    return x, y, z


def _coordinates(line: str) -> tuple[int, int, int]:
    b = r"[ \t\r]*"
    found = re.fullmatch(
        rf"thread[ \t\r]+block{b}={b}(\d{{1,18}}){b},{b}(\d{{1,18}}){b},{b}(\d{{1,18}})", line, re.ASCII
    )
    if found is None:
        raise ValueError("coordinates")
    x, y, z = (int(each) for each in found.groups())
    return x, y, z


def _volume(grid: tuple[int, int, int]) -> int:
    return grid[0] * grid[1] * grid[2]
