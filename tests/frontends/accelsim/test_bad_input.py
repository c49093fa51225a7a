"""Damaged and malicious kernel traces: a clear error or a correct result, never a crash, a hang or much memory."""

from __future__ import annotations

import gzip
import lzma
import os
import random
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from making import PEAK_MEBIBYTES
from reference import accelsim_text
from warplens.errors import TraceError
from warplens.frontends.accelsim import load_accelsim

from .making import DATA, SIMPLE, block_text, header_text, load_text, one_warp, random_text, take_apart

FULL = "0020 ffffffff 1 R2 LDG.E 1 R4 4 1 0x7f1000000000 128 0"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", ":1: the file ends inside the header"),
        ("-kernel name = k\n", ":2: the file ends inside the header"),
        ("#BEGIN_TB\n", ":1: the header ends without '-kernel name"),
        ("hello\n#\n", ":1: 'hello' is not a header line"),
        ("-kernel name\n#\n", ":1: '-kernel name' is not a header line"),
        ("\x7fELF\x02\x01\n", "is not a header line"),
        (header_text(grid_dim=None), "without '-grid dim"),
        (header_text(accelsim_tracer_version=None), "without '-accelsim tracer version"),
        (header_text(accelsim_tracer_version="1"), ":12: 'accelsim tracer version' is '1'; versions 2 to 5"),
        (header_text(accelsim_tracer_version="6"), "versions 2 to 5 can be read"),
        (header_text(grid_dim="(1,1)"), ":3: 'grid dim' is '(1,1)'; expected (x,y,z)"),
        (header_text(grid_dim="(0,1,1)"), "each must be from 1"),
        (header_text(grid_dim="(2147483647,2147483647,2147483647)"), "no grid has that many blocks"),
        (header_text(block_dim="(2000000000,1,1)"), "no block has that many threads"),
        (header_text(shmem="lots"), "'shmem' is 'lots'; expected a number"),
        (header_text(shmem_base_addr="0xzz"), "expected a hexadecimal number"),
        (header_text(kernel_name=""), "'kernel name' is ''"),
        ("-kernel id = 1\n" + header_text(), ":3: 'kernel id' was given before, on line 1"),
        (header_text(), "0 thread blocks and should have 1"),
        (header_text() + "thread block = 0,0,0\n", ":17: text outside a thread block"),
        (header_text() + "#END_TB\n", ":17: text outside a thread block"),
        (header_text() + "#BEGIN_TB\n#BEGIN_TB\n", ":18: a thread block begins inside another"),
        (header_text() + "#BEGIN_TB\n#END_TB\n", "no thread block coordinates"),
        (header_text() + "#BEGIN_TB\nwarp = 0\n", "no thread block coordinates"),
        (header_text() + "#BEGIN_TB\nthread block = 0,0\n", "unreadable thread block coordinates"),
        (header_text() + "#BEGIN_TB\nthread block = 0,1,0\n", "outside the grid"),
        (header_text() + "#BEGIN_TB\nthread block = 999999999999999999,0,0\n", "outside the grid"),
        (header_text() + "#BEGIN_TB\nthread block = 0,0,0\n#END_TB\n", "the thread block has no warps"),
        (header_text() + "#BEGIN_TB\nthread block = 0,0,0\ninsts = 1\n", "neither a warp nor the end"),
        (header_text() + block_text(warp=2), "the block has no such warp"),
        (header_text() + block_text(warp=10**17), "the block has no such warp"),
        (header_text() + "#BEGIN_TB\nthread block = 0,0,0\nwarp = x\n", "unreadable warp number"),
        (header_text() + "#BEGIN_TB\nthread block = 0,0,0\nwarp = 0\n#END_TB\n", "no instruction count"),
        (header_text() + block_text(insts=3), ":26: the warp has 2 instructions, but 'insts = 3' announces more"),
        (header_text() + block_text(insts=1), "neither a warp nor the end of the block"),
        (header_text() + block_text(insts=10**17), "announces more"),
        (header_text() + block_text().replace("insts = 2", "insts = -1"), "no instruction count"),
        (header_text() + block_text().replace("insts = 2", f"insts = {10**18}"), "no instruction count"),
        (header_text() + block_text() + block_text(), "a thread block occurs twice"),
        (header_text(grid_dim="(2,1,1)") + block_text() + block_text(), "occurs twice"),
        (
            header_text(grid_dim="(4,1,1)") + block_text() + block_text(at="1,0,0") + block_text(),
            "thread block 0,0,0 occurs twice",
        ),
        (header_text() + block_text().replace("\n#END_TB", "warp = 0\ninsts = 0\n#END_TB"), "warp 0 of thread block"),
        (header_text() + block_text() + "more\n", "text outside a thread block"),
        (header_text() + block_text()[:-20], "the file ends inside"),
        (header_text() + block_text().replace("#END_TB", ""), "the file ends inside a thread block"),
        (one_warp(FULL.replace("0020", "00z0")), ":23: unreadable PC in '00z0 ffffffff"),
        (one_warp(FULL.replace("ffffffff", "fffffffff")), "unreadable active mask"),
        (one_warp(FULL.replace("ffffffff", "")), "unreadable"),
        (one_warp(FULL, block_dim="(20,1,1)"), "lanes that the block does not have"),
        (one_warp(FULL.replace(" 1 R2", " 2 R2")), "unreadable register"),
        (one_warp(FULL.replace(" 1 R2", " 99999 R2")), "unreadable number of registers"),
        (one_warp(FULL.replace(" 1 R2", " -1 R2")), "unreadable number of registers"),
        (one_warp(FULL.replace("R2", "R99999")), "'R99999' is not a register"),
        (one_warp(FULL.replace("R2", "R2x")), "'R2x' is not a register"),
        (one_warp(FULL.replace("R2", "P2")), "unreadable register"),
        (one_warp(FULL.replace("LDG.E", "LD\xe9")), "is not an opcode"),
        (one_warp(FULL.replace("LDG.E", "7")), "is not an opcode"),
        (one_warp(FULL.replace("LDG.E", "L" * 2000)), "the instruction is too long"),
        (one_warp("0020 ffffffff 0"), "the opcode is missing"),
        (one_warp(FULL.replace("R4 4", "R4 x")), "unreadable memory width"),
        (one_warp(FULL.replace("R4 4", "R4 100000")), "unreadable memory width"),
        (one_warp(FULL.replace("4 1 0x", "4 3 0x")), "unknown address mode"),
        (one_warp(FULL.replace("4 1 0x", "4 11 0x")), "unknown address mode"),
        (one_warp(FULL.replace("0x7f1000000000", "0xg")), "an address is missing or unreadable"),
        (one_warp(FULL.replace("0x7f1000000000", "0x")), "an address is missing or unreadable"),
        (one_warp(FULL.replace("0x7f1000000000", "0x7f1000000000ffff1")), "an address is missing"),
        (one_warp(FULL.replace("128", "12a")), "a stride or delta is missing or unreadable"),
        (one_warp(FULL.replace("128", "9" * 18)), "a stride or delta is missing"),
        (one_warp(FULL.replace("128", str(-(2**50)))), "leave the 64-bit address space"),
        (one_warp(FULL.replace("ffffffff", "0000000b")), "gaps in the active mask"),
        (one_warp("0020 00000003 1 R2 LDG.E 1 R4 4 0 0x10 0"), "the immediate is missing"),
        (one_warp("0020 00000003 1 R2 LDG.E 1 R4 4 0 0x10"), "an address is missing"),
        (one_warp("0020 00000003 1 R2 LDG.E 1 R4 4 0 0x10 0x20 0x30 0"), "more on the line"),
        (one_warp("0020 00000003 1 R2 LDG.E 1 R4 4 2 0x10 8 8 0"), "more on the line"),
        (one_warp("0020 00000003 1 R2 LDG.E 1 R4 4 2 0x10 -17 0"), "leave the 64-bit address space"),
        (one_warp("0020 00000003 1 R2 LDG.E 1 R4 4 2 0xffffffffffffffff 1 0"), "leave the 64-bit address space"),
        (one_warp("0020 00000003 1 R2 MOV 1 R4 0 1.5"), "the immediate '1.5' is not a 64-bit number"),
        (one_warp("0020 00000003 1 R2 MOV 1 R4 0 9999999999999999999"), "is not a 64-bit number"),
        (one_warp("0020 00000003 1 R2 MOV 1 R4 0 " + "1" * 30), "the immediate is missing or unreadable"),
        (one_warp("0020 00000003 1 R2 MOV 1 R4 0 0", accelsim_tracer_version="3"), "more on the line"),
        (one_warp("0020 00000003 1 R2 MOV 1 R4 0", accelsim_tracer_version="2"), "belongs to another block or warp"),
        (
            one_warp("0 0 0 1 0020 00000003 1 R2 MOV 1 R4 0", accelsim_tracer_version="2"),
            "belongs to another block or warp",
        ),
        (
            one_warp("a 0 0 1 0020 00000003 1 R2 MOV 1 R4 0", accelsim_tracer_version="2"),
            "thread block and warp are missing",
        ),
        (one_warp("5x 0020 00000003 1 R2 MOV 1 R4 0 0", enable_lineinfo="1"), "unreadable source line"),
        (one_warp("9999999999 0020 00000003 1 R2 MOV 1 R4 0 0", enable_lineinfo="1"), "unreadable source line"),
    ],
)
def test_says_what_and_where(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(TraceError) as caught:
        load_text(text, tmp_path)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "kernel-1.traceg"))
    assert says in message, message
    assert "\n" not in message and len(message) < 500


