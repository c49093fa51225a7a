"""kernelslist.g: which files it names, and where they may lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens.errors import TraceError
from warplens.frontends.accelsim import is_accelsim, load_accelsim
from warplens.frontends.accelsim.lists import read_list

from .making import SIMPLE, one_warp


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "kernelslist.g"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_commands(tmp_path: Path) -> None:
    found = read_list(
        write(tmp_path, "\r\nMemcpyHtoD,0x7f00,12\r\nkernel-1.traceg.xz\nkernel-2.traceg\nsub/kernel-3.traceg.gz")
    )
    assert [each.path.relative_to(tmp_path).as_posix() for each in found.kernels] == [
        "kernel-1.traceg.xz",
        "kernel-2.traceg",
        "sub/kernel-3.traceg.gz",
    ]
    assert found.kernels[0].copies == ((0x7F00, 12),)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "lists no kernel"),
        ("MemcpyHtoD,0x10,5\n", "lists no kernel"),
        ("\nkernel-1.trace\n", ":2: 'kernel-1.trace' is not a command"),
        ("MemcpyHtoD,0x10\n", ":1: 'MemcpyHtoD,0x10' is not a command"),
        ("MemcpyHtoD,0xg,1\n", "is not a command"),
        ("MemcpyHtoD,0x1,-1\n", "is not a command"),
        ("other-1.traceg\n", "is not a command"),
        ("../kernel-1.traceg\n", "is not beside the list"),
        ("/tmp/kernel-1.traceg\n", "is not beside the list"),
        ("a/../../kernel-1.traceg\n", "is not beside the list"),
        ("c:\\kernel-1.traceg\n", "is no"),
        ("kernel\x00.traceg\n", "is not a list"),
        (b"\xff\xfe\x00", "is not text"),
        (b"k" * 10000, "is not a list"),
        ("kernel-1.traceg\n", "no such file"),
    ],
)
def test_says_what_and_where(tmp_path: Path, text: str | bytes, says: str) -> None:
    with pytest.raises(TraceError) as caught:
        load_accelsim(write(tmp_path, text))
    assert says in str(caught.value) and str(tmp_path) in str(caught.value)


def test_absent_list(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such file"):
        load_accelsim(tmp_path / "kernelslist.g")
    with pytest.raises(TraceError, match=r"kernelslist\.g: no such file"):
        load_accelsim(tmp_path)


def test_names_that_are_taken(tmp_path: Path) -> None:
    (tmp_path / "kernel-1.traceg").write_text(one_warp(*SIMPLE))
    write(tmp_path, "kernel-1.traceg\nkernel-1.traceg\n")
    assert len(load_accelsim(tmp_path)) == 2
    assert is_accelsim(tmp_path) and is_accelsim("x/kernelslist.g") and is_accelsim("a.traceg.gz")
    assert not is_accelsim("a.wlt") and not is_accelsim(tmp_path / "absent")
