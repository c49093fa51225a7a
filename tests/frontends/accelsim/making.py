"""Small kernel traces as text, and launches taken apart into what the slow reader gives."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from reference import accelsim_text
from warplens.frontends.accelsim import load_accelsim
from warplens.traces import IRREGULAR, LaunchTrace

DATA = Path(__file__).parent / "data"

OPCODES = (
    *("IADD3", "FFMA", "MUFU.RCP", "LDG.E", "LDG.E.64", "LDG.E.128.SYS", "LDG.E.U8", "STG.E", "LDS", "STS.64", "LDL"),
    *("LD.E", "ST.E.128", "ATOMG.E.ADD.64", "RED.E.ADD", "BAR.SYNC", "BRA", "EXIT", "FROB.X", "LDC", "HMMA.1688.F32"),
)

HEADER = {
    "kernel name": "made",
    "kernel id": "7",
    "grid dim": "(1,1,1)",
    "block dim": "(64,1,1)",
    "shmem": "128",
    "nregs": "24",
    "binary version": "70",
    "cuda stream id": "3",
    "shmem base_addr": "0x00007f0000000000",
    "local mem base_addr": "0x00007e0000000000",
    "nvbit version": "1.5.5",
    "accelsim tracer version": "4",
    "enable lineinfo": "0",
}

SIMPLE = ("0000 ffffffff 1 R1 MOV 1 R255 0 0", "0010 ffffffff 0 EXIT 0 0 0")


def header_text(**changes: str | None) -> str:
    """A header; underscores stand for blanks in keys, None leaves a key out."""
    names = {key.replace(" ", "_"): key for key in HEADER}
    changed = {names.get(key, key.replace("_", " ")): value for key, value in changes.items()}
    rows: dict[str, str | None] = {**HEADER, **changed}
    return "".join(f"-{key} = {value}\n" for key, value in rows.items() if value is not None) + "\n#traces format\n\n"


def block_text(lines: Iterable[str] = SIMPLE, at: str = "0,0,0", warp: int = 0, insts: int | None = None) -> str:
    lines = list(lines)
    count = len(lines) if insts is None else insts
    body = "".join(f"{line}\n" for line in lines)
    return f"#BEGIN_TB\n\nthread block = {at}\n\nwarp = {warp}\ninsts = {count}\n{body}\n#END_TB\n\n"


def one_warp(*lines: str, **header: str | None) -> str:
    """A trace of one warp."""
    return header_text(**header) + block_text(lines)


def load_text(text: str | bytes, folder: Path, name: str = "kernel-1.traceg") -> LaunchTrace:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    (launch,) = load_accelsim(path)
    return launch


def take_apart(launch: LaunchTrace) -> list[accelsim_text.Warp]:
    """Every warp and instruction with the addresses of its lanes, as the slow reader gives them."""
    static = launch.static
    gx, gy, _ = launch.header.grid
    widths = launch.header.extra.get("memory_widths", {})
    warps = []
    for group in launch.groups():
        for row in range(len(group)):
            block = int(group.block[row])
            warp = accelsim_text.Warp((block % gx, block // gx % gy, block // gx // gy), int(group.warp[row]))
            access, lane = int(group.access_start[row]), int(group.lane_start[row])
            for i in range(group.start[row], group.start[row + 1]):
                index, mask = int(group.static[i]), int(group.mask[i])
                count = mask.bit_count()
                access_bytes = int(static.access_bytes[index])
                addresses: tuple[int, ...] | None = None
                if access_bytes:
                    base, stride = int(group.base[access]), int(group.stride[access])
                    if stride == IRREGULAR:
                        addresses = tuple(group.lanes[lane : lane + count].tolist())
                        lane += count
                    else:
                        addresses = tuple(base + k * stride for k in range(count))
                    access += 1
                warp.instructions.append(
                    accelsim_text.Instruction(
                        line=int(static.line[index]),
                        pc=int(static.pc[index]),
                        mask=mask,
                        destinations=tuple(static.destinations_of(index)),
                        opcode=static.opcode[index],
                        sources=tuple(static.sources_of(index)),
                        width=int(widths.get(str(index), access_bytes)),
                        addresses=addresses,
                        immediate=int(static.immediate[index]),
                    )
                )
            assert access == group.access_start[row + 1] and lane == group.lane_start[row + 1]
            warps.append(warp)
    return warps


def columns_of(launch: LaunchTrace) -> dict[str, list[Any]]:
    """All columns of a launch, whatever its groups: for comparing two launches exactly."""
    found: dict[str, list[Any]] = {}
    for group in launch.groups():
        for name in ("block", "warp", "static", "mask", "base", "stride", "lanes"):
            found.setdefault(name, []).extend(getattr(group, name).tolist())
        for name in ("start", "access_start", "lane_start"):
            offsets = getattr(group, name)
            found.setdefault(name, []).extend((offsets[1:] - offsets[:-1]).tolist())
    static = launch.static
    for name in ("pc", "class_id", "space", "access_bytes", "destinations", "destination_offsets", "sources"):
        found[name] = getattr(static, name).tolist()
    for name in ("source_offsets", "line", "immediate"):
        found[name] = getattr(static, name).tolist()
    found["opcode"] = list(static.opcode)
    return found


# -- random traces ----------------------------------------------------------------------


@st.composite
def texts(draw: st.DrawFn, *, version: int | None = None) -> bytes:
    """A well-formed kernel trace in any dress: versions, line numbers, address modes, blanks, line ends."""
    version = draw(st.sampled_from(accelsim_text.VERSIONS)) if version is None else version
    return random_text(random.Random(draw(st.integers(0, 2**32))), version, draw(st.booleans()))


def random_text(rng: random.Random, version: int, lineinfo: bool) -> bytes:
    grid = (rng.randint(1, 3), rng.randint(1, 2), rng.randint(1, 2))
    threads = rng.choice((1, 31, 32, 33, 64, 96))
    gap = rng.choice(("", "", "\n", " \n\t\n"))
    end = rng.choice(("\n", "\n", "\r\n", " \n"))
    text = header_text(
        grid_dim="({},{},{})".format(*grid),
        block_dim=f"({threads},1,1)",
        accelsim_tracer_version=str(version),
        enable_lineinfo=str(int(lineinfo)),
    )
    blocks = [(x, y, z) for z in range(grid[2]) for y in range(grid[1]) for x in range(grid[0])]
    if rng.random() < 0.3:
        rng.shuffle(blocks)
    pool = [_static_words(rng, version, lineinfo) for _ in range(rng.randint(1, 8))]
    for x, y, z in blocks:
        text += f"#BEGIN_TB\n{gap}thread block = {x},{y},{z}\n{gap}"
        for warp in range((threads + 31) // 32):
            lanes = min(32, threads - 32 * warp)
            chosen = [rng.choice(pool) for _ in range(rng.randint(0, 6))]
            text += f"{gap}warp = {warp}\ninsts = {len(chosen)}\n"
            for before, after, memory, immediate in chosen:
                mask = rng.choice(((1 << lanes) - 1, rng.getrandbits(lanes), 1, 0)) & ((1 << lanes) - 1)
                prefix = f"{x} {y} {z} {warp} " if version < 3 else ""
                words = [f"{prefix}{before}", f"{mask:08x}", after]
                words += _address_words(rng, mask) if memory else []
                words += [immediate] if version >= 4 else []
                text += rng.choice((" ", " ", "  ")).join(words) + end + (gap if rng.random() < 0.1 else "")
        text += f"{gap}#END_TB\n\n"
    return text.encode()


def _static_words(rng: random.Random, version: int, lineinfo: bool) -> tuple[str, str, bool, str]:
    def registers() -> str:
        numbers = [rng.choice((0, 1, 7, 254, 255)) for _ in range(rng.randint(0, 4))]
        return " ".join((str(len(numbers)), *(f"R{n}" for n in numbers)))

    opcode = rng.choice(OPCODES)
    memory = rng.random() < 0.6
    pc = rng.choice((f"{rng.randrange(0, 4096, 16):04x}", f"0x{rng.randrange(0, 64, 16):x}"))
    before = f"{rng.randint(0, 500)} {pc}" if lineinfo else pc
    width = rng.choice((4, 8, 16)) if memory else 0
    immediate = rng.choice(("0", "0", "12", "-5", str(2**63 - 1), "0x10"))
    return before, f"{registers()} {opcode} {registers()} {width}", memory, immediate


def _address_words(rng: random.Random, mask: int) -> list[str]:
    """One access in any mode that fits the mask."""
    count = mask.bit_count()
    lowest = mask & -mask
    contiguous = not (mask + lowest) & mask
    base = rng.choice((0x7F1000000000, 0, 128, 2**64 - 4096 * 32, rng.getrandbits(48)))
    mode = rng.choice((0, 1, 2)) if contiguous else rng.choice((0, 2))
    if mode == 1:
        stride = rng.choice((4, 0, 128, 8, 1))
        return ["1", f"0x{base:x}", str(stride)]
    if rng.random() < 0.3:
        addresses = [base + 4 * i for i in range(count)]
    else:
        addresses = [rng.choice((0, base + rng.randrange(0, 4096), rng.getrandbits(40))) for _ in range(count)]
    if mode == 2:
        deltas = [b - a for a, b in pairwise(addresses)]
        if all(abs(delta) < 10**18 for delta in deltas):
            return ["2", f"0x{addresses[0] if addresses else base:x}", *map(str, deltas)]
    return ["0", *(f"0x{a:x}" if rng.random() < 0.9 else f"{a:x}" for a in addresses)]