def test_files_that_are_not_what_they_are_called(tmp_path: Path) -> None:
    text = one_warp(*SIMPLE).encode()
    packed = lzma.compress(text)
    bit = bytearray(gzip.compress(text))
    bit[len(bit) // 2] ^= 0x10
    for name, data, says in (
        ("a.traceg.xz", text, "is not xz-compressed"),
        ("b.traceg.gz", text, "is not gzip-compressed"),
        ("c.traceg.xz", b"", "is not xz-compressed"),
        ("d.traceg.xz", packed[:-8], "ends too early"),
        ("e.traceg.xz", packed + b"rubbish!" * 4, "damaged"),
        ("f.traceg.gz", gzip.compress(text)[:-4], "ends too early"),
        ("g.traceg.gz", gzip.compress(text) + b"rubbish", "damaged"),
        ("h.traceg.gz", bytes(bit), ""),
        ("i.traceg", os.urandom(5000).replace(b"\n", b""), "ends inside the header"),
        ("j.traceg", b"\x00" * 3_000_000, "no header ends here"),
    ):
        with pytest.raises(TraceError) as caught:
            load_text(data, tmp_path, name)
        assert name in str(caught.value) and says in str(caught.value), str(caught.value)
    with pytest.raises(TraceError, match="no such file"):
        load_accelsim(tmp_path / "absent.traceg")
    (tmp_path / "folder.traceg").mkdir()
    with pytest.raises(TraceError, match="no such file"):
        load_accelsim(tmp_path / "folder.traceg")


def test_huge_xz_dictionaries_are_refused(tmp_path: Path) -> None:
    compressor = lzma.LZMACompressor(lzma.FORMAT_XZ, filters=[{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 12}])
    packed = bytearray(compressor.compress(one_warp(*SIMPLE).encode()) + compressor.flush())
    # The block header's dictionary size byte, and the header's checksum after it.
    at = packed.index(b"\x21\x01") + 2
    packed[at] = 36  # 1 GiB
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    with pytest.raises(TraceError, match="emory"):
        load_text(bytes(packed), tmp_path, "k.traceg.xz")


def test_more_distinct_instructions_than_any_kernel_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warplens.frontends.accelsim.static_keys.LIMIT", 1000)
    lines = [f"{16 * i:x} ffffffff 0 MOV 0 0 0" for i in range(3000)]
    with pytest.raises(TraceError, match="distinct instructions"):
        load_text(one_warp(*lines), tmp_path)


def test_a_line_without_end(tmp_path: Path) -> None:
    text = header_text() + "#BEGIN_TB\nthread block = 0,0,0\nwarp = 0\ninsts = 9\n0000 " + "f" * (9 << 20)
    with pytest.raises(TraceError, match="a line of more than"):
        load_text(text, tmp_path)


# -- mutations --------------------------------------------------------------------------

_PIECES = (
    b"#BEGIN_TB\n",
    b"#END_TB\n",
    b"\n",
    b" ",
    b"insts = 99999999999\n",
    b"warp = 1\n",
    b"thread block = 1,0,0\n",
)
_NUMBERS = (
    b"0",
    b"-1",
    b"ffffffff",
    b"4294967296",
    b"999999999999999999",
    b"99999999999999999999",
    b"0x",
    b"R255",
    b"2",
)


def mutate(text: bytes, rng: random.Random) -> bytes:
    """Change a text in one to three places: bytes, words, lines, or its length."""
    data = bytearray(text)
    for _ in range(rng.randint(1, 3)):
        if not data:
            break
        at = rng.randrange(len(data))
        kind = rng.randrange(9)
        if kind == 0:
            data[at] = rng.randrange(256)
        elif kind == 1:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del data[at : at + rng.randint(1, 12)]
        elif kind == 3:
            data[at:at] = rng.choice(_PIECES)
        elif kind == 4:
            del data[at:]
        elif kind == 5:
            words = bytes(data).split(b" ")
            words[rng.randrange(len(words))] = rng.choice(_NUMBERS)
            data = bytearray(b" ".join(words))
        elif kind == 6:
            lines = bytes(data).split(b"\n")
            i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
            data = bytearray(b"\n".join(lines))
        elif kind == 7:
            lines = bytes(data).split(b"\n")
            i = rng.randrange(len(lines))
            lines[i : i + 1] = [lines[i]] * rng.choice((0, 2))
            data = bytearray(b"\n".join(lines))
        else:
            data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randint(1, 4)))
    return bytes(data)


