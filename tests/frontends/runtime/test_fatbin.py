"""Images in fat binaries, plain and compressed; damaged ones are refused."""

import struct

import pyarrow as pa
import pytest

from warplens.errors import PtxError
from warplens.frontends.runtime.fatbin import MAGIC, read_images

PTX = b".version 8.0\n.target sm_90\n.address_size 64\n" * 20


def fat(*entries):
    body = b"".join(entries)
    return struct.pack("<IHHQ", MAGIC, 1, 16, len(body)) + body


def entry(data, *, kind=1, architecture=90, flags=0, unpacked=0):
    padded = data + bytes(-len(data) % 8)
    head = struct.pack(
        "<HHIQIIHHIIIQQQ", kind, 0, 72, len(padded), len(data), 0, 0, 8, architecture, 0, 0, flags, 0, unpacked
    )
    return head.ljust(72, b"\0") + padded


@pytest.mark.parametrize(("codec", "flag"), [(None, 0), ("lz4_raw", 0x2000), ("zstd", 0x8000)])
def test_ptx_is_found_in_every_form(codec, flag):
    packed = PTX if codec is None else pa.Codec(codec).compress(PTX, asbytes=True)
    images = read_images(fat(entry(b"\x7fELF....", kind=2), entry(packed, flags=flag, unpacked=len(PTX))))
    assert [each.is_ptx for each in images] == [False, True]
    assert images[1].data == PTX and images[1].architecture == 90


def test_several_fat_binaries_follow_each_other():
    images = read_images(fat(entry(PTX)) + fat(entry(PTX, architecture=80)))
    assert [each.architecture for each in images] == [90, 80]


def test_text_and_machine_code_alone_are_images():
    assert read_images(PTX + b"\0")[0].data == PTX and read_images(PTX)[0].is_ptx
    assert not read_images(b"\x7fELF and so on")[0].is_ptx


@pytest.mark.parametrize(
    "damaged",
    [
        fat(entry(PTX, flags=0x8000, unpacked=len(PTX))),
        fat(entry(PTX, flags=0x2000, unpacked=1 << 40)),
        fat(entry(PTX)[:-8]),
    ],
)
def test_damage_is_an_error(damaged):
    with pytest.raises(PtxError, match="fat binary of the program"):
        read_images(damaged)
