"""Records of kernels that ran together, parted by the header that the injected library is built with."""

from __future__ import annotations

import random
import struct
import subprocess

import pytest

from warplens.frontends.sass.raw import read_launch

from .making import DATA, compile_with_headers

#: Arguments: bytes of a piece, the file with all records, and the first block and file of each kernel.
MAIN = """
#include "parting.h"
#include <cstdlib>
int main(int count, char** words) {
    Parting parting;
    for (int i = 3; i < count; i += 2) parting.add(std::strtoull(words[i], nullptr, 10), words[i + 1]);
    std::string piece(std::atoi(words[1]), 0);
    FILE* in = std::fopen(words[2], "rb");
    bool whole = in != nullptr;
    while (size_t size = whole ? std::fread(&piece[0], 1, piece.size(), in) : 0)
        whole = parting.take(piece.data(), size);
    whole = parting.end() && whole;
    for (auto bytes : parting.bytes()) std::printf("%llu\\n", bytes);
    return whole ? 0 : 1;
}
"""


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """(exit code, the records of each kernel) for all records, in pieces of some bytes."""
    folder = tmp_path_factory.mktemp("parting")
    main = compile_with_headers(folder, MAIN)

    def run(records: bytes, first_blocks, piece_bytes: int):
        (folder / "records").write_bytes(records)
        paths = [folder / f"kernel-{index}" for index in range(len(first_blocks))]
        words = [str(word) for pair in zip(first_blocks, paths, strict=True) for word in pair]
        command = [main, str(piece_bytes), str(folder / "records"), *words]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        parts = [path.read_bytes() for path in paths]
        assert list(map(int, ran.stdout.split())) == list(map(len, parts))
        return ran.returncode, parts

    return run


def _records(raw: bytes, first_block: int = 0) -> list[bytes]:
    found, at = [], 0
    while at < len(raw):
        offset, mask, block, rest = struct.unpack_from("<4I", raw, at)
        size = 16 * (rest >> 16 & 255)
        found.append(struct.pack("<4I", offset, mask, block + first_block, rest) + raw[at + 16 : at + size])
        at += size
    return found


def test_records_are_told_apart_by_their_blocks(part):
    """The kernels of the samples, as if they had run at the same time."""
    launches = [read_launch(DATA / f"launch-{index}.launch") for index in range(8)]
    originals = [launch.records.read_bytes() for launch in launches]
    first_blocks = [sum(launch.block_limit for launch in launches[:index]) for index in range(8)]
    waiting = [_records(raw, first) for raw, first in zip(originals, first_blocks, strict=True)]
    order = [index for index, records in enumerate(waiting) for _ in records]
    random.Random(1).shuffle(order)
    mixed = b"".join(waiting[index].pop(0) for index in order)
    for piece_bytes in (7, 4096, 1 << 20):
        assert part(mixed, first_blocks, piece_bytes) == (0, originals)


def test_records_that_found_no_room_end_it(part):
    some = _records((DATA / "launch-1.raw").read_bytes())
    hole = struct.pack("<4I", 0, 0, 0, 255 << 8 | 1 << 16)
    assert part(some[0] + hole + b"\x00" * 40, [0, 5], 64) == (0, [some[0], b""])


def test_damage_is_told(part):
    some = _records((DATA / "launch-1.raw").read_bytes())
    assert part(some[0] + b"\x00" * 16, [0, 5], 64)[0] == 1
    assert part(some[0] + some[1][:-8], [0, 5], 64)[0] == 1


def test_one_kernel_is_left_as_it_is(part):
    raw = (DATA / "launch-1.raw").read_bytes()
    assert part(raw, [0], 100) == (0, [raw])