def check_mutant(data: bytes, folder: Path) -> bool:
    """The importer and the slow reader accept the same texts, and read the same from them."""
    try:
        expected = accelsim_text.parse(data).warps
    except ValueError:
        expected = None
    started = time.monotonic()
    try:
        found = take_apart(load_text(data, folder))
    except TraceError as error:
        assert expected is None, f"{error}\n{data!r}"
        assert "\n" not in str(error)
    else:
        assert expected is not None, data
        assert found == expected, data
    assert time.monotonic() - started < 10
    return expected is not None


def test_mutated_texts(tmp_path: Path, everything: bool) -> None:
    rng = random.Random(20250101)
    accepted = 0
    for _ in range(6000 if everything else 600):
        text = random_text(rng, rng.choice(accelsim_text.VERSIONS), rng.random() < 0.5)
        accepted += check_mutant(mutate(text, rng), tmp_path)
    assert accepted > 20  # some changes do no harm, so both ways are tried


@given(st.binary(max_size=300))
def test_any_bytes_as_the_body(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_mutant(header_text().encode() + data, Path(folder))


@given(
    st.lists(st.sampled_from([*" \t\r\n", *"0123456789abcdfxR", "0020", "ffffffff", "LDG.E", "-8", "1", "\x00", "é"]))
)
def test_any_words_as_an_instruction(words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_mutant(one_warp("0020 ffffffff 1 R2 LDG.E" + "".join(words)).encode(), Path(folder))


@pytest.mark.parametrize("suffix", [".xz", ".gz"])
def test_mutated_compressed_files(tmp_path: Path, everything: bool, suffix: str) -> None:
    rng = random.Random(7)
    pack = lzma.compress if suffix == ".xz" else gzip.compress
    text = random_text(rng, 4, False)
    expected = accelsim_text.parse(text).warps
    packed = pack(text)
    for _ in range(1500 if everything else 150):
        data = mutate(packed, rng)
        try:
            launch = load_text(data, tmp_path, f"kernel-1.traceg{suffix}")
        except TraceError:
            continue
        assert take_apart(launch) == expected


_LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (100, 100))
from warplens.errors import TraceError
from warplens.frontends.accelsim import load_accelsim
load_accelsim(sys.argv[1])
before = peak_mebibytes()
for path in sys.argv[2:]:
    try:
        load_accelsim(path)
    except TraceError as error:
        print(error)
    else:
        print("read", path)
print("grew", peak_mebibytes() - before)
"""


def test_bombs_need_little_memory(tmp_path: Path) -> None:
    """Files that are small and pretend, or unpack, to be large."""
    start = header_text() + "#BEGIN_TB\nthread block = 0,0,0\nwarp = 0\n"
    bombs = {
        "promise.traceg": (start + "insts = 999999999999999999\n" + SIMPLE[0]).encode(),
        "zeros.traceg.xz": lzma.compress(start.encode() + b"insts = 1\n" + b"\0" * (120 << 20), preset=0),
        "header.traceg.xz": lzma.compress(b"-" * (120 << 20), preset=0),
        "blank.traceg.gz": gzip.compress(start.encode() + b"\n" * (120 << 20), 1),
    }
    paths = [DATA / "saxpy_lowocc.traceg.xz"]
    for name, data in bombs.items():
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", PEAK_MEBIBYTES + _LIMITED, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == len(bombs) + 1 and not any(line.startswith("read") for line in lines), done.stdout
    assert int(lines[-1].split()[1]) < 60  # MiB
